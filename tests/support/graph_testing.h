// Small graphs for unit tests: building them, running them on random and special values in the
// reference interpreter, comparing results.
#ifndef TANDEM_TESTS_SUPPORT_GRAPH_TESTING_H
#define TANDEM_TESTS_SUPPORT_GRAPH_TESTING_H

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ir/build/builder.h"
#include "ir/interpreter/interpret.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"

namespace tandem::graph_testing {

// What nearly every test of a pass names: such tests stand in this namespace.
using ir::Builder;
using ir::Dim;
using ir::DType;
using ir::Graph;
using ir::Op;
using ir::Shape;
using ir::Type;
using ir::ValueId;

inline Type f32(Shape sizes) { return {DType::F32, std::move(sizes)}; }

using Values = std::vector<ir::ValueId>;
using Buffers = std::vector<ir::Buffer>;
using Body = std::function<Values(ir::Builder&, const Values&)>;

/// A graph of `level` with one input per type (floating ones require gradients; i64 [2] named by
/// `rng` is an rng) and one Result output per value of `body`.
inline ir::Graph make_graph(const std::vector<ir::Type>& types, const Body& body,
                            ir::Level level = ir::Level::Functional, int rng = -1) {
  ir::Graph graph("test", level);
  Values inputs;
  for (size_t i = 0; i < types.size(); ++i) {
    ir::Input input;
    input.role = static_cast<int>(i) == rng ? ir::Role::Rng : ir::Role::Primal;
    input.name = "x" + std::to_string(i);
    input.requires_grad = ir::is_floating(types[i].dtype);
    input.strides = ir::contiguous_strides(types[i].sizes);
    inputs.push_back(graph.add_input(input, types[i]));
  }
  ir::GraphSink sink(graph);
  ir::Builder builder(sink);
  const Values results = body(builder, inputs);
  for (size_t i = 0; i < results.size(); ++i) {
    ir::Output output;
    output.value = results[i];
    output.name = "y" + std::to_string(i);
    output.requires_grad = ir::is_floating(graph.type(results[i]).dtype);
    output.strides = ir::contiguous_strides(graph.type(results[i]).sizes);
    graph.add_output(output);
    if (level != ir::Level::Traced) {
      ir::ResultSource source;
      source.index = static_cast<int>(i);
      source.requires_grad = output.requires_grad;
      graph.epilogue.results.push_back(source);
    }
  }
  return graph;
}

/// Normal floats, small integers, an rng's key and counter: all from `seed`.
inline ir::Buffer random_buffer(const ir::Type& type, std::mt19937& gen) {
  ir::Buffer buffer(type);
  std::normal_distribution<double> normal(0, 2);
  std::uniform_int_distribution<int64_t> small(0, 3);
  for (int64_t i = 0; i < buffer.numel(); ++i)
    buffer.set(i, ir::is_floating(type.dtype) ? ir::Number(normal(gen)) : ir::Number(small(gen)));
  return buffer;
}

inline Buffers random_inputs(const ir::Graph& graph, uint32_t seed) {
  std::mt19937 gen(seed);
  Buffers inputs;
  for (const ir::Input& input : graph.inputs())
    inputs.push_back(random_buffer(graph.type(input.value), gen));
  return inputs;
}

/// Overwrites a share of the floating elements with zeros of both signs, infinities, NaN, numbers
/// near overflow and near zero.
inline void sprinkle_special_values(Buffers& buffers, uint32_t seed) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double values[] = {0.0,  -0.0, kInf, -kInf, std::nan(""), 1.0,   -1.0, 3.0,
                           -3.0, 0.5,  80.0, -80.0, 1e30,         -1e30, 1e-30};
  std::mt19937 gen(seed);
  for (ir::Buffer& buffer : buffers)
    for (int64_t i = 0; ir::is_floating(buffer.dtype()) && i < buffer.numel(); ++i)
      if (gen() % 2 == 0) buffer.set(i, values[gen() % std::size(values)]);
}

inline Buffers run(const ir::Graph& graph, Buffers inputs, bool in_f64 = false) {
  ir::InterpretOptions options;
  options.in_f64 = in_f64;
  return ir::interpret(graph, inputs, options);
}

inline bool is_close(double got, double expected, double tolerance) {
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got);
  if (std::isinf(expected) || std::isinf(got)) return expected == got;
  return std::abs(got - expected) <= tolerance * (1 + std::abs(expected));
}

inline void expect_close(const Buffers& got, const Buffers& expected, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t k = 0; k < got.size(); ++k) {
    ASSERT_EQ(ir::to_string(got[k].sizes()), ir::to_string(expected[k].sizes())) << what;
    for (int64_t i = 0; i < got[k].numel(); ++i)
      ASSERT_TRUE(is_close(got[k].at(i).to_double(), expected[k].at(i).to_double(), tolerance))
          << what << ": output " << k << " element " << i << ": " << got[k].at(i).to_double()
          << ", expected " << expected[k].at(i).to_double();
  }
}

/// Equal bits, but any NaN equals any NaN.
inline bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0;
}

inline void expect_same_bits(const Buffers& got, const Buffers& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t k = 0; k < got.size(); ++k) {
    ASSERT_EQ(ir::to_string(got[k].type()), ir::to_string(expected[k].type())) << what;
    for (int64_t i = 0; i < got[k].numel(); ++i) {
      const ir::Number a = got[k].at(i), b = expected[k].at(i);
      const bool same =
          a.is_float() ? same_bits(a.to_double(), b.to_double()) : a.to_int() == b.to_int();
      ASSERT_TRUE(same) << what << ": output " << k << " element " << i << ": " << a.to_double()
                        << ", expected " << b.to_double();
    }
  }
}

inline int64_t count(const ir::Graph& graph, ir::Op op) {
  return std::ranges::count(graph.equations(), op, &ir::Equation::op);
}

}  // namespace tandem::graph_testing

#endif  // TANDEM_TESTS_SUPPORT_GRAPH_TESTING_H
