// Random programs of views and writes: functionalized with their epilogue, and as traced.
#include <gtest/gtest.h>

#include <algorithm>

#include "functionalize/functionalize.h"
#include "ir/interpreter/interpret.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/support/program.h"

namespace tandem::functionalize {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Shape;
using ir::ValueId;

/// Writes a random Traced program.
class Writer {
 public:
  explicit Writer(uint64_t seed) : numbers_(seed), p_(ir::Level::Traced) {
    add(p_.input("x", {DType::F32, {3, 4}}), false);
    add(p_.input("y", {DType::F32, {2, 3, 2}}), false);
    add(p_.input("rows", {DType::F32, {2, 4}}), false);
    if (chance(0.3)) p_.graph.inputs()[0].strides = {1, 3};
    if (chance(0.3)) p_.graph.inputs()[2].strides = {1, 2};
    const Dim offsets[] = {-4, 0, 3, 4, 7, 12};
    if (chance(0.7)) p_.graph.inputs()[2].alias_of = ir::AliasOf{0, offsets[below(6)]};
    for (int i = below(30) + 3; i > 0; --i) step();
    for (int i = below(5); i > 0; --i) p_.output(any().value);
  }

  const ir::Graph& graph() const { return p_.graph; }

 private:
  struct Item {
    ValueId value;
    bool expanded;
  };

  int below(int n) { return std::min(n - 1, static_cast<int>(numbers_.uniform(0, n))); }
  bool chance(double p) { return numbers_.uniform(0, 1) < p; }
  void add(ValueId v, bool expanded) { items_.push_back({v, expanded}); }
  Item any() { return items_[static_cast<size_t>(below(static_cast<int>(items_.size())))]; }
  int any_dim(ValueId v) { return below(p_.b.rank(v)); }

  void step() {
    const Item item = any();
    const double kind = numbers_.uniform(0, 1);
    if (kind < 0.45)
      view(item);
    else if (kind < 0.85 && !item.expanded)
      write(item.value);
    else
      add(chance(0.5) ? p_.b.clone(item.value) : p_.b.neg(item.value), false);
  }

  void view(const Item& item) {
    const ValueId v = item.value;
    const int rank = p_.b.rank(v);
    if (rank == 0) return add(p_.b.emit(chance(0.5) ? Op::alias : Op::detach, {v}), item.expanded);
    if (rank < 4 && chance(0.1)) {
      Shape sizes = p_.b.sizes(v);
      sizes.insert(0, 2);
      return add(p_.b.expand(v, sizes), true);
    }
    add(view_of(v, rank), item.expanded);
  }

  ValueId view_of(ValueId v, int rank) {
    const int d = any_dim(v);
    const Dim size = p_.b.sizes(v)[d], start = below(static_cast<int>(size));
    switch (below(8)) {
      case 0:
        return p_.b.select(v, d, start);
      case 1:
        return p_.b.slice(v, d, start, size, 1 + below(2));
      case 2:
        return p_.b.transpose(v, d, any_dim(v));
      case 3:
        return rank < 5 ? p_.b.unsqueeze(v, d) : p_.b.squeeze(v);
      case 4:
        return p_.b.view(v, {p_.b.numel(v)});
      case 5:
        return rank < 2 ? v : p_.b.diagonal(v, 0, 0, 1);
      case 6:
        return p_.b.as_strided(v, {p_.b.numel(v) / 2}, {2}, p_.b.numel(v) > 1 ? 1 : 0);
      default:
        return p_.b.squeeze(v);
    }
  }

  void write(ValueId v) {
    const ValueId other = chance(0.5) ? p_.b.full({}, DType::F32, below(7)) : fitting(v);
    const Op ops[] = {Op::add, Op::sub, Op::maximum, Op::copy};
    p_.sink.grad_enabled = chance(0.8);
    p_.b.pointwise_in_place(ops[below(4)], {v, other});
    p_.sink.grad_enabled = true;
  }

  /// Something that broadcasts to v.
  ValueId fitting(ValueId v) {
    for (int tries = 0; tries < 10; ++tries)
      if (const Item item = any(); p_.b.sizes(item.value) == p_.b.sizes(v)) return item.value;
    return p_.b.sum(any().value);
  }

  test::Numbers numbers_;
  test::Program p_;
  std::vector<Item> items_;
};

void check(uint64_t seed) {
  const ir::Graph traced = Writer(seed).graph();
  ir::verify(traced);
  const ir::Graph graph = functionalize(traced);
  ir::verify(graph);
  std::vector<ir::Buffer> inputs;
  for (const ir::Input& input : graph.inputs())
    inputs.push_back(test::integers(graph.type(input.value), inputs.size() + 1));
  std::vector<ir::Buffer> expected_inputs = inputs;
  const auto expected = ir::interpret(traced, expected_inputs);
  const auto results = ir::interpret_with_epilogue(graph, inputs);
  const std::string text = ir::print(traced) + ir::print(graph);
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < results.size(); ++i)
    ASSERT_EQ(test::values(results[i]), test::values(expected[i])) << "result " << i << text;
  for (size_t i = 0; i < inputs.size(); ++i)
    ASSERT_EQ(test::values(inputs[i]), test::values(expected_inputs[i])) << "input " << i << text;
}

TEST(RandomPrograms, DoTheSameFunctionalized) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    check(seed);
    if (HasFatalFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace tandem::functionalize
