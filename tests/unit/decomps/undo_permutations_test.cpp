// What is computed of permuted values is computed as they lie, where nobody needs it permuted.
#include <algorithm>
#include <random>

#include "decomps/simplify.h"
#include "tests/support/graph_testing.h"

namespace tandem::graph_testing {
namespace {

using ir::Axes;

/// How many permutations are left of `body`, of unchanged meaning.
int permutes_left(const std::vector<Type>& types, const Body& body) {
  const Graph before = make_graph(types, body, ir::Level::Core);
  const Graph after = decomps::undo_permutations(before);
  ir::verify(after);
  const Buffers inputs = random_inputs(before, 1);
  expect_close(run(after, inputs, true), run(before, inputs, true), 1e-12,
               ir::print(before) + ir::print(after));
  return count(after, Op::permute);
}

ValueId softmax(Builder& b, ValueId x, int dim) {
  const Shape sizes = b.sizes(x);
  const ValueId e = b.exp(b.sub(x, b.expand(b.reduce(Op::amax, x, Axes{dim}, true), sizes)));
  return b.div(e, b.expand(b.sum(e, {dim}, true), sizes));
}

TEST(UndoPermutations, OfWhatIsPermutedBack) {
  EXPECT_EQ(permutes_left({f32({5, 7})},
                          [](Builder& b, const Values& x) {
                            const ValueId t = b.permute(x[0], {1, 0});
                            return Values{b.permute(softmax(b, t, 1), {1, 0}),
                                          b.permute(softmax(b, t, 0), {1, 0})};
                          }),
            0);
  EXPECT_EQ(permutes_left({f32({2, 3, 4, 5}), f32({3}), f32({3, 4, 5})},
                          [](Builder& b, const Values& x) {
                            const ValueId t = b.permute(x[0], {0, 2, 3, 1});
                            const ValueId scale = b.expand(x[1], {2, 4, 5, 3});
                            const ValueId y = b.mul(softmax(b, t, 3), scale);
                            return Values{b.permute(y, {0, 3, 1, 2})};
                          }),
            0);
}

TEST(UndoPermutations, BesideWhatIsRepeatedAndPadded) {
  EXPECT_EQ(permutes_left({f32({2, 3, 4, 5}), f32({2, 1, 3, 1})},
                          [](Builder& b, const Values& x) {
                            const ValueId t = b.permute(x[0], {0, 3, 1, 2});  // [2, 5, 3, 4]
                            const ValueId part = b.exp(b.expand(x[1], {2, 5, 3, 2}));
                            const ValueId padded = b.pad(part, ir::Dims{0, 0, 0, 0, 0, 0, 1, 1}, 0);
                            const ValueId y = b.mul(softmax(b, t, 1), padded);
                            return Values{b.permute(y, {0, 2, 3, 1})};
                          }),
            0);
}

TEST(UndoPermutations, OfWhatIsReduced) {
  const auto reduced = [](Op op, Axes dims, bool keepdim) {
    return permutes_left({f32({3, 4, 5, 6})}, [&](Builder& b, const Values& x) {
      return Values{b.reduce(op, b.neg(b.permute(x[0], {3, 1, 0, 2})), dims, keepdim)};
    });
  };
  for (const Op op : {Op::sum, Op::prod, Op::amax, Op::amin}) {
    EXPECT_EQ(reduced(op, {0, 1, 2, 3}, false), 0);
    EXPECT_EQ(reduced(op, {0, 1, 2}, false), 0);
    EXPECT_EQ(reduced(op, {0, 1}, true), 0);
    EXPECT_EQ(reduced(op, {3}, true), 1);  // what is left is [6, 4, 3]
    EXPECT_EQ(reduced(op, {2, 3}, false), 1);
    EXPECT_EQ(reduced(op, {1}, false), 1);
  }
  EXPECT_EQ(reduced(Op::argmax, {2}, true), 1);
  EXPECT_EQ(reduced(Op::argmin, {1}, false), 1);
}

TEST(UndoPermutations, WhereAllOperandsHaveTheSameOne) {
  const auto of_two = [](Axes first, Axes second) {
    return permutes_left({f32({4, 4, 4}), f32({4, 4, 4})}, [&](Builder& b, const Values& x) {
      const ValueId y = b.mul(b.permute(x[0], first), b.permute(x[1], second));
      return Values{b.sum(y, {2}), b.sum(y, {0, 1, 2})};
    });
  };
  EXPECT_EQ(of_two({2, 0, 1}, {2, 0, 1}), 1);  // of the sums
  EXPECT_EQ(of_two({2, 0, 1}, {0, 2, 1}), 2);
  EXPECT_EQ(of_two({2, 0, 1}, {0, 1, 2}), 1);  // a permutation that none is
}

// Rows that a product or a result needs lie as rows; what is computed beside them is too.
TEST(UndoPermutations, NotOfWhatIsNeededPermuted) {
  EXPECT_EQ(permutes_left({f32({5, 7}), f32({5, 2})},
                          [](Builder& b, const Values& x) {
                            const ValueId y = softmax(b, b.permute(x[0], {1, 0}), 1);
                            return Values{b.mm(y, x[1])};
                          }),
            1);
  EXPECT_EQ(permutes_left({f32({5, 7})},
                          [](Builder& b, const Values& x) {
                            const ValueId y = b.exp(b.permute(x[0], {1, 0}));
                            return Values{y, b.sum(y, {1})};
                          }),
            1);
  // neighbours stay neighbours in memory
  EXPECT_EQ(permutes_left({f32({2, 3, 4})},
                          [](Builder& b, const Values& x) {
                            return Values{b.sum(b.exp(b.permute(x[0], {1, 0, 2})), {2})};
                          }),
            1);
}

// Of equal sizes nothing else would tell.
TEST(UndoPermutations, NotOfAnotherPermutationOfAPermutation) {
  EXPECT_EQ(permutes_left({f32({4, 4, 4})},
                          [](Builder& b, const Values& x) {
                            const ValueId once = b.permute(x[0], {0, 2, 1});
                            const ValueId twice = b.permute(once, {1, 0, 2});
                            return Values{b.sum(b.exp(once), {2}), b.exp(twice), twice};
                          }),
            1);
  EXPECT_EQ(permutes_left({f32({4, 4, 4})},
                          [](Builder& b, const Values& x) {
                            const ValueId once = b.exp(b.permute(x[0], {0, 2, 1}));
                            return Values{b.permute(once, {1, 0, 2}), b.permute(once, {0, 2, 1})};
                          }),
            3);
}

TEST(UndoPermutations, NotOfMarkedValues) {
  const auto marked = [](Builder& b, const Values& x) {
    return Values{b.sum(b.exp(b.permute(x[0], {1, 0})), {1})};
  };
  Graph graph = make_graph({f32({5, 7})}, marked, ir::Level::Core);
  for (size_t i = 0; i < graph.num_equations(); ++i)
    if (graph.op(graph.equation_id(i)) == Op::exp)
      graph.equation(graph.equation_id(i)).mark = ir::Mark::Save;
  EXPECT_EQ(count(decomps::undo_permutations(graph), Op::permute), 1);
}

TEST(UndoPermutations, OfBothHalvesOfASymmetricLoss) {
  EXPECT_EQ(permutes_left({f32({6, 6})},
                          [](Builder& b, const Values& x) {
                            const ValueId t = b.permute(x[0], {1, 0});
                            const ValueId rows = softmax(b, x[0], 1), columns = softmax(b, t, 1);
                            return Values{b.fma(rows, x[0], b.permute(columns, {1, 0})),
                                          b.sum(columns, {0})};
                          }),
            0);
}

// --- inputs and results that lie across memory

/// The sizes of what `op` computes in `body`, whose inputs and results lie in order `memory`.
Shape computed_sizes(const Body& body, const Axes& memory, Op op, bool results_lie_alike = true) {
  const Shape sizes{5, 7, 3};
  Graph before = make_graph({f32(sizes), f32(sizes), f32({3})}, body, ir::Level::Core);
  Shape lying;
  for (const ir::Axis d : memory) lying.push_back(sizes[static_cast<int>(d)]);
  ir::Strides strides = ir::contiguous_strides(sizes), inner = ir::contiguous_strides(lying);
  for (int i = 0; i < 3; ++i) strides[static_cast<int>(memory[static_cast<size_t>(i)])] = inner[i];
  for (int i = 0; i < 2; ++i) before.inputs()[static_cast<size_t>(i)].strides = strides;
  if (results_lie_alike)
    for (ir::Output& out : before.outputs())
      if (before.type(out.value).sizes == sizes) out.strides = strides;
  const Graph after = decomps::undo_permutations(before);
  ir::verify(after);
  const Buffers inputs = random_inputs(before, 1);
  expect_close(run(after, inputs, true), run(before, inputs, true), 1e-12,
               ir::print(before) + ir::print(after));
  for (size_t i = 0; i < after.num_equations(); ++i)
    if (after.op(after.equation_id(i)) == op)
      return after.type(after.result(after.equation_id(i))).sizes;
  return {};
}

TEST(UndoPermutations, OfInputsAndResultsThatLieAlike) {
  const Body both = [](Builder& b, const Values& x) {
    const ValueId y = b.mul(b.add(x[0], x[1]), b.expand(x[2], {5, 7, 3}));
    return Values{b.exp(y), b.sum(y, {0})};
  };
  EXPECT_EQ(computed_sizes(both, {2, 0, 1}, Op::exp), (Shape{3, 5, 7}));
  EXPECT_EQ(computed_sizes(both, {1, 2, 0}, Op::exp), (Shape{7, 3, 5}));
  EXPECT_EQ(computed_sizes(both, {2, 1, 0}, Op::add), (Shape{3, 7, 5}));
  EXPECT_EQ(computed_sizes(both, {0, 1, 2}, Op::exp), (Shape{5, 7, 3}));
  EXPECT_EQ(computed_sizes(both, {1, 0, 2}, Op::exp), (Shape{5, 7, 3}));  // rows are rows
}

TEST(UndoPermutations, NotOfInputsWhoseResultsLieOtherwise) {
  const Body one = [](Builder& b, const Values& x) { return Values{b.exp(x[0])}; };
  EXPECT_EQ(computed_sizes(one, {2, 0, 1}, Op::exp, false), (Shape{5, 7, 3}));
  const Body turned = [](Builder& b, const Values& x) {
    return Values{b.exp(b.permute(b.tanh(x[0]), {1, 0, 2}))};
  };
  EXPECT_EQ(computed_sizes(turned, {2, 0, 1}, Op::tanh), (Shape{5, 7, 3}));
}

TEST(UndoPermutations, OfPartsOfInputs) {
  const auto part = [](Builder& b, ValueId x, int dim, int64_t start, int64_t end) {
    return b.slice(x, dim, start, end, 1);
  };
  // reduced: in any order
  const Body select = [&](Builder& b, const Values& x) {
    return Values{b.sum(b.exp(b.view(part(b, x[0], 1, 2, 3), {5, 3})), {0, 1})};
  };
  EXPECT_EQ(computed_sizes(select, {2, 0, 1}, Op::exp), (Shape{3, 5}));
  EXPECT_EQ(computed_sizes(select, {2, 1, 0}, Op::exp), (Shape{3, 5}));
  EXPECT_EQ(computed_sizes(select, {0, 2, 1}, Op::exp), (Shape{5, 3}));  // rows are rows then
  const Body unsqueezed = [&](Builder& b, const Values& x) {
    const ValueId y = b.view(part(b, x[0], 0, 1, 3), {2, 1, 7, 3});
    return Values{b.sum(b.exp(y), {0, 1, 2, 3})};
  };
  EXPECT_EQ(computed_sizes(unsqueezed, {2, 1, 0}, Op::exp), (Shape{1, 3, 7, 2}));
  const Body flattened = [&](Builder& b, const Values& x) {
    return Values{b.sum(b.exp(b.view(x[0], {35, 3})), {0})};
  };
  EXPECT_EQ(computed_sizes(flattened, {2, 1, 0}, Op::exp), (Shape{35, 3}));
}

// Though the whole, or a part that it is a view of, is needed the other way round as well.
TEST(UndoPermutations, OfPartsOfWhatIsNeededPermuted) {
  for (const Shape& shown : {Shape{7, 3}, Shape{7, 1, 3}}) {
    const Body body = [&](Builder& b, const Values& x) {
      const ValueId part = b.slice(x[0], 0, 3, 4, 1), row = b.view(part, shown);
      const ValueId elsewhere = b.view(b.slice(b.view(x[1], {105}), 0, 0, 21, 1), {1, 7, 3});
      Axes all;
      for (int d = 0; d < shown.rank(); ++d) all.push_back(d);
      return Values{b.sum(b.exp(row), all), b.add(part, elsewhere), b.add(x[0], b.tanh(x[0])),
                    b.add(x[0], b.view(b.view(x[1], {105}), {5, 7, 3}))};
    };
    const Shape lying = shown.rank() == 2 ? Shape{3, 7} : Shape{1, 3, 7};
    EXPECT_EQ(computed_sizes(body, {2, 1, 0}, Op::exp), lying);
    EXPECT_EQ(computed_sizes(body, {2, 1, 0}, Op::tanh), (Shape{5, 7, 3}));
  }
}

TEST(UndoPermutations, OfWhatWorksAlongDims) {
  const Body written = [](Builder& b, const Values& x) {
    const ValueId row = b.view(b.slice(x[0], 0, 3, 4, 1), {7, 3});
    const ValueId twice = b.view(b.exp(b.mul(row, row)), {1, 7, 3});
    return Values{b.slice_scatter(x[0], twice, 0, 3, 4, 1)};
  };
  EXPECT_EQ(computed_sizes(written, {2, 1, 0}, Op::exp), (Shape{3, 7}));
  EXPECT_EQ(computed_sizes(written, {2, 1, 0}, Op::slice_scatter), (Shape{3, 7, 5}));
  EXPECT_EQ(computed_sizes(written, {1, 2, 0}, Op::slice_scatter), (Shape{7, 3, 5}));
  const Body summed = [](Builder& b, const Values& x) {
    const ValueId y =
        b.slice_scatter(x[0], b.slice(b.view(x[1], {5, 7, 3}), 0, 0, 1, 1), 0, 3, 4, 1);
    return Values{y, b.sum(y, {0}), b.sum(b.exp(y), {2})};
  };
  EXPECT_EQ(computed_sizes(summed, {2, 1, 0}, Op::slice_scatter), (Shape{3, 7, 5}));
  EXPECT_EQ(computed_sizes(summed, {2, 1, 0}, Op::exp), (Shape{3, 7, 5}));
  const Body joined = [](Builder& b, const Values& x) {
    const ValueId first = b.slice(x[0], 1, 0, 1, 1), rest = b.slice(x[1], 1, 1, 7, 1);
    return Values{b.cat(Values{b.exp(rest), b.flip(first, Axes{0, 1})}, 1)};
  };
  EXPECT_EQ(computed_sizes(joined, {2, 0, 1}, Op::cat), (Shape{3, 5, 7}));
  EXPECT_EQ(computed_sizes(joined, {2, 1, 0}, Op::flip), (Shape{3, 1, 5}));
  const Body padded = [](Builder& b, const Values& x) {
    const ValueId part = b.slice(x[0], 2, 1, 3, 1);
    return Values{b.pad(b.exp(part), ir::Dims{0, 0, 0, 0, 1, 0}, 2.0)};
  };
  EXPECT_EQ(computed_sizes(padded, {2, 0, 1}, Op::pad), (Shape{3, 5, 7}));
  EXPECT_EQ(computed_sizes(padded, {2, 0, 1}, Op::exp), (Shape{2, 5, 7}));
}

// Reduced along the rows of memory and given otherwise: turned in the end.
TEST(UndoPermutations, OfWhatIsReducedAlongOtherDimsThanRows) {
  for (const int dim : {0, 1, 2}) {
    const Body one = [dim](Builder& b, const Values& x) { return Values{softmax(b, x[0], dim)}; };
    const Shape expected = dim == 2 ? Shape{5, 7, 3} : Shape{3, 7, 5};
    EXPECT_EQ(computed_sizes(one, {2, 1, 0}, Op::exp, false), expected) << dim;
    EXPECT_EQ(computed_sizes(one, {2, 1, 0}, Op::exp, true), (Shape{3, 7, 5})) << dim;
  }
}

// --- whatever the program

/// Dense strides in a random order of dims.
ir::Strides shuffled_strides(const Shape& sizes, std::mt19937& gen) {
  Axes memory;
  for (int d = 0; d < sizes.rank(); ++d) memory.push_back(d);
  std::shuffle(memory.begin(), memory.end(), gen);
  ir::Strides strides = ir::contiguous_strides(sizes);
  ir::Dim next = 1;
  for (size_t i = memory.size(); i-- > 0;) {
    strides[static_cast<int>(memory[i])] = next;
    next = next * sizes[static_cast<int>(memory[i])];
  }
  return strides;
}

/// Steps of all kinds that the pass takes or leaves, each of values before it.
class RandomSteps {
 public:
  RandomSteps(Builder& b, const Values& inputs, std::mt19937& gen)
      : b_(b), values_(inputs), gen_(gen) {}

