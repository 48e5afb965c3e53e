// Philox4x32-10 (ir/random.h), vectorised over counters.
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
  llvm::Value* product(llvm::Value* a, uint32_t b) {
    return ir.CreateMul(ir.CreateZExt(a, wide), llvm::ConstantInt::get(wide, b));
  }
  llvm::Value* low(llvm::Value* v) { return ir.CreateTrunc(v, ints); }
  llvm::Value* high(llvm::Value* v) { return low(ir.CreateLShr(v, 32)); }

  Words words(llvm::Value* key, llvm::Value* counter) {
    llvm::Value* k0 = ir.CreateTrunc(key, ir.getInt32Ty());
    llvm::Value* k1 = ir.CreateTrunc(ir.CreateLShr(key, 32), ir.getInt32Ty());
    llvm::Constant* zero = llvm::Constant::getNullValue(ints);
    Words c{{low(counter), high(counter), zero, zero}};
    for (int round = 0; round < 10; ++round) {
      llvm::Value *a = product(c.word[0], 0xD2511F53u), *b = product(c.word[2], 0xCD9E8D57u);
      c = {{ir.CreateXor(ir.CreateXor(high(b), c.word[1]), splat(k0)), low(b),
            ir.CreateXor(ir.CreateXor(high(a), c.word[3]), splat(k1)), low(a)}};
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
  const auto joined = [&](int at) {
    llvm::Value* upper = ir_.CreateShl(ir_.CreateZExt(w.word[at + 1], word->getType()), 32);
    return ir_.CreateOr(upper, ir_.CreateZExt(w.word[at], word->getType()));
  };
  if (wide) return ir_.CreateSelect(bit(1), joined(2), joined(0));
  llvm::Value* odd = ir_.CreateSelect(bit(2), w.word[3], w.word[1]);
  llvm::Value* even = ir_.CreateSelect(bit(2), w.word[2], w.word[0]);
  return ir_.CreateSelect(bit(1), odd, even);
}

void Emitter::random_bits(size_t at) {
  const codegen::Instr& i = kernel_.code[at];
  llvm::Value* key = values_[static_cast<size_t>(i.args[0])].parts[0];
  llvm::Value* base = values_[static_cast<size_t>(i.args[1])].parts[0];
  index(at);  // the word numbers
  for (llvm::Value*& v : values_[at].parts) v = random_lanes(i, key, base, v);
}

}  // namespace tandem::jit
