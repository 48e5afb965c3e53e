#include "codegen/jit/emit/extreme.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

namespace tandem::jit {
namespace {

llvm::Intrinsic::ID range_id(bool single, unsigned bits) {
  namespace Id = llvm::Intrinsic;
  if (bits == 512)
    return single ? Id::x86_avx512_mask_range_ps_512 : Id::x86_avx512_mask_range_pd_512;
  if (bits == 256)
    return single ? Id::x86_avx512_mask_range_ps_256 : Id::x86_avx512_mask_range_pd_256;
  return single ? Id::x86_avx512_mask_range_ps_128 : Id::x86_avx512_mask_range_pd_128;
}

constexpr unsigned kRegisterBits = 512;

unsigned bits_of(const llvm::FixedVectorType* type) {
  return type->getNumElements() * type->getElementType()->getScalarSizeInBits();
}

/// Lanes [from, from + count) of `a` and `b` side by side.
llvm::Value* lanes_of(llvm::IRBuilder<>& ir, llvm::Value* a, llvm::Value* b, unsigned from,
                      unsigned count) {
  std::vector<int> lanes(count);
  std::iota(lanes.begin(), lanes.end(), static_cast<int>(from));
  return ir.CreateShuffleVector(a, b, lanes);
}

llvm::Value* extreme_in_register(llvm::IRBuilder<>& ir, llvm::Value* a, llvm::Value* b,
                                 bool largest) {
  auto* type = llvm::cast<llvm::FixedVectorType>(a->getType());
  const unsigned lanes = type->getNumElements(), bits = bits_of(type);
  const uint32_t which = largest ? 5 : 4;  // with the sign of what is chosen
  const unsigned mask_bits = std::max(lanes, 8u);
  std::vector<llvm::Value*> args = {a, b, ir.getInt32(which), llvm::PoisonValue::get(type),
                                    llvm::ConstantInt::getAllOnesValue(ir.getIntNTy(mask_bits))};
  if (bits == kRegisterBits) args.push_back(ir.getInt32(4));  // the current rounding mode
  return ir.CreateIntrinsic(range_id(type->getElementType()->isFloatTy(), bits), {}, args);
}

}  // namespace

bool has_extreme_number(const Target& target, const llvm::Type* type) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  if (!vector || !target.has("avx512dq") || !target.has("avx512vl")) return false;
  const llvm::Type* element = vector->getElementType();
  const unsigned bits = bits_of(vector);
  return (element->isFloatTy() || element->isDoubleTy()) && bits >= 128 &&
         std::has_single_bit(bits);
}

llvm::Value* extreme_number(llvm::IRBuilder<>& ir, llvm::Value* a, llvm::Value* b, bool largest) {
  auto* type = llvm::cast<llvm::FixedVectorType>(a->getType());
  if (bits_of(type) <= kRegisterBits) return extreme_in_register(ir, a, b, largest);
  const unsigned lanes = type->getNumElements(), half = lanes / 2;
  const auto of_half = [&](unsigned from) {
    return extreme_number(ir, lanes_of(ir, a, a, from, half), lanes_of(ir, b, b, from, half),
                          largest);
  };
  llvm::Value* const low = of_half(0);
  return lanes_of(ir, low, of_half(half), 0, lanes);
}

llvm::Value* extreme_or_nan(llvm::IRBuilder<>& ir, llvm::Value* a, llvm::Value* b, bool largest) {
  return ir.CreateSelect(ir.CreateFCmpUNO(a, b), ir.CreateFAdd(a, b),
                         extreme_number(ir, a, b, largest));
}

}  // namespace tandem::jit
