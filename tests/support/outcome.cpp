#include "tests/support/outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tandem::testing {
namespace {

uint64_t next_random(uint64_t& state) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state;
}

Tensor filled(const Shape& sizes, uint64_t seed, double (*value)(uint64_t)) {
  std::vector<double> values(static_cast<size_t>(int64_t{ir::numel(sizes)}));
  uint64_t state = seed * 0x9E3779B97F4A7C15ull + 1;
  for (double& v : values) v = value(next_random(state));
  return from_data(values, sizes);
}

double small_integer(uint64_t random) { return static_cast<double>(random >> 40 & 7) - 3; }
/// Gradients are positive, so that those of two calls do not cancel each other.
double positive(uint64_t random) { return static_cast<double>(random >> 40 & 3) + 1; }

void run_backward(Outcome& o) {
  Tensors outputs, tangents, leaves;
  const auto add = [&](const Tensor& t, uint64_t seed) {
    if (!t.defined() || !t.requires_grad() || t.is_leaf()) return;
    outputs.push_back(t);
    tangents.push_back(filled(t.sizes(), seed, positive).to(t.dtype()));
  };
  for (size_t i = 0; i < o.results.size(); ++i) add(o.results[i], 1000 + i);
  for (size_t i = 0; i < o.inputs.size(); ++i) add(o.inputs[i], 2000 + i);
  for (const Tensor& t : o.leaves)
    if (t.requires_grad()) leaves.push_back(t);
  if (outputs.empty() || leaves.empty()) return;
  try {
    o.gradients = grad(outputs, leaves, {.grad_outputs = tangents, .allow_unused = true});
  } catch (const Error& e) {
    o.backward_error = e;
  }
}

double tolerance_for(DType dtype, double tolerance) {
  if (!ir::is_floating(dtype)) return 0;
  return dtype == f64 ? std::min(tolerance, 1e-12) : tolerance;
}

std::string values_differ(const Tensor& expected, const Tensor& actual, double tolerance) {
  const auto e = expected.detach().to_vector<double>(), a = actual.detach().to_vector<double>();
  double largest = 0;
  for (double v : e)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  const double allowed = tolerance_for(expected.dtype(), tolerance) * largest;
  for (size_t i = 0; i < e.size(); ++i) {
    if (e[i] == a[i] || (std::isnan(e[i]) && std::isnan(a[i]))) continue;
    if (!(std::abs(e[i] - a[i]) <= allowed))
      return fmt::format("element {}: expected {}, got {}", i, e[i], a[i]);
  }
  return "";
}

/// Sizes and strides, the latter of dimensions that have steps.
std::string layout(const Tensor& t) {
  std::string text = fmt::format("{}{}", ir::name(t.dtype()), ir::to_string(t.sizes()));
  for (int d = 0; d < t.sizes().rank(); ++d)
    text += t.sizes()[d] > 1 ? fmt::format(" {}", int64_t{t.strides()[d]}) : " -";
  return text;
}

enum class Compare : uint8_t { All, ValuesOnly };

std::string tensor_differs(const Tensor& expected, const Tensor& actual, double tolerance,
                           Compare what) {
  if (expected.defined() != actual.defined())
    return expected.defined() ? "expected a tensor, got none" : "expected none, got a tensor";
  if (!expected.defined()) return "";
  if (expected.dtype() != actual.dtype() || expected.sizes() != actual.sizes() ||
      (what == Compare::All && layout(expected) != layout(actual)))
    return fmt::format("expected {}, got {}", layout(expected), layout(actual));
  if (std::string text = values_differ(expected, actual, tolerance); !text.empty()) return text;
  if (what == Compare::ValuesOnly) return "";
  if (expected.requires_grad() != actual.requires_grad())
    return fmt::format("requires_grad: expected {}", expected.requires_grad());
  if (expected.is_leaf() != actual.is_leaf())
    return fmt::format("is_leaf: expected {}", expected.is_leaf());
  return tensor_differs(expected.grad(), actual.grad(), tolerance, Compare::ValuesOnly);
}

bool is_zero(const Tensor& t) {
  const auto values = t.detach().to_vector<double>();
  return std::ranges::all_of(values, [](double v) { return v == 0; });
}

/// Whether a gradient that is zero everywhere is a tensor or undefined says only how far a tape
/// looks for zeros.
std::string gradient_differs(const Tensor& expected, const Tensor& actual, double tolerance) {
  if (expected.defined() == actual.defined())
    return tensor_differs(expected, actual, tolerance, Compare::ValuesOnly);
  const Tensor& defined = expected.defined() ? expected : actual;
  return is_zero(defined) ? "" : tensor_differs(expected, actual, tolerance, Compare::ValuesOnly);
}

std::string tensors_differ(const char* name, const Tensors& expected, const Tensors& actual,
                           double tolerance, Compare what) {
  if (expected.size() != actual.size())
    return fmt::format("expected {} {}s, got {}", expected.size(), name, actual.size());
  for (size_t i = 0; i < expected.size(); ++i)
    if (std::string text = tensor_differs(expected[i], actual[i], tolerance, what); !text.empty())
      return fmt::format("{} {}: {}", name, i, text);
  return "";
}

int64_t first_byte(const Tensor& t) {
  return int64_t{t.storage_offset()} * static_cast<int64_t>(ir::size_of(t.dtype()));
}

