#include "tests/support/differential.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "ir/base/error.h"
#include "ir/interpreter/interpret.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "partition/partition.h"
#include "runtime/backends/backends.h"
#include "tests/support/run_eager.h"
#include "tools/graph_runner.h"
#include "tools/memory.h"

namespace tandem::testing {
namespace {

using ir::Op;
using tools::Tensors;

// --- the perturbed reference

bool is_exact(Op op) {
  static constexpr Op kExact[] = {
      Op::neg,           Op::abs,     Op::clone,         Op::convert,       Op::where,
      Op::maximum,       Op::minimum, Op::stop_gradient, Op::stop_backward, Op::keep_history,
      Op::keep_backward, Op::amax,    Op::amin};
  const ir::OpClass cls = ir::info(op).cls;
  const bool rounds = cls == ir::OpClass::Pointwise || cls == ir::OpClass::Reduction ||
                      cls == ir::OpClass::Contraction || cls == ir::OpClass::Scan ||
                      cls == ir::OpClass::Linalg || op == Op::index_add || op == Op::scatter_add ||
                      op == Op::scatter_prod;
  return !rounds || std::ranges::find(kExact, op) != std::end(kExact);
}

/// Floating results that jump where a comparison would.
bool is_step(Op op) {
  static constexpr Op kSteps[] = {Op::sign,  Op::floor, Op::ceil,
                                  Op::round, Op::trunc, Op::floor_divide};
  return std::ranges::find(kSteps, op) != std::end(kSteps);
}

/// The values that linear algebra reads, itself or through views.
ir::ValueMap<bool> linalg_operands(const ir::Graph& graph) {
  ir::ValueMap<bool> all(graph, false);
  for (const ir::Equation& e : graph.equations()) {
    if (ir::info(e.op).cls != ir::OpClass::Linalg) continue;
    for (ir::ValueId v : graph.operands(e)) {
      for (ir::EquationId by = graph.producer(v); by.valid() && ir::is_view(graph.op(by));
           by = graph.producer(v))
        v = graph.operand(by, 0);
      all[v] = true;
    }
  }
  return all;
}

/// What the program decided: its integers, bools and steps, in order, and by how much: the
/// differences of what it compared.
struct Decisions {
  std::vector<uint64_t> made;
  std::vector<double> margins;
};

bool is_comparison(Op op) {
  static constexpr Op kComparisons[] = {Op::eq, Op::ne, Op::lt, Op::le, Op::gt, Op::ge};
  return std::ranges::find(kComparisons, op) != std::end(kComparisons);
}

/// Whether roundings decide a comparison though none that was tried turned it: values that differ
/// by less than they move may be equal.
bool has_near(const Decisions& exact, const Decisions& moved) {
  for (size_t i = 0; i < exact.margins.size(); ++i) {
    const double noise = std::abs(moved.margins[i] - exact.margins[i]);
    if (noise > 0 && std::abs(exact.margins[i]) <= 4 * noise) return true;
  }
  return false;
}

/// The interpreter, with every rounding moved by up to `unit` of the result.
class PerturbingBackend final : public ir::Backend {
 public:
  PerturbingBackend(uint64_t seed, double unit) : random_(seed), unit_(unit) {}
  std::string name() const override { return "perturbing"; }
  std::unique_ptr<ir::Executable> compile(const ir::Graph& graph) const override {
    return std::make_unique<Perturbed>(*this, graph);
  }
  const Decisions& decisions() const { return decisions_; }