  Values run(int steps) {
    for (int i = 0; i < steps; ++i) values_.push_back(step(values_[up_to(values_.size())]));
    Values outputs;
    for (int i = 0; i < 4; ++i) outputs.push_back(values_[values_.size() - 1 - up_to(8)]);
    return outputs;
  }

 private:
  size_t up_to(size_t n) { return gen_() % n; }
  int dim_of(ValueId v) { return static_cast<int>(up_to(static_cast<size_t>(b_.rank(v)))); }
  /// Another value of these sizes, if there is one.
  ValueId like(ValueId v) {
    for (int tries = 0; tries < 8; ++tries)
      if (const ValueId w = values_[up_to(values_.size())]; b_.sizes(w) == b_.sizes(v)) return w;
    return v;
  }

  ValueId step(ValueId v) {
    const Shape sizes = b_.sizes(v);
    if (sizes.rank() == 0) return b_.neg(v);
    const int d = dim_of(v);
    const auto size = static_cast<size_t>(int64_t{sizes[d]});
    switch (up_to(15)) {
      case 0:
        return b_.tanh(v);
      case 1:
        return b_.add(v, like(v));
      case 2:
        return b_.mul(like(v), v);
      case 3:
        return part(v, d, size);
      case 4:
        return b_.flip(v, Axes{d});
      case 5:
        return size < 6 ? b_.cat(Values{v, like(v)}, d) : part(v, d, size);
      case 6:
        return padded(v, d, size);
      case 7:
        return with_other_units(v, d);
      case 8:
        return permuted(v);
      case 9:
        return written(v, b_.slice(like(v), d, 0, 1, 1), d);
      case 10:
        return b_.sub(v, b_.expand(b_.amax(v, {d}, true), sizes));
      case 11:
        return b_.mul(v, repeated_and_padded(b_.sum(v, {d}, true), sizes, d));
      case 12:
        return b_.index_select(v, d, b_.full({2}, DType::I64, sizes[d] - 1));
      case 13:
        return b_.gather(v, d, b_.full(b_.sizes(b_.slice(v, d, 0, 1, 1)), DType::I64, 0));
      default:
        return b_.sum(v, {d}, gen_() % 2 == 0);
    }
  }

