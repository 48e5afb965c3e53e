#include "codegen/kernels/kernel_writer.h"

#include <algorithm>

#include "ir/base/error.h"

namespace tandem::codegen {

using ir::DType;
using Kind = Instr::Kind;

int KernelWriter::loop(Loop::Kind kind, int64_t extent, int clamp_loop, int64_t clamp_total) {
  draft_.kernel.loops.push_back({kind, extent, clamp_loop, clamp_total});
  return static_cast<int>(draft_.kernel.loops.size()) - 1;
}

int KernelWriter::push(Instr i) {
  draft_.kernel.code.push_back(std::move(i));
  return static_cast<int>(draft_.kernel.code.size()) - 1;
}

void KernelWriter::begin(int loop, int condition) {
  Instr i{.kind = Kind::LoopBegin, .loop = loop};
  if (condition >= 0) i.args = {condition};
  push(std::move(i));
}
void KernelWriter::end(int loop) { push({.kind = Kind::LoopEnd, .loop = loop}); }

int KernelWriter::local(DType dtype, int64_t elements) {
  draft_.kernel.locals.push_back({dtype, elements});
  return static_cast<int>(draft_.kernel.locals.size()) - 1;
}

int KernelWriter::accumulator(const Accumulator& a) {
  draft_.kernel.accumulators.push_back(a);
  return static_cast<int>(draft_.kernel.accumulators.size()) - 1;
}

int KernelWriter::constant(const ir::Number& number, DType dtype) {
  return push({.kind = Kind::Constant, .dtype = dtype, .number = number});
}

int KernelWriter::compute(ir::Op op, std::vector<int> args, DType dtype, const std::string& check) {
  if (ir::is_integral(dtype) && ir::info(op).effect == ir::Effect::MayFail)
    draft_.launch.checks.push_back(check);
  return push({.kind = Kind::Compute, .dtype = dtype, .op = op, .args = std::move(args)});
}

int KernelWriter::load_local(int local, Affine index) {
  const DType t = draft_.kernel.locals[static_cast<size_t>(local)].dtype;
  return push({.kind = Kind::Load, .dtype = t, .access = {true, local, std::move(index), {}}});
}

void KernelWriter::store_local(int local, Affine index, int value) {
  const DType t = draft_.kernel.locals[static_cast<size_t>(local)].dtype;
  push({.kind = Kind::Store,
        .dtype = t,
        .args = {value},
        .access = {true, local, std::move(index), {}}});
}

int KernelWriter::load_local_at(int local, Access::Indirect at, const std::string& check) {
  const int i = load_local(local, {});
  from_data(at, check, false);
  return i;
}

void KernelWriter::store_local_at(int local, Access::Indirect at, int value,
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

int KernelWriter::param(int value, Param::Use use) {
  const auto [at, fresh] = params_.try_emplace(value, static_cast<int>(draft_.launch.roots.size()));
  if (fresh) {
    draft_.launch.roots.push_back(value);
    draft_.launch.offsets.push_back(0);
    draft_.kernel.params.push_back({dtype(value), use});
  } else if (draft_.kernel.params[static_cast<size_t>(at->second)].use != use) {
    draft_.kernel.params[static_cast<size_t>(at->second)].use = Param::Use::ReadWrite;
  }
  return at->second;
}

int KernelWriter::load(int value, Affine index) {
  Access a{false, param(value, Param::Use::Read), std::move(index), {}};
  return push({.kind = Kind::Load, .dtype = dtype(value), .access = std::move(a)});
}

void KernelWriter::store(int value, Affine index, int stored) {
  Access a{false, param(value, Param::Use::Write), std::move(index), {}};
  push({.kind = Kind::Store, .dtype = dtype(value), .args = {stored}, .access = std::move(a)});
}

int KernelWriter::load_at(int value, Affine index, Access::Indirect at, const std::string& check,
                          bool again) {
  const int i = load(value, std::move(index));
  from_data(at, check, again);
  return i;
}

void KernelWriter::store_at(int value, Affine index, Access::Indirect at, int stored,
                            const std::string& check, bool again) {
  store(value, std::move(index), stored);
  from_data(at, check, again);
}

int KernelWriter::random_bits(DType dtype, int key, int base, int64_t offset, Affine index) {
  return push({.kind = Kind::RandomBits,
               .dtype = dtype,
               .args = {key, base},
               .number = offset,
               .affine = std::move(index)});
}

void KernelWriter::accumulate(int accumulator, std::vector<int> args) {
  push({.kind = Kind::Accumulate, .accumulator = accumulator, .args = std::move(args)});
}

int KernelWriter::reduced(int accumulator, DType dtype) {
  return push({.kind = Kind::Reduced, .dtype = dtype, .accumulator = accumulator});
}

int KernelWriter::index(Affine index) {
  return push({.kind = Kind::Index, .dtype = DType::I64, .affine = std::move(index)});
}

int KernelWriter::read(int value, Affine index) {
  const Root& from = program_.roots[static_cast<size_t>(value)];
  if (from.kind == Root::Kind::Full) return constant(from.first, from.dtype);
  return from.kind == Root::Kind::Iota ? iota(from, std::move(index))
                                       : load(value, std::move(index));
}

int KernelWriter::iota(const Root& root, Affine index) {
  if (ir::is_integral(root.dtype)) {
    const int64_t step = root.increment.to_int();
    index.offset = root.first.to_int() + step * index.offset;
    for (auto& t : index.terms) t.stride *= step;
    std::erase_if(index.terms, [](const Affine::Term& t) { return t.stride == 0; });
    const int i = this->index(std::move(index));
    return root.dtype == DType::I64 ? i : compute(ir::Op::convert, {i}, root.dtype);
  }
  const int i = this->index(std::move(index));
  const int scaled = compute(
      ir::Op::mul,
      {compute(ir::Op::convert, {i}, DType::F64), constant(root.increment.to_double(), DType::F64)},
      DType::F64);
  const int sum =
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
