// Programs of thousands of ops: what is compiled for them stays small, takes time in proportion to
// their length, and keeps the bits of short ones.
#include <gtest/gtest.h>
#include <tandem/graph.h>
#include <tandem/tandem.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
namespace tandem {
namespace {

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// The processor time of f and its backward, compiled and run once.
double seconds_of(const std::function<Tensor(const Tensor&)>& f) {
  const double start = processor_seconds();
  const Tensor x = full({4, 6}, 1.0).requires_grad_();
  sum(compile(f)(x)).backward();
  EXPECT_EQ(sum(x.grad()).item(), 48);
  return processor_seconds() - start;
}

struct ViewChain {
  const char* name;
  Tensor (*next)(const Tensor&);
};

class LongChainOfViews : public ::testing::TestWithParam<ViewChain> {};

// What is quadratic takes a minute here.
TEST_P(LongChainOfViews, takes_time_in_proportion) {
  const auto seconds = seconds_of([](const Tensor& x) {
    Tensor h = x * 2;
    for (int i = 0; i < 40000; ++i) h = GetParam().next(h);
    return h + 0;
  });
  EXPECT_LT(seconds, 10);
}

const ViewChain kChains[] = {
    {"view", [](const Tensor& h) { return h.dim() == 1 ? h.view({4, 6}) : h.view({24}); }},
    {"t", [](const Tensor& h) { return h.t(); }},
    {"slice", [](const Tensor& h) { return h.slice(0, 0, h.size(0)); }},
    {"unsqueeze", [](const Tensor& h) { return h.dim() == 2 ? h.unsqueeze(0) : h.squeeze(0); }},
};

INSTANTIATE_TEST_SUITE_P(All, LongChainOfViews, ::testing::ValuesIn(kChains),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(LongPrograms, parts_at_different_places_share_kernels) {
  const auto f = [](const Tensor& x, const Tensor& y) {
    std::vector<Tensor> parts;
    for (int i = 0; i < 32; ++i) parts.push_back(tanh(matmul(x.select(0, i), y)));
    return stack(parts);
  };
  const Tensor x = randn({32, 4, 16}).requires_grad_(), y = randn({16, 16}).requires_grad_();
  const auto compiled = compile(f);
  sum(compiled(x, y)).backward();
  const CompiledGraphs& graphs = *compiled_graphs().back();
  EXPECT_GE(graphs.forward_report.kernels, 32);
  EXPECT_LE(graphs.forward_report.distinct_kernels, 3);
}

/// n readers of one value.
Tensor fan_out(const Tensor& x, int n) {
  const Tensor y = exp(x);
  Tensor all = y;
  for (int i = 0; i < n; ++i) all = all + y * (i * 0.25);
  return all;
}

double relative_gap(const Tensor& a, const Tensor& b) {
  return amax(abs(a - b) / (abs(b) + 1)).item();
}

/// A folder of its own for compiled code.
class CodeFolder {
 public:
  std::string path() const { return folder_.path().string(); }
  int objects() const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      count += entry.is_regular_file();
    return count;
  }

 private:
  testing::TemporaryFolder folder_;
};

TEST(LongPrograms, kernels_that_differ_in_numbers_share_code) {
  const CodeFolder folder;
  const auto f = [](const Tensor& x) { return fan_out(x, 2000); };
  const Tensor x = randn({64}).requires_grad_(), y = x.detach().requires_grad_();
  const double start = processor_seconds();
  const auto compiled = compile(f, {.cache_dir = folder.path()});
  const Tensor result = compiled(x);
  sum(result).backward();
  EXPECT_LT(processor_seconds() - start, 3);
  EXPECT_GE(compiled_graphs().back()->forward_report.distinct_kernels, 15);
  EXPECT_LE(folder.objects(), 8);
  sum(f(y)).backward();
  EXPECT_LT(relative_gap(result, f(y)), 1e-4);
  EXPECT_LT(relative_gap(x.grad(), y.grad()), 1e-4);
}

// A number that fn captures and the caller changes.
TEST(LongPrograms, numbers_that_change_compile_no_more_code) {
  const CodeFolder folder;
  const Tensor x = randn({64});
  std::vector<std::shared_ptr<const void>> kept;
  for (int i = 3; i < 9; ++i) {
    const auto compiled =
        compile([i](const Tensor& t) { return tanh(t) * i + i; }, {.cache_dir = folder.path()});
    EXPECT_LT(relative_gap(compiled(x), tanh(x) * i + i), 1e-5);
    kept.push_back(std::make_shared<const decltype(compiled)>(compiled));
  }
  EXPECT_EQ(folder.objects(), 2);
}

struct Function {
  const char* name;
  Tensor (*f)(const Tensor&);
};

const Function kFunctions[] = {
    {"sin", [](const Tensor& h) { return sin(h); }},
    {"tan", [](const Tensor& h) { return tan(h); }},
    {"exp", [](const Tensor& h) { return exp(-abs(h)); }},
    {"tanh", [](const Tensor& h) { return tanh(h); }},
    {"erf", [](const Tensor& h) { return erf(h); }},
    {"log1p", [](const Tensor& h) { return log1p(abs(h)); }},
    {"atan2", [](const Tensor& h) { return atan2(h, cos(h)); }},
    {"pow", [](const Tensor& h) { return pow(abs(h), abs(h)); }},
};

/// Bit for bit, but for which NaN it is.
bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(DType::F64), y = b.to(DType::F64);
  const auto same = [](double p, double q) {
    return std::bit_cast<uint64_t>(p) == std::bit_cast<uint64_t>(q) ||
           (std::isnan(p) && std::isnan(q));
  };
  return std::equal(x.data<double>(), x.data<double>() + int64_t{x.numel()}, y.data<double>(),
                    same);
}

// A long kernel calls what a short one has inline.
TEST(LongPrograms, have_the_bits_of_their_steps) {
  constexpr int kSteps = 40;
  for (const DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16})
    for (const Function& function : kFunctions) {
      const auto step = [&](const Tensor& h, const Tensor& x) { return function.f(h) + x; };
      const auto one = compile(step);
      const auto all = compile([&](const Tensor& x) {
        Tensor h = x;
        for (int i = 0; i < kSteps; ++i) h = step(h, x);
        return h;
      });
      const Tensor x = (randn({100}) * 3).to(dtype);
      x.select(0, 0).fill_(3e4);
      Tensor h = x;
      for (int i = 0; i < kSteps; ++i) h = one(h, x);
      EXPECT_TRUE(same_bits(all(x), h)) << function.name << " " << name(dtype);
    }
}

}  // namespace
}  // namespace tandem
