// Rows that are shorter than vectors, or end in part of one: of every length, so every way to load
// and store a part.
#include <array>

#include "tests/unit/codegen/check_lowering.h"

namespace tandem::codegen {
namespace {

constexpr int64_t kHeight = 19;
constexpr std::array kDtypes = {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64};

/// For rows of `dtype`, of each length: `make` writes a graph of one input of them.
template <class F>
void check_lengths(DType dtype, F make) {
  for (int64_t length = 1; length < 36; ++length) {
    SCOPED_TRACE(length);
    TestGraph t;
    make(t, t.input({kHeight, length}, dtype), length);
    check_lowering(t.finish(), {}, {}, tolerance_of(dtype));
  }
}

TEST(ShortRows, GrowInMemory) {
  for (const DType dtype : kDtypes)
    check_lengths(dtype, [](TestGraph& t, V x, int64_t) {
      t.output(t.b.sum(x, {0}));
      t.output(t.b.amax(t.b.mul(x, x), {0}));
    });
}

TEST(ShortRows, AreAddedTo) {
  for (const DType dtype : kDtypes)
    check_lengths(dtype, [](TestGraph& t, V x, int64_t length) {
      const V index = t.input({kHeight}, DType::I64);
      t.output(t.b.index_add(t.input({9, length}, t.b.dtype(x)), 0, index, x));
    });
}

TEST(ShortRows, AreKeptBetweenSweeps) {
  for (const DType dtype : {DType::F32, DType::F64})
    check_lengths(dtype, [](TestGraph& t, V x, int64_t) {
      Builder& b = t.b;
      const V e = b.exp(b.sub(x, b.amax(x, {1}, true)));
      t.output(b.div(e, b.sum(e, {1}, true)));
    });
}

TEST(ShortRows, AreWrittenOnTheirInputs) {
  for (const DType dtype : kDtypes)
    for (int64_t length = 1; length < 36; ++length) {
      TestGraph t;
      const V x = t.input({kHeight, length}, dtype), y = t.input({length}, dtype);
      t.output(t.b.add(t.b.mul(x, x), y), {}, 0);
      LowerOptions options;
      options.write_into_input = {0};
      check_lowering(t.finish(), {}, options, tolerance_of(dtype));
    }
}

}  // namespace
}  // namespace tandem::codegen