 private:
  class Perturbed final : public ir::Executable {
   public:
    Perturbed(const PerturbingBackend& owner, ir::Graph graph)
        : owner_(owner), graph_(std::move(graph)) {}
    void run(std::span<void* const> inputs, std::span<void* const> outputs) const override {
      std::vector<ir::Buffer> buffers;
      const ir::ValueMap<bool> matrices = linalg_operands(graph_);
      for (const auto& input : ir::input_views(graph_, inputs)) {
        buffers.push_back(ir::copy_of(input));
        owner_.move(buffers.back());  // what a sum of it loses by cancellation
        if (matrices[graph_.inputs()[buffers.size() - 1].value]) owner_.move_all(buffers.back());
      }
      ir::InterpretOptions options;
      options.after_equation = [&](const ir::Evaluated& e, ir::Buffer& result) {
        owner_.observe(e, result);
        const ir::Graph& g = e.graph;
        if (&g == &graph_ && std::ranges::any_of(g.results(e.equation), [&](ir::ValueId v) {
              return matrices[v] && g.type(v) == result.type();
            }))
          owner_.move_all(result);
      };
      std::vector<ir::Buffer> results = ir::interpret(graph_, buffers, options);
      const std::vector<ir::BufferView> views = ir::output_views(graph_, outputs);
      for (size_t k = 0; k < results.size(); ++k) tools::copy_elements(results[k].view(), views[k]);
    }
    int output_from_input(int) const override { return -1; }
    ir::ExecutableReport report() const override { return {}; }

   private:
    const PerturbingBackend& owner_;
    ir::Graph graph_;
  };

  void observe(const ir::Evaluated& e, ir::Buffer& result) const {
    const Op op = e.graph.op(e.equation);
    if (is_comparison(op)) record_margins(e.operand(0), e.operand(1));
    if (!ir::is_floating(result.dtype()) || is_step(op))
      record(result);
    else if (!is_exact(op) || (op == Op::convert && unit_ > 0x1p-24))  // to halves it rounds
      move(result);
  }

  void record_margins(const ir::Buffer& a, const ir::Buffer& b) const {
    if (!ir::is_floating(a.dtype())) return;
    for (int64_t i = 0; i < a.numel(); ++i)
      decisions_.margins.push_back(a.at(i).to_double() - b.at(i).to_double());
  }

  void record(const ir::Buffer& decided) const {
    for (int64_t i = 0; i < decided.numel(); ++i) {
      const ir::Number v = decided.at(i);
      decisions_.made.push_back(v.is_float() ? std::bit_cast<uint64_t>(v.to_double())
                                             : static_cast<uint64_t>(v.to_int()));
    }
  }

  void move(ir::Buffer& values) const {
    if (!ir::is_floating(values.dtype())) return;
    // (f32 are the draws' equations, and floats made of integers.)
    const double unit = values.dtype() == ir::DType::F64 ? unit_ : std::min(unit_, 0x1p-24);
    for (int64_t i = 0; i < values.numel(); ++i)
      values.set(i, moved(values.at(i).to_double(), unit));
  }

  /// Each matrix by units of its norm in each element: what LAPACK gives is right for a matrix that
  /// differs by about n units of its norm (Higham, Accuracy and Stability, theorem 19.4).
  void move_all(ir::Buffer& values) const {
    if (unit_ == 0 || !ir::is_floating(values.dtype())) return;
    const ir::Shape& sizes = values.sizes();
    int64_t elements = 1;  // of a matrix
    for (size_t d = sizes.size() > 2 ? sizes.size() - 2 : 0; d < sizes.size(); ++d)
      elements *= sizes[d];
    for (int64_t first = 0; first < values.numel(); first += elements)
      move_matrix(values, first, first + elements);
  }

  void move_matrix(ir::Buffer& values, int64_t begin, int64_t end) const {
    double norm = 0;
    for (int64_t i = begin; i < end; ++i) norm = std::hypot(norm, values.at(i).to_double());
    for (int64_t i = begin; i < end; ++i)
      values.set(i, values.at(i).to_double() + (random_() % 2 ? unit_ : -unit_) * norm);
  }

  /// (1 + half a unit of f64 would be 1. A zero keeps its sign.)
  double moved(double v, double unit) const {
    const double signed_unit = random_() % 2 ? unit : -unit;
    return std::isfinite(v) && v != 0 ? std::fma(v, signed_unit, v) : v;
  }

