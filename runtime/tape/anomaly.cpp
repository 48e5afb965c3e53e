#include "runtime/tape/anomaly.h"

#include <fmt/format.h>

#include <bit>
#include <optional>
#include <utility>

#include "ir/base/error.h"
#include "ir/base/error_scope.h"
#include "ir/buffer.h"
#include "ir/interpreter/interpret.h"
#include "ir/text/text.h"
#include "runtime/eager/copy.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/autograd.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {

constinit thread_local AnomalyOptions t_anomaly_options{.check_nan = false};

UncheckedResults::UncheckedResults()
    : previous_(std::exchange(t_anomaly_options.check_forward, false)) {}
UncheckedResults::~UncheckedResults() { t_anomaly_options.check_forward = previous_; }

namespace {

enum class Kind : uint8_t { Finite, Infinity, NaN };

/// What is worst among elements, and where it comes first.
struct Worst {
  Kind kind = Kind::Finite;
  int64_t at = 0;
};

template <class Bits>
Worst worst_of(const Bits* elements, int64_t count, Bits exponent, Bits mantissa) {
  Worst worst;
  for (int64_t i = 0; i < count; ++i) {
    if ((elements[i] & exponent) != exponent) continue;
    if ((elements[i] & mantissa) != 0) return {Kind::NaN, i};
    if (worst.kind == Kind::Finite) worst = {Kind::Infinity, i};
  }
  return worst;
}

Worst worst_of(const void* data, DType dtype, int64_t count) {
  switch (dtype) {
    case DType::F64:
      return worst_of<uint64_t>(static_cast<const uint64_t*>(data), count, 0x7ff0000000000000,
                                0x000fffffffffffff);
    case DType::F32:
      return worst_of<uint32_t>(static_cast<const uint32_t*>(data), count, 0x7f800000, 0x007fffff);
    case DType::BF16:
      return worst_of<uint16_t>(static_cast<const uint16_t*>(data), count, 0x7f80, 0x007f);
    case DType::F16:
      return worst_of<uint16_t>(static_cast<const uint16_t*>(data), count, 0x7c00, 0x03ff);
    default:
      return {};
  }
}

/// Of a tensor; undefined and traced ones have nothing to look at.
Worst worst_of(const Tensor& t) {
  if (!t.defined() || !ir::is_floating(t.dtype()) || Trace::current() != nullptr) return {};
  Tensor dense = t;
  if (!t.is_contiguous()) {
    dense = empty_tensor(t.sizes(), t.dtype());
    copy_elements(*dense.impl(), *t.impl());
  }
  return worst_of(dense.impl()->data(), t.dtype(), t.numel());
}

/// "f32 [2, 3], at [0, 1]".
std::string element(const ir::Type& type, int64_t at) {
  ir::InlineVector<int64_t, 8> index;
  for (int d = type.rank(); d-- > 0;) {
    const int64_t size = type.sizes[d];
    index.push_back(at % size);
    at /= size;
  }
  std::string places;
  for (size_t i = index.size(); i-- > 0;)
    places += fmt::format("{}{}", index[i], i > 0 ? ", " : "");
  return fmt::format("{}, at [{}]", ir::to_string(type), places);
}

std::string place(const std::source_location& at) {
  return at.line() == 0 ? "" : fmt::format(" ({}:{})", at.file_name(), at.line());
}

Kind worst_of(std::span<const Tensor> tensors) {
  Kind kind = Kind::Finite;
  for (const Tensor& t : tensors) kind = std::max(kind, worst_of(t).kind);
  return kind;
}

/// What tensors are made of is what the user asked for.
bool makes_what_is_asked(ir::Op op) { return ir::info(op).cls == ir::OpClass::Factory; }

}  // namespace

