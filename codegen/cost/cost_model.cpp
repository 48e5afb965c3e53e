// The prices that the partitioner asks for: the same rough figures that the fusion planner uses.
#include <unordered_set>

#include "codegen/cost/costs.h"
#include "codegen/cost/run_time.h"
#include "codegen/library/library.h"
#include "codegen/lower.h"
#include "ir/reduction_order.h"

namespace tandem::codegen {
namespace {

using ir::EquationId;
using ir::Graph;
using ir::OpClass;
using ir::ValueId;

OpClass class_of(const Graph& g, EquationId e) { return ir::info(g.op(e)).cls; }

double elements(const Graph& g, ValueId v) {
  return g.type(v).is_token ? 0 : static_cast<double>(int64_t{ir::numel(g.type(v).sizes)});
}

double library_seconds(const CostTable& costs, const Graph& g, EquationId e) {
  std::vector<ir::Type> operands;
  for (const ValueId v : g.operands(e)) operands.push_back(g.type(v));
  return library_flops(g.op(e), g.attrs(e), operands, g.type(g.result(e))) / costs.library_flops;
}

double contraction_seconds(const CostTable& costs, const Graph& g, EquationId e) {
  if (!ir::has_attr(g.op(e), ir::Attr::algorithm)) return library_seconds(costs, g, e);
  // operands [.., m, k] and [.., k, n], the last two of the equation
  const auto operands = g.operands(e);
  const ir::Shape& a = g.type(operands[operands.size() - 2]).sizes;
  const double flops = 2 * elements(g, g.result(e)) * static_cast<double>(int64_t{a.back()});
  const bool library = g.type(g.result(e)).dtype == ir::DType::F32;
  return flops / (library ? costs.library_flops : costs.generated_flops);
}

double arithmetic_seconds(const CostTable& costs, const Graph& g, EquationId e) {
  const auto element = [&](ir::Op op) { return 1e-9 * costs.element_ns[static_cast<size_t>(op)]; };
  switch (class_of(g, e)) {
    case OpClass::View:
    case OpClass::Factory:
      return 0;
    case OpClass::Contraction:
      return contraction_seconds(costs, g, e);
    case OpClass::Reduction:
      return element(ir::Op::add) * elements(g, g.operand(e, 0));
    case OpClass::Scan:
      return 1e-9 * kScanCost * elements(g, g.operand(e, 0));
    case OpClass::Linalg:
      return matrix_seconds(g.type(g.operand(e, 0)).sizes);
    case OpClass::Index:
      return 1e-9 * costs.indirect_ns * elements(g, g.operands(e).back());
    default:
      return element(g.op(e)) * elements(g, g.result(e));
  }
}

/// Whether a reduction's results are known to the kernel that computes them: whole rows, by one
/// thread each.
bool stays_in_kernel(const Graph& g, EquationId e) {
  const auto run =
      ir::reduction_run(g.type(g.operand(e, 0)).sizes, g.attr<ir::Axes>(e, ir::Attr::dims));
  return run.inner == 1 && (run.outer >= 16 || run.n <= 8192);
}

bool is_free(OpClass c) { return c == OpClass::View || c == OpClass::Factory; }

class Model final : public ir::CostModel {
 public:
  explicit Model(const CostTable& costs) : costs_(costs) {}

  double seconds(const Graph& g, std::span<const EquationId> equations) const override {
    std::unordered_set<uint32_t> inside, read;
    double seconds = 0;
    for (EquationId e : equations)
      for (ValueId v : g.results(e)) inside.insert(v.index);
    for (EquationId e : equations) {
      seconds += arithmetic_seconds(costs_, g, e);
      if (is_free(class_of(g, e))) continue;
      for (ValueId v : g.operands(e)) {
        if (inside.contains(v.index) || g.type(v).is_token || !read.insert(v.index).second)
          continue;
        const auto bytes = static_cast<double>(int64_t{ir::size_in_bytes(g.type(v))});
        seconds += transfer_seconds(bytes, bytes);
      }
    }
    return seconds;
  }

  double compute_seconds(const Graph& g, EquationId e) const override {
    return arithmetic_seconds(costs_, g, e);
  }

  double transfer_seconds(double bytes, double reach) const override {
    return codegen::transfer_seconds(costs_, bytes, reach);
  }

  int64_t arena_bytes(const Graph& half) const override { return lower(half).arena_bytes; }

  double run_seconds(const Graph& half) const override {
    return codegen::run_seconds(costs_, half);
  }

  bool may_fuse(const Graph& g, EquationId producer, EquationId consumer) const override {
    const OpClass from = class_of(g, producer), to = class_of(g, consumer);
    if (is_free(from)) return true;
    if (from == OpClass::Contraction || to == OpClass::Contraction) return false;
    const auto stands_alone = [](OpClass c) {
      return c == OpClass::Control || c == OpClass::External || c == OpClass::Scan ||
             c == OpClass::Linalg;
    };
    if (from == OpClass::Shape || stands_alone(from) || stands_alone(to)) return false;
    if (from == OpClass::Index) return !writes(g, producer) && to != OpClass::Index;
    if (to == OpClass::Index) return reads_by_index_only(g, producer, consumer);
    if (from == OpClass::Reduction)
      return stays_in_kernel(g, producer) && to != OpClass::Reduction && to != OpClass::Shape;
    return true;
  }

 private:
  /// index_add and the scatters: three operands.
  static bool writes(const Graph& g, EquationId e) { return g.operands(e).size() == 3; }

  /// A gather can compute its index on the way, not its table.
  static bool reads_by_index_only(const Graph& g, EquationId producer, EquationId gather) {
    return !writes(g, gather) && g.producer(g.operand(gather, 0)) != producer;
  }

  const CostTable costs_;
};

}  // namespace

std::unique_ptr<ir::CostModel> make_cost_model() {
  return std::make_unique<Model>(machine_costs());
}

}  // namespace tandem::codegen
