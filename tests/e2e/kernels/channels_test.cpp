// Programs that add up each channel of many images and read the images again (batch norms, and what
// users write like them), which run channel by channel: as eager, and with the same bits on any
// number of threads.
#include "tests/e2e/contract.h"

namespace tandem::testing {
namespace {

const Shape kImages{3, 17, 15, 18};  // rows of 270
constexpr Dim kChannels = 17;

Tensor normalized(const Tensors& in) {
  return batch_norm(in[0], {}, {}, in[1], in[2], /*training=*/true);
}

/// Images, and a weight and a bias for each channel.
MakeInputs images(const Shape& sizes, DType dtype = f32) {
  return tensors({sizes, {sizes[1]}, {sizes[1]}}, dtype);
}
/// The same with the images seen through `view`, in memory of sizes `memory`.
MakeInputs seen_as(const Shape& memory, const std::function<Tensor(const Tensor&)>& view) {
  return [=](Source& source) {
    const Tensor x = view(source.noise(memory, 1));
    return Tensors{x, source.noise({x.size(1)}, 2), source.noise({x.size(1)}, 3)};
  };
}

Tensor centred(const Tensor& x) { return x - mean(x, {0, 2, 3}, true); }

const std::vector<Row> kRows{
    {"BatchNorm", images(kImages), [](const Tensors& in) -> Tensors { return {normalized(in)}; }},
    {"BatchNormF64", images(kImages, f64),
     [](const Tensors& in) -> Tensors { return {normalized(in)}; }},
    {"BatchNormOfRows", images({5, 16, 300}),
     [](const Tensors& in) -> Tensors { return {normalized(in)}; }},
    {"BatchNormOfVolumes", images({2, 16, 3, 10, 9}),
     [](const Tensors& in) -> Tensors { return {normalized(in)}; }},
    {"OneImage", images({1, 17, 15, 18}),
     [](const Tensors& in) -> Tensors { return {normalized(in)}; }},
    {"ChannelsLast",
     seen_as({3, 15, 18, 17}, [](const Tensor& x) { return permute(x, {0, 3, 1, 2}); }),
     [](const Tensors& in) -> Tensors { return {normalized(in)}; }},
    {"ChannelsOutermost",
     seen_as({17, 3, 15, 18}, [](const Tensor& x) { return x.transpose(0, 1); }),
     [](const Tensors& in) -> Tensors { return {normalized(in)}; }},
    {"EverySecondChannel",
     seen_as({3, 34, 15, 18}, [](const Tensor& x) { return x.slice(1, 1, 34, 2); }),
     [](const Tensors& in) -> Tensors { return {normalized(in)}; }},
    {"CutOutOfLargerImages",
     seen_as({3, 17, 16, 20}, [](const Tensor& x) { return x.slice(2, 1, 16).slice(3, 2, 20); }),
     [](const Tensors& in) -> Tensors { return {normalized(in)}; }},
    {"OneImageExpanded",
     seen_as({1, 17, 15, 18}, [](const Tensor& x) { return x.expand(kImages); }),
     [](const Tensors& in) -> Tensors { return {normalized(in)}; }},
    {"OneChannelExpanded",
     seen_as({3, 1, 15, 18}, [](const Tensor& x) { return x.expand(kImages); }),
     [](const Tensors& in) -> Tensors { return {normalized(in)}; }},
    {"RunningStatistics", tensors({kImages, {kChannels}, {kChannels}, {kChannels}, {kChannels}}),
     [](const Tensors& in) -> Tensors {
       return {relu(batch_norm(in[0], in[3], in[4], in[1], in[2], true))};
     }},
    {"ResidualOfTwo", images(kImages),
     [](const Tensors& in) -> Tensors {
       const Tensor h = relu(normalized(in));
       return {relu(in[0] + normalized({h, in[1], in[2]}))};
     }},
    {"TheInputIsWritten", images(kImages),
     [](const Tensors& in) -> Tensors {
       in[0].sub_(mean(in[0], {0, 2, 3}, true));
       return {in[0] * in[1].view({kChannels, 1, 1})};
     }},
    {"WrittenAndReadAcrossChannels", images(kImages),
     [](const Tensors& in) -> Tensors {
       const Tensor old = flip(in[0], {1});
       in[0].sub_(mean(in[0], {0, 2, 3}, true));
       return {old * in[0]};
     }},
    {"StatisticsOfAnotherChannel", images(kImages),
     [](const Tensors& in) -> Tensors {
       return {in[0] - roll(mean(in[0], {0, 2, 3}, true), {1}, {1}), centred(in[0])};
     }},
    {"TheLargestChannelScalesAll", images(kImages),
     [](const Tensors& in) -> Tensors {
       const Tensor sums = sum(abs(in[0]), {0, 2, 3}, true);
       return {in[0] / amax(sums), in[0] / sums};
     }},
    {"ImagesAsSums", images({16, 16, 16, 16}),  // as many images as channels
     [](const Tensors& in) -> Tensors {
       const Tensor sums = sum(in[0], {2, 3}, true);
       return {in[0] - sum(sums, {0}, true), in[0] - sum(sums, {1}, true),
               in[0] * sum(sums, {0}, true).transpose(0, 1)};
     }},
    {"StatisticsAreResults", images(kImages),
     [](const Tensors& in) -> Tensors {
       const Tensor m = mean(in[0], {0, 2, 3}, true), c = in[0] - m;
       return {m, c, mean(c * c, {0, 2, 3})};
     }},
};

TANDEM_CONTRACT(Channels, kRows);

/// A residual block's gradients and result.
Tensors residual(DType dtype) {
  manual_seed(3);
  const auto noise = [&](const Shape& sizes) { return randn(sizes).to(dtype); };
  const Tensor x = noise({4, 20, 24, 25}).requires_grad_(true),
               w = noise({20}).requires_grad_(true), b = noise({20}).requires_grad_(true),
               g = noise({4, 20, 24, 25});
  const auto compiled = compile([](const Tensor& x, const Tensor& w, const Tensor& b) {
    return relu(x + normalized({relu(normalized({x, w, b})), w, b}));
  });
  const Tensor y = compiled(x, w, b);
  Tensors all = grad({y}, {x, w, b}, {.grad_outputs = {g}});
  all.push_back(y.detach());
  return all;
}

TEST(Channels, HaveTheSameBitsOnAnyNumberOfThreads) {
  const int before = num_threads();
  for (DType dtype : {f32, f64, bf16}) {
    set_num_threads(1);
    const Tensors alone = residual(dtype);
    for (int threads : {2, 3, 5}) {
      set_num_threads(threads);
      const Tensors together = residual(dtype);
      for (size_t i = 0; i < alone.size(); ++i)
        EXPECT_TRUE(equal(alone[i], together[i])) << threads << " threads, value " << i;
    }
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace tandem::testing