  ValueId part(ValueId v, int d, size_t size) {
    const auto start = static_cast<int64_t>(up_to(size));
    return b_.slice(v, d, start, static_cast<int64_t>(size), 1 + static_cast<int64_t>(up_to(2)));
  }
  ValueId padded(ValueId v, int d, size_t size) {
    ir::Dims padding;
    for (int i = 0; i < 2 * b_.rank(v); ++i) padding.push_back(i / 2 == d && size < 6 ? 1 : 0);
    return b_.pad(v, padding, 0.5);
  }
  /// `v`, of one element along `d`, repeated between zeros to `sizes`.
  ValueId repeated_and_padded(ValueId v, Shape sizes, int d) {
    if (sizes[d] < 2) return v;
    sizes[d] = sizes[d] - 1;
    ir::Dims padding;
    for (int i = 0; i < 2 * sizes.rank(); ++i) padding.push_back(i == 2 * d ? 1 : 0);
    return b_.pad(b_.expand(v, sizes), padding, 0);
  }
  /// `v` with `line`, of one element along `d`, in some way in it.
  ValueId written(ValueId v, ValueId line, int d) {
    const auto last = static_cast<int64_t>(b_.sizes(v)[d]) - 1;
    const int other = (d + 1) % b_.rank(v);
    switch (up_to(5)) {
      case 0:
        return b_.index_add(v, d, b_.full({1}, DType::I64, last), line);
      case 1:
        return b_.scatter(v, d, b_.full(b_.sizes(line), DType::I64, last), line);
      case 2:
        return b_.scatter_add(v, d, b_.full(b_.sizes(line), DType::I64, last), line);
      case 3:
        if (other == d) return v;
        return b_.emit(Op::diagonal_scatter, {v, b_.neg(b_.diagonal(v, 0, d, other))},
                       {ir::Dim(0), int64_t{d}, int64_t{other}});
      default:
        return b_.slice_scatter(v, line, d, last, last + 1, 1);
    }
  }
  /// Without a dim of size 1, or with one more.
  ValueId with_other_units(ValueId v, int d) {
    Shape sizes;
    for (int i = 0; i < b_.rank(v); ++i) {
      if (i == d && b_.sizes(v)[i] == 1) continue;
      if (i == d && b_.rank(v) < 5) sizes.push_back(1);
      sizes.push_back(b_.sizes(v)[i]);
    }
    return b_.view(v, sizes);
  }
  ValueId permuted(ValueId v) {
    Axes order;
    for (int i = 0; i < b_.rank(v); ++i) order.push_back(i);
    std::shuffle(order.begin(), order.end(), gen_);
    return b_.permute(v, order);
  }

  Builder& b_;
  Values values_;
  std::mt19937& gen_;
};

TEST(UndoPermutations, OfAnything) {
  for (uint32_t seed = 0; seed < 600; ++seed) {
    std::mt19937 gen(seed);
    const Shape sizes{1 + static_cast<int64_t>(gen() % 4), 3, 2 + static_cast<int64_t>(gen() % 3)};
    Graph before = make_graph(
        {f32(sizes), f32(sizes), f32({sizes[2]})},
        [&](Builder& b, const Values& x) {
          return RandomSteps(b, {x[0], x[1], b.expand(x[2], sizes)}, gen).run(14);
        },
        ir::Level::Core);
    for (ir::Input& in : before.inputs())
      in.strides = shuffled_strides(before.type(in.value).sizes, gen);
    for (ir::Output& out : before.outputs())
      out.strides = shuffled_strides(before.type(out.value).sizes, gen);
    const Graph after = decomps::undo_permutations(before);
    ir::verify(after);
    const Buffers inputs = random_inputs(before, seed);
    expect_close(run(after, inputs, true), run(before, inputs, true), 1e-9,
                 ir::print(before) + ir::print(after));
  }
}

}  // namespace
}  // namespace tandem::graph_testing
