// Philox4x32-10 (ir/random.h), vectorised over counters.
#include <algorithm>

#include "codegen/jit/emit/emit_compute.h"
#include "codegen/jit/emit/emitter.h"

namespace tandem::jit {
namespace {

using ir::DType;

/// Ten rounds on vectors of i64 counters; key is an i64 scalar. A lane of 64 bits holds one word of
/// one counter in its lower half, the upper one is rubbish: the product of two lower halves lies
/// where the next round wants it, so that nothing is shuffled before the end.
struct Philox {
  llvm::IRBuilder<>& ir;
  llvm::Type* type;  // i64, as many as there are counters

  /// The words of one counter in each lane.
  struct Words {
    llvm::Value* word[4];
  };

  llvm::Value* splat(llvm::Value* scalar) {
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
    return vector ? ir.CreateVectorSplat(vector->getNumElements(), scalar) : scalar;
  }
  llvm::Value* lower(llvm::Value* v) {
    return ir.CreateAnd(v, llvm::ConstantInt::get(v->getType(), 0xffffffffu));
  }
  llvm::Value* product(llvm::Value* a, uint32_t b) {
    return ir.CreateMul(lower(a), llvm::ConstantInt::get(type, b));
  }
  llvm::Value* upper(llvm::Value* v) { return ir.CreateLShr(v, 32); }

  Words words(llvm::Value* key, llvm::Value* counter) {
    llvm::Value *k0 = lower(key), *k1 = upper(key);
    llvm::Constant* zero = llvm::Constant::getNullValue(type);
    Words c{{counter, upper(counter), zero, zero}};
    for (int round = 0; round < 10; ++round) {
      llvm::Value *a = product(c.word[0], 0xD2511F53u), *b = product(c.word[2], 0xCD9E8D57u);
      c = {{ir.CreateXor(ir.CreateXor(upper(b), c.word[1]), splat(k0)), b,
            ir.CreateXor(ir.CreateXor(upper(a), c.word[3]), splat(k1)), a}};
      k0 = lower(ir.CreateAdd(k0, ir.getInt64(0x9E3779B9u)));
      k1 = lower(ir.CreateAdd(k1, ir.getInt64(0xBB67AE85u)));
    }
    return c;
  }

  /// Two words as one of 64 bits.
  llvm::Value* joined(llvm::Value* low, llvm::Value* high) {
    return ir.CreateOr(ir.CreateShl(high, 32), lower(low));
  }
};

}  // namespace

// Each lane computes the counter that its word lies in and picks the word.
llvm::Value* Emitter::random_lanes(const codegen::Instr& i, llvm::Value* key, llvm::Value* base,
                                   llvm::Value* word) {
  const bool wide = i.dtype == DType::I64;
  Philox philox{ir_, word->getType()};
  llvm::Value* first = ir_.CreateAdd(base, size(i.number.to_int()));
  llvm::Value* counter = ir_.CreateAdd(philox.splat(first), ir_.CreateAShr(word, wide ? 1 : 2));
  const Philox::Words w = philox.words(key, counter);
  const auto bit = [&](uint64_t b) {
    return ir_.CreateIsNotNull(ir_.CreateAnd(word, llvm::ConstantInt::get(word->getType(), b)));
  };
  if (wide)
    return ir_.CreateSelect(bit(1), philox.joined(w.word[2], w.word[3]),
                            philox.joined(w.word[0], w.word[1]));
  llvm::Value* odd = ir_.CreateSelect(bit(2), w.word[3], w.word[1]);
  llvm::Value* even = ir_.CreateSelect(bit(2), w.word[2], w.word[0]);
  return ir_.CreateTrunc(ir_.CreateSelect(bit(1), odd, even),
                         with_element(word->getType(), ir_.getInt32Ty()));
}

// The word numbers of consecutive lanes follow each other, and every part starts with a whole
// counter.
bool Emitter::random_is_aligned(const codegen::Instr& i) const {
  const int64_t words = i.dtype == DType::I64 ? 2 : 4;
  if (lane_stride(i.affine) != 1 || scope_.lanes < 4 || !is_multiple(i.affine.offset, words))
    return false;
  return std::all_of(i.affine.terms.begin(), i.affine.terms.end(), [&](const auto& term) {
    return term.loop == scope_.loop || is_multiple(term.stride, words);
  });
}

// As many counters as lanes give the words of four (two) parts.
void Emitter::random_groups(size_t at, llvm::Value* key, llvm::Value* base) {
  const codegen::Instr& i = kernel_.code[at];
  const unsigned words = i.dtype == DType::I64 ? 2 : 4, lanes = scope_.lanes;
  Philox philox{ir_, vector_type(ir_.getInt64Ty(), lanes)};
  llvm::Value* first = ir_.CreateAShr(affine(i.affine), words == 4 ? 2 : 1);
  first = ir_.CreateAdd(ir_.CreateAdd(base, size(i.number.to_int())), first);
  Parts parts;
  for (unsigned p = 0; p < scope_.parts; p += words) {
    llvm::Value* start = ir_.CreateAdd(first, i64(int64_t{p} / words * lanes));
    llvm::Value* counter =
        ir_.CreateAdd(philox.splat(start), lane_numbers(ir_.getInt64Ty(), lanes));
    const Philox::Words w = philox.words(key, counter);
    llvm::Value* front = philox.joined(w.word[0], w.word[1]);
    llvm::Value* back = philox.joined(w.word[2], w.word[3]);
    for (unsigned q = 0; q < words && p + q < scope_.parts; ++q) {
      const unsigned count = words == 4 ? lanes / 2 : lanes;  // 64 bits each
      llvm::Value* taken = in_turn(front, back, q * count, count);
      parts.push_back(words == 2 ? taken
                                 : ir_.CreateBitCast(taken, vector_type(ir_.getInt32Ty(), lanes)));
    }
  }
  set(at, std::move(parts), false);
}

/// Elements [first, first + count) of a[0], b[0], a[1], b[1], ...
llvm::Value* Emitter::in_turn(llvm::Value* a, llvm::Value* b, unsigned first, unsigned count) {
  std::vector<int> lanes;
  for (unsigned l = first; l < first + count; ++l)
    lanes.push_back(static_cast<int>(l / 2 + l % 2 * scope_.lanes));
  return ir_.CreateShuffleVector(a, b, lanes);
}

void Emitter::random_bits(size_t at) {
  const codegen::Instr& i = kernel_.code[at];
  llvm::Value* key = emitted_[i.args[0].index].parts[0];
  llvm::Value* base = emitted_[i.args[1].index].parts[0];
  if (random_is_aligned(i)) return random_groups(at, key, base);
  index(at);  // the word numbers
  for (llvm::Value*& v : emitted_[at].parts) v = random_lanes(i, key, base, v);
}

}  // namespace tandem::jit
