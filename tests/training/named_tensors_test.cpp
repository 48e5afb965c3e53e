// What modules and optimizers give and take as their state.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

namespace tandem {
namespace {

TEST(NamedTensors, PrefixesAndParts) {
  const Tensor x = ones({2}), y = zeros({});
  const NamedTensors all = with_prefix("net", {{"in.weight", x}, {"in", y}});
  EXPECT_EQ(all[0].first, "net.in.weight");
  EXPECT_TRUE(find(all, "net.in")->is_same(y));
  EXPECT_EQ(find(all, "in"), nullptr);
  const NamedTensors parts = parts_of(all, "net.in");
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].first, "weight");
  EXPECT_TRUE(parts_of(all, "ne").empty());
  EXPECT_EQ(with_prefix("", all)[0].first, "net.in.weight");
}

struct Mean {
  Tensor weight = ones({3}).requires_grad_();
  nn::Buffer mean = zeros({3});
  TANDEM_FIELDS(Mean, weight, mean)
};

TEST(Buffers, AreTensorsOfAModuleThatCompiledFunctionsWrite) {
  const Mean m;
  const auto fn = compile([](const Mean& net, const Tensor& x) {
    net.mean.copy_(x);
    return x * net.weight;
  });
  fn(m, ones({3}) * 2.0);
  EXPECT_EQ(m.mean.to_vector<double>(), std::vector<double>(3, 2.0));
  EXPECT_EQ(nn::named_tensors(m).size(), 2u);
  EXPECT_EQ(nn::parameters(m).size(), 1u);
}

}  // namespace
}  // namespace tandem
