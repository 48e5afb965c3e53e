// Philox4x32-10 (ir/random.h), vectorised over counters.
#include <algorithm>

#include "codegen/jit/emitter.h"

namespace tandem::jit {
namespace {

using ir::DType;

/// The words of one counter in each lane.
struct Words {
  llvm::Value* word[4];
};

/// Ten rounds on vectors of i64 counters; key is an i64 scalar.
struct Philox {
  llvm::IRBuilder<>& ir;
  llvm::Type* ints;  // i32, as many as there are counters
  llvm::Type* wide;  // i64

  llvm::Value* splat(llvm::Value* scalar) {
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(ints);
    return vector ? ir.CreateVectorSplat(vector->getNumElements(), scalar) : scalar;
  }
  llvm::Value* low(llvm::Value* v) { return ir.CreateTrunc(v, ints); }
  llvm::Value* high(llvm::Value* v) { return low(ir.CreateLShr(v, 32)); }

  struct Product {
    llvm::Value *low, *high;
  };
  // Of vectors: the even and the odd lanes are multiplied where they lie, which needs no widening.
  Product product(llvm::Value* a, uint32_t b) {
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(ints);
    if (!vector) {
      llvm::Value* p = ir.CreateMul(ir.CreateZExt(a, wide), llvm::ConstantInt::get(wide, b));
      return {low(p), high(p)};
    }
    const auto lanes = static_cast<int>(vector->getNumElements());
    llvm::Type* pairs =
        llvm::FixedVectorType::get(ir.getInt64Ty(), static_cast<unsigned>(lanes) / 2);
    llvm::Constant* factor = llvm::ConstantInt::get(pairs, b);
    llvm::Value* both = ir.CreateBitCast(a, pairs);
    llvm::Value* even =
        ir.CreateMul(ir.CreateAnd(both, llvm::ConstantInt::get(pairs, 0xffffffffu)), factor);
    llvm::Value* odd = ir.CreateMul(ir.CreateLShr(both, 32), factor);
    even = ir.CreateBitCast(even, ints), odd = ir.CreateBitCast(odd, ints);
    std::vector<int> lows, highs;
    for (int l = 0; l < lanes; l += 2) {
      lows.insert(lows.end(), {l, lanes + l});
      highs.insert(highs.end(), {l + 1, lanes + l + 1});
    }
    return {ir.CreateShuffleVector(even, odd, lows), ir.CreateShuffleVector(even, odd, highs)};
  }

  llvm::Value* joined(llvm::Value* lower, llvm::Value* upper) {
    return ir.CreateOr(ir.CreateShl(ir.CreateZExt(upper, wide), 32), ir.CreateZExt(lower, wide));
  }