/// "is input 2, shares memory with result 0 from byte 8 on, ...": for each result and input.
std::string relations(const Outcome& o) {
  Tensors all = o.inputs;
  all.insert(all.end(), o.results.begin(), o.results.end());
  const auto name = [&](size_t i) {
    return i < o.inputs.size() ? fmt::format("input {}", i)
                               : fmt::format("result {}", i - o.inputs.size());
  };
  std::string text;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = 0; k < i; ++k) {
      if (!all[i].defined() || !all[k].defined()) continue;
      if (all[i].is_same(all[k]))
        text += fmt::format("{} is {}, ", name(i), name(k));
      else if (all[i].shares_storage(all[k]) && (all[i].numel() == 0 || all[k].numel() == 0))
        text += fmt::format("{} shares memory with {}, ", name(i), name(k));
      else if (all[i].shares_storage(all[k]))
        text += fmt::format("{} shares memory with {} at byte {}, ", name(i), name(k),
                            first_byte(all[i]) - first_byte(all[k]));
    }
  return text;
}

std::string error_text(const std::optional<Error>& e) {
  return e ? fmt::format("{}: {}", ir::name(e->code()), e->what()) : "none";
}

}  // namespace

Tensor Source::operator()(const Tensor& values) {
  memories_.push_back(with_history(values));
  return memories_.back();
}

Tensor Source::with_history(const Tensor& values) {
  if (setting_ == Setting::Plain || !ir::is_floating(values.dtype())) return values;
  leaves_.push_back(values);
  values.requires_grad_();
  const EnableGrad grad_mode;
  return setting_ == Setting::Leaf ? values : values * 1;
}

Tensor Source::noise(const Shape& sizes, uint64_t seed, DType dtype) {
  const auto value = [](uint64_t random) {
    return static_cast<double>(random >> 11) * 0x1p-52 - 1;
  };
  return (*this)(filled(sizes, seed, value).to(dtype));
}

Tensor Source::integers(const Shape& sizes, uint64_t seed, DType dtype) {
  return (*this)(filled(sizes, seed, small_integer).to(dtype));
}

Outcome run(const Program& function, const MakeInputs& make_inputs, const RunOptions& options) {
  Outcome o;
  Source source(options.setting);
  o.inputs = make_inputs(source);
  o.leaves = source.leaves();
  o.memories = source.memories();
  for (const Tensor& t : o.inputs) o.bumps.push_back(t.version());
  try {
    const GradMode mode(options.grad_mode);
    for (int i = 0; i < options.calls; ++i) {
      const Tensors results = function(o.inputs);
      o.results.insert(o.results.end(), results.begin(), results.end());
    }
  } catch (const Error& e) {
    o.forward_error = e;
    return o;
  }
  for (size_t i = 0; i < o.inputs.size(); ++i) o.bumps[i] = o.inputs[i].version() - o.bumps[i];
  if (options.backward) run_backward(o);
  return o;
}

std::string difference(const Outcome& expected, const Outcome& actual, double tolerance) {
  if (expected.forward_error.has_value() != actual.forward_error.has_value() ||
      (expected.forward_error && expected.forward_error->code() != actual.forward_error->code()))
    return fmt::format("error: expected {}, got {}", error_text(expected.forward_error),
                       error_text(actual.forward_error));
  if (expected.forward_error) return "";
  std::string text =
      tensors_differ("result", expected.results, actual.results, tolerance, Compare::All);
  if (text.empty())
    text = tensors_differ("input", expected.inputs, actual.inputs, tolerance, Compare::All);
  if (text.empty())
    text = tensors_differ("memory", expected.memories, actual.memories, tolerance,
                          Compare::ValuesOnly);
  for (size_t i = 0; text.empty() && i < expected.inputs.size(); ++i)
    if (expected.inputs[i].storage_offset() != actual.inputs[i].storage_offset())
      text = fmt::format("input {}: expected offset {}, got {}", i,
                         int64_t{expected.inputs[i].storage_offset()},
                         int64_t{actual.inputs[i].storage_offset()});
  if (!text.empty()) return text;
  if (relations(expected) != relations(actual))
    return fmt::format("aliasing: expected {}\ngot {}", relations(expected), relations(actual));
  if (expected.bumps != actual.bumps)
    return fmt::format("versions of the inputs advance: expected by {}, got {}",
                       fmt::join(expected.bumps, ", "), fmt::join(actual.bumps, ", "));
  if (expected.backward_error) return "";
  if (actual.backward_error)
    return fmt::format("backward: expected no error, got {}", error_text(actual.backward_error));
  if (expected.gradients.size() != actual.gradients.size())
    return fmt::format("expected {} gradients, got {}", expected.gradients.size(),
                       actual.gradients.size());
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    text = gradient_differs(expected.gradients[i], actual.gradients[i], tolerance);
    if (!text.empty()) return fmt::format("gradient {}: {}", i, text);
  }
  return "";
}

std::string untouched(const Outcome& failed, const MakeInputs& make_inputs,
                      const RunOptions& options) {
  Source source(options.setting);
  const Tensors fresh = make_inputs(source);
  std::string text = tensors_differ("input", fresh, failed.inputs, 0, Compare::All);
  if (text.empty())
    text = tensors_differ("memory", source.memories(), failed.memories, 0, Compare::ValuesOnly);
  for (size_t i = 0; text.empty() && i < fresh.size(); ++i)
    if (failed.inputs[i].version() != failed.bumps[i])
      text = fmt::format("input {}: its version advanced", i);
  return text;
}

double largest_magnitude(const Outcome& o) {
  double largest = 0;
  for (const Tensors* list : {&o.inputs, &o.results, &o.gradients})
    for (const Tensor& t : *list)
      if (t.defined())
        for (double v : t.detach().to_vector<double>()) largest = std::max(largest, std::abs(v));
  return largest;
}

}  // namespace tandem::testing