  mutable std::mt19937_64 random_;
  double unit_;
  mutable Decisions decisions_;
};

/// Half a unit in the last place of 1, of the coarsest dtype of the graph.
double coarsest_unit(const ir::Graph& graph) {
  double unit = 0x1p-53;
  for (uint32_t v = 0; v < graph.num_values(); ++v) {
    const ir::DType dtype = graph.type({v}).dtype;
    if (!ir::is_floating(dtype)) continue;
    unit = std::max(unit, dtype == ir::DType::F64   ? 0x1p-53
                          : dtype == ir::DType::F32 ? 0x1p-24
                          : dtype == ir::DType::F16 ? 0x1p-11
                                                    : 0x1p-8);
  }
  return unit;
}

/// Whether something other than a draw is floating, but not f64.
bool rounds_to_less(const ir::Graph& graph) {
  return std::ranges::any_of(graph.equations(), [&](const ir::Equation& e) {
    return ir::info(e.op).cls != ir::OpClass::Random &&
           std::ranges::any_of(graph.results(e), [&](ir::ValueId v) {
             const ir::DType dtype = graph.type(v).dtype;
             return ir::is_floating(dtype) && dtype != ir::DType::F64;
           });
  });
}

// --- running

/// In the dtypes of `wide`'s inputs and outputs.
Tensors widened(const Tensors& tensors, const ir::Graph& wide) {
  Tensors all;
  const auto add = [&](const std::string& name, ir::ValueId v) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) return;
    ir::Buffer copy(wide.type(v));
    for (int64_t i = 0; i < copy.numel(); ++i) copy.set(i, found->second.at(i));
    all.emplace(name, std::move(copy));
  };
  for (const ir::Input& input : wide.inputs()) add(input.name, input.value);
  for (const ir::Output& output : wide.outputs()) add("tangent:" + output.name, output.value);
  return all;
}

Tensors run(const ir::Graph& graph, const Tensors& tensors, const ir::Backend& backend,
            std::string_view partition) {
  const auto partitioner = partition::make_partitioner(partition);
  const bool grad = std::ranges::any_of(graph.outputs(), &ir::Output::requires_grad);
  return tools::run_graph(graph, tensors, {&backend, partitioner.get(), grad, 0});
}

/// Results and final inputs by the Traced graph's own meaning.
Tensors interpret_traced(const ir::Graph& graph, const Tensors& tensors) {
  std::vector<ir::Buffer> inputs;
  for (const ir::Input& input : graph.inputs())
    inputs.push_back(input.alias_of ? ir::Buffer() : tensors.at(input.name));
  const std::vector<ir::Buffer> outputs = ir::interpret(graph, inputs);
  Tensors results;
  for (size_t k = 0; k < outputs.size(); ++k) results.emplace(graph.outputs()[k].name, outputs[k]);
  for (size_t i = 0; i < inputs.size(); ++i)
    results.emplace("mutated:" + graph.inputs()[i].name, inputs[i]);
  return results;
}

// --- comparing

double largest(const ir::Buffer& b) {
  double m = 0;
  for (int64_t i = 0; i < b.numel(); ++i) m = std::max(m, std::abs(b.at(i).to_double()));
  return m;
}

/// The largest difference; infinite where one of both is not finite or they have different sizes.
double difference(const ir::Buffer& a, const ir::Buffer& b) {
  if (a.sizes() != b.sizes()) return INFINITY;
  double worst = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double d = std::abs(a.at(i).to_double() - b.at(i).to_double());
    worst = std::max(worst, std::isnan(d) ? INFINITY : d);
  }
  return worst;
}

bool same_bits(const ir::Buffer& a, const ir::Buffer& b) {
  if (a.type() != b.type()) return false;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const ir::Number x = a.at(i), y = b.at(i);
    if (!(x == y)) return false;
  }
  return true;
}

bool all_finite(const Tensors& tensors) {
  for (const auto& [name, buffer] : tensors)
    for (int64_t i = 0; i < buffer.numel(); ++i)
      if (!std::isfinite(buffer.at(i).to_double())) return false;
  return true;
}

class Check {
 public:
  Check(const RandomProgram& program, const RandomProgram& wide, uint64_t seed,
        uint64_t perturbations)
      : seed_(seed), perturbations_(perturbations), program_(program), wide_(wide) {
    ir::verify(program_.graph);
    inputs_ = random_tensors(program_, seed);
    wide_inputs_ = widened(inputs_, wide_.graph);
    unit_ = coarsest_unit(program_.graph);
    rounds_ = rounds_to_less(wide_.graph);
  }

