#include "codegen/kernels/kernel_writer.h"

#include <algorithm>

#include "codegen/loops/scalar_ops.h"
#include "ir/base/error.h"

namespace tandem::codegen {

using ir::DType;
using Kind = Instr::Kind;

LoopId KernelWriter::loop(Loop::Kind kind, int64_t extent, LoopId clamp_loop, int64_t clamp_total) {
  return draft_.kernel.loops.add({kind, extent, clamp_loop, clamp_total});
}

InstrId KernelWriter::push(Instr i) {
  const InstrId id{static_cast<uint32_t>(draft_.kernel.code.size())};
  draft_.kernel.code.push_back(std::move(i));
  return id;
}

void KernelWriter::begin(LoopId loop, InstrId condition) {
  Instr i{.kind = Kind::LoopBegin, .loop = loop};
  if (condition.valid()) i.args = {condition};
  push(std::move(i));
}
void KernelWriter::end(LoopId loop) { push({.kind = Kind::LoopEnd, .loop = loop}); }

LocalId KernelWriter::local(DType dtype, int64_t elements) {
  return draft_.kernel.locals.add({dtype, elements});
}

AccumulatorId KernelWriter::accumulator(const Accumulator& a) {
  return draft_.kernel.accumulators.add(a);
}

InstrId KernelWriter::constant(const ir::Number& number, DType dtype) {
  return push({.kind = Kind::Constant, .dtype = dtype, .number = number});
}

InstrId KernelWriter::compute(ir::Op op, InstrArgs args, DType dtype, const std::string& check) {
  if (may_fail(op, dtype)) draft_.launch.checks.push_back(check);
  return push({.kind = Kind::Compute, .dtype = dtype, .op = op, .args = std::move(args)});
}

InstrId KernelWriter::load_local(LocalId local, Affine index) {
  const DType t = draft_.kernel.locals[local].dtype;
  return push(
      {.kind = Kind::Load, .dtype = t, .access = {.local = local, .index = std::move(index)}});
}

void KernelWriter::store_local(LocalId local, Affine index, InstrId value) {
  const DType t = draft_.kernel.locals[local].dtype;
  push({.kind = Kind::Store,
        .dtype = t,
        .args = {value},
        .access = {.local = local, .index = std::move(index)}});
}

InstrId KernelWriter::compute_node(const Node& node, InstrArgs args, Affine table) {
  if (node.kind == Node::Kind::Gather)
    return load_at(node.table.root, std::move(table),
                   {args[0], node.gather_stride, node.gather_extent}, node.check);
  if (scalar_op(node.op).code == ScalarOp::Code::Nothing) return args[0];
  return compute(node.op, std::move(args), node.dtype, node.check);
}

InstrId KernelWriter::load_local_at(LocalId local, Access::Indirect at, const std::string& check) {
  const InstrId i = load_local(local, {});
  from_data(at, check, false);
  return i;
}

void KernelWriter::store_local_at(LocalId local, Access::Indirect at, InstrId value,
                                  const std::string& check) {
  store_local(local, {}, value);
  from_data(at, check, false);
}

/// Makes the position of the last access one that comes from data.
void KernelWriter::from_data(Access::Indirect at, const std::string& check, bool again) {
  Access& access = draft_.kernel.code.back().access;
  access.indirect = {at};
  access.again = again;
  draft_.launch.checks.push_back(check);
}

ParamId KernelWriter::param(RootId root, Param::Use use) {
  const auto [at, fresh] = params_.try_emplace(root, draft_.kernel.params.next());
  if (fresh) {
    draft_.launch.roots.push_back(root);
    draft_.launch.offsets.push_back(0);
    draft_.kernel.params.push_back({dtype(root), use});
  } else if (draft_.kernel.params[at->second].use != use) {
    draft_.kernel.params[at->second].use = Param::Use::ReadWrite;
  }
  return at->second;
}

void KernelWriter::keep(RootId root, LoopId slab, int64_t slabs, int64_t stride) {
  const Root& r = program_.roots[root];
  TANDEM_CHECK(r.numel % (slabs * stride) == 0, "a value is not made of whole slabs");
  kept_[root] = {local(r.dtype, r.numel / slabs), slab, slabs * stride, slabs};
}

/// Where an element is in its slab.
Affine KernelWriter::Kept::within(Affine index) const {
  ir::erase_if(index.terms, [&](const Affine::Term& t) { return t.loop == slab; });
  for (Affine::Term& t : index.terms)
    if (t.stride % every == 0) t.stride /= slabs;
  return index;
}

InstrId KernelWriter::load(RootId root, Affine index) {
  if (const auto kept = kept_.find(root); kept != kept_.end())
    return load_local(kept->second.local, kept->second.within(std::move(index)));
  Access a{.param = param(root, Param::Use::Read), .index = std::move(index)};
  return push({.kind = Kind::Load, .dtype = dtype(root), .access = std::move(a)});
}

void KernelWriter::store(RootId root, Affine index, InstrId value) {
  if (const auto kept = kept_.find(root); kept != kept_.end())
    return store_local(kept->second.local, kept->second.within(std::move(index)), value);
  Access a{.param = param(root, Param::Use::Write), .index = std::move(index)};
  push({.kind = Kind::Store, .dtype = dtype(root), .args = {value}, .access = std::move(a)});
}

InstrId KernelWriter::load_at(RootId root, Affine index, Access::Indirect at,
                              const std::string& check, bool again) {
  const InstrId i = load(root, std::move(index));
  from_data(at, check, again);
  return i;
}

void KernelWriter::store_at(RootId root, Affine index, Access::Indirect at, InstrId value,
                            const std::string& check, bool again) {
  store(root, std::move(index), value);
  from_data(at, check, again);
}

InstrId KernelWriter::random_bits(DType dtype, InstrId key, InstrId base, int64_t offset,
                                  Affine index) {
  return push({.kind = Kind::RandomBits,
               .dtype = dtype,
               .args = {key, base},
               .number = offset,
               .affine = std::move(index)});
}

void KernelWriter::accumulate(AccumulatorId accumulator, InstrArgs args) {
  push({.kind = Kind::Accumulate, .accumulator = accumulator, .args = std::move(args)});
}

InstrId KernelWriter::reduced(AccumulatorId accumulator, DType dtype) {
  return push({.kind = Kind::Reduced, .dtype = dtype, .accumulator = accumulator});
}

InstrId KernelWriter::index(Affine index) {
  return push({.kind = Kind::Index, .dtype = DType::I64, .affine = std::move(index)});
}

InstrId KernelWriter::read(RootId root, Affine index) {
  const Root& from = program_.roots[root];
  if (from.kind == Root::Kind::Full) return constant(from.first, from.dtype);
  return from.kind == Root::Kind::Iota ? iota(from, std::move(index))
                                       : load(root, std::move(index));
}

InstrId KernelWriter::iota(const Root& root, Affine index) {
  if (ir::is_integral(root.dtype)) {
    const int64_t step = root.increment.to_int();
    index.offset = root.first.to_int() + step * index.offset;
    for (auto& t : index.terms) t.stride *= step;
    ir::erase_if(index.terms, [](const Affine::Term& t) { return t.stride == 0; });
    const InstrId i = this->index(std::move(index));
    return root.dtype == DType::I64 ? i : compute(ir::Op::convert, {i}, root.dtype);
  }
  const InstrId i = this->index(std::move(index));
  const InstrId scaled = compute(
      ir::Op::mul,
      {compute(ir::Op::convert, {i}, DType::F64), constant(root.increment.to_double(), DType::F64)},
      DType::F64);
  const InstrId sum =
      compute(ir::Op::add, {constant(root.first.to_double(), DType::F64), scaled}, DType::F64);
  return root.dtype == DType::F64 ? sum : compute(ir::Op::convert, {sum}, root.dtype);
}

KernelDraft KernelWriter::take(std::string name, int64_t grain) {
  draft_.kernel.name = std::move(name);
  draft_.launch.grain = std::max<int64_t>(grain, 1);
  return std::move(draft_);
}

Affine affine(int64_t offset, const std::vector<int64_t>& strides,
              const std::vector<DimLoops>& dims) {
  Affine out{offset, {}};
  for (size_t d = 0; d < dims.size(); ++d)
    for (const Affine::Term& t : dims[d])
      if (strides[d] != 0) out.terms.push_back({t.loop, t.stride * strides[d]});
  std::sort(out.terms.begin(), out.terms.end(),
            [](const Affine::Term& a, const Affine::Term& b) { return a.loop < b.loop; });
  return out;
}

}  // namespace tandem::codegen
