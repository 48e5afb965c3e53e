// Constants, index values and pointwise ops, for one scalar or for all parts of a Vector loop.
#include <llvm/Analysis/VectorUtils.h>

#include <algorithm>

#include "codegen/jit/emit/emit_compute.h"
#include "codegen/jit/emit/emitter.h"
#include "codegen/loops/scalar_functions.h"
#include "ir/base/error.h"

namespace tandem::jit {

using codegen::Affine;
using ir::DType;

void Emitter::set(size_t at, Parts parts, bool uniform) {
  emitted_[at] = {std::move(parts), uniform};
}

llvm::Type* Emitter::vector_type(llvm::Type* element, unsigned lanes) const {
  return lanes == 1 ? element : llvm::FixedVectorType::get(element, lanes);
}

llvm::Value* Emitter::spread(llvm::Value* scalar) {
  return scope_.lanes == 1 ? scalar : ir_.CreateVectorSplat(scope_.lanes, scalar);
}

llvm::Value* Emitter::part(InstrId value, unsigned part) {
  const Emitted& v = emitted_[value.index];
  return v.uniform ? spread(v.parts[0]) : v.parts[part];
}

llvm::Constant* Emitter::lane_numbers(llvm::Type* element, unsigned lanes, int64_t stride) {
  std::vector<llvm::Constant*> numbers;
  for (unsigned l = 0; l < lanes; ++l)
    numbers.push_back(llvm::ConstantInt::getSigned(element, l * stride));
  return lanes == 1 ? numbers[0] : llvm::ConstantVector::get(numbers);
}

int64_t Emitter::lane_stride(const Affine& a) const { return stride_along(a, scope_.loop); }

// Outer loops first, so that LLVM can move the sum's beginning out of the inner ones.
llvm::Value* Emitter::outer_affine(const Affine& a) {
  llvm::Value* sum = size(a.offset);
  for (const Affine::Term& t : a.terms)
    if (t.loop != scope_.loop)
      sum = ir_.CreateAdd(sum, ir_.CreateMul(index_[t.loop], size(t.stride)));
  return sum;
}

llvm::Value* Emitter::affine(const Affine& a) {
  const int64_t stride = lane_stride(a);
  llvm::Value* sum = outer_affine(a);
  if (stride == 0) return sum;
  return ir_.CreateAdd(sum, ir_.CreateMul(index_[scope_.loop], i64(stride)));
}

/// Whether open numbers are read once, into registers. More than fit there LLVM would spill, as
/// vectors: they are read where they are used.
bool Emitter::keeps_numbers() const {
  return open_.size() <= (target_.vector_bytes == 64 ? 16 : 8);
}

bool Emitter::is_open(size_t at) const {
  return std::ranges::binary_search(open_, InstrId{static_cast<uint32_t>(at)});
}

void Emitter::read_number(size_t at) {
  const auto number =
      std::ranges::lower_bound(open_, InstrId{static_cast<uint32_t>(at)}) - open_.begin();
  llvm::Value* address = ir_.CreateConstGEP1_64(ir_.getInt64Ty(), numbers_, number);
  llvm::Type* type = register_type(context_, kernel_.code[at].dtype);
  set(at, {ir_.CreateAlignedLoad(type, address, llvm::Align(8))}, true);
}

void Emitter::read_operands(size_t at) {
  if (keeps_numbers()) return;
  for (InstrId a : kernel_.code[at].args)
    if (is_open(a.index)) read_number(a.index);
}

void Emitter::constant(size_t at) {
  if (is_open(at)) return;
  const codegen::Instr& i = kernel_.code[at];
  const ir::Number n = ir::rounded_to(i.dtype, i.number);
  llvm::Type* type = register_type(context_, i.dtype);
  llvm::Value* v = ir::is_floating(i.dtype)
                       ? static_cast<llvm::Value*>(llvm::ConstantFP::get(type, n.to_double()))
                       : llvm::ConstantInt::getSigned(type, n.to_int());
  set(at, {v}, true);
}

void Emitter::index(size_t at) {
  const Affine& a = kernel_.code[at].affine;
  const int64_t stride = lane_stride(a);
  llvm::Value* first = affine(a);
  if (stride == 0) return set(at, {first}, true);
  Parts parts;
  for (unsigned p = 0; p < scope_.parts; ++p) {
    llvm::Value* start = ir_.CreateAdd(first, i64(int64_t{p} * scope_.lanes * stride));
    parts.push_back(
        ir_.CreateAdd(spread(start), lane_numbers(ir_.getInt64Ty(), scope_.lanes, stride)));
  }
  set(at, std::move(parts), false);
}

void Emitter::compute(size_t at) {
  const codegen::Instr& i = kernel_.code[at];
  const DType from = kernel_.code[i.args[i.op == ir::Op::where ? 1 : 0].index].dtype;
  const bool checked = codegen::divides(i.op) && ir::is_integral(i.dtype);
  if (checked)
    fail_if_any(emitted_[i.args[1].index], at, i64(0),
                [&](llvm::Value* divisor) { return ir_.CreateIsNull(divisor); });
  bool uniform = true;
  for (InstrId a : i.args) uniform &= emitted_[a.index].uniform;
  const bool whole = from == DType::F32 || from == DType::F64;
  const bool is_branch = branches(i) && !unit_[i.args[0].index];
  const bool together = whole && !uniform && scope_.parts > 1 && (is_branch || is_called(at));
  set(at, together ? compute_together(at, from) : compute_parts(at, from, uniform), uniform);
}

bool Emitter::is_called(size_t at) const {
  const codegen::Instr& i = kernel_.code[at];
  return calls_ && is_long(i) && i.kind == InstrKind::Compute && ir::is_floating(i.dtype);
}

Parts Emitter::compute_parts(size_t at, DType from, bool uniform) {
  const codegen::Instr& i = kernel_.code[at];
  const bool guarded = codegen::divides(i.op) && ir::is_integral(i.dtype) && !uniform;
  Parts results;
  for (unsigned p = 0; p < (uniform ? 1 : scope_.parts); ++p) {
    llvm::Value* args[3] = {};
    for (size_t a = 0; a < i.args.size(); ++a)
      args[a] = uniform ? emitted_[i.args[a].index].parts[0] : part(i.args[a], p);
    if (guarded && scope_.mask(p))  // a lane past the end must not trap either
      args[1] =
          ir_.CreateSelect(scope_.mask(p), args[1], llvm::ConstantInt::get(args[1]->getType(), 1));
    const bool unit = unit_[i.args[0].index];
    results.push_back((is_called(at) && !uniform ? call_op : emit_op)(
        i.op, {ir_, target_, from, i.dtype, args[0], args[1], args[2], unit}));
  }
  return results;
}

// All parts as one long vector, so that a rare path is one branch, or a function one call, and not
// one for each part.
Parts Emitter::compute_together(size_t at, DType from) {
  const codegen::Instr& i = kernel_.code[at];
  llvm::Value* args[3] = {};
  for (size_t a = 0; a < i.args.size(); ++a) {
    Parts all;
    for (unsigned p = 0; p < scope_.parts; ++p) all.push_back(part(i.args[a], p));
    args[a] = llvm::concatenateVectors(ir_, all);
  }
  const bool unit = unit_[i.args[0].index];
  llvm::Value* result = (is_called(at) ? call_op : emit_op)(
      i.op, {ir_, target_, from, i.dtype, args[0], args[1], args[2], unit});
  Parts results;
  for (unsigned p = 0; p < scope_.parts; ++p)
    results.push_back(first_lanes(result, p * scope_.lanes, scope_.lanes));
  return results;
}

}  // namespace tandem::jit
