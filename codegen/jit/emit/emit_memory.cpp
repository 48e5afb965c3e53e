// Loads and stores: addresses, index checks, and the choice between scalar, vector, reversed and
// gathered accesses. Only the alignment of one element is assumed.
#include <algorithm>
#include <bit>

#include "codegen/jit/emit/emit_compute.h"
#include "codegen/jit/emit/emitter.h"
#include "ir/base/error.h"

namespace tandem::jit {
namespace {

using codegen::Access;
using ir::DType;

llvm::Type* memory_type(llvm::LLVMContext& context, DType dtype) {
  if (dtype == DType::Bool) return llvm::Type::getInt8Ty(context);
  if (dtype == DType::BF16 || dtype == DType::F16) return llvm::Type::getInt16Ty(context);
  return register_type(context, dtype);
}

}  // namespace

void Emitter::check_indices(size_t at) {
  for (const Access::Indirect& x : kernel_.code[at].access.indirect)
    fail_if_any(emitted_[x.value.index], at, size(x.extent), [&](llvm::Value* v) {
      return ir_.CreateICmpUGE(
          v, v->getType()->isVectorTy() ? spread(size(x.extent)) : size(x.extent));
    });
}

Emitter::Address Emitter::address(size_t at) {
  return address(kernel_.code[at].access, kernel_.code[at].dtype);
}

Emitter::Address Emitter::address(const Access& access, DType dtype) {
  Address a{
      access.is_local() ? locals_[access.local] : params_[access.param],
      memory_type(context_, dtype),
      static_cast<unsigned>(ir::size_of(dtype)),
      lane_stride(access.index),
      {},
      access.is_local() || kernel_.params[access.param].use == codegen::Param::Use::ReadWrite};
  a.base = ir_.CreateGEP(a.element, a.base, outer_affine(access.index));
  for (const Access::Indirect& x : access.indirect) {
    const Emitted& v = emitted_[x.value.index];
    if (v.uniform) {
      a.base = ir_.CreateGEP(a.element, a.base, ir_.CreateMul(v.parts[0], size(x.stride)));
      continue;
    }
    for (unsigned p = 0; p < scope_.parts; ++p) {
      llvm::Value* offset = ir_.CreateMul(v.parts[p], spread(size(x.stride)));
      if (a.varying.size() <= p)
        a.varying.push_back(offset);
      else
        a.varying[p] = ir_.CreateAdd(a.varying[p], offset);
    }
  }
  TANDEM_CHECK(!is_open_size(a.lane_stride), "the step along a vector is known");
  if (a.lane_stride != 0)
    a.base =
        ir_.CreateGEP(a.element, a.base, ir_.CreateMul(index_[scope_.loop], i64(a.lane_stride)));
  return a;
}

llvm::Value* Emitter::part_base(const Address& a, unsigned part) {
  const int64_t first = int64_t{part} * scope_.lanes * a.lane_stride;
  return first == 0 ? a.base : ir_.CreateGEP(a.element, a.base, i64(first));
}

llvm::Value* Emitter::lane_pointers(const Address& a, unsigned part) {
  // small constant offsets as 32 bits let a gather take 16 lanes at once
  const bool small = std::abs(a.lane_stride) < (int64_t{1} << 24);
  llvm::Type* type = small && a.varying.empty() ? ir_.getInt32Ty() : ir_.getInt64Ty();
  llvm::Value* offsets = lane_numbers(type, scope_.lanes, a.lane_stride);
  if (!a.varying.empty()) offsets = ir_.CreateAdd(offsets, a.varying[part]);
  return ir_.CreateGEP(a.element, part_base(a, part), offsets);
}

// Of few lanes, without a mask, if that is one access. A load of what a masked store reaches, be it
// behind the mask, waits until that is done: where short rows grow in memory each would wait for
// the one before, so there several accesses are better too. So they are where masked stores take
// many cycles, as AVX2's do on some processors.
bool Emitter::takes_few(const Address& a, unsigned part, bool stores) const {
  const unsigned count = scope_.few_in(part);
  const bool is_slow = stores && !target_.has("avx512bw");
  return count > 0 && (a.both_ways || is_slow || std::has_single_bit(count));
}

llvm::Value* Emitter::load_few(const Address& a, unsigned part) {
  const unsigned count = scope_.few_in(part);
  llvm::Value* few =
      ir_.CreateAlignedLoad(vector_type(a.element, count), part_base(a, part), llvm::Align(a.size));
  llvm::Value* zeros = llvm::Constant::getNullValue(vector_type(a.element, scope_.lanes));
  if (count == 1) return ir_.CreateInsertElement(zeros, few, uint64_t{0});
  std::vector<int> lanes;
  for (unsigned l = 0; l < scope_.lanes; ++l) lanes.push_back(static_cast<int>(std::min(l, count)));
  return ir_.CreateShuffleVector(few, llvm::Constant::getNullValue(few->getType()), lanes);
}

llvm::Value* Emitter::last_lane(const Address& a, unsigned part) {
  const int64_t last = int64_t{scope_.lanes} - 1;
  return ir_.CreateGEP(a.element, part_base(a, part), i64(last * a.lane_stride));
}

llvm::Value* Emitter::load_part(const Address& a, unsigned part) {
  llvm::Type* type = vector_type(a.element, scope_.lanes);
  const llvm::Align align(a.size);
  llvm::Value* mask = scope_.mask(part);
  const bool run = a.varying.empty();
  if (run && a.lane_stride == 1 && takes_few(a, part, false)) return load_few(a, part);
  if (run && a.lane_stride == 1 && mask)
    return ir_.CreateMaskedLoad(type, part_base(a, part), align, mask,
                                llvm::Constant::getNullValue(type));
  if (run && a.lane_stride == 1) return ir_.CreateAlignedLoad(type, part_base(a, part), align);
  if (run && a.lane_stride == -1) {
    llvm::Value* last = last_lane(a, part);
    return ir_.CreateVectorReverse(
        mask ? ir_.CreateMaskedLoad(type, last, align, ir_.CreateVectorReverse(mask),
                                    llvm::Constant::getNullValue(type))
             : static_cast<llvm::Value*>(ir_.CreateAlignedLoad(type, last, align)));
  }
  return ir_.CreateMaskedGather(type, lane_pointers(a, part), align, mask,
                                llvm::Constant::getNullValue(type));
}

// A plan may put a result where an operand lies, but only element by element: what every iteration
// of a main loop reads is not written there, so LLVM may move the load out of the loop.
bool Emitter::stays_the_same(const Access& access) const {
  if (!scope_.vector() || !scope_.masks.empty() || access.is_local()) return false;
  const bool loops = kernel_.loops[scope_.loop].extent > int64_t{scope_.lanes} * scope_.parts;
  const auto use = kernel_.params[access.param].use;
  return loops && use == codegen::Param::Use::Read;
}

void Emitter::load(size_t at) {
  if (const int s = sorted_of_[at]; s >= 0 && scope_.vector())
    return load_sorted(at, sorted_[static_cast<size_t>(s)]);
  check_indices(at);
  const DType dtype = kernel_.code[at].dtype;
  const Address a = address(at);
  if (a.uniform()) {
    llvm::LoadInst* v = ir_.CreateAlignedLoad(a.element, a.base, llvm::Align(a.size));
    if (stays_the_same(kernel_.code[at].access))
      v->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
    return set(at, {to_register(v, dtype)}, true);
  }
  Parts parts;
  for (unsigned p = 0; p < scope_.parts; ++p) parts.push_back(to_register(load_part(a, p), dtype));
  set(at, std::move(parts), false);
}

void Emitter::store_part(const Address& a, unsigned part, llvm::Value* value) {
  const llvm::Align align(a.size);
  llvm::Value* mask = scope_.mask(part);
  const bool run = a.varying.empty();
  if (run && a.lane_stride == 1 && takes_few(a, part, true)) {
    ir_.CreateAlignedStore(first_lanes(value, 0, scope_.few_in(part)), part_base(a, part), align);
  } else if (run && a.lane_stride == 1 && mask) {
    ir_.CreateMaskedStore(value, part_base(a, part), align, mask);
  } else if (run && a.lane_stride == 1) {
    ir_.CreateAlignedStore(value, part_base(a, part), align);
  } else if (run && a.lane_stride == -1 && mask) {
    ir_.CreateMaskedStore(ir_.CreateVectorReverse(value), last_lane(a, part), align,
                          ir_.CreateVectorReverse(mask));
  } else if (run && a.lane_stride == -1) {
    ir_.CreateAlignedStore(ir_.CreateVectorReverse(value), last_lane(a, part), align);
  } else {
    ir_.CreateMaskedScatter(value, lane_pointers(a, part), align, mask);
  }
}

void Emitter::store(size_t at) {
  if (const int s = sorted_of_[at]; s >= 0 && scope_.vector())
    return store_sorted(at, sorted_[static_cast<size_t>(s)]);
  check_indices(at);
  const codegen::Instr& i = kernel_.code[at];
  const Address a = address(at);
  if (!scope_.vector() || (a.uniform() && emitted_[i.args[0].index].uniform)) {
    llvm::Value* v = to_memory(emitted_[i.args[0].index].parts[0], i.dtype);
    ir_.CreateAlignedStore(v, a.base, llvm::Align(a.size));
    return;
  }
  Parts values;
  for (unsigned p = 0; p < scope_.parts; ++p)
    values.push_back(to_memory(part(i.args[0], p), i.dtype));
  if (may_stream(i.access, a)) return stream(a, values);
  for (unsigned p = 0; p < scope_.parts; ++p) store_part(a, p, values[p]);
}

constexpr unsigned kLineBytes = 64;

// Whole vectors one after the other, of a size that such a store exists for. They are whole cache
// lines: of a line that other stores complete a part would go to memory by itself.
bool Emitter::may_stream(const Access& access, const Address& a) const {
  const unsigned bytes = scope_.lanes * a.size;
  return bytes * scope_.parts >= kLineBytes && !access.is_local() && !access.again &&
         kernel_.params[access.param].streams && a.varying.empty() && a.lane_stride == 1 &&
         scope_.masks.empty() && bytes >= 16 &&
         bytes <= static_cast<unsigned>(target_.vector_bytes);
}

// Streaming stores need aligned addresses; rows of odd lengths have them only now and then.
void Emitter::stream(const Address& a, const Parts& values) {
  const unsigned bytes = scope_.lanes * a.size;
  llvm::Value* misaligned =
      ir_.CreateAnd(ir_.CreatePtrToInt(a.base, ir_.getInt64Ty()), i64(kLineBytes - 1));
  llvm::Value* aligned = ir_.CreateICmpEQ(misaligned, i64(0));
  llvm::MDNode* yes = llvm::MDNode::get(context_, llvm::ConstantAsMetadata::get(ir_.getInt32(1)));
  when(aligned, {}, [&] {
    for (unsigned p = 0; p < values.size(); ++p)
      ir_.CreateAlignedStore(values[p], part_base(a, p), llvm::Align(bytes))
          ->setMetadata(llvm::LLVMContext::MD_nontemporal, yes);
  });
  when(ir_.CreateNot(aligned), {}, [&] {
    for (unsigned p = 0; p < values.size(); ++p) store_part(a, p, values[p]);
  });
}

llvm::Value* Emitter::to_register(llvm::Value* v, DType dtype) {
  if (dtype == DType::Bool) return ir_.CreateIsNotNull(v);
  if (dtype == DType::BF16 || dtype == DType::F16) return from_half_bits(ir_, target_, dtype, v);
  return v;
}

llvm::Value* Emitter::to_memory(llvm::Value* v, DType dtype) {
  if (dtype == DType::Bool) return ir_.CreateZExt(v, with_element(v->getType(), ir_.getInt8Ty()));
  if (dtype == DType::BF16 || dtype == DType::F16) return half_bits(ir_, target_, dtype, v);
  return v;
}

}  // namespace tandem::jit
