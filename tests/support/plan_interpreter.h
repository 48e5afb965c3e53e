// Runs a Plan without generated code: kernels by their interpreter, contractions by plain loops.
// The oracle that lowering is tested with. Header only, so that any test can use it.
#ifndef TANDEM_TESTS_SUPPORT_PLAN_INTERPRETER_H
#define TANDEM_TESTS_SUPPORT_PLAN_INTERPRETER_H

#include <cmath>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "codegen/library/library.h"
#include "codegen/plan.h"
#include "ir/base/error.h"
#include "ir/buffer.h"
#include "ir/interfaces/custom_operator.h"

namespace tandem::test {

/// Memory of a strided tensor, from its first element.
class StridedMemory {
 public:
  StridedMemory() = default;
  StridedMemory(const ir::Type& type, const ir::Strides& strides) : type_(type), strides_(strides) {
    int64_t low = 0, high = 0;
    for (int d = 0; d < type.rank(); ++d) {
      const int64_t reach = (int64_t{type.sizes[d]} - 1) * int64_t{strides[d]};
      (reach < 0 ? low : high) += reach;
    }
    const auto size = static_cast<int64_t>(ir::size_of(type.dtype));
    bytes_.assign(static_cast<size_t>((high - low + 1) * size), std::byte{0xCD});
    first_ = -low * size;
  }
  void* first() { return bytes_.data() + first_; }
  ir::BufferView view() { return {first(), type_.dtype, type_.sizes, strides_}; }
  void fill(const ir::Buffer& from) {
    for (int64_t i = 0; i < from.numel(); ++i)
      ir::store_element(static_cast<std::byte*>(first()) + byte_offset(i), type_.dtype, from.at(i));
  }

 private:
  /// Of element i in row-major order.
  int64_t byte_offset(int64_t i) const {
    int64_t offset = 0;
    for (int d = type_.rank(); d-- > 0;) {
      offset += i % int64_t{type_.sizes[d]} * int64_t{strides_[d]};
      i /= int64_t{type_.sizes[d]};
    }
    return offset * static_cast<int64_t>(ir::size_of(type_.dtype));
  }

  ir::Type type_;
  ir::Strides strides_;
  std::vector<std::byte> bytes_;
  int64_t first_ = 0;
};

struct PlanRun {
  std::vector<ir::Buffer> outputs;  // contiguous
  std::vector<ir::Buffer> inputs;   // after the run
};

/// Runs units [begin, end) of a kernel; the contract of codegen::interpret.
using KernelRunner = std::function<int64_t(const codegen::Kernel&, void* const* params,
                                           int64_t begin, int64_t end, codegen::KernelError*)>;

class PlanInterpreter {
 public:
  explicit PlanInterpreter(const codegen::Plan& plan,
                           const KernelRunner& runner = codegen::interpret)
      : plan_(plan), runner_(runner) {}

  /// Throws ir::Error{Index} with the launch's description if an index is out of range.
  PlanRun run(std::span<const ir::Buffer> inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs_.emplace_back(plan_.inputs[i].type, plan_.inputs[i].strides);
      inputs_.back().fill(inputs[i]);
    }
    for (const auto& o : plan_.outputs) outputs_.emplace_back(o.type, o.strides);
    arena_.assign(static_cast<size_t>(plan_.arena_bytes) + 64, std::byte{0xCD});
    for (const codegen::Step& s : plan_.steps) step(s);
    PlanRun result;
    for (size_t o = 0; o < outputs_.size(); ++o) {
      const auto& out = plan_.outputs[o];
      const int input = std::max(out.from_input, out.into_input);
      StridedMemory& memory = input >= 0 ? inputs_[static_cast<size_t>(input)] : outputs_[o];
      result.outputs.push_back(ir::copy_of(memory.view()));
    }
    for (StridedMemory& m : inputs_) result.inputs.push_back(ir::copy_of(m.view()));
    return result;
  }

 private:
  void* address(const codegen::BufferRef& r) {
    using Kind = codegen::BufferRef::Kind;
    auto* base = r.kind == Kind::Arena   ? static_cast<void*>(arena_.data())
                 : r.kind == Kind::Input ? inputs_[static_cast<size_t>(r.index)].first()
                                         : outputs_[static_cast<size_t>(r.index)].first();
    return static_cast<std::byte*>(base) + r.byte_offset;
  }

  void step(const codegen::Step& s) {
    std::visit([this](const auto& step) { run(step); }, s);
  }

  void run(const codegen::Launch& launch) {
    const codegen::Kernel& kernel = plan_.kernels[launch.kernel];
    std::vector<void*> params;
    for (const auto& p : launch.params) params.push_back(address(p));
    codegen::KernelError error;
    // backwards, two halves: units are independent
    const int64_t half = launch.units / 2;
    if (runner_(kernel, params.data(), half, launch.units, &error) != 0 ||
        runner_(kernel, params.data(), 0, half, &error) != 0)
      ir::fail(ir::Errc::Index, launch.checks.empty() ? "no check" : launch.checks[0]);
  }

  void run(const codegen::ExternalCall& e) {
    const auto views = [&](const std::vector<codegen::ExternalCall::Argument>& arguments) {
      std::vector<ir::BufferView> out;
      for (const auto& a : arguments)
        out.push_back({address(a.buffer), a.type.dtype, a.type.sizes, a.strides});
      return out;
    };
    const std::vector<ir::BufferView> operands = views(e.operands), results = views(e.results);
    if (e.is_custom())
      ir::find_custom_operator(e.custom_name())->run(operands, e.numbers(), results);
    else
      codegen::run_library({e.op, e.attrs, operands, results});
  }

  void run(const codegen::MatmulCall& c) {
    const auto* a = static_cast<const float*>(address(c.a));
    const auto* b = static_cast<const float*>(address(c.b));
    const auto* bias = c.bias ? static_cast<const float*>(address(*c.bias)) : nullptr;
    auto* out = static_cast<float*>(address(c.c));
    const machine::MatmulSpec& s = c.spec;
    const auto at = [&](const machine::MatrixStrides& of, int64_t matrix, int64_t i, int64_t j) {
      return matrix / s.batch * of.outer + matrix % s.batch * of.batch + i * of.row + j * of.col;
    };
    for (int64_t x = 0; x < s.matrices(); ++x)
      for (int64_t i = 0; i < s.m; ++i)
        for (int64_t j = 0; j < s.n; ++j) {
          float& to = out[at(s.c, x, i, j)];
          double sum = bias ? bias[j] : s.accumulate ? to : 0.0;
          for (int64_t k = 0; k < s.k; ++k)
            sum += static_cast<double>(a[at(s.a, x, i, k)]) * b[at(s.b, x, k, j)];
          to = static_cast<float>(sum);
          if (s.plus_zero) to += 0.0f;
        }
  }

  const codegen::Plan& plan_;
  const KernelRunner runner_;
  std::vector<StridedMemory> inputs_, outputs_;
  std::vector<std::byte> arena_;
};

}  // namespace tandem::test

#endif  // TANDEM_TESTS_SUPPORT_PLAN_INTERPRETER_H