  Verdict run() {
    verdict_.features = program_.features;
    try {
      compare();
    } catch (const std::exception& e) {
      differ(fmt::format("threw: {}", e.what()));
    }
    return verdict_;
  }

 private:
  void compare() {
    const PerturbingBackend exact(0, 0);
    reference_ = testing::run(wide_.graph, wide_inputs_, exact, "default");
    if (!rounds_) compare_with_traced();
    if (!is_stable(exact.decisions())) {
      verdict_.kind = Verdict::Kind::Unstable;
      return;
    }
    if (rounds_) compare_with_traced();
    interpreted_ =
        testing::run(program_.graph, inputs_, *runtime::interpreter_backend(), "default");
    const Tensors jit = testing::run(program_.graph, inputs_, *runtime::jit_backend(), "default");
    agree("interpreter", interpreted_);
    agree("jit", jit);
    compare_partitions(jit);
    compare_eager();
  }

  /// The pipeline in f64 against the Traced graph in f64.
  void compare_with_traced() {
    const Tensors traced = interpret_traced(wide_.graph, wide_inputs_);
    for (const auto& [name, expected] : traced) {
      const auto found = reference_.find(name);
      if (found == reference_.end()) {
        require_unwritten(name, expected);
        continue;
      }
      const double rounding = rounds_ ? 17 * unit_ * largest(expected) + 4 * changes_[name] : 0,
                   tolerance = 1e-9 * (1 + largest(expected)) + rounding;
      if (const double d = difference(found->second, expected); d > tolerance)
        differ(fmt::format("{}: pipeline and traced graph differ by {} in f64", name, d));
    }
  }

  /// An input that the pipeline does not write keeps its contents (an alias: its owner does).
  void require_unwritten(const std::string& name, const ir::Buffer& final_contents) {
    const auto input = wide_inputs_.find(name.substr(std::string_view("mutated:").size()));
    if (input != wide_inputs_.end() && !same_bits(final_contents, input->second))
      differ(fmt::format("{}: the pipeline does not write it", name));
  }

  bool is_stable(const Decisions& expected) {
    if (!all_finite(reference_)) return false;
    for (uint64_t k = 1; k <= perturbations_; ++k) {
      const PerturbingBackend backend(seed_ * 2 + k, unit_);
      Tensors moved;
      try {
        moved = testing::run(wide_.graph, wide_inputs_, backend, "default");
      } catch (const ir::Error&) {  // a place moved out of its dimension, a matrix lost its factors
        return false;
      }
      if (backend.decisions().made != expected.made || has_near(expected, backend.decisions()))
        return false;
      for (const auto& [name, buffer] : moved)
        changes_[name] = std::max(changes_[name], difference(buffer, reference_.at(name)));
    }
    return true;
  }

  void agree(const char* who, const Tensors& got) {
    for (const auto& [name, expected] : reference_) {
      const auto found = got.find(name);
      if (found == got.end()) {
        differ(fmt::format("{}: no {}", who, name));
        continue;
      }
      if (name.starts_with(kDrawn)) {
        if (!same_bits(found->second, expected))
          differ(fmt::format("{}: {} has other bits than the reference", who, name));
        continue;
      }
      const bool is_float = ir::is_floating(expected.dtype());
      const double own = difference(interpreted_.at(name), expected);
      // An f64 program has no wider reference, so `own` is 0 and cannot show how far honest
      // rounding goes.
      const double units = program_.floating == ir::DType::F64 ? 4096 : 17;
      const double tolerance =
          is_float ? 2 * own + units * unit_ * largest(expected) + 4 * changes_[name] : 0;
      const double d = difference(found->second, expected);
      if (!(d <= tolerance))
        differ(
            fmt::format("{}: {} differs by {} from the f64 reference; expected at most {} (the "
                        "interpreter differs by {})",
                        who, name, d, tolerance, own));
    }
  }

  /// Gradients and results are the same bits whatever is saved.
  void compare_partitions(const Tensors& jit) {
    static constexpr const char* kOthers[] = {"reference", "save-all", "recompute-all"};
    const char* other = kOthers[seed_ % 3];
    const Tensors again = testing::run(program_.graph, inputs_, *runtime::jit_backend(), other);
    for (const auto& [name, buffer] : jit)
      if (!same_bits(buffer, again.at(name)))
        differ(fmt::format("{}: other bits with partition {}", name, other));
  }

