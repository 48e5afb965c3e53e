#include "tests/support/partition_bits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>

#include "codegen/exec/plan_runner.h"
#include "codegen/jit/compile.h"
#include "codegen/lower.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "partition/analysis.h"
#include "partition/partition.h"
#include "runtime/compile/pipeline.h"
#include "tests/support/graph_testing.h"
#include "tests/support/plan_interpreter.h"
#include "tests/support/random/random_graph.h"
#include "tests/support/random/random_matrices.h"
#include "tests/support/threads.h"
#include "tools/memory.h"

namespace tandem::testing {
namespace {

using graph_testing::Buffers;
using ir::Graph;
using ir::ValueId;

/// The pipeline up to the partition, and contents of some inputs.
struct Compiled {
  CompiledGraphs graphs;
  std::map<std::string, ir::Buffer> contents;

  Buffers inputs(uint64_t seed) const {
    Buffers all = graph_testing::random_inputs(graphs.core, static_cast<uint32_t>(seed));
    for (size_t i = 0; i < all.size(); ++i)
      if (const auto found = contents.find(graphs.core.inputs()[i].name); found != contents.end())
        all[i] = found->second;
    return all;
  }
};

/// Every second program is of small matrices with dropout.
Compiled compiled(uint64_t seed) {
  const auto partitioner = partition::make_partitioner("default");
  const runtime::PipelineOptions options{.partitioner = partitioner.get()};
  if (seed % 2 == 0)
    return {runtime::run_pipeline_from_functional(
                graph_testing::random_functional(static_cast<uint32_t>(seed / 2)), options),
            {}};
  RandomProgram program = random_program(seed / 2, {.samples = true});
  return {runtime::run_pipeline(std::move(program.graph), options), std::move(program.contents)};
}

/// A plan whose launches are split as finely as they can be.
codegen::Plan finely_split_plan(const Graph& graph) {
  codegen::Plan plan = codegen::lower(graph);
  for (codegen::Step& step : plan.steps)
    if (auto* launch = std::get_if<codegen::Launch>(&step)) launch->grain = 1;
  return plan;
}

/// One half as machine code.
class Jitted {
 public:
  Jitted(const Graph& graph, codegen::Plan plan) : graph_(graph) {
    jit::CompiledKernels code = jit::compile_kernels(plan.kernels);
    executable_ =
        exec::make_executable(std::move(plan), {std::move(code.functions), std::move(code.owner),
                                                std::move(code.numbers), std::move(code.params)});
  }

  Buffers run(const Buffers& inputs) const {
    std::vector<tools::StridedBuffer> memory, results;
    std::vector<ir::BufferView> in, out;
    for (size_t i = 0; i < inputs.size(); ++i) {
      memory.emplace_back(inputs[i].type(), graph_.inputs()[i].strides);
      tools::copy_elements(const_cast<ir::Buffer&>(inputs[i]).view(), memory.back().view());
      in.push_back(memory.back().view());
    }
    for (size_t o = 0; o < graph_.outputs().size(); ++o) {
      const int same = executable_->output_from_input(static_cast<int>(o));
      const ir::Output& output = graph_.outputs()[o];
      results.emplace_back(graph_.type(output.value), output.strides);
      out.push_back(same < 0 ? results.back().view() : in[static_cast<size_t>(same)]);
    }
    executable_->run(ir::addresses_of(in), ir::addresses_of(out));
    Buffers copies;
    for (const ir::BufferView& view : out) copies.push_back(ir::copy_of(view));
    return copies;
  }

 private:
  const Graph& graph_;
  std::unique_ptr<ir::Executable> executable_;
};

Buffers run_jit(const Graph& graph, const Buffers& inputs) {
  return Jitted(graph, codegen::lower(graph)).run(inputs);
}

Buffers run_plan(const Graph& graph, const Buffers& inputs) {
  const codegen::Plan plan = codegen::lower(graph);
  return test::PlanInterpreter(plan).run(inputs).outputs;
}

/// The first element whose bits differ (any NaN equals any NaN), or nothing.
std::string first_difference(const Buffers& a, const Buffers& b) {
  for (size_t k = 0; k < a.size(); ++k)
    for (int64_t i = 0; i < a[k].numel(); ++i) {
      const ir::Number p = a[k].at(i), q = b[k].at(i);
      if (p.is_float() ? !graph_testing::same_bits(p.to_double(), q.to_double())
                       : p.to_int() != q.to_int())
        return fmt::format("output {} element {}: {:a} and {:a}", k, i, p.to_double(),
                           q.to_double());
    }
  return "";
}

using RunHalf = std::function<Buffers(const Graph& half, const Buffers& inputs)>;

/// (outputs, gradients), in the joint graph's order.
Buffers run_halves(const Graph& core, const Buffers& inputs, const Graph& forward,
                   const Graph& backward, const RunHalf& run_half) {
  Buffers primals, tangents, backward_inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    (partition::is_tangent(core.inputs()[i]) ? tangents : primals).push_back(inputs[i]);
  const Buffers values = run_half(forward, primals);
  Buffers all;
  for (size_t o = 0; o < values.size(); ++o)
    if (forward.outputs()[o].role != ir::Role::Saved) all.push_back(values[o]);
  if (tangents.empty()) return all;
  for (const ir::Input& input : backward.inputs())
    if (input.role == ir::Role::Saved)
      backward_inputs.push_back(values[static_cast<size_t>(input.target)]);
  backward_inputs.insert(backward_inputs.end(), tangents.begin(), tangents.end());
  for (ir::Buffer& gradient : run_half(backward, backward_inputs))
    all.push_back(std::move(gradient));
  return all;
}

class Cuts {
 public:
  Cuts(uint64_t seed, bool with_jit)
      : seed_(seed),
        run_half_(with_jit ? run_jit : run_plan),
        compiled_(compiled(seed)),
        analysis_(graphs_.core),
        inputs_(compiled_.inputs(seed)) {}

