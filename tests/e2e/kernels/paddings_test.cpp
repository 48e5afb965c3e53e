// Programs that read the same elements again around or beside themselves, dim by dim: paddings in
// all modes, concatenations of concatenations and shifted sums, of any dtype and layout; results
// and gradients are eager's.
#include "tests/e2e/contract.h"

namespace tandem::testing {
namespace {

Program padded(const std::vector<Dim>& padding, const char* mode) {
  return [=](const Tensors& in) -> Tensors { return {pad(in[0], padding, mode)}; };
}
MakeInputs seen_as(const Shape& memory, const std::function<Tensor(const Tensor&)>& view) {
  return views_of(memory, [=](const Tensor& x) { return Tensors{view(x)}; });
}

const Shape kImages{2, 3, 5, 7};

const std::vector<Row> kRows{
    {"Reflected", tensors({kImages}), padded({2, 3, 1, 4}, "reflect")},
    {"Replicated", tensors({kImages}), padded({2, 3, 1, 4}, "replicate")},
    {"Circular", tensors({kImages}), padded({2, 3, 1, 4}, "circular")},
    {"AsFarAsItGoes", tensors({kImages}), padded({6, 6, 4, 4}, "reflect")},
    {"OnOneSide", tensors({kImages}), padded({0, 3, 2, 0}, "reflect")},
    {"OneElementFarAway", tensors({{2, 1, 1}}), padded({9, 20, 3, 0}, "replicate")},
    {"RowsAlone", tensors({{4, 9}}), padded({3, 2}, "circular")},
    {"ThreeDims", tensors({{2, 3, 4, 5}}), padded({1, 2, 2, 1, 0, 2}, "reflect")},
    {"FourDims", tensors({{2, 3, 4, 5}}), padded({1, 2, 2, 1, 1, 2, 1, 0}, "replicate")},
    {"CutOnTheOtherSide", tensors({kImages}), padded({2, -3, -1, 4}, "reflect")},
    {"F64", tensors({kImages}, f64), padded({2, 3, 1, 4}, "reflect")},
    {"BF16", tensors({kImages}, bf16), padded({2, 3, 1, 4}, "reflect")},
    {"F16", tensors({kImages}, f16), padded({2, 3, 1, 4}, "circular")},
    {"Integers", tensors({kImages}, i64), padded({2, 3, 1, 4}, "replicate")},
    {"NoImages", tensors({{0, 3, 5, 7}}), padded({2, 3, 1, 4}, "reflect")},
    {"Transposed", seen_as({2, 3, 7, 5}, [](const Tensor& x) { return x.transpose(2, 3); }),
     padded({2, 3, 1, 4}, "reflect")},
    {"ChannelsLast",
     seen_as({2, 5, 7, 3}, [](const Tensor& x) { return permute(x, {0, 3, 1, 2}); }),
     padded({2, 3, 1, 4}, "circular")},
    {"WithGaps",
     seen_as({2, 3, 11, 15},
             [](const Tensor& x) { return x.slice(2, 1, 11, 2).slice(3, 1, 15, 2); }),
     padded({2, 3, 1, 4}, "replicate")},
    {"Expanded", seen_as({2, 1, 5, 1}, [](const Tensor& x) { return x.expand(kImages); }),
     padded({2, 3, 1, 4}, "reflect")},
    {"OfAComputedImage", tensors({kImages, kImages}),
     [](const Tensors& in) -> Tensors {
       return {exp(pad(in[0] * in[1], {2, 3, 1, 4}, "reflect")) + 1};
     }},
    {"ReadInside", tensors({kImages}),  // what is padded first is a result too
     [](const Tensors& in) -> Tensors {
       const Tensor wide = pad(in[0], {2, 3}, "reflect");
       return {wide, pad(wide, {0, 0, 1, 2}, "circular")};
     }},
    {"TwoModes", tensors({kImages}),
     [](const Tensors& in) -> Tensors {
       return {pad(pad(in[0], {2, 3}, "reflect"), {1, 1, 1, 2}, "circular")};
     }},
    {"ThenAProduct", tensors({{4, 6}, {9, 5}}),
     [](const Tensors& in) -> Tensors { return {matmul(pad(in[0], {2, 1}, "reflect"), in[1])}; }},
    {"Grown", tensors({{1, 4}, {1, 4}}),  // row by row, as a cache of keys is
     [](const Tensors& in) -> Tensors {
       Tensor rows = in[0];
       for (int i = 0; i < 20; ++i) rows = cat({rows, in[1] * i}, 0);
       return {rows};
     }},
    {"AFrame", tensors({{4, 6}, {2}}),
     [](const Tensors& in) -> Tensors {
       const Tensor side = in[1][0].expand({4, 1}), lid = in[1][1].expand({1, 8});
       return {cat({lid, cat({side, sin(in[0]), side}, 1), lid}, 0)};
     }},
    {"Tiles", tensors({{3, 4}}),
     [](const Tensors& in) -> Tensors {
       const Tensor row = cat({in[0], flip(in[0], {1}), in[0].slice(1, 1, 3)}, 1);
       return {cat({row, flip(row, {0, 1}), row.slice(0, 1, 3)}, 0)};
     }},
    {"ProductsInside", tensors({{2, 8, 16}, {2, 16, 4}}),
     [](const Tensors& in) -> Tensors {
       const Tensor wide = cat({matmul(in[0], in[1]), in[0].slice(2, 0, 3)}, 2);
       return {cat({wide, wide.slice(1, 0, 1).expand({2, 3, 7})}, 1)};
     }},
    {"ShiftedSums", tensors({{4, 11}}),
     [](const Tensors& in) -> Tensors {
       const Tensor x = in[0];
       const Tensor later = pad(x.slice(1, 0, 10), {1, 0}), earlier = pad(x.slice(1, 2), {0, 2});
       return {x + later * 2 + earlier, later + earlier};
     }},
    {"ManyShiftedSums", tensors({{3, 20}}),
     [](const Tensors& in) -> Tensors {
       Tensor sum = in[0];
       for (int i = 1; i < 12; ++i) sum = sum + pad(in[0].slice(1, 0, 20 - i), {i, 0});
       return {sum};
     }},
    {"SlidingDifferences", tensors({{3, 20}}),
     [](const Tensors& in) -> Tensors {
       const Tensor x = in[0];
       return {square(x.slice(1, 1) - x.slice(1, 0, 19)), x.slice(0, 0, 2) * x.slice(0, 1, 3)};
     }},
};

TANDEM_CONTRACT(Paddings, kRows);

/// An image padded, and the gradient of that.
Tensors reflected(DType dtype) {
  manual_seed(5);
  const Tensor x = randn({5, 9, 33, 47}).to(dtype).requires_grad_(true);
  const auto compiled =
      compile([](const Tensor& x) { return pad(x * x, {3, 2, 1, 4}, "reflect"); });
  const Tensor y = compiled(x), g = randn(y.sizes()).to(dtype);
  return {y.detach(), grad({y}, {x}, {.grad_outputs = {g}})[0]};
}

TEST(Paddings, HaveTheSameBitsOnAnyNumberOfThreads) {
  const int before = num_threads();
  for (DType dtype : {f32, f64, bf16}) {
    set_num_threads(1);
    const Tensors alone = reflected(dtype);
    set_num_threads(5);
    const Tensors shared = reflected(dtype);
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(equal(alone[i], shared[i]));
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace tandem::testing