  void compare_eager() {
    Tensors eager;
    try {
      eager = run_eager(program_.graph, inputs_);
    } catch (const ir::Error& e) {
      if (!may_refuse(e)) differ(fmt::format("eager threw: {}", e.what()));
      return;
    }
    verdict_.ran_eagerly = true;
    agree("eager", eager);
  }

  /// Eager refuses backward where what the tape saved was written, and views of memory that lies
  /// otherwise than the graph says.
  static bool may_refuse(const ir::Error& e) {
    const std::string_view why = e.what();
    return e.code() == ir::Errc::Version || why.starts_with("view_dtype: ") ||
           why.starts_with("as_strided: operand is not contiguous");
  }

  void differ(const std::string& what) {
    if (verdict_.kind != Verdict::Kind::Differ)
      verdict_.message = fmt::format("seed {}\n{}\n{}", seed_, fmt::join(program_.samples, "\n"),
                                     ir::print(program_.graph));
    verdict_.kind = Verdict::Kind::Differ;
    verdict_.message += what + "\n";
  }

  uint64_t seed_, perturbations_;
  const RandomProgram &program_, &wide_;
  double unit_;          // half a unit in the last place of 1
  bool rounds_ = false;  // the wide program too: floats that it makes of integers are f32
  Tensors inputs_, wide_inputs_, reference_, interpreted_;
  std::map<std::string, double> changes_;
  Verdict verdict_;
};

// --- gradients

/// Whether some equation's gradient is by design not the derivative, but ATen's: of scatter where
/// several elements fall on one place, of clamp between a bound and itself.
bool cuts_gradients(const ir::Graph& graph) {
  return std::ranges::any_of(graph.equations(), [&](const ir::Equation& e) {
    const bool is_point = e.op == Op::clamp && graph.operands(e)[1] == graph.operands(e)[2];
    return is_point || !e.grad_enabled || e.op == Op::detach || e.op == Op::detach_copy ||
           e.op == Op::stop_gradient || e.op == Op::stop_backward || e.op == Op::keep_history ||
           e.op == Op::keep_backward || e.op == Op::scatter;
  });
}

/// The gradients of one program in f64, along one direction.
class GradientCheck {
 public:
  explicit GradientCheck(uint64_t seed)
      : seed_(seed), program_(random_program(seed, {.widened = true, .samples = true})) {
    const RandomProgram narrow = random_program(seed, {.samples = true});
    inputs_ = widened(random_tensors(narrow, seed), program_.graph);
    std::mt19937_64 random(seed);
    for (const ir::Input& input : program_.graph.inputs())
      if (input.requires_grad &&
          std::ranges::find(input.strides, ir::Dim(0)) == input.strides.end())
        directions_.emplace(input.name, signs(input, random));  // (repeated elements move together)
  }

  GradientVerdict run() {
    return against([this](double tolerance) {
      const double got = slope(kStep), coarser = slope(2 * kStep);
      return std::pair{got, tolerance + 8 * std::abs(got - coarser)};
    });
  }

  GradientVerdict run_forward() {
    const auto moves = [&](const ir::Input& i) {
      return i.alias_of && directions_.contains(i.name);
    };
    if (std::ranges::any_of(program_.graph.inputs(), moves)) return {};  // as its base, and alone
    return against([this](double tolerance) {
      slope(kStep);  // is a decision near?
      const Tensors moved = run_moving(program_.graph, inputs_, directions_);
      double sum = 0;
      for (const ir::Output& output : program_.graph.outputs())
        if (output.requires_grad)
          sum += dot(moved.at("moved:" + output.name), inputs_.at("tangent:" + output.name));
      return std::pair{sum, tolerance};
    });
  }

 private:
  static constexpr double kStep = 1e-6;

