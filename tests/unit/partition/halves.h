// Running the two halves of a partition against the joint graph.
#ifndef TANDEM_TESTS_UNIT_PARTITION_HALVES_H
#define TANDEM_TESTS_UNIT_PARTITION_HALVES_H

#include <random>

#include "decomps/decompose.h"
#include "decomps/simplify.h"
#include "ir/build/rewrite.h"
#include "ir/interfaces/partitioner.h"
#include "partition/analysis.h"
#include "tests/support/graph_testing.h"

namespace tandem::partition_testing {

using graph_testing::Values;
using ir::Graph;
using ir::Partition;
using ir::ValueId;

/// All passes before the partition.
inline Graph to_core(const Graph& joint) {
  Graph g = decomps::join_parts(decomps::simplify(decomps::decompose(joint)));
  g = ir::remove_dead_code(decomps::eliminate_common_subexpressions(g));
  g = decomps::undo_permutations(decomps::scatter_into_sums(std::move(g)));
  return decomps::set_reduction_orders(decomps::split_reductions(decomps::form_fma(std::move(g))));
}

/// (outputs, gradients) of a partition run as two graphs, in the joint graph's order.
inline graph_testing::Buffers run_halves(const Graph& core, const Partition& p,
                                         const graph_testing::Buffers& inputs) {
  graph_testing::Buffers primals, tangents;
  for (size_t i = 0; i < inputs.size(); ++i)
    (partition::is_tangent(core.inputs()[i]) ? tangents : primals).push_back(inputs[i]);
  graph_testing::Buffers all = graph_testing::run(p.forward, primals), backward_inputs;
  for (const ir::Input& input : p.backward.inputs())
    if (input.role == ir::Role::Saved)
      backward_inputs.push_back(all[static_cast<size_t>(input.target)]);
  const auto is_saved = [](const ir::Output& o) { return o.role == ir::Role::Saved; };
  const auto saved = std::ranges::count_if(p.forward.outputs(), is_saved);
  all.resize(all.size() - static_cast<size_t>(saved));
  backward_inputs.insert(backward_inputs.end(), tangents.begin(), tangents.end());
  const graph_testing::Buffers gradients = graph_testing::run(p.backward, backward_inputs);
  all.insert(all.end(), gradients.begin(), gradients.end());
  return all;
}

inline void expect_joint_bits(const Graph& core, const Partition& p, const std::string& what) {
  ir::verify(p.forward);
  ir::verify(p.backward);
  const graph_testing::Buffers inputs = graph_testing::random_inputs(core, 1);
  graph_testing::expect_same_bits(
      run_halves(core, p, inputs), graph_testing::run(core, inputs),
      what + ir::print(core) + ir::print(p.forward) + ir::print(p.backward));
}

/// A quarter of the values that forward can compute and backward can use, and all inputs.
inline Values random_saved_set(const Graph& core, std::mt19937& gen) {
  const partition::Analysis a(core);
  Values saved;
  for (ValueId v : a.all_values())
    if (!a.needs_tangent[v] && a.backward[v] && (a.is_primal(v) || gen() % 4 == 0))
      saved.push_back(v);
  return saved;
}

}  // namespace tandem::partition_testing

#endif  // TANDEM_TESTS_UNIT_PARTITION_HALVES_H
