// Random valid Traced graphs, the same for a seed on every machine.
#ifndef TANDEM_TESTS_SUPPORT_RANDOM_RANDOM_GRAPH_H
#define TANDEM_TESTS_SUPPORT_RANDOM_RANDOM_GRAPH_H

#include <cstdint>
#include <map>
#include <string>

#include "ir/buffer.h"
#include "ir/graph.h"

namespace tandem::testing {

/// What a program was made to have.
struct ProgramFeatures {
  bool reduction = false;
  bool contraction = false;
  bool view_write = false;  // a write in place through a view
  bool random = false;      // draws; what is drawn are outputs named kDrawn and a number
};

inline constexpr const char* kDrawn = "drawn";

struct RandomProgram {
  ir::Graph graph;
  ProgramFeatures features;
  bool single = true;  // f32 among its dtypes; the others are f64 throughout
};

/// A Traced graph of 5 to 60 equations: pointwise in safe domains, reductions, contractions, views,
/// writes in place, also through views and into inputs, draws, one to four outputs beside what is
/// drawn. `widened`: the same program with f64 in place of f32, but for what is drawn.
RandomProgram random_program(uint64_t seed, bool widened = false);

/// A tensor for each input that is no alias, by name, and one for each `tangent:OUTPUT`. Floating
/// values are f32 numbers, so that they are the same for a widened graph.
std::map<std::string, ir::Buffer> random_tensors(const ir::Graph& graph, uint64_t seed);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_RANDOM_RANDOM_GRAPH_H