  /// `derivative`: of the results along the direction, by another way, and how far it may be off.
  template <class Derivative>
  GradientVerdict against(Derivative derivative) {
    GradientVerdict verdict;
    const bool has_gradients =
        !directions_.empty() &&
        std::ranges::any_of(program_.graph.outputs(), &ir::Output::requires_grad);
    if (!has_gradients || cuts_gradients(program_.graph) || rounds_to_less(program_.graph))
      return verdict;
    const Tensors results = run_at(0);
    const double expected = along(results), size = magnitude(results);
    const auto [got, tolerance] = derivative(1e-6 * (1 + size));
    // (Forwards and backwards 0 meets an infinite slope at other places.)
    verdict.compared = same_decisions_ && all_finite(results) && std::isfinite(got);
    if (verdict.compared && !(std::abs(got - expected) <= tolerance))
      verdict.difference = fmt::format(
          "seed {}\n{}\n{}by gradients {}, the other way {}; expected at most {} between them",
          seed_, fmt::join(program_.samples, "\n"), ir::print(program_.graph), expected, got,
          tolerance);
    return verdict;
  }

  ir::Buffer signs(const ir::Input& input, std::mt19937_64& random) const {
    ir::Buffer buffer(program_.graph.type(input.value));
    for (int64_t i = 0; i < buffer.numel(); ++i) buffer.set(i, random() % 2 ? 1.0 : -1.0);
    return buffer;
  }

  Tensors run_at(double step) {
    Tensors moved = inputs_;
    for (const auto& [name, direction] : directions_)
      for (int64_t i = 0; i < direction.numel(); ++i)
        moved.at(name).set(i,
                           moved.at(name).at(i).to_double() + step * direction.at(i).to_double());
    const PerturbingBackend exact(0, 0);
    Tensors results = testing::run(program_.graph, moved, exact, "default");
    if (step == 0) decisions_ = exact.decisions();
    same_decisions_ &= exact.decisions().made == decisions_.made;
    return results;
  }

  double slope(double step) {
    return (weighted(run_at(step)) - weighted(run_at(-step))) / (2 * step);
  }

  /// The sum of the results, each times its tangent.
  double weighted(const Tensors& results) const {
    double sum = 0;
    for (const ir::Output& output : program_.graph.outputs())
      if (output.requires_grad)
        sum += dot(results.at(output.name), inputs_.at("tangent:" + output.name));
    return sum;
  }
  double along(const Tensors& results) const {
    double sum = 0;
    for (const auto& [name, direction] : directions_)
      sum += dot(results.at("grad:" + name), direction);
    return sum;
  }
  double magnitude(const Tensors& results) const {
    double sum = std::abs(weighted(results));
    for (const auto& [name, direction] : directions_) {
      const ir::Buffer& gradient = results.at("grad:" + name);
      for (int64_t i = 0; i < gradient.numel(); ++i) sum += std::abs(gradient.at(i).to_double());
    }
    return sum;
  }
  static double dot(const ir::Buffer& a, const ir::Buffer& b) {
    double sum = 0;
    for (int64_t i = 0; i < a.numel(); ++i) sum += a.at(i).to_double() * b.at(i).to_double();
    return sum;
  }

  uint64_t seed_;
  RandomProgram program_;
  Tensors inputs_, directions_;
  Decisions decisions_;
  bool same_decisions_ = true;
};

}  // namespace

GradientVerdict check_gradient(uint64_t seed) {
  try {
    return GradientCheck(seed).run();
  } catch (const ir::Error&) {  // what a step moves out of its domain
    return {};
  }
}

GradientVerdict check_tangents(uint64_t seed) {
  try {
    return GradientCheck(seed).run_forward();
  } catch (const ir::Error&) {  // what a step moves out of its domain, or forward mode refuses
    return {};
  }
}

namespace {

/// What vmap refuses though a loop does not: writes of what is the same for all, views of memory
/// that an example does not know.
bool vmap_may_refuse(const ir::Error& e) {
  return e.code() == ir::Errc::Unsupported || e.code() == ir::Errc::Mutation ||
         std::string_view(e.what()).starts_with("as_strided") ||
         std::string_view(e.what()).find("rng has the wrong type") != std::string_view::npos;
}

/// One program in f64 on several inputs, under vmap and one by one.
class VmapCheck {
 public:
  explicit VmapCheck(uint64_t seed)
      : seed_(seed), program_(random_program(seed, {.widened = true, .samples = true})) {
    const RandomProgram narrow = random_program(seed, {.samples = true});
    for (uint64_t k = 0; k < 3; ++k)
      examples_.push_back(widened(random_tensors(narrow, seed + k * 7919), program_.graph));
    std::mt19937_64 random(seed);
    for (const ir::Input& input : program_.graph.inputs())
      if (input.role == ir::Role::Rng || random() % 4 == 0) share(input.name);
  }

