// Attention that holds no scores: eager and compiled, against the decomposition in f64; its
// gradients of both orders; what it saves.
#include <gtest/gtest.h>
#include <tandem/graph.h>

#include <cmath>

#include "tests/support/check_compiled.h"
#include "tests/support/threads.h"

namespace tandem::testing {
namespace {

struct Case {
  const char* name;
  std::vector<Shape> sizes;  // of query, key, value, maybe a mask
  Tensor (*attend)(const Tensors& in);
};

Tensor heads(const Tensor& t) { return t.transpose(1, 2); }

/// A mask of the scores' dtype and of bools, from a tensor that takes no gradient.
Tensor never_some(const Tensor& t) { return gt(t.detach(), -0.5); }

Tensor masked_by_bools(const Tensors& in) {
  return scaled_dot_product_attention(in[0], in[1], in[2], {.attn_mask = never_some(in[3])});
}
Tensor causal_over_transposed_heads(const Tensors& in) {
  return scaled_dot_product_attention(heads(in[0]), heads(in[1]), heads(in[2]),
                                      {.is_causal = true});
}
Tensor of_groups(const Tensors& in) {
  return scaled_dot_product_attention(in[0], in[1], in[2], {.enable_gqa = true});
}

const Case kCases[] = {
    {"causal, transposed heads",
     {{1, 260, 2, 8}, {1, 260, 2, 8}, {1, 260, 2, 8}},
     [](const Tensors& in) {
       return scaled_dot_product_attention(heads(in[0]), heads(in[1]), heads(in[2]),
                                           {.is_causal = true, .scale = 0.7});
     }},
    {"short and causal, widths that no vector fits",
     {{2, 3, 50, 20}, {2, 3, 50, 20}, {2, 3, 50, 33}},
     [](const Tensors& in) {
       return scaled_dot_product_attention(in[0], in[1], in[2], {.is_causal = true});
     }},
    {"short and causal, transposed heads of more queries than keys",
     {{1, 67, 2, 8}, {1, 48, 2, 8}, {1, 48, 2, 8}},
     causal_over_transposed_heads},
    {"narrow heads and a mask of bools",
     {{2, 2, 129, 32}, {2, 2, 129, 32}, {2, 2, 129, 16}, {129, 129}},
     masked_by_bools},
    {"grouped queries beside more keys",
     {{1, 4, 130, 4}, {1, 2, 600, 4}, {1, 2, 600, 7}},
     of_groups},
    {"parts of one product, gapped",
     {{1, 260, 50}, {1, 260, 50}, {1, 260, 50}},
     [](const Tensors& in) {
       const Tensor all = in[0] * in[1] + in[2];
       const auto part = [&](int64_t at) {
         return heads(all.slice(2, at, at + 12).view({1, 260, 3, 4}));
       };
       return scaled_dot_product_attention(part(0), part(15), part(33));
     }},
    {"columns far apart, expanded, of two dimensions",
     {{256, 8}, {8, 270}, {270, 1}},
     [](const Tensors& in) {
       return scaled_dot_product_attention(in[0], in[1].transpose(0, 1), in[2].expand({270, 6}));
     }},
    {"a mask of bools",
     {{1, 2, 256, 4}, {1, 2, 256, 4}, {1, 2, 256, 4}, {1, 1, 1, 256}},
     masked_by_bools},
    {"rows of which nothing stays",
     {{1, 2, 256, 4}, {1, 2, 256, 4}, {1, 2, 256, 4}, {256, 1}},
     [](const Tensors& in) {
       return scaled_dot_product_attention(in[0], in[1], in[2], {.attn_mask = gt(in[3], 0)});
     }},
    {"a mask that is added and takes a gradient",
     {{3, 256, 4}, {3, 256, 4}, {3, 256, 4}, {256, 1}},
     [](const Tensors& in) {
       return scaled_dot_product_attention(in[0], in[1], in[2], {.attn_mask = in[3]});
     }},
    {"one query beside keys that groups share",
     {{1, 6, 1, 8}, {1, 2, 600, 8}, {1, 2, 600, 5}},
     of_groups},
    {"few queries, causal, keys of transposed heads",
     {{2, 5, 2, 16}, {2, 520, 2, 16}, {2, 520, 2, 16}},
     causal_over_transposed_heads},
    {"one query and a mask of the keys",
     {{2, 2, 1, 8}, {2, 2, 530, 8}, {2, 2, 530, 8}, {2, 1, 1, 530}},
     masked_by_bools},
    {"too few for that",
     {{2, 3, 20, 8}, {2, 3, 33, 8}, {2, 3, 33, 5}},
     [](const Tensors& in) { return scaled_dot_product_attention(in[0], in[1], in[2]); }},
};

Tensors leaves_of(const Case& c, DType dtype) {
  Tensors in;
  for (size_t i = 0; i < c.sizes.size(); ++i)
    in.push_back(noise(c.sizes[i], i + 1).to(dtype).requires_grad_(true));
  return in;
}

/// The result, and gradients by all that there are.
Tensors outcome(const Case& c, const std::function<Tensor(const Tensors&)>& f, DType dtype) {
  const Tensors in = leaves_of(c, dtype);
  const Tensor y = f(in);
  Tensors all = grad({square(y).sum()}, in, {.allow_unused = true});
  all.push_back(y.detach());
  return all;
}

void expect_near(const Tensors& got, const Tensors& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), want[i].defined());
    if (!got[i].defined()) continue;
    const double most = std::max(1e-2, want[i].abs().amax().item());
    EXPECT_LE(got[i].to(f64).sub(want[i]).abs().amax().item(), tolerance * most) << i;
  }
}

