// Bad arguments to the public API: an Error with a stable code that says what was expected, and
// nothing is changed.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <string>

namespace tandem {
namespace {

template <class Action>
void expect_error(ir::Errc code, Action action) {
  try {
    action();
    ADD_FAILURE() << "expected an Error";
  } catch (const Error& e) {
    EXPECT_EQ(ir::name(e.code()), ir::name(code)) << e.what();
    EXPECT_NE(std::string(e.what()).find("expected"), std::string::npos) << e.what();
  }
}

TEST(BadTensors, Shapes) {
  const Tensor a = zeros({2, 3}), b = zeros({4, 3});
  expect_error(ir::Errc::Shape, [&] { add(a, b); });
  expect_error(ir::Errc::Shape, [&] { mm(a, b); });
  expect_error(ir::Errc::Shape, [&] { a.add_(b); });
  EXPECT_EQ(a.to_vector<float>(), std::vector<float>(6, 0));
}

TEST(BadTensors, AnEmbeddingIndexOutside) {
  const Tensor weight = zeros({4, 2});
  for (int64_t bad : {-1, 4}) {
    const Tensor index = full({3}, bad, i64);
    expect_error(ir::Errc::Index, [&] { embedding(weight, index); });
    const auto compiled = compile([](const Tensor& w, const Tensor& i, const Tensor& total) {
      total.add_(embedding(w, i));
      return total.detach();
    });
    const Tensor total = zeros({3, 2});
    expect_error(ir::Errc::Index, [&] { compiled(weight, index, total); });
    EXPECT_EQ(total.to_vector<float>(), std::vector<float>(6, 0));
  }
}

}  // namespace
}  // namespace tandem
