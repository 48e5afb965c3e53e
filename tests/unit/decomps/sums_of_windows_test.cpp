// Sums of windows, and what is spread over them, as slices and repetitions.
#include <cmath>

#include "decomps/simplify.h"
#include "tests/support/graph_testing.h"

namespace tandem::graph_testing {
namespace {

using ir::Dims;

/// Windows over an input of 2 images of 3 channels.
struct Pool {
  Dims input, output, window, stride, padding;
  bool sums = true, spreads = true;  // whether either is rewritten
};

const Pool kPools[] = {
    {{8}, {4}, {2}, {2}, {0}},
    {{9}, {4}, {2}, {2}, {0}},  // the last element is in no window
    {{9}, {9}, {5}, {1}, {2}},
    {{7}, {7}, {1}, {1}, {0}},
    {{40}, {16}, {25}, {1}, {0}},
    {{9}, {5}, {2}, {2}, {0}, true, false},  // the last window ends behind the input
    {{9}, {3}, {2}, {4}, {0}, true, false},  // apart
    {{9}, {5}, {3}, {2}, {1}, true, false},  // overlapping
    {{70}, {2}, {35}, {35}, {0}, false, false},
    {{6, 4}, {3, 2}, {2, 2}, {2, 2}, {0, 0}},
    {{6, 9}, {3, 3}, {2, 3}, {2, 3}, {0, 0}},
    {{12, 15}, {2, 3}, {6, 5}, {6, 5}, {0, 0}},  // many slices: one dim after the other
    {{5, 6}, {5, 6}, {3, 3}, {1, 1}, {1, 1}},
    {{9, 8}, {9, 8}, {5, 5}, {1, 1}, {2, 2}},
    {{9, 8}, {5, 8}, {5, 5}, {2, 1}, {2, 2}, true, false},
    {{6, 8}, {2, 4}, {}, {1, 1}, {0, 0}},                // adaptive
    {{6, 8}, {4, 4}, {}, {1, 1}, {0, 0}, false, false},  // windows of several lengths
    {{4, 6, 2}, {2, 3, 1}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}},
    {{6, 6, 6}, {2, 2, 2}, {3, 3, 3}, {3, 3, 3}, {0, 0, 0}},
};

Shape planes(const Dims& sizes) {
  Shape shape{2, 3};
  for (const Dim n : sizes) shape.push_back(n);
  return shape;
}

Graph graph_of(const Pool& pool, Op op, DType dtype) {
  const bool sums = op == Op::window_sum;
  const Type given{dtype, planes(sums ? pool.input : pool.output)};
  return make_graph(
      {given},
      [&](Builder& b, const Values& x) {
        return Values{b.emit(
            op, x, {{sums ? pool.output : pool.input, pool.window, pool.stride, pool.padding}})};
      },
      ir::Level::Core);
}

TEST(SumsOfWindows, AreSumsOfSlices) {
  for (const Pool& pool : kPools) {
    for (const Op op : {Op::window_sum, Op::window_spread}) {
      for (const DType dtype : {DType::F32, DType::F64, DType::I64, DType::BF16}) {
        const Graph before = graph_of(pool, op, dtype),
                    after = decomps::sum_windows_by_slices(before);
        ir::verify(after);
        const bool rewritten = op == Op::window_sum ? pool.sums : pool.spreads;
        EXPECT_EQ(count(after, op), rewritten ? 0 : 1) << ir::print(before);
        const Buffers inputs = random_inputs(before, 3);
        const bool wide = dtype != DType::BF16;
        expect_close(run(after, inputs, wide), run(before, inputs, wide), wide ? 1e-12 : 1e-2,
                     ir::print(before) + ir::print(after));
      }
    }
  }
}

// A sum begins with 0: of negative zeros it is one of the other sign.
TEST(SumsOfWindows, OfNegativeZerosAreZero) {
  for (const Op op : {Op::window_sum, Op::window_spread}) {
    for (const Pool& pool : kPools) {
      const Graph after = decomps::sum_windows_by_slices(graph_of(pool, op, DType::F32));
      Buffers inputs = random_inputs(after, 3);
      for (int64_t i = 0; i < inputs[0].numel(); ++i) inputs[0].set(i, -0.0);
      const Buffers results = run(after, inputs);
      for (int64_t i = 0; i < results[0].numel(); ++i)
        ASSERT_FALSE(std::signbit(results[0].as<float>()[i])) << ir::print(after);
    }
  }
}

// What stands around them is one kernel with them, so an infinity in a window that overlaps
// others, or a NaN behind padding, is in the sums that it belongs to and in no other.
TEST(SumsOfWindows, OfInfinitiesAndNans) {
  for (const Pool& pool : kPools) {
    const Graph before = graph_of(pool, Op::window_sum, DType::F32),
                after = decomps::sum_windows_by_slices(before);
    for (const double special : {double(INFINITY), double(NAN)}) {
      Buffers inputs = random_inputs(before, 3);
      inputs[0].set(inputs[0].numel() / 2, special);
      inputs[0].set(0, special);
      expect_close(run(after, inputs), run(before, inputs), 1e-5, ir::print(after));
    }
  }
}

}  // namespace
}  // namespace tandem::graph_testing
