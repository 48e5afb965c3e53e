// Lowering from end to end: nodes, groups, kernels and calls, memory.
#include "codegen/lower.h"

#include "codegen/drafts.h"
#include "codegen/fusion/bundle.h"
#include "codegen/fusion/rematerialize.h"
#include "codegen/fusion/sources.h"
#include "codegen/fusion/updates.h"
#include "codegen/memory/memory_plan.h"
#include "codegen/nodes/program.h"

namespace tandem::codegen {
namespace {

void describe(const ir::Graph& graph, const Program& p, Plan& plan) {
  plan.name = graph.name;
  for (const ir::Input& in : graph.inputs())
    plan.inputs.push_back({graph.type(in.value), in.strides});
  for (size_t o = 0; o < graph.outputs().size(); ++o) {
    const ir::Output& out = graph.outputs()[o];
    plan.outputs.push_back({.type = graph.type(out.value),
                            .strides = out.strides,
                            .from_input = p.outputs[o].from_input});
  }
}

/// By output: the input in whose memory it may be computed, or -1.
std::vector<int> write_targets(const ir::Graph& graph, const LowerOptions& options) {
  std::vector<int> targets(graph.outputs().size(), -1);
  for (int o : options.write_into_input)
    targets[static_cast<size_t>(o)] = graph.outputs()[static_cast<size_t>(o)].target;
  return targets;
}

/// By input: the first one that shares its storage.
std::vector<int> input_memories(const ir::Graph& graph) {
  std::vector<int> memories;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const auto& alias = graph.inputs()[i].alias_of;
    memories.push_back(alias ? memories[static_cast<size_t>(alias->input)] : static_cast<int>(i));
  }
  return memories;
}

int& count_of(PlanReport& report, const Launch&) { return report.kernels; }
int& count_of(PlanReport& report, const MatmulCall&) { return report.library_calls; }
int& count_of(PlanReport& report, const ExternalCall& call) {
  if (call.is_control()) return report.control_steps;
  return call.is_custom() ? report.external_calls : report.library_calls;
}

void add(PlanReport& to, const PlanReport& body) {
  to.kernels += body.kernels;
  to.distinct_kernels += body.distinct_kernels;
  to.library_calls += body.library_calls;
  to.external_calls += body.external_calls;
  to.generated_contractions += body.generated_contractions;
  to.control_steps += body.control_steps;
  to.arena_bytes += body.arena_bytes;
}

void report(const Program& p, Plan& plan) {
  for (const Step& step : plan.steps)
    std::visit([&](const auto& s) { ++count_of(plan.report, s); }, step);
  for (const Node& n : p.nodes)
    plan.report.generated_contractions += n.kind == Node::Kind::TiledMatmul;
  plan.report.distinct_kernels = static_cast<int>(plan.kernels.size());
  plan.report.arena_bytes = plan.arena_bytes;
  for (const Plan& body : plan.bodies) add(plan.report, body.report);
}

void set_precision(Plan& plan, machine::MatmulPrecision precision) {
  for (Step& step : plan.steps)
    if (auto* call = std::get_if<MatmulCall>(&step)) call->spec.precision = precision;
}

// --- branches and loops

/// The graph of a body, which is called on contiguous buffers.
ir::Graph contiguous(ir::Graph body) {
  for (ir::Input& in : body.inputs())
    in.strides = ir::contiguous_strides(body.type(in.value).sizes);
  for (ir::Output& out : body.outputs())
    out.strides = ir::contiguous_strides(body.type(out.value).sizes);
  return body;
}

/// Lowers the bodies of the plan's branches and loops, each once.
void lower_bodies(const ir::Graph& graph, LowerOptions options, Plan& plan) {
  options.write_into_input.clear();
  plan.bodies.resize(graph.subgraphs().size());
  for (const Step& step : plan.steps) {
    const auto* call = std::get_if<ExternalCall>(&step);
    if (call == nullptr || !call->is_control()) continue;
    for (const ir::AttrValue& attr : call->attrs)
      if (const auto* id = std::get_if<ir::SubgraphId>(&attr))
        plan.bodies[id->index] = lower(contiguous(graph.subgraph(*id)), options);
  }
}

}  // namespace

Plan lower(const ir::Graph& graph, const LowerOptions& options) {
  Fusion fusion = fuse_lean(make_program(graph));
  const Program& program = fusion.program;
  const std::vector<int> targets = write_targets(graph, options);
  std::vector<Group> groups = with_updates_in_place(
      program, with_sources_inside(program, std::move(fusion.groups)), targets);
  const Table<RootId, bool> stored = stored_roots(program, groups);
  Drafts drafts = make_drafts(program, bundle(program, std::move(groups), stored), stored,
                              options.vector_bytes);
  Plan plan;
  describe(graph, program, plan);
  plan_memory(program, std::move(drafts), targets, input_memories(graph), options, plan);
  set_precision(plan, options.matmul_precision);
  lower_bodies(graph, options, plan);
  report(program, plan);
  for (const Kernel& k : plan.kernels) verify(k);
  return plan;
}

}  // namespace tandem::codegen
