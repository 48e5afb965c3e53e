// Accumulators. Over a Vector loop they follow ir/reduction_order.h: the lanes of the order lie in
// consecutive vectors, every part of an iteration belongs to one of them, and the end combines them
// by halving. Over a Serial loop they combine in iteration order, for each part.
#include <algorithm>

#include "codegen/jit/emit/emit_compute.h"
#include "codegen/jit/emit/emitter.h"
#include "codegen/jit/emit/extreme.h"
#include "codegen/loops/combine.h"
#include "ir/base/error.h"

namespace tandem::jit {

using codegen::Accumulator;
using codegen::Combine;
using codegen::finds_position;
using ir::DType;

llvm::Constant* identity_of(const Accumulator& acc, llvm::Type* type) {
  const ir::Number number = codegen::identity_of(acc.combine, acc.dtype);
  if (ir::is_floating(acc.dtype)) return llvm::ConstantFP::get(type, number.to_double());
  return llvm::ConstantInt::getSigned(type, number.to_int());
}

bool is_ordered(const Accumulator& acc) { return codegen::is_ordered(acc.combine, acc.dtype); }

// Where the order does not matter, one vector.
unsigned Emitter::lanes_of(const Accumulator& acc) const {
  return is_ordered(acc) ? static_cast<unsigned>(acc.lanes) : scope_.lanes;
}

void Emitter::begin_accumulators(LoopId loop) {
  for (AccumulatorId a : running_.ids()) {
    const Accumulator& acc = kernel_.accumulators[a];
    if (acc.loop != loop) continue;
    const bool over_vector = loop == scope_.loop;
    const unsigned all = over_vector ? lanes_of(acc) : scope_.lanes * scope_.parts;
    const unsigned lanes = std::min(all, scope_.lanes);
    llvm::Type* type = vector_type(register_type(context_, acc.dtype), lanes);
    Running& r = running_[a];
    r = {};
    r.value.assign(all / lanes, identity_of(acc, type));
    if (over_vector && notes_nan(acc))
      r.nan = llvm::Constant::getNullValue(vector_type(ir_.getInt1Ty(), lanes));
    if (finds_position(acc.combine))
      r.position.assign(all / lanes,
                        llvm::ConstantInt::getSigned(vector_type(ir_.getInt64Ty(), lanes), -1));
  }
  if (loop == scope_.loop) begin_column_sums();
}

Slots Emitter::slots_of(LoopId loop) {
  Slots slots;
  for (AccumulatorId a : running_.ids()) {
    if (kernel_.accumulators[a].loop != loop) continue;
    for (llvm::Value*& v : running_[a].value) slots.push_back(&v);
    for (llvm::Value*& v : running_[a].position) slots.push_back(&v);
    if (running_[a].nan) slots.push_back(&running_[a].nan);
  }
  return slots;
}

void Emitter::end_accumulators(LoopId loop) {
  if (loop == scope_.loop) end_column_sums();
  for (AccumulatorId a : running_.ids()) {
    const Accumulator& acc = kernel_.accumulators[a];
    if (acc.loop == loop && loop == scope_.loop) halve(acc, running_[a]);
  }
  set_results(loop);
}

void Emitter::set_results(LoopId loop) {
  for (AccumulatorId a : running_.ids()) {
    const Accumulator& acc = kernel_.accumulators[a];
    Running& r = running_[a];
    if (acc.loop != loop) continue;
    r.result = {finds_position(acc.combine) ? r.position : r.value,
                loop == scope_.loop || !scope_.vector()};
  }
}

llvm::Value* Emitter::combine(const Accumulator& acc, llvm::Value* a, llvm::Value* b) {
  return emit_op(codegen::combining_op(acc.combine), {ir_, target_, acc.dtype, acc.dtype, a, b});
}

llvm::Value* Emitter::dot(const Accumulator& acc, llvm::Value* a, llvm::Value* b,
                          llvm::Value* sum) {
  if (ir::is_floating(acc.dtype))
    return emit_op(ir::Op::fma, {ir_, target_, acc.dtype, acc.dtype, a, b, sum});
  llvm::Value* product = emit_op(ir::Op::mul, {ir_, target_, acc.dtype, acc.dtype, a, b});
  return emit_op(ir::Op::add, {ir_, target_, acc.dtype, acc.dtype, sum, product});
}

void Emitter::accumulate(size_t at) {
  const codegen::Instr& i = kernel_.code[at];
  const AccumulatorId a = i.accumulator;
  const Accumulator& acc = kernel_.accumulators[a];
  Running& r = running_[a];
  const bool over_vector = acc.loop == scope_.loop;
  if (const int sums = column_sum_of_[at]; sums >= 0)
    return add_rows(at, column_sums_[static_cast<size_t>(sums)]);
  if (r.nan) return accumulate_numbers(acc, r, i.args[0]);
  for (unsigned p = 0; p < scope_.parts; ++p) {
    llvm::Value* x = part(i.args[0], p);
    if (over_vector)
      accumulate_lanes(acc, r, p, x);
    else if (acc.combine == Combine::Dot)
      r.value[p] = dot(acc, x, part(i.args[1], p), r.value[p]);
    else
      take(acc, r, p, x, finds_position(acc.combine) ? spread(index_[acc.loop]) : nullptr, nullptr);
  }
}

// An accumulator with fewer lanes than a vector takes the vector in pieces.
void Emitter::accumulate_lanes(const Accumulator& acc, Running& r, unsigned part, llvm::Value* x) {
  llvm::Value* position = nullptr;
  if (finds_position(acc.combine)) {
    llvm::Value* first = ir_.CreateAdd(index_[scope_.loop], i64(int64_t{part} * scope_.lanes));
    position = ir_.CreateAdd(spread(first), lane_numbers(ir_.getInt64Ty(), scope_.lanes));
  }
  llvm::Value* mask = scope_.mask(part);
  const unsigned lanes = std::min(lanes_of(acc), scope_.lanes);
  if (lanes == scope_.lanes) return take(acc, r, part % r.value.size(), x, position, mask);
  for (unsigned from = 0; from < scope_.lanes; from += lanes)
    take(acc, r, 0, first_lanes(x, from, lanes), nullptr,
         mask ? first_lanes(mask, from, lanes) : nullptr);
}

void Emitter::take(const Accumulator& acc, Running& r, size_t slot, llvm::Value* x,
                   llvm::Value* position, llvm::Value* mask) {
  llvm::Value*& value = r.value[slot];
  if (!position) {
    llvm::Value* combined = combine(acc, value, x);
    value = mask ? ir_.CreateSelect(mask, combined, value) : combined;
    return;
  }
  llvm::Value* wins = better(acc, x, position, value, r.position[slot]);
  if (mask) wins = ir_.CreateAnd(wins, mask);
  value = ir_.CreateSelect(wins, x, value);
  r.position[slot] = ir_.CreateSelect(wins, position, r.position[slot]);
}

// Both positions count from 0; a negative one stands for "nothing yet". The first of equals wins.
llvm::Value* Emitter::better(const Accumulator& acc, llvm::Value* value, llvm::Value* position,
                             llvm::Value* than_value, llvm::Value* than_position) {
  const bool max = acc.combine == Combine::ArgMax;
  const auto op = [&](ir::Op o, llvm::Value* a, llvm::Value* b) {
    return emit_op(o, {ir_, target_, acc.dtype, DType::Bool, a, b});
  };
  llvm::Value* wins = op(max ? ir::Op::gt : ir::Op::lt, value, than_value);
  llvm::Value* tie = op(ir::Op::eq, value, than_value);
  if (ir::is_floating(acc.dtype)) {
    llvm::Value* nan = ir_.CreateFCmpUNO(value, value);
    llvm::Value* than_nan = ir_.CreateFCmpUNO(than_value, than_value);
    wins = ir_.CreateOr(wins, ir_.CreateAnd(nan, ir_.CreateNot(than_nan)));
    tie = ir_.CreateOr(tie, ir_.CreateAnd(nan, than_nan));
  }
  wins = ir_.CreateOr(wins, ir_.CreateAnd(tie, ir_.CreateICmpSLT(position, than_position)));
  llvm::Constant* zero = llvm::Constant::getNullValue(position->getType());
  wins = ir_.CreateOr(wins, ir_.CreateICmpSLT(than_position, zero));
  return ir_.CreateAnd(wins, ir_.CreateICmpSGE(position, zero));
}

llvm::Value* Emitter::first_lanes(llvm::Value* v, unsigned from, unsigned count) {
  if (count == 1) return ir_.CreateExtractElement(v, uint64_t{from});
  std::vector<int> lanes;
  for (unsigned l = 0; l < count; ++l) lanes.push_back(static_cast<int>(from + l));
  return ir_.CreateShuffleVector(v, lanes);
}

bool Emitter::notes_nan(const Accumulator& acc) const {
  const bool extreme = acc.combine == Combine::Max || acc.combine == Combine::Min;
  const bool wide = acc.dtype == DType::F32 || acc.dtype == DType::F64;
  if (!extreme || !wide || lanes_of(acc) < scope_.lanes || scope_.lanes == 1) return false;
  llvm::Type* element = register_type(ir_.getContext(), acc.dtype);
  return has_extreme_number(target_, llvm::FixedVectorType::get(element, scope_.lanes));
}

llvm::Value* Emitter::extreme(const Accumulator& acc, llvm::Value* a, llvm::Value* b) {
  return extreme_number(ir_, a, b, acc.combine == Combine::Max);
}

void Emitter::accumulate_numbers(const Accumulator& acc, Running& r, InstrId value) {
  Parts xs;
  for (unsigned p = 0; p < scope_.parts; ++p) {
    llvm::Value* x = part(value, p);
    if (scope_.mask(p)) x = ir_.CreateSelect(scope_.mask(p), x, identity_of(acc, x->getType()));
    llvm::Value*& slot = r.value[p % r.value.size()];
    slot = extreme(acc, slot, x);
    xs.push_back(x);
  }
  llvm::Value* nan = nullptr;  // one comparison sees the NaNs of two vectors
  for (size_t p = 0; p < xs.size(); p += 2) {
    llvm::Value* here = ir_.CreateFCmpUNO(xs[p], xs[std::min(p + 1, xs.size() - 1)]);
    nan = nan ? ir_.CreateOr(nan, here) : here;
  }
  r.nan = ir_.CreateOr(r.nan, nan);
}

void Emitter::halve_numbers(const Accumulator& acc, Running& r) {
  for (size_t half = r.value.size() / 2; half >= 1; half /= 2)
    for (size_t v = 0; v < half; ++v) r.value[v] = extreme(acc, r.value[v], r.value[v + half]);
  llvm::Value* x = r.value[0];
  const auto least = static_cast<unsigned>(16 / ir::size_of(acc.dtype));  // lanes of 128 bits
  unsigned lanes = llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements();
  for (unsigned w = lanes / 2; w >= 1; w /= 2) {
    const unsigned kept = std::max(w, least);
    std::vector<int> upper;
    for (unsigned l = 0; l < kept; ++l) upper.push_back(static_cast<int>((w + l) % lanes));
    x = extreme(acc, first_lanes(x, 0, kept), ir_.CreateShuffleVector(x, upper));
    lanes = kept;
  }
  llvm::Value* number = ir_.CreateExtractElement(x, uint64_t{0});
  r.value = {ir_.CreateSelect(any(r.nan), llvm::ConstantFP::getNaN(number->getType()), number)};
  r.nan = nullptr;
}

void Emitter::halve(const Accumulator& acc, Running& r) {
  if (r.nan) return halve_numbers(acc, r);
  while (r.value.size() > 1) {
    const size_t half = r.value.size() / 2;
    for (size_t v = 0; v < half; ++v) {
      llvm::Value* position = finds_position(acc.combine) ? r.position[v + half] : nullptr;
      take(acc, r, v, r.value[v + half], position, nullptr);
    }
    r.value.resize(half);
    if (finds_position(acc.combine)) r.position.resize(half);
  }
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(r.value[0]->getType());
  for (unsigned w = type ? type->getNumElements() / 2 : 0; w >= 1; w /= 2) {
    llvm::Value* x = first_lanes(r.value[0], w, w);
    r.value[0] = first_lanes(r.value[0], 0, w);
    llvm::Value* position = nullptr;
    if (finds_position(acc.combine)) {
      position = first_lanes(r.position[0], w, w);
      r.position[0] = first_lanes(r.position[0], 0, w);
    }
    take(acc, r, 0, x, position, nullptr);
  }
}

bool Emitter::has_blocks(LoopId loop) const {
  const int64_t extent = kernel_.loops[loop].extent;
  return std::any_of(kernel_.accumulators.begin(), kernel_.accumulators.end(), [&](const auto& a) {
    return a.loop == loop && is_ordered(a) && a.block > 0 && a.block < extent;
  });
}

}  // namespace tandem::jit
