// Operators at the edges of what they take: attention without anything to attend to, diagonals and
// ranges as wide as int64, positions outside of what is empty, zeros of both signs. Eager and
// compiled, by generated code and by the interpreter.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "runtime/backends/backends.h"
#include "tests/support/check_compiled.h"
#include "tests/support/expect_error.h"

namespace tandem::testing {
namespace {

constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Values = std::vector<double>;
using Unary = std::function<Tensor(const Tensor&)>;
Values values(const Tensor& t) { return t.to_vector<double>(); }

const std::vector<std::shared_ptr<const ir::Backend>>& backends() {
  static const std::vector<std::shared_ptr<const ir::Backend>> all = {
      runtime::jit_backend(), runtime::interpreter_backend()};
  return all;
}

/// check_compiled by each backend.
void check(const Program& function, const MakeInputs& make_inputs, CheckOptions options = {}) {
  for (const auto& backend : backends()) {
    SCOPED_TRACE(backend->name());
    options.backend = backend;
    check_compiled(function, make_inputs, options);
  }
}

/// Of two elements, the first alone.
TEST(Extremes, StepsPastTheEndAreAsGoodAsAnyOther) {
  const auto two = [](Source& source) { return Tensors{source.noise({2, 3}, 1)}; };
  check(
      [](const Tensors& in) -> Tensors {
        return {in[0].slice(0, 0, {}, kHigh) + 1,
                slice_scatter(in[0], ones({1, 3}), 0, 1, 2, kHigh),
                in[0].transpose(0, 1).unfold(0, 3, kHigh) + 1};
      },
      two);
  const Tensor x = arange(6, f32).reshape({2, 3});
  for (const Unary& f : {Unary([](auto& t) { return t.slice(0, 0, {}, kHigh); }),
                         Unary([](auto& t) { return t.slice(1, kLow, kHigh, kHigh - 1); }),
                         Unary([](auto& t) { return t.unfold(0, 2, kHigh); })})
    EXPECT_EQ(values(f(x)), values(compile(f)(x)));
  EXPECT_EQ(values(x.slice(0, 0, {}, kHigh)), (Values{0, 1, 2}));
  EXPECT_EQ(values(x.slice(1, kLow, kHigh, kHigh - 1)), (Values{0, 3}));
}

/// Positions of elements are within 64 bits, or there is an Error.
TEST(Extremes, WindowsFarApart) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const auto images = [](Source& source) {
    return Tensors{source.noise({2, 3, 5, 6}, 1), source.noise({4, 3, 2, 3}, 2)};
  };
  check(
      [](const Tensors& in) -> Tensors {
        return {conv2d(in[0], in[1], {}, {.stride = kMost}),
                conv2d(in[0], in[1], {}, {.stride = {1, kMost}, .padding = 1}),
                max_pool2d(in[0], 3, {.stride = kMost}), avg_pool2d(in[0], 3, {.stride = kMost})};
      },
      images, {.settings = kLeavesInGradMode});
  const Tensor x = ones({1, 1, 16}), w = ones({1, 1, 3});
  using testing::expect_error;
  expect_error(Errc::Argument, "conv1d: dilation out of range; expected at most 2147483647",
               [&] { conv1d(x, w, {}, {.dilation = kHigh}); });
  expect_error(Errc::Argument, "stride out of range", [&] { conv1d(x, w, {}, {.stride = kHigh}); });
  expect_error(Errc::Argument, "padding out of range",
               [&] { conv1d(x, w, {}, {.padding = kHigh / 2}); });
  expect_error(Errc::Argument, "stride out of range",
               [&] { conv_transpose1d(x, w, {}, {.stride = kHigh / 2}); });
  expect_error(Errc::Argument, "dilation out of range",
               [&] { max_pool1d(x, 3, {.dilation = kHigh}); });
  expect_error(Errc::Argument, "kernel_size out of range", [&] { avg_pool1d(x, kHigh); });
}

TEST(Extremes, CountsThatOverflowAreRefused) {
  const Tensor x = ones({16});
  testing::expect_error(Errc::Argument, "overflows 64 bits",
                        [&] { repeat_interleave(x, full({16}, int64_t{1} << 60, i64), 0); });
}

/// Those whose squares are no longer numbers above 0 too.
TEST(Extremes, SincIsFlatNearZero) {
  for (const auto& [dtype, least] : {std::pair{f32, 1e-45}, std::pair{f64, 5e-324}}) {
    const Tensor x = tensor({0.0, least, -least, 1e-30, -1e-200}, dtype).requires_grad_();
    for (const Tensor& y : {sinc(x), compile([](const Tensor& t) { return sinc(t); })(x)}) {
      EXPECT_EQ(values(y), Values(5, 1));
      for (const double g : values(grad({sum(y)}, {x})[0])) EXPECT_LT(std::abs(g), 1e-29);
    }
  }
}

/// Where exp(x^2) is infinite, x^2 may yet be rounded by more than all numbers near 1.
TEST(Extremes, ErfcxIsInfiniteFarBelowZero) {
  const auto erfcx = [](const Tensor& x) { return special::erfcx(x); };
  const auto compiled = compile(erfcx);
  for (const DType dtype : {f64, f32, bf16}) {
    const Tensor x = tensor({-1e160, -1e30, -1e17, -1e8, -100, -27}).to(dtype).requires_grad_();
    for (const Tensor& y : {erfcx(x), compiled(x)}) {
      EXPECT_EQ(values(y), Values(6, kInfinity));
      EXPECT_EQ(values(grad({sum(y)}, {x})[0]), Values(6, -kInfinity));
    }
  }
}

/// As in ATen; a dimension's median gives it to the one that it says.
TEST(Extremes, EqualsShareTheGradientOfTheMedianOfAll) {
  const double nan = std::nan("");
  struct Case {
    Values x, gradient;
    bool ignore_nan = false;
  };
  const Case cases[] = {{{2, 1, 2, 5, 2, 2}, {0.25, 0, 0.25, 0, 0.25, 0.25}},
                        {{kInfinity, 1, kInfinity}, {0.5, 0, 0.5}},
                        {{1, nan, 2, nan, 3}, {0, 0.5, 0, 0.5, 0}},
                        {{1, nan, 2, 2, 3}, {0, 0, 0.5, 0.5, 0}, true}};
  for (const auto& [given, gradient, ignore_nan] : cases)
    for (const DType dtype : {f32, f64, bf16, f16}) {
      const auto of_all = [ignore_nan](const Tensor& t) {
        return ignore_nan ? nanmedian(t) : median(t);
      };
      const Tensor x = from_data(given, {static_cast<int64_t>(given.size())}).to(dtype);
      for (const Unary& f : {Unary(of_all), Unary(compile(of_all))}) {
        const Tensor leaf = x.clone().requires_grad_(), y = f(leaf);
        EXPECT_TRUE(equal(isnan(y), isnan(median(x, 0).values)) || ignore_nan);
        EXPECT_EQ(values(grad({y}, {leaf})[0]), gradient);
      }
      EXPECT_EQ(jvp(of_all, x, tensor({3, 3, 3, 3, 3, 3}).slice(0, 0, x.numel()).to(dtype))
                    .tangent.to(f64)
                    .item(),
                3);
    }
  const Tensor zeros_of_both_signs = tensor({-0.0, -0.0, 1.0});
  EXPECT_TRUE(std::signbit(median(zeros_of_both_signs).item()));
  const Tensor many = full({100'000}, 7.0, f16).requires_grad_();
  EXPECT_EQ(grad({median(many)}, {many})[0].to(f64).max().item(),
            full({}, 1e-5, f16).to(f64).item());
}

// --- positions of extrema

/// In neighbouring columns they are found by other sweeps than in rows.
TEST(Extremes, PositionsInColumnsAreThoseInRows) {
  manual_seed(4);
  const Tensor drawn = trunc(randn({3, 700, 40}) * 2);
  const Tensor odd = where(drawn > 5, std::nan(""), where(drawn == 0, -0.0, drawn));
  for (const DType dtype : {f32, f64, bf16, f16, i64, i32, i16, i8, u8}) {
    SCOPED_TRACE(ir::name(dtype));
    const Tensor x = (ir::is_floating(dtype) ? odd : drawn.abs()).to(dtype);
    for (const Tensor& columns : {x, x.slice(2, 0, {}, 2), x.slice(2, 0, 1).expand({3, 700, 20}),
                                  x.slice(1, 0, 1), x.slice(0, 0, 0), x.slice(2, 0, 17)}) {
      const Tensor rows = columns.transpose(1, 2).contiguous();
      for (const auto find : {+[](const Tensor& t, int64_t dim) { return argmax(t, dim); },
                              +[](const Tensor& t, int64_t dim) { return argmin(t, dim); }}) {
        const Tensor expected = find(rows, 2);
        EXPECT_EQ(values(find(columns, 1)), values(expected));
        const auto in_columns = compile([&](const Tensor& t) { return find(t, 1); });
        EXPECT_EQ(values(in_columns(columns)), values(expected));
      }
    }
  }
}

// --- attention

Tensor mask_of(std::initializer_list<bool> rows, int64_t keys) {
  std::vector<Tensor> parts;
  for (bool row : rows) parts.push_back(full({1, keys}, row, boolean));
  return cat(parts);
}

TEST(Extremes, RowsOfAttentionThatAreFullyMaskedAreZeros) {
  const Tensor keep = mask_of({true, false, true, false}, 5);
  const Tensor added = where(keep, 0.0, -kInfinity);
  for (const Tensor& mask : {keep, added}) {
    const Program attend = [&](const Tensors& in) {
      return Tensors{scaled_dot_product_attention(in[0], in[1], in[2], mask)};
    };
    const Tensors in = {noise({2, 4, 3}, 1).requires_grad_(), noise({2, 5, 3}, 2).requires_grad_(),
                        noise({2, 5, 6}, 3).requires_grad_()};
    const Tensor out = attend(in)[0];
    out.sum().backward();
    for (int64_t row : {1, 3}) {
      EXPECT_EQ(values(out.select(1, row)), Values(12, 0));
      EXPECT_EQ(values(in[0].grad().select(1, row)), Values(6, 0));
    }
    for (const Tensor& t : in) EXPECT_FALSE(any(isnan(t.grad())).item<bool>());
    check(attend, [](Source& source) {
      return Tensors{source.noise({2, 4, 3}, 1), source.noise({2, 5, 3}, 2),
                     source.noise({2, 5, 6}, 3)};
    });
  }
}

TEST(Extremes, TheGradientOfAMaskIsZeroWhereItHidesEverything) {
  const Program attend = [](const Tensors& in) {
    const Tensor hidden = in[3] + where(mask_of({true, false}, 3), 0.0, -kInfinity);
    return Tensors{scaled_dot_product_attention(in[0], in[1], in[2], hidden)};
  };
  const MakeInputs make = [](Source& source) {
    return Tensors{source.noise({2, 4}, 1), source.noise({3, 4}, 2), source.noise({3, 4}, 3),
                   source.noise({2, 3}, 4)};
  };
  Source source(Setting::Leaf);
  const Tensors in = make(source);
  attend(in)[0].sum().backward();
  EXPECT_EQ(values(in[3].grad()[1]), Values(3, 0));
  check(attend, make);
}

TEST(Extremes, ScoresOfMinusInfinityAreAMaskToo) {
  const Tensor q = full({1, 2}, -kInfinity), k = ones({3, 2});
  const Tensor out = scaled_dot_product_attention(q, k, k);
  EXPECT_EQ(values(out), Values(2, 0));
  EXPECT_EQ(values(scaled_dot_product_attention(ones({2, 3}), ones({0, 3}), ones({0, 4}))),
            Values(8, 0));
}

// In f64 the same numbers give what halves should, up to roundings of probabilities and results.
TEST(Extremes, LargeScoresOfHalvesAreAsExactAsSmallOnes) {
  const auto with_gradients = [](const Program& attend, const Tensors& given, DType dtype) {
    Tensors in, out;
    for (const Tensor& t : given) in.push_back(t.to(dtype).detach().requires_grad_());
    out.push_back(attend(in)[0]);
    out[0].sum().backward();
    for (const Tensor& t : in) out.push_back(t.grad());
    return out;
  };
  const Program attend = [](const Tensors& in) {
    return Tensors{scaled_dot_product_attention(in[0], in[1], in[2])};
  };
  const Program by_hand = [](const Tensors& in) {
    const auto never = scaled_dot_product_attention(in[0], in[1], in[2], {.dropout_p = 1e-12});
    return Tensors{never};
  };
  for (const DType dtype : {bf16, f16}) {
    Tensors given;
    for (uint64_t seed : {1, 2, 3}) given.push_back((noise({2, 16, 8}, seed) * 9).to(dtype));
    const Tensors wanted = with_gradients(attend, given, f64);
    for (const Program& form : {attend, by_hand, Program(compile(attend))}) {
      const Tensors got = with_gradients(form, given, dtype);
      for (size_t i = 0; i < got.size(); ++i)
        expect_close(wanted[i], got[i].to(f64), dtype == bf16 ? 0.01 : 0.0015,
                     std::string(ir::name(dtype)));
    }
  }
}

TEST(Extremes, BatchesOfAttentionBroadcast) {
  struct Case {
    Shape q, k, v, out;
  };
  const Case cases[] = {{{2, 1, 4, 3}, {1, 3, 5, 3}, {3, 5, 6}, {2, 3, 4, 6}},
                        {{4, 3}, {1, 3, 5, 3}, {3, 5, 6}, {1, 3, 4, 6}},
                        {{2, 3, 4, 3}, {5, 3}, {5, 6}, {2, 3, 4, 6}},
                        {{1, 1, 4, 3}, {2, 3, 5, 3}, {2, 1, 5, 6}, {2, 3, 4, 6}}};
  for (const Case& c : cases) {
    const Tensor q = noise(c.q, 1), k = noise(c.k, 2), v = noise(c.v, 3);
    const auto batched = [&](const Tensor& t) {
      return expand(t, {c.out[0], c.out[1], t.size(-2), t.size(-1)});
    };
    const Tensor got = scaled_dot_product_attention(q, k, v);
    EXPECT_EQ(got.sizes(), c.out);
    expect_close(scaled_dot_product_attention(batched(q), batched(k), batched(v)), got, 1e-6, "");
    check(
        [](const Tensors& in) {
          return Tensors{scaled_dot_product_attention(in[0], in[1], in[2])};
        },
        [&](Source& source) {
          return Tensors{source.noise(c.q, 1), source.noise(c.k, 2), source.noise(c.v, 3)};
        });
  }
  expect_error(Errc::Shape, "broadcast", [] {
    scaled_dot_product_attention(ones({2, 4, 3}), ones({3, 5, 3}), ones({3, 5, 3}));
  });
  expect_error(Errc::Argument, "is_causal", [] {
    const Tensor x = ones({4, 3});
    scaled_dot_product_attention(x, x, x, ones({4, 4}), true);
  });
}

// --- diagonals

TEST(Extremes, TrianglesAtAnyDiagonal) {
  const Tensor x = arange(1, 13).view({3, 4});
  for (int64_t offset : {kLow, kLow + 1, kLow + 2, int64_t{-4}, int64_t{-3}, int64_t{-2},
                         int64_t{3}, int64_t{4}, int64_t{5}, kHigh - 2, kHigh - 1, kHigh}) {
    Values lower, upper;
    for (int64_t i = 0; i < 12; ++i) {
      const int64_t above = i % 4 - i / 4;
      lower.push_back(above <= offset ? static_cast<double>(i + 1) : 0);
      upper.push_back(above >= offset ? static_cast<double>(i + 1) : 0);
    }
    EXPECT_EQ(values(tril(x, offset)), lower) << offset;
    EXPECT_EQ(values(triu(x, offset)), upper) << offset;
    check(
        [&](const Tensors& in) {
          Tensor written = in[0] * 1;
          written.triu_(offset);
          return Tensors{tril(in[0], offset), triu(in[0], offset), written};
        },
        [](Source& source) { return Tensors{source.noise({3, 4}, 1)}; },
        {.settings = kLeavesInGradMode});
  }
}

// --- ranges

TEST(Extremes, RandomIntegersOverAnyRange) {
  struct Range {
    int64_t low, high;
  };
  for (const auto& [low, high] :
       {Range{kLow, kHigh}, Range{kLow, 0}, Range{-1, kHigh}, Range{kLow, 1}, Range{0, kHigh},
        Range{kLow / 2 - 5, kHigh / 2 + 5}, Range{kLow, kLow + 1}, Range{kHigh - 1, kHigh}}) {
    manual_seed(3);
    const std::vector<int64_t> drawn = randint(low, high, {4000}).to_vector<int64_t>();
    const auto [least, most] = std::ranges::minmax(drawn);
    EXPECT_GE(least, low);
    EXPECT_LT(most, high);
    const double width = static_cast<double>(high) - static_cast<double>(low);
    if (width > 2) {  // spread over all of it
      EXPECT_LT(static_cast<double>(least) - static_cast<double>(low), 0.01 * width);
      EXPECT_LT(static_cast<double>(high) - static_cast<double>(most), 0.01 * width);
    }
    manual_seed(3);
    const auto again =
        compile([low, high](const Tensor& x) { return randint(low, high, x.sizes()); });
    EXPECT_EQ(again(zeros({4000})).to_vector<int64_t>(), drawn);
  }
}

TEST(Extremes, RandomIntegersFitTheirDtype) {
  for (const auto& [low, high, dtype] :
       {std::tuple(0, 257, u8), std::tuple(-1, 5, u8), std::tuple(-129, 0, i8),
        std::tuple(0, 3, boolean), std::tuple(0, 70000, f16)})
    expect_error(Errc::Argument, "does not fit", [&] { randint(low, high, {2}, dtype); });
  EXPECT_EQ(randint(0, 256, {2}, u8).dtype(), u8);
  EXPECT_EQ(randint(0, 2, {2}, boolean).dtype(), boolean);
}

// --- positions

TEST(Extremes, OneHotRefusesLabelsThatAreNoClass) {
  EXPECT_EQ(values(one_hot(tensor({2, 0}), 3)), (Values{0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(one_hot(tensor(1), 3).sizes(), (Shape{3}));
  EXPECT_EQ(one_hot(zeros({0, 2}, i64), 3).sizes(), (Shape{0, 2, 3}));
  expect_error(Errc::Argument, "one_hot", [] { one_hot(tensor({0}), 0); });
  for (int64_t label : {int64_t{-1}, int64_t{3}, kLow, kHigh}) {
    const Program encode = [](const Tensors& in) { return Tensors{one_hot(in[0], 3)}; };
    error_of([&] { encode({tensor({0, label})}); }, Errc::Index);
    check(encode, [&](Source&) { return Tensors{tensor({0, label})}; });
  }
}

TEST(Extremes, PositionsAreCheckedThoughNothingLiesThere) {
  const Tensor wrong = tensor({1, 7});
  const std::pair<const char*, Program> calls[] = {
      {"rows of no elements",
       [&](const Tensors& in) { return Tensors{index_select(in[0], 0, wrong)}; }},
      {"among no rows",
       [&](const Tensors& in) { return Tensors{index_select(in[0].t(), 1, wrong)}; }},
      {"embedding", [&](const Tensors& in) { return Tensors{embedding(in[0], wrong)}; }},
      {"index_add",
       [&](const Tensors& in) { return Tensors{index_add(in[0], 0, wrong, zeros({2, 0}))}; }},
      {"as the operand of more",
       [&](const Tensors& in) { return Tensors{in[0][wrong].sum({1}) + 1}; }}};
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    error_of([&] { call({zeros({3, 0})}); }, Errc::Index);
    check(call, [](Source& source) { return Tensors{source(zeros({3, 0}))}; });
  }
}

// --- sums of large powers

TEST(Extremes, LogcumsumexpOfLargeNumbersHasGradientsOfAnyOrder) {
  const Tensor x = tensor({10000, 1, 2, 3}, f64).requires_grad_();
  const auto call = compile([](const Tensor& t) { return logcumsumexp(t, 0); });
  for (const Tensor& result : {logcumsumexp(x, 0), call(x)}) {
    const Tensor first = grad({result.sum()}, {x}, {.create_graph = true})[0];
    EXPECT_EQ(first.to_vector<double>(), (std::vector<double>{4, 0, 0, 0}));
    const Tensor second = grad({(first * first).sum()}, {x})[0];
    EXPECT_EQ(second.to_vector<double>(), (std::vector<double>{0, 0, 0, 0}));
  }
}

// --- zeros of both signs

TEST(Extremes, TheLargestOfZerosHasNoSign) {
  for (int64_t n : {2, 3, 17, 67})
    for (bool negative_first : {true, false}) {
      const Tensor x = zeros({n});
      x.slice(0, negative_first ? 0 : 1, {}, 2).fill_(-0.0);
      EXPECT_FALSE(std::signbit(amax(x).item())) << n;
      EXPECT_TRUE(std::signbit(amin(x).item())) << n;
      const auto both = compile([](const Tensor& t) { return stack({amax(t), amin(t)}); });
      EXPECT_FALSE(std::signbit(both(x)[0].item())) << n;
      EXPECT_TRUE(std::signbit(both(x)[1].item())) << n;
    }
}

TEST(Extremes, RunsOfAnyLengthAreFilledToTheirEnd) {
  for (const DType dtype : {f64, f32, bf16, i64, i16, u8, boolean})
    for (const int64_t n : {1, 255, 256, 257, 1023, 1024, 1025, 2049, 50000}) {
      const Number number = dtype == boolean ? 1 : 3;
      const Values expected(static_cast<size_t>(n), number.to_double());
      EXPECT_EQ(values(full({n}, number, dtype)), expected) << ir::name(dtype) << n;
      const Tensor written = zeros({n + 2}, dtype);
      written.slice(0, 1, n + 1).fill_(number);
      EXPECT_EQ(values(written.slice(0, 1, n + 1)), expected) << ir::name(dtype) << n;
      EXPECT_EQ(written[0].item() + written[n + 1].item(), 0) << ir::name(dtype) << n;
    }
}

/// Of as many of the largest as i32 holds the sum of, and of more.
TEST(Extremes, SumsOfShortIntegersAreOfI64) {
  const auto compiled = compile([](const Tensor& t) { return sum(t, {1}); });
  for (const auto& [dtype, number, length] : {std::tuple{u8, 255, 8388607L},
                                              {u8, 255, 8500000L},
                                              {i8, -128, 8388607L},
                                              {i16, -32768, 32767L},
                                              {i16, -32768, 70000L},
                                              {i16, 32767, 65537L},
                                              {boolean, 1, 70001L}})
    for (const bool down : {false, true}) {
      const Tensor lines = full(down ? Shape{length, 2} : Shape{2, length}, number, dtype);
      const Values expected(2, static_cast<double>(number) * static_cast<double>(length));
      EXPECT_EQ(values(sum(lines, {down ? 0 : 1})), expected) << ir::name(dtype) << length;
      EXPECT_EQ(values(compiled(down ? lines.t() : lines)), expected) << ir::name(dtype) << length;
      EXPECT_EQ(values(sum(lines)), Values{2 * expected[0]}) << ir::name(dtype) << length;
    }
}

}  // namespace
}  // namespace tandem::testing
