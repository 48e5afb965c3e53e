// Random valid Traced graphs, the same for a seed on every machine.
#ifndef TANDEM_TESTS_SUPPORT_RANDOM_RANDOM_GRAPH_H
#define TANDEM_TESTS_SUPPORT_RANDOM_RANDOM_GRAPH_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

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
  ir::DType floating = ir::DType::F32;  // of its inputs, if it is not widened
  /// Of the inputs that are operands of samples, by name: in `floating`.
  std::map<std::string, ir::Buffer> contents;
  std::vector<std::string> samples;  // what they are operands of
};

struct ProgramOptions {
  bool widened = false;  // the same program with f64 in place of `floating`, but for what is drawn
  bool samples = false;  // with equations of any row and calls of public functions (samples.h)
};

/// A Traced graph: pointwise in safe domains, reductions, contractions, views, writes in place,
/// also through views and into inputs, draws, one to four outputs beside what is drawn.
RandomProgram random_program(uint64_t seed, const ProgramOptions& options = {});

/// A tensor for each input that is no alias, by name, and one for each `tangent:OUTPUT`. Floating
/// values are numbers of the graph's dtypes, so that they are the same for a widened graph.
std::map<std::string, ir::Buffer> random_tensors(const ir::Graph& graph, uint64_t seed);
/// The same, with the contents that the program has.
std::map<std::string, ir::Buffer> random_tensors(const RandomProgram& program, uint64_t seed);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_RANDOM_RANDOM_GRAPH_H