  CutCheck run() {
    for (const ir::Equation& e : graphs_.core.equations())
      result_.random_ops |= ir::info(e.op).cls == ir::OpClass::Random;
    const auto is_tangent = [](const ir::Input& i) { return partition::is_tangent(i); };
    if (std::ranges::none_of(graphs_.core.inputs(), is_tangent)) return result_;
    for (std::string_view name : partition::partitioner_names()) by(std::string(name));
    for (const char* budget : {"memory_budget", "saved_budget"})
      for (const char* share : {"0", "0.1", "0.25", "0.5", "0.75", "1"})
        by(fmt::format("{}={}", budget, share));
    std::mt19937 gen(static_cast<uint32_t>(seed_));
    for (int k = 0; k < 20; ++k) check(random_cut(gen), fmt::format("random cut {}", k));
    return result_;
  }

 private:
  void by(const std::string& name) {
    const auto costs = codegen::make_cost_model();
    try_by(name, *costs);
  }

  void try_by(const std::string& name, const ir::CostModel& costs) try {
    const partition::EagerTape tape = partition::eager_tape(graphs_.joint);
    check(partition::make_partitioner(name)->partition_within(graphs_.core,
                                                              {tape.bytes, tape.outputs, &costs}),
          name);
  } catch (const ir::Error& e) {
    result_.difference =
        fmt::format("seed {}: {}: {}\n{}", seed_, name, e.what(), ir::print(graphs_.core));
  }

  /// All inputs and each forward value that backward can use with one probability for the cut.
  ir::Partition random_cut(std::mt19937& gen) const {
    const unsigned share = 1 + gen() % 8;
    std::vector<ValueId> saved;
    for (ValueId v : analysis_.all_values())
      if (!analysis_.needs_tangent[v] && analysis_.backward[v] && !graphs_.core.type(v).is_token &&
          (analysis_.is_primal(v) || gen() % 8 < share))
        saved.push_back(v);
    return partition::split(graphs_.core, saved);
  }

  void check(const ir::Partition& p, const std::string& name) {
    ++result_.requests;
    const std::string text = ir::print(p.forward) + ir::print(p.backward);
    if (!result_.difference.empty() || !seen_.emplace(text, name).second) return;
    ir::verify(p.forward);
    ir::verify(p.backward);
    ++result_.cuts;
    Buffers got = run_halves(graphs_.core, inputs_, p.forward, p.backward, run_half_);
    if (expected_.empty()) expected_ = got;
    if (const std::string found = first_difference(got, expected_); !found.empty())
      result_.difference = fmt::format("seed {}: {} gives other bits than default: {}\n{}{}", seed_,
                                       name, found, ir::print(graphs_.core), text);
  }

  uint64_t seed_;
  RunHalf run_half_;
  Compiled compiled_;
  const CompiledGraphs& graphs_ = compiled_.graphs;
  partition::Analysis analysis_;
  Buffers inputs_, expected_;
  std::map<std::string, std::string> seen_;
  CutCheck result_;
};

}  // namespace

CutCheck check_cuts(uint64_t seed, bool with_jit) {
  try {
    return Cuts(seed, with_jit).run();
  } catch (const std::exception& e) {
    return {.difference = fmt::format("seed {}: {}", seed, e.what())};
  }
}

std::string check_threads(uint64_t seed) {
  const Compiled program = compiled(seed);
  const CompiledGraphs& graphs = program.graphs;
  const Buffers inputs = program.inputs(seed);
  const Jitted forward(graphs.forward, finely_split_plan(graphs.forward)),
      backward(graphs.backward, finely_split_plan(graphs.backward));
  const auto run_by = [&](int threads) {
    Threads::set(threads);
    return run_halves(graphs.core, inputs, graphs.forward, graphs.backward,
                      [&](const Graph& half, const Buffers& values) {
                        return (&half == &graphs.forward ? forward : backward).run(values);
                      });
  };
  const Threads restored(1);
  const Buffers expected = run_by(1);
  std::string found;
  for (const int threads : {2, 3, 8})
    if (const std::string at = first_difference(run_by(threads), expected); !at.empty())
      found += fmt::format("seed {}: {} threads give other bits than one: {}\n", seed, threads, at);
  return found;
}

}  // namespace tandem::testing
