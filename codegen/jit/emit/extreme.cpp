#include "codegen/jit/emit/extreme.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
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

}  // namespace

bool has_extreme_number(const Target& target, const llvm::Type* type) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  if (!vector || !target.has("avx512dq") || !target.has("avx512vl")) return false;
  const llvm::Type* element = vector->getElementType();
  const unsigned bits = vector->getNumElements() * element->getScalarSizeInBits();
  return (element->isFloatTy() || element->isDoubleTy()) &&
         (bits == 128 || bits == 256 || bits == 512);
}

llvm::Value* extreme_number(llvm::IRBuilder<>& ir, llvm::Value* a, llvm::Value* b, bool largest) {
  auto* type = llvm::cast<llvm::FixedVectorType>(a->getType());
  const bool single = type->getElementType()->isFloatTy();
  const unsigned lanes = type->getNumElements(), bits = lanes * (single ? 32 : 64);
  const uint32_t which = largest ? 5 : 4;  // with the sign of what is chosen
  const unsigned mask_bits = std::max(lanes, 8u);
  std::vector<llvm::Value*> args = {a, b, ir.getInt32(which), llvm::PoisonValue::get(type),
                                    llvm::ConstantInt::getAllOnesValue(ir.getIntNTy(mask_bits))};
  if (bits == 512) args.push_back(ir.getInt32(4));  // the current rounding mode
  return ir.CreateIntrinsic(range_id(single, bits), {}, args);
}

llvm::Value* extreme_or_nan(llvm::IRBuilder<>& ir, llvm::Value* a, llvm::Value* b, bool largest) {
  return ir.CreateSelect(ir.CreateFCmpUNO(a, b), ir.CreateFAdd(a, b),
                         extreme_number(ir, a, b, largest));
}

}  // namespace tandem::jit
