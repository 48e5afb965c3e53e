// Compiled code runs on the stack of whoever calls it: what it takes of that is bounded by a
// constant, whatever the sizes.
#include <gtest/gtest.h>
#include <pthread.h>
#include <tandem/tandem.h>

#include <functional>

namespace tandem {
namespace {

/// f() on a thread with a stack of `bytes`.
void on_small_stack(size_t bytes, const std::function<void()>& f) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  pthread_t thread;
  const auto run = [](void* call) -> void* {
    (*static_cast<const std::function<void()>*>(call))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&f)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

/// With what libraries keep for each thread: OpenBLAS 60 KiB.
constexpr size_t kStack = 128 << 10;
constexpr int64_t kMany = int64_t{1} << 30;

struct Reduction {
  const char* name;
  Tensor (*reduce)(const Tensor&);
  DType dtype;
  double expected;
};

void PrintTo(const Reduction& r, std::ostream* out) { *out << r.name; }

class StackOfReduction : public ::testing::TestWithParam<Reduction> {};

TEST_P(StackOfReduction, is_bounded) {
  const Reduction& r = GetParam();
  const auto reduced = compile([&](const Tensor& x) { return r.reduce(x.expand({kMany})); });
  const Tensor x = full({1}, 0.5, r.dtype);
  reduced(x);
  double result = 0;
  on_small_stack(kStack, [&] { result = reduced(x).item(); });
  EXPECT_EQ(result, r.expected);
}

const Reduction kReductions[] = {
    {"sum", [](const Tensor& x) { return sum(x); }, DType::F32, 0.5 * (1 << 30)},
    {"sum_f64", [](const Tensor& x) { return sum(x); }, DType::F64, 0.5 * (1 << 30)},
    {"amax", [](const Tensor& x) { return amax(x); }, DType::F32, 0.5},
    {"mean_of_squares", [](const Tensor& x) { return mean(square(x)); }, DType::F32, 0.25},
};

INSTANTIATE_TEST_SUITE_P(All, StackOfReduction, ::testing::ValuesIn(kReductions),
                         [](const auto& r) { return std::string(r.param.name); });

}  // namespace
}  // namespace tandem
