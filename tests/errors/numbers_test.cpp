// Numbers that the dtype of a tensor does not hold: refused where they are written, are bounds or
// scale, eagerly and in a trace, and nothing has changed; beside tensors they wrap, as in ATen.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/expect_error.h"

namespace tandem {
namespace {

using ir::Errc;
using testing::expect_error;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// Uses the number in a way that asks for one of the tensor's dtype.
struct Use {
  const char* name;
  std::function<Tensor(const Tensor& x, const Number& number)> call;
  bool halves_too = true;  // else they round it to infinity
};

std::ostream& operator<<(std::ostream& out, const Use& use) { return out << use.name; }

Tensor first_two() { return tensor({0, 1}); }
Tensor some() { return tensor({true, false, true}); }
Tensor square_of(const Tensor& x) { return ones({2, 2}, x.dtype()); }

const std::vector<Use> kUses{
    {"Full", [](auto& x, auto& n) { return full({2}, n, x.dtype()); }},
    {"FullOfNoDimension", [](auto& x, auto& n) { return full({}, n, x.dtype()); }},
    {"FullLike", [](auto& x, auto& n) { return full_like(x, n); }},
    {"Fill", [](auto& x, auto& n) { return x.fill_(n); }},
    {"FillOfAView", [](auto& x, auto& n) { return x.slice(0, 0, 3, 2).fill_(n); }},
    {"FillDiagonal", [](auto& x, auto& n) { return square_of(x).fill_diagonal_(n); }},
    {"MaskedFill", [](auto& x, auto& n) { return masked_fill(x, some(), n); }},
    {"MaskedFillInPlace", [](auto& x, auto& n) { return x.masked_fill_(some(), n); }},
    {"IndexFill", [](auto& x, auto& n) { return index_fill(x, 0, first_two(), n); }},
    {"IndexFillInPlace", [](auto& x, auto& n) { return x.index_fill_(0, first_two(), n); }},
    {"Scatter", [](auto& x, auto& n) { return scatter(x, 0, first_two(), n); }},
    {"ScatterAdding", [](auto& x, auto& n) { return scatter(x, 0, first_two(), n, "add"); }},
    {"ScatterInPlace", [](auto& x, auto& n) { return x.scatter_(0, first_two(), n); }},
    {"Pad", [](auto& x, auto& n) { return pad(x, {1, 1}, n); }},
    {"Threshold", [](auto& x, auto& n) { return threshold(x, 0, n); }},
    {"Linspace", [](auto& x, auto& n) { return linspace(0, n, 3, x.dtype()); }},
    {"AssignAPart", [](auto& x, auto& n) { return x[0] = n; }, false},
    {"AssignThroughPositions", [](auto& x, auto& n) { return x.index_put_({first_two()}, n); },
     false},
    {"AssignThroughAMask", [](auto& x, auto& n) { return x.index_put_({some()}, n); }, false},
};

/// Whether ATen converts the number to the dtype.
struct Held {
  DType dtype;
  Number number;
  bool is_held;
};

const std::vector<Held> kHeld{
    {u8, 255, true},      {u8, 256, false},   {u8, -255, true},      {u8, -256, false},
    {u8, -1.0, false},    {u8, 2.7, true},    {i8, 127, true},       {i8, 128, false},
    {i8, -128, true},     {i8, -129, false},  {i8, 127.5, false},    {i16, 32767, true},
    {i16, 1e6, false},    {i32, 1e12, false}, {i32, -1e9, true},     {i32, 1LL << 31, false},
    {i64, 1e30, false},   {i64, 1e18, true},  {i64, 0x1p63, false},  {i64, -0x1p63, true},
    {i8, NAN, false},     {i64, kInf, false}, {f32, 1e39, false},    {f32, -1e38, true},
    {f32, kInf, true},    {f32, NAN, true},   {f64, 1e300, true},    {f16, 65504, true},
    {f16, -65505, false}, {f16, kInf, true},  {bf16, 1e39, false},   {bf16, 3e38, true},
    {boolean, 300, true}, {u8, true, true},   {f32, 1LL << 62, true}};

class NumbersOfADType : public ::testing::TestWithParam<Use> {};

TEST_P(NumbersOfADType, AreRefusedUnlessTheDTypeHoldsThem) {
  for (const Held& h : kHeld) {
    const bool is_half = h.dtype == f16 || h.dtype == bf16;
    const bool bool_is_refused = h.dtype == boolean && GetParam().name == std::string("Threshold");
    if (bool_is_refused || (is_half && !GetParam().halves_too)) continue;
    const Tensor memory = tensor({1, 9, 2, 9, 3}).to(h.dtype), before = memory.clone();
    const auto call = [&](const Tensor& x) {
      return GetParam().call(x.slice(0, 0, 5, 2), h.number);
    };
    const auto compiled = compile(call);
    if (h.is_held) {
      const Tensor other = memory.clone();
      const Tensor expected = call(memory), got = compiled(other);
      EXPECT_TRUE(equal(nan_to_num(expected), nan_to_num(got)));
      EXPECT_TRUE(equal(nan_to_num(memory), nan_to_num(other)));
      continue;
    }
    const std::string says = "expected one that " + std::string(ir::name(h.dtype)) + " holds";
    expect_error(Errc::Argument, says, [&] { call(memory); });
    expect_error(Errc::Argument, says, [&] { compiled(memory); });
    EXPECT_TRUE(equal(memory, before));
  }
}

INSTANTIATE_TEST_SUITE_P(Uses, NumbersOfADType, ::testing::ValuesIn(kUses),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(NumbersOfADTypes, HalvesThatAreAssignedRoundToInfinity) {
  for (const DType dtype : {f16, bf16}) {
    const Tensor x = zeros({3}, dtype);
    x[0] = 1e39;
    x.index_put_({tensor({1})}, -1e39);
    EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{kInf, -kInf, 0}));
    EXPECT_EQ(where(some(), x, -1e39)[1].item(), -kInf);
  }
}

TEST(NumbersOfADTypes, ScalesAndBounds) {
  const Tensor x = ones({2, 2}, i8), y = ones({2}, i8), at = tensor({0, 1});
  const std::string says = "expected one that i8 holds, got 1000";
  const std::vector<std::function<Tensor()>> calls{
      [&] { return add(x, x, 1000); },
      [&] { return sub(x, x, 1000); },
      [&] { return rsub(x, x, 1000); },
      [&] { return addcmul(x, x, x, 1000); },
      [&] { return index_add(x, 0, at, x, 1000); },
      [&] { return addmm(x, x, x, {.beta = 1000}); },
      [&] { return addmm(x, x, x, {.alpha = 1000}); },
      [&] { return addmv(y, x, y, {.alpha = 1000}); },
      [&] { return baddbmm(x.unsqueeze(0), x.unsqueeze(0), x.unsqueeze(0), {.beta = 1000}); },
      [&] { return clamp(x, 0, 1000); },
      [&] { return clamp(x, 1000); },
      [&] { return clamp_max(x, 1000); },
      [&] { return x.clone().clamp_(0, 1000); },
      [&] { return hardtanh(x, 0, 1000); },
      [&] { return where(x > 0, x, 1000); },
      [&] { return where(x > 0, 1000, x); },
      [&] { return pow(x, 1000); },
      [&] { return tensor({1, 1000}, i8); },
      [&] { return tensor(1000, i8); }};
  for (size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE(i);
    expect_error(Errc::Argument, says, [&] { calls[i](); });
    expect_error(Errc::Argument, says,
                 [&] { compile([&](const Tensor& z) { return z + calls[i](); })(x); });
  }
}

TEST(NumbersOfADTypes, WrapBesideTensors) {
  const Tensor x = ones({1}, u8);
  const std::vector<std::pair<std::function<Tensor(const Tensor&)>, int>> sums{
      {[](const Tensor& t) { return t + 1000; }, 233},
      {[](const Tensor& t) { return t - 1000; }, 25},
      {[](const Tensor& t) { return t * 1000; }, 232},
      {[](const Tensor& t) { return t == 257; }, 1},
      {[](const Tensor& t) { return t.clone().add_(1000); }, 233}};
  for (const auto& [sum, expected] : sums) {
    EXPECT_EQ(sum(x).item(), expected);
    EXPECT_EQ(compile(sum)(x).item(), expected);
  }
}

TEST(NumbersOfADTypes, IntegersHaveNoNegativePowers) {
  for (const DType dtype : {u8, i8, i16, i32, i64, boolean}) {
    const Tensor x = ones({2, 3}, dtype).t();
    const auto power = [](const Tensor& t) { return pow(t, -1); };
    const auto written = [](const Tensor& t) { return t.pow_(-2); };
    const std::string says = "an integer to a negative power; expected an exponent of at least 0";
    expect_error(Errc::Argument, says, [&] { power(x); });
    expect_error(Errc::Argument, says, [&] { compile(power)(x); });
    expect_error(Errc::Argument, says, [&] { written(x); });
    EXPECT_EQ(pow(x, 0).sum().item(), 6);
    EXPECT_EQ(pow(x, -1.0).dtype(), f32);
  }
  const Tensor exponents = tensor({-1, 0, 2});  // of a tensor they are defined
  EXPECT_EQ(pow(2, exponents).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 4}));
  EXPECT_EQ(pow(tensor({1, -1, 3}), tensor({-1, -1, -1})).to_vector<int64_t>(),
            (std::vector<int64_t>{1, -1, 0}));
  EXPECT_EQ(pow(ones({2}), -1).sum().item(), 2);
}

}  // namespace
}  // namespace tandem
