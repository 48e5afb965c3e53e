// Parts of a tensor written one after the other, in every layout, from values and from other parts,
// with reads between: a compiled function, which writes where the tensor lies, against eager. The
// tensor is given, or made within.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <random>

#include "tests/support/layouts.h"

namespace tandem::testing {
namespace {

/// Choices of one program, the same whenever it runs.
class Choices {
 public:
  explicit Choices(uint32_t seed) : random_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

 private:
  std::mt19937 random_;
};

/// Some part of `x`, by up to two views.
Tensor part_of(const Tensor& x, Choices& choose) {
  Tensor part = x;
  for (int64_t views = 1 + choose.below(2); views > 0; --views) {
    const int64_t dim = choose.below(part.dim()), size = part.size(dim), at = choose.below(size);
    switch (choose.below(4)) {
      case 0:
        if (part.dim() > 1) part = part.select(dim, at);
        break;
      case 1:
        part = part.narrow(dim, at, 1 + choose.below(size - at));
        break;
      case 2:
        part = part.slice(dim, at, size, 1 + choose.below(3));
        break;
      default:
        part = part.transpose(0, dim);
    }
  }
  return part;
}

/// A part of `x` moved by some steps along a dim, of the same sizes as `part` where it can be:
/// what it shows may overlap it.
std::pair<Tensor, Tensor> shifted_parts(const Tensor& x, Choices& choose) {
  const int64_t dim = choose.below(x.dim()), shift = 1 + choose.below(3), n = x.size(dim) - shift;
  const bool forward = choose.below(2) == 0;
  return {x.narrow(dim, forward ? 0 : shift, n), x.narrow(dim, forward ? shift : 0, n)};
}

/// Neighbouring slices one after the other, some left out, each made of the one before, as it is
/// or as it is read again.
void write_in_turn(const Tensor& x, const Tensor& v, Choices& choose) {
  const int64_t dim = choose.below(x.dim()), n = 1 + choose.below(3);
  Tensor last = x.narrow(dim, 0, n) * 0.5;
  for (int64_t i = 0; i + n <= x.size(dim); i += n + (choose.below(6) == 0 ? 1 : 0)) {
    const bool is_read = choose.below(3) == 0;
    last = is_read ? x.narrow(dim, std::max<int64_t>(0, i - n), n) * 0.9
                   : last * 0.7 + v[choose.below(v.size(0))];
    x.narrow(dim, i, n).copy_(last);
  }
}

void write_something(const Tensor& x, const Tensor& v, const Tensor& at, Choices& choose) {
  const Tensor part = part_of(x, choose);
  switch (choose.below(16)) {
    case 0:
      part.fill_(static_cast<double>(choose.below(9)));
      break;
    case 1:
      part.mul_(0.5);
      break;
    case 2:
      part.add_(v[choose.below(v.size(0))]);
      break;
    case 3:
      part.copy_(part * 2 - 1);
      break;
    case 4: {
      const auto [to, from] = shifted_parts(x, choose);
      to.copy_(from.clone());
      break;
    }
    case 5: {
      const auto [to, from] = shifted_parts(x, choose);
      to.add_(from * 0.25);
      break;
    }
    case 6: {
      const Tensor a = x.select(0, choose.below(x.size(0))),
                   b = x.select(0, choose.below(x.size(0)));
      const Tensor kept = a.clone();
      a.copy_(b);
      b.copy_(kept);
      break;
    }
    case 7: {
      const int64_t dim = choose.below(x.dim());
      x.select(dim, choose.below(x.size(dim))).copy_(x.mean(dim));
      break;
    }
    case 8: {
      if (part.dim() == 0) break;
      const int64_t dim = choose.below(part.dim());
      part.select(dim, choose.below(part.size(dim))).sub_(part.amax(dim));
      break;
    }
    case 9: {
      const int64_t dim = choose.below(x.dim());
      x.narrow(dim, choose.below(2), 2).copy_(x.index_select(dim, at));
      break;
    }
    case 10: {
      const int64_t dim = choose.below(x.dim()), inner = x.size(dim) - 2;
      x.narrow(dim, 1, inner).copy_(x.narrow(dim, 0, inner) + x.narrow(dim, 2, inner));
      break;
    }
    case 11: {
      if (part.dim() == 0) break;
      const int64_t dim = choose.below(part.dim());
      part.copy_(part.sort(dim).values);
      break;
    }
    case 12:
      write_in_turn(x, v, choose);
      break;
    case 13: {
      const int64_t dim = choose.below(x.dim());
      for (int64_t start = 0; start < 2; ++start)
        x.slice(dim, start, x.size(dim), 2).mul_(v[start]);
      break;
    }
    case 14: {
      const int64_t offset = choose.below(3) - 1;
      x.diagonal(offset).mul_(1.5);
      x.diagonal(offset + 1).add_(v[0]);
      break;
    }
    default: {
      const int64_t dim = choose.below(x.dim());
      x.index_fill_(dim, at, static_cast<double>(choose.below(9)));
    }
  }
}

/// Something that is made of all of `x`, or of a part.
Tensor read_something(const Tensor& x, const Tensor& v, Choices& choose) {
  const int64_t dim = choose.below(x.dim());
  switch (choose.below(5)) {
    case 0:
      return x.sum(dim);
    case 1:
      return softmax(x, dim).amax(0);
    case 2:
      return matmul(x.select(0, 1), v[0].expand({x.size(2)}));
    case 3:
      return x.topk(2, dim).values;
    default:
      return part_of(x, choose).sum();
  }
}

/// Something that is made of `given`, at once or part by part.
Tensor made_of(const Tensor& given, Choices& choose) {
  switch (choose.below(4)) {
    case 0:
      return given * 1.5;
    case 1:
      return given.transpose(0, 1).sin();
    case 2:
      return full_like(given, 2.0);
    default: {
      const Tensor made = zeros_like(given);
      const int64_t dim = choose.below(made.dim()), end = made.size(dim) - choose.below(2);
      for (int64_t i = 0; i < end; ++i)
        made.select(dim, i).copy_(given.select(dim, end - 1 - i) * 2);
      return made;
    }
  }
}

/// Writes into the given tensor, or into one that is made of it and seen last.
std::vector<Tensor> program(const Tensor& given, const Tensor& v, const Tensor& at, uint32_t seed) {
  Choices choose(seed);
  const bool is_given = choose.below(2) == 0;
  const Tensor x = is_given ? given : made_of(given, choose);
  std::vector<Tensor> seen;
  for (int64_t writes = 1 + choose.below(5); writes > 0; --writes) {
    if (choose.below(4) == 0) seen.push_back(part_of(x, choose) * 3);
    write_something(x, v, at, choose);
    if (choose.below(2) == 0) seen.push_back(read_something(x, v, choose));
  }
  if (!is_given) seen.push_back(x);
  return seen;
}

const std::pair<const char*, Layout> kLayouts[] = {
    {"contiguous", [](const Tensor& t) { return t.clone(); }},
    {"turned",
     [](const Tensor& t) { return t.permute({2, 0, 1}).contiguous().permute({1, 2, 0}); }},
    {"inner", inner},
    {"gapped", gapped},
};

class PartWrites : public ::testing::TestWithParam<int> {};

TEST_P(PartWrites, AreThoseOfEager) {
  const Tensor at = tensor({4, 1}, i64);
  for (uint32_t i = 0; i < 60; ++i) {
    const auto seed = static_cast<uint32_t>(GetParam()) * 1000 + i;
    const Shape sizes = i % 3 == 0 ? Shape{5, 6, 7} : Shape{24, 20, 24};  // few numbers, and many
    const auto& [name, lay_out] = kLayouts[i % 4];
    SCOPED_TRACE(::testing::Message() << name << " " << seed);
    const Tensor start = randn(sizes), v = randn({8});
    const Tensor eager = lay_out(start), compiled = lay_out(start);
    const auto expected = program(eager, v, at, seed);
    const auto seen = compile([=](const Tensor& x, const Tensor& numbers, const Tensor& positions) {
      return program(x, numbers, positions, seed);
    })(compiled, v, at);
    EXPECT_TRUE(allclose(compiled, eager, 1e-5, 1e-5));
    ASSERT_EQ(seen.size(), expected.size());
    for (size_t k = 0; k < seen.size(); ++k)
      EXPECT_TRUE(allclose(seen[k], expected[k], 1e-4, 1e-4));
  }
}

/// What a program gives, and the gradients of all it gives and leaves behind: of what the tensor
/// was made of, and of the numbers; those of these, where they are wanted.
struct Differentiated {
  std::vector<Tensor> seen, gradients, second;
};

Differentiated differentiated(bool is_compiled, const Tensor& start, const Tensor& numbers,
                              const Tensor& at, uint32_t seed, bool twice) {
  const Tensor leaf = start.detach().requires_grad_(), v = numbers.detach().requires_grad_();
  const Tensor given = leaf * 1.0;  // a leaf is not written
  const auto f = [=](const Tensor& x, const Tensor& n, const Tensor& positions) {
    return program(x, n, positions, seed);
  };
  Differentiated all;
  all.seen = is_compiled ? compile(f)(given, v, at) : f(given, v, at);
  all.seen.push_back(given);
  Tensor loss = tensor(0.0, f64);
  for (const Tensor& t : all.seen)
    loss = loss + (t * t).sum() * (0.1 + 0.01 * static_cast<double>(t.dim()));
  all.gradients = grad({loss}, {leaf, v}, {.create_graph = twice, .allow_unused = true});
  if (!twice) return all;
  Tensor of_gradients = tensor(0.0, f64);
  for (const Tensor& g : all.gradients)
    if (g.defined()) of_gradients = of_gradients + (g * g).sum();
  all.second = grad({of_gradients}, {leaf, v}, {.allow_unused = true});
  return all;
}

void expect_close(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t k = 0; k < found.size(); ++k) {
    ASSERT_EQ(found[k].defined(), expected[k].defined());
    if (!found[k].defined()) continue;
    EXPECT_TRUE(allclose(found[k].detach(), expected[k].detach(), 1e-9, 1e-9)) << k;
  }
}

// What eager refuses, since a write replaced what a gradient reads, is left out.
TEST_P(PartWrites, HaveTheGradientsOfEager) {
  const Tensor at = tensor({4, 1}, i64);
  int compared = 0;
  for (uint32_t i = 0; i < 40; ++i) {
    const auto seed = static_cast<uint32_t>(GetParam()) * 2000 + i;
    const auto& [name, lay_out] = kLayouts[i % 4];
    SCOPED_TRACE(::testing::Message() << name << " " << seed);
    const Tensor start = lay_out(randn(i % 8 == 7 ? Shape{24, 20, 24} : Shape{5, 6, 7}, f64)),
                 v = randn({8}, f64);
    Differentiated expected;
    try {
      expected = differentiated(false, start, v, at, seed, i % 3 == 0);
    } catch (const Error&) {
      continue;
    }
    const Differentiated found = differentiated(true, start, v, at, seed, i % 3 == 0);
    expect_close(found.seen, expected.seen);
    expect_close(found.gradients, expected.gradients);
    expect_close(found.second, expected.second);
    ++compared;
  }
  EXPECT_GE(compared, 15);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PartWrites, ::testing::Range(0, 4));

}  // namespace
}  // namespace tandem::testing