  Words words(llvm::Value* key, llvm::Value* counter) {
    llvm::Value* k0 = ir.CreateTrunc(key, ir.getInt32Ty());
    llvm::Value* k1 = ir.CreateTrunc(ir.CreateLShr(key, 32), ir.getInt32Ty());
    llvm::Constant* zero = llvm::Constant::getNullValue(ints);
    Words c{{low(counter), high(counter), zero, zero}};
    for (int round = 0; round < 10; ++round) {
      const Product a = product(c.word[0], 0xD2511F53u), b = product(c.word[2], 0xCD9E8D57u);
      c = {{ir.CreateXor(ir.CreateXor(b.high, c.word[1]), splat(k0)), b.low,
            ir.CreateXor(ir.CreateXor(a.high, c.word[3]), splat(k1)), a.low}};
      k0 = ir.CreateAdd(k0, ir.getInt32(0x9E3779B9u));
      k1 = ir.CreateAdd(k1, ir.getInt32(0xBB67AE85u));
    }
    return c;
  }
};

}  // namespace

// Each lane computes the counter that its word lies in and picks the word.
llvm::Value* Emitter::random_lanes(const codegen::Instr& i, llvm::Value* key, llvm::Value* base,
                                   llvm::Value* word) {
  const bool wide = i.dtype == DType::I64;
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(word->getType());
  const unsigned lanes = vector ? vector->getNumElements() : 1;
  Philox philox{ir_, vector_type(ir_.getInt32Ty(), lanes), word->getType()};
  llvm::Value* first = ir_.CreateAdd(base, i64(i.number.to_int()));
  llvm::Value* counter = ir_.CreateAdd(philox.splat(first), ir_.CreateAShr(word, wide ? 1 : 2));
  const Words w = philox.words(key, counter);
  const auto bit = [&](uint64_t b) {
    return ir_.CreateIsNotNull(ir_.CreateAnd(word, llvm::ConstantInt::get(word->getType(), b)));
  };
  if (wide)
    return ir_.CreateSelect(bit(1), philox.joined(w.word[2], w.word[3]),
                            philox.joined(w.word[0], w.word[1]));
  llvm::Value* odd = ir_.CreateSelect(bit(2), w.word[3], w.word[1]);
  llvm::Value* even = ir_.CreateSelect(bit(2), w.word[2], w.word[0]);
  return ir_.CreateSelect(bit(1), odd, even);
}

// The word numbers of consecutive lanes follow each other, and every part starts with a whole
// counter.
bool Emitter::random_is_aligned(const codegen::Instr& i) const {
  const int64_t words = i.dtype == DType::I64 ? 2 : 4;
  if (lane_stride(i.affine) != 1 || scope_.lanes < 4 || i.affine.offset % words != 0) return false;
  return std::all_of(i.affine.terms.begin(), i.affine.terms.end(), [&](const auto& term) {
    return term.loop == scope_.loop || term.stride % words == 0;
  });
}

// As many counters as lanes give the words of four (two) parts.
void Emitter::random_groups(size_t at, llvm::Value* key, llvm::Value* base) {
  const codegen::Instr& i = kernel_.code[at];
  const unsigned words = i.dtype == DType::I64 ? 2 : 4, lanes = scope_.lanes;
  Philox philox{ir_, vector_type(ir_.getInt32Ty(), lanes), vector_type(ir_.getInt64Ty(), lanes)};
  llvm::Value* first = ir_.CreateAShr(affine(i.affine), words == 4 ? 2 : 1);
  first = ir_.CreateAdd(ir_.CreateAdd(base, i64(i.number.to_int())), first);
  Parts parts;
  for (unsigned p = 0; p < scope_.parts; p += words) {
    llvm::Value* start = ir_.CreateAdd(first, i64(int64_t{p} / words * lanes));
    llvm::Value* counter =
        ir_.CreateAdd(philox.splat(start), lane_numbers(ir_.getInt64Ty(), lanes));
    const Words w = philox.words(key, counter);
    llvm::SmallVector<llvm::Value*, 4> columns(w.word, w.word + 4);
    if (words == 2)
      columns = {philox.joined(w.word[0], w.word[1]), philox.joined(w.word[2], w.word[3])};
    for (unsigned q = 0; q < words && p + q < scope_.parts; ++q)
      parts.push_back(interleaved(columns, q * lanes));
  }
  set(at, std::move(parts), false);
}

// Elements first, first + 1, ... of the sequence column 0 [0], column 1 [0], ..., column 0 [1], ...
llvm::Value* Emitter::interleaved(llvm::ArrayRef<llvm::Value*> columns, unsigned first) {
  const auto count = static_cast<unsigned>(columns.size());
  const auto pairs = [&](llvm::Value* a, llvm::Value* b, unsigned from, unsigned length) {
    std::vector<int> lanes;  // a and b in turn, from element `from` of each
    for (unsigned l = 0; l < length; ++l)
      lanes.push_back(static_cast<int>(from + l / 2 + l % 2 * scope_.lanes));
    return ir_.CreateShuffleVector(a, b, lanes);
  };
  const unsigned from = first / count, length = scope_.lanes;
  if (count == 2) return pairs(columns[0], columns[1], from, length);
  llvm::Value* low = pairs(columns[0], columns[1], from, length / 2);
  llvm::Value* high = pairs(columns[2], columns[3], from, length / 2);
  std::vector<int> lanes;
  for (unsigned l = 0; l < length; ++l)
    lanes.push_back(static_cast<int>(l / 4 * 2 + l % 2 + (l % 4 < 2 ? 0 : length / 2)));
  return ir_.CreateShuffleVector(low, high, lanes);
}

void Emitter::random_bits(size_t at) {
  const codegen::Instr& i = kernel_.code[at];
  llvm::Value* key = values_[static_cast<size_t>(i.args[0])].parts[0];
  llvm::Value* base = values_[static_cast<size_t>(i.args[1])].parts[0];
  if (random_is_aligned(i)) return random_groups(at, key, base);
  index(at);  // the word numbers
  for (llvm::Value*& v : values_[at].parts) v = random_lanes(i, key, base, v);
}

}  // namespace tandem::jit
