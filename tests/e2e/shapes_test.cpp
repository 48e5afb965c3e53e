// Functions that are called with many shapes: what is kept of them, when there is a warning, and
// that results do not depend on what the process has compiled before.
#include <gtest/gtest.h>
#include <tandem/graph.h>
#include <tandem/tandem.h>

#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tandem {
namespace {

/// The batch sizes that variants of the function `name` are kept for.
std::set<int64_t> kept_batches(const std::string& name) {
  std::set<int64_t> batches;
  for (const CompiledGraphs* graphs : compiled_graphs())
    if (graphs->functional.name == name)
      batches.insert(
          int64_t{graphs->functional.type(graphs->functional.inputs()[0].value).sizes[0]});
  return batches;
}

Tensor mean_of_squares(const Tensor& x) { return mean(square(tanh(x))); }

using Batches = std::set<int64_t>;

TEST(Shapes, TheNewestVariantIsKeptWhateverItsSize) {
  const auto f = compile(mean_of_squares, {.name = "one_kept", .max_variant_bytes = 0});
  for (const int64_t batch : {4, 5, 6}) {
    f(randn({batch, 3}));
    EXPECT_EQ(kept_batches("one_kept"), Batches{batch});
  }
}

TEST(Shapes, AllVariantsAreKeptWhileTheyAreFewBytes) {
  const auto f = compile(mean_of_squares, {.name = "all_kept"});
  for (int64_t batch = 1; batch <= 100; ++batch) f(randn({batch, 3}));
  EXPECT_EQ(kept_batches("all_kept").size(), 100u);
}

// With room for some, the one that was used before the others goes; with backward as without.
TEST(Shapes, TheLeastRecentlyUsedVariantIsDropped) {
  for (const bool differentiated : {false, true}) {
    const auto step = [&](const auto& f, int64_t batch) {
      const Tensor x = randn({batch, 3}).requires_grad_(differentiated);
      const Tensor y = f(x);
      if (differentiated) y.backward();
    };
    const auto keeps_code = compile(mean_of_squares);
    for (const int64_t batch : {11, 12, 13, 14}) step(keeps_code, batch);
    int64_t bytes = 1 << 10;
    for (;; bytes += bytes / 8) {  // the least that three variants fit into
      const auto f = compile(mean_of_squares, {.name = "probe", .max_variant_bytes = bytes});
      for (const int64_t batch : {11, 12, 13}) step(f, batch);
      if (kept_batches("probe").size() == 3) break;
    }
    const auto f = compile(mean_of_squares, {.name = "bounded", .max_variant_bytes = bytes});
    for (const int64_t batch : {11, 12, 13, 11, 14}) step(f, batch);
    const Batches kept = kept_batches("bounded");
    EXPECT_TRUE(kept.contains(14));
    EXPECT_TRUE(kept.contains(11));
    EXPECT_FALSE(kept.contains(12));
  }
}

/// What is written to stderr while f is called with arguments 1, 2, ..., count.
template <class F>
std::string warnings(const F& f, int count) {
  testing::internal::CaptureStderr();
  for (int i = 1; i <= count; ++i) f(i);
  return testing::internal::GetCapturedStderr();
}

TEST(Shapes, TheEighthVariantWithCodeOfItsOwnIsWarnedOf) {
  const auto f = compile(
      [](const Tensor& x, int times) {
        Tensor y = x;
        for (int i = 0; i < times; ++i) y = sin(y) * y;
        return y;
      },
      {.name = "many_codes"});
  const Tensor x = randn({5});
  const auto call = [&](int times) { f(x, times); };
  EXPECT_EQ(warnings(call, 7), "");
  const std::string text = warnings(call, 20);
  EXPECT_NE(text.find("many_codes needed new machine code for 8 variants"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("many_codes", text.find("many_codes") + 1), std::string::npos);
}

TEST(Shapes, ManyBatchesShareCode) {
  const auto f = compile(mean_of_squares, {.name = "one_code"});
  const auto call = [&](int batch) {
    const Tensor x = randn({batch + 1000, 48}).requires_grad_();
    f(x).backward();
  };
  EXPECT_EQ(warnings(call, 40), "");
}

Tensor network(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor h = layer_norm(gelu(matmul(x, weight) + bias), {70});
  return mean(softmax(h, 0) * h);
}

/// The loss and gradients of the network at `batch`.
template <class F>
std::vector<float> step(const F& f, int64_t batch) {
  manual_seed(1);
  const Tensor w = randn({20, 70}).requires_grad_(), b = randn({70}).requires_grad_();
  const Tensor loss = f(randn({batch, 20}), w, b);
  loss.backward();
  std::vector<float> all{static_cast<float>(loss.item())};
  for (const Tensor& t : {w.grad(), b.grad()})
    all.insert(all.end(), t.data<float>(), t.data<float>() + int64_t{t.numel()});
  return all;
}

// A function that meets one shape has code for that shape, one that meets many shares its code.
TEST(Shapes, BitsDoNotDependOnTheShapesBefore) {
  const std::vector<int64_t> batches = {700, 257, 200, 130, 65, 64, 17, 3, 2, 1, 300};
  std::vector<std::vector<float>> alone;
  for (const int64_t batch : batches) alone.push_back(step(compile(network), batch));
  const auto many = compile(network);
  for (size_t i = 0; i < batches.size(); ++i)
    EXPECT_EQ(step(many, batches[i]), alone[i]) << batches[i];
}

// --- the backward of a new variant, beside its forward half

/// Of the variant of `name` for `batch`; 0 while it is not compiled.
int kernels_of_backward(const std::string& name, int64_t batch) {
  for (const CompiledGraphs* graphs : compiled_graphs())
    if (graphs->functional.name == name &&
        graphs->functional.type(graphs->functional.inputs()[0].value).sizes[0] == batch)
      return graphs->backward_report.kernels;
  return -1;
}

TEST(Shapes, TheBackwardIsCompiledBesideItsForwardWhereAnEarlierOneWas) {
  const auto f = compile(mean_of_squares, {.name = "ahead"});
  const auto forward = [&](int64_t batch) { return f(randn({batch, 3}).requires_grad_()); };
  for (const int64_t batch : {11, 12}) forward(batch).backward();
  Tensor loss = forward(13);
  EXPECT_GT(kernels_of_backward("ahead", 13), 0);
  loss = forward(14);  // nobody asked for 13's, but it is there
  EXPECT_GT(kernels_of_backward("ahead", 14), 0);
}

TEST(Shapes, TheBackwardIsNotCompiledWhereNobodyAskedForOne) {
  const auto f = compile(mean_of_squares, {.name = "behind"});
  for (const int64_t batch : {11, 12, 13, 14}) {
    const Tensor loss = f(randn({batch, 3}).requires_grad_());
    EXPECT_EQ(kernels_of_backward("behind", batch), 0) << batch;
  }
}

// A gradient that is a part of the tangent needs no code, and which those are the forward half
// tells.
TEST(Shapes, GradientsThatArePartsOfTangentsAreTheSameForEachShape) {
  const auto sum_with_square = [](const Tensor& x, const Tensor& w) { return x + w * w; };
  const auto f = compile(sum_with_square);
  for (int64_t batch = 1; batch <= 6; ++batch) {
    const Tensor x = randn({batch, 3}).requires_grad_(), w = randn({3}).requires_grad_();
    const Tensor seed = randn({batch, 3});
    const auto gradients = [&](const auto& function) {
      return grad({function(x, w)}, {x, w}, {.grad_outputs = {seed}});
    };
    const std::vector<Tensor> expected = gradients(sum_with_square), got = gradients(f);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(equal(got[i], expected[i])) << batch;
  }
}

/// The interpreter, which counts its graphs.
class CountingBackend final : public Backend {
 public:
  std::string name() const override { return "counting"; }
  std::unique_ptr<ir::Executable> compile(const Graph& graph) const override {
    ++graphs;
    return backend_named("interpreter")->compile(graph);
  }
  mutable int graphs = 0;
};

TEST(Shapes, ABackendOfTheUsersIsAskedOnlyForWhatRuns) {
  const auto backend = std::make_shared<const CountingBackend>();
  const auto f = compile(mean_of_squares, {.name = "own", .backend = backend});
  for (const int64_t batch : {11, 12, 13}) f(randn({batch, 3}).requires_grad_()).backward();
  EXPECT_EQ(backend->graphs, 6);
  const Tensor loss = f(randn({14, 3}).requires_grad_());
  EXPECT_EQ(backend->graphs, 7);
}

}  // namespace
}  // namespace tandem
