// Inputs whose elements do not lie side by side, written by programs that need the new contents in
// a buffer first: since something else is computed, since it is read again, or since it may fail.
// What lies between the elements stays. (ctest runs these between guard pages too.)
#include "ir/strides.h"
#include "tests/e2e/contract.h"

namespace tandem::testing {
namespace {

struct LayoutRow {
  const char* name;
  Shape sizes;
  Strides strides;
  int64_t offset;
  int64_t memory;  // elements
};

std::ostream& operator<<(std::ostream& out, const LayoutRow& row) { return out << row.name; }

const LayoutRow kLayouts[] = {
    {"Rows", {4, 4}, {8, 1}, 0, 64},
    {"EveryOther", {17}, {2}, 5, 73},
    {"Transposed", {4, 4}, {1, 8}, 3, 64},
    {"BothStepped", {3, 4}, {16, 3}, 1, 96},
    {"ThreeDims", {2, 3, 2}, {24, 6, 2}, 2, 96},
    {"OneElement", {1, 1}, {7, 9}, 6, 16},
    {"Scalar", {}, {}, 3, 9},
    {"Empty", {3, 0}, {2, 2}, 1, 8},
    {"LongRows", {9, 67}, {100, 1}, 0, 1800},
    {"Long", {300}, {3}, 0, 1800},
};

/// Two inputs in one memory, the second up to its end; and what is like them, side by side.
MakeInputs inputs_of(const LayoutRow& row, DType dtype) {
  return [&row, dtype](Source& source) {
    const Tensor memory = source.integers({row.memory}, 1, dtype);
    const int64_t last = row.memory - std::max<int64_t>(1, ir::extent(row.sizes, row.strides));
    return Tensors{memory.as_strided(row.sizes, row.strides, row.offset),
                   memory.as_strided(row.sizes, row.strides, last),
                   source.integers(row.sizes, 2, dtype)};
  };
}

Tensors write_both(const Tensors& in) {
  in[0].mul_(2);
  in[1].mul_(3);
  return {in[0] + 0};
}
Tensors write_and_read_again(const Tensors& in) {
  const Tensor before = in[0] * in[2];
  in[0].mul_(2);
  in[0].add_(in[2]);
  return {before, in[0] * in[1]};
}
Tensors write_and_put(const Tensors& in) {
  in[1].mul_(2);
  const Tensor y = in[1].clone().reshape({-1});
  y.index_put_({arange(std::min<int64_t>(2, y.numel()))}, ones({}, y.dtype()));
  return {y};
}
Tensors write_and_index_add(const Tensors& in) {
  in[1].mul_(2);
  const Tensor y = in[1].clone().reshape({-1});
  y.index_add_(0, arange(int64_t{y.numel()}), in[2].reshape({-1}));
  return {y};
}
Tensors write_and_scatter(const Tensors& in) {
  in[1].mul_(2);
  const Tensor y = in[1].clone().reshape({-1});
  y.scatter_(0, arange(int64_t{y.numel()}), in[2].reshape({-1}));
  return {y};
}
Tensors divide(const Tensors& in) {
  in[0].remainder_(3);
  in[1].fmod_(2);
  in[1].sub_(in[2]);
  return {};
}
/// May fail, so that nothing is written before all is computed.
Tensors divide_by_a_tensor(const Tensors& in) {
  const Tensor divisor = abs(in[2]) + 1;
  in[0].floor_divide_(divisor);
  in[1].remainder_(divisor);
  in[0].fmod_(divisor);
  return {};
}

const Program kPrograms[] = {write_both,          write_and_read_again, write_and_put,
                             write_and_index_add, write_and_scatter,    divide};

class GappedInputs : public ::testing::TestWithParam<LayoutRow> {};

TEST_P(GappedInputs, AreWrittenWhereTheirElementsAre) {
  for (const Program& f : kPrograms)
    for (const DType dtype : {f32, f16, i32}) check_compiled(f, inputs_of(GetParam(), dtype));
}

TEST_P(GappedInputs, OfIntegersAreDividedWhereTheirElementsAre) {
  for (const DType dtype : {i64, i16, u8})
    check_compiled(divide_by_a_tensor, inputs_of(GetParam(), dtype),
                   {.settings = {{Setting::Plain, true}}});
}

INSTANTIATE_TEST_SUITE_P(All, GappedInputs, ::testing::ValuesIn(kLayouts),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::testing