  GradientVerdict run() {
    std::vector<Tensors> expected, got;
    for (const Tensors& example : examples_) expected.push_back(run_eager(program_.graph, example));
    try {
      got = run_batched(program_.graph, examples_, shared_);
    } catch (const ir::Error& e) {
      if (!vmap_may_refuse(e)) differ(fmt::format("vmap threw: {}", e.what()));
      return verdict_;
    }
    verdict_.compared = true;
    for (size_t k = 0; k < got.size(); ++k) compare(k, expected[k], got[k]);
    return verdict_;
  }

 private:
  void share(const std::string& name) {
    shared_.insert(name);
    for (Tensors& example : examples_)
      if (const auto found = example.find(name); found != example.end())
        found->second = examples_[0].at(name);
  }

  void compare(size_t example, const Tensors& expected, const Tensors& got) {
    for (const auto& [name, buffer] : expected)
      for (int64_t i = 0; i < buffer.numel(); ++i) {
        const double e = buffer.at(i).to_double(), g = got.at(name).at(i).to_double();
        const bool is_close = e == g || (std::isnan(e) && std::isnan(g)) ||
                              std::abs(e - g) <= 1e-7 * (1 + std::abs(e));
        if (!is_close)
          return differ(
              fmt::format("example {}: {}[{}] is {}, in a loop {}", example, name, i, g, e));
      }
  }

  void differ(const std::string& what) {
    if (verdict_.difference.empty())
      verdict_.difference = fmt::format("seed {}\n{}\n{}the same for all: {}\n{}", seed_,
                                        fmt::join(program_.samples, "\n"),
                                        ir::print(program_.graph), fmt::join(shared_, " "), what);
  }

  uint64_t seed_;
  RandomProgram program_;
  std::vector<Tensors> examples_;
  std::set<std::string> shared_;
  GradientVerdict verdict_;
};

}  // namespace

GradientVerdict check_vmap(uint64_t seed) {
  try {
    return VmapCheck(seed).run();
  } catch (const ir::Error&) {  // what eager refuses
    return {};
  }
}

Verdict check_program(const RandomProgram& program, const RandomProgram& widened, uint64_t seed) {
  // How far roundings go is known better by more of them.
  const Verdict verdict = Check(program, widened, seed, 2).run();
  if (verdict.kind != Verdict::Kind::Differ) return verdict;
  return Check(program, widened, seed, 16).run();
}

Verdict check_program(uint64_t seed) {
  try {
    return check_program(random_program(seed, {.samples = true}),
                         random_program(seed, {.widened = true, .samples = true}), seed);
  } catch (const std::exception& e) {
    Verdict verdict;
    verdict.kind = Verdict::Kind::Differ;
    verdict.message = fmt::format("seed {}: the generator threw: {}", seed, e.what());
    return verdict;
  }
}

void Tally::add(const Verdict& verdict) {
  if (verdict.kind == Verdict::Kind::Unstable) {
    ++unstable;
    return;
  }
  ++programs;
  eager += verdict.ran_eagerly;
  reductions += verdict.features.reduction;
  contractions += verdict.features.contraction;
  view_writes += verdict.features.view_write;
  random += verdict.features.random;
}

std::string Tally::summary() const {
  const auto share = [](int part, int all) { return all ? 100.0 * part / all : 0; };
  return fmt::format(
      "{} programs ({:.0f}% with reductions, {:.0f}% with contractions, {:.0f}% with writes "
      "through views, {:.0f}% with random numbers; {:.0f}% also ran eagerly); {:.1f}% redrawn as "
      "unstable",
      programs, share(reductions, programs), share(contractions, programs),
      share(view_writes, programs), share(random, programs), share(eager, programs),
      share(unstable, programs + unstable));
}

}  // namespace tandem::testing