TEST(KeptAttention, IsNearTheDecompositionInF64) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Tensors want = outcome(c, c.attend, f64);
    expect_near(outcome(c, c.attend, f32), want, 1e-5);
    expect_near(outcome(c, compile(c.attend), f32), want, 1e-5);
  }
}

TEST(KeptAttention, AgreesCompiled) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    check_compiled([&](const Tensors& in) -> Tensors { return {c.attend(in)}; },
                   [&](Source& source) {
                     Tensors in;
                     for (size_t i = 0; i < c.sizes.size(); ++i)
                       in.push_back(source.noise(c.sizes[i], i + 1));
                     return in;
                   },
                   {.partitions = {"default", "reference", "save-all", "recompute-all"},
                    .settings = kLeavesInGradMode});
  }
}

/// Gradients of a function of the gradients.
Tensors second_order(const Case& c, const std::function<Tensor(const Tensors&)>& f, DType dtype) {
  const Tensors in = leaves_of(c, dtype);
  const Tensors first =
      grad({square(f(in)).sum()}, in, {.create_graph = true, .allow_unused = true});
  Tensor sum;
  for (const Tensor& g : first)
    if (g.defined()) sum = sum.defined() ? sum + sin(g).sum() : sin(g).sum();
  return grad({sum}, in, {.allow_unused = true});
}

TEST(KeptAttention, HasSecondDerivatives) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Tensors want = second_order(c, c.attend, f64);
    expect_near(second_order(c, c.attend, f32), want, 1e-4);
    expect_near(second_order(c, compile(c.attend), f32), want, 1e-4);
  }
}

TEST(KeptAttention, HasTheSameBitsOnAnyThreadsAndAtAnyCut) {
  const Threads threads(1);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    std::vector<std::vector<float>> expected;
    for (const char* partition : {"default", "save-all", "recompute-all"}) {
      const auto f = compile(c.attend, {.partition = partition});
      for (const int count : {1, 2, 5}) {
        Threads::set(count);
        std::vector<std::vector<float>> got;
        for (const Tensor& t : outcome(c, f, f32))
          if (t.defined()) got.push_back(t.to_vector<float>());
        if (expected.empty()) expected = got;
        EXPECT_EQ(got, expected) << partition << " " << count;
      }
    }
  }
}

/// Halves are computed as f32, and the results rounded.
TEST(KeptAttention, OfHalvesIsThatOfTheirNumbers) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const auto rounded = [&](const Tensors& in) {
      Tensors halves;
      for (const Tensor& t : in) halves.push_back(t.to(bf16));
      return c.attend(halves).to(f32);
    };
    const auto exact = [&](const Tensors& in) {
      Tensors numbers;
      for (const Tensor& t : in) numbers.push_back(t.to(bf16).to(t.dtype()));
      return c.attend(numbers);
    };
    const Tensors want = outcome(c, exact, f64);
    expect_near(outcome(c, rounded, f32), want, 0.03);
    expect_near(outcome(c, compile(rounded), f32), want, 0.03);
  }
}

TEST(KeptAttention, SavesNoScores) {
  for (const int64_t t : {64, 256}) {
    Tensors in;
    for (size_t i = 0; i < 3; ++i) in.push_back(noise({1, 2, t, 16}, i + 1).requires_grad_(true));
    const auto f = compile(
        [](const Tensors& x) { return scaled_dot_product_attention(x[0], x[1], x[2], {}, true); });
    const auto& graphs = f.graphs(in);
    for (const ir::Output& o : graphs.forward.outputs())
      EXPECT_LE(int64_t{ir::numel(graphs.forward.type(o.value).sizes)}, 2 * t * 16);
  }
}

}  // namespace
}  // namespace tandem::testing