TensorList run_checked(ir::Op op, std::span<const Tensor> operands,
                       ir::FunctionRef<TensorList()> run) {
  const Kind before = worst_of(operands);
  TensorList results = run();
  if (makes_what_is_asked(op)) return results;
  for (size_t i = 0; i < results.size(); ++i) {
    const auto [kind, at] = worst_of(results[i]);
    if (kind > before)
      ir::fail(Errc::Autograd,
               fmt::format("checked by DetectAnomaly, {}{} gives the first {}: its result {} of {} "
                           "has one, and no operand has",
                           ir::name(op),
                           ir::ErrorScope::function().empty() ? place(current_location()) : "",
                           kind == Kind::NaN ? "NaN" : "infinity", i,
                           element(results[i].impl()->type(), at)));
  }
  return results;
}

void check_arrived(const Node& node, std::span<const Tensor> gradients) {
  for (size_t i = 0; i < gradients.size(); ++i)
    if (const auto [kind, at] = worst_of(gradients[i]); kind == Kind::NaN)
      ir::fail(Errc::Autograd,
               fmt::format("DetectAnomaly: the gradient of result {} of {}{} is NaN before it goes "
                           "through: {}; it was given to backward, a hook made it, or infinities "
                           "were added",
                           i, node.name(), place(node.made_at),
                           element(gradients[i].impl()->type(), at)));
}

void check_given(const Node& node, std::span<const Tensor> gradients) {
  for (size_t i = 0; i < gradients.size(); ++i)
    if (const auto [kind, at] = worst_of(gradients[i]); kind == Kind::NaN)
      ir::fail(Errc::Autograd,
               fmt::format(
                   "DetectAnomaly: backward of {}{} gives the first NaN: in the gradient of "
                   "its operand {}, {}",
                   node.name(), place(node.made_at), i, element(gradients[i].impl()->type(), at)));
}

// --- compiled code

namespace {

[[noreturn]] void fail_equation(std::string_view name, const ir::Graph& graph, ir::EquationId e,
                                int64_t at) {
  const std::optional<ir::Location> location = graph.location(e);
  const std::string where =
      location ? fmt::format(" of {} ({}:{})",
                             location->function.empty() ? "a call" : location->function,
                             location->file, location->line)
               : "";
  ir::fail(
      Errc::Autograd,
      fmt::format("DetectAnomaly: backward of {} gives the first NaN in an equation{}: {}, {}\n{}",
                  name, where, ir::name(graph.op(e)), element(graph.type(graph.result(e)), at),
                  ir::print_around(graph, e)));
}

void check_kept(std::string_view name, const ir::Graph& graph,
                std::span<const Tensor* const> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const auto [kind, at] = worst_of(*inputs[i]); kind == Kind::NaN)
      ir::fail(Errc::Autograd,
               fmt::format("DetectAnomaly: backward of {} reads a NaN that forward gave: {}, {}; "
                           "expected the call inside DetectAnomaly with check_forward, which names "
                           "the operation",
                           name, graph.inputs()[i].name, element(inputs[i]->impl()->type(), at)));
}

}  // namespace

void check_compiled(std::string_view name, const ir::Graph& graph,
                    std::span<const Tensor* const> inputs, std::span<const Tensor> outputs) {
  if (worst_of(outputs) != Kind::NaN) return;
  check_kept(name, graph, inputs);
  std::vector<ir::Buffer> buffers;
  for (const Tensor* t : inputs) buffers.push_back(ir::copy_of(t->impl()->view()));
  const auto look = [&](const ir::Evaluated& done, ir::Buffer& result) {
    const auto [kind, at] = worst_of(result.data(), result.dtype(), result.numel());
    if (kind == Kind::NaN) fail_equation(name, done.graph, done.equation, at);
  };
  ir::interpret(graph, buffers, {.after_equation = look});
}

}  // namespace tandem::runtime

namespace tandem {

DetectAnomaly::DetectAnomaly(const AnomalyOptions& options)
    : previous_(std::exchange(runtime::t_anomaly_options, options)) {}
DetectAnomaly::~DetectAnomaly() { runtime::t_anomaly_options = previous_; }

}  // namespace tandem
