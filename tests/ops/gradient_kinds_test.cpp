// What every operator gives as the gradient of each of its operands: a gradient, zeros, nothing or
// an Error, eager and compiled, as PyTorch does (tests/torch/gradient_kinds.py).
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

namespace tandem::testing {
namespace {

using Tensors = std::vector<Tensor>;
using Kinds = std::vector<std::string>;
using Run = std::function<Tensors(const Tensors&)>;

struct Case {
  std::string name;
  Run run;
  int inputs = 1;
};

Tensor mask() { return tensor({true, false, true}); }
Tensor index() { return tensor({0, 0}); }

/// `write` on a copy of the first input.
template <class Write>
Run written(Write write, bool with_grad = true) {
  return [=](const Tensors& in) {
    const Tensor y = in[0] * 1;
    const GradMode mode(with_grad);
    write(y, in);
    return Tensors{y};
  };
}

template <class Make>
Case unary(const std::string& name, Make make) {
  return {name, [=](const Tensors& in) { return Tensors{make(in[0])}; }, 1};
}

template <class Make>
Case binary(const std::string& name, Make make) {
  return {name, [=](const Tensors& in) { return Tensors{make(in[0], in[1])}; }, 2};
}

std::vector<Case> listed_ops() {
  std::vector<Case> all;
#define X(op) all.push_back(unary(#op, [](const Tensor& x) { return op(x); }));
  TANDEM_UNARY_IN_PLACE_OPS(X)
  TANDEM_UNARY_OPS(X)
  TANDEM_MADE_UNARY_IN_PLACE(X)
  TANDEM_MADE_UNARY(X)
#undef X
#define X(op) all.push_back({#op "_", written([](const Tensor& y, const Tensors&) { y.op##_(); })});
  TANDEM_UNARY_IN_PLACE_OPS(X)
  TANDEM_MADE_UNARY_IN_PLACE(X)
#undef X
#define X(op) all.push_back(binary(#op, [](const Tensor& x, const Tensor& y) { return op(x, y); }));
  TANDEM_BINARY_IN_PLACE_OPS(X)
  TANDEM_BINARY_OPS(X)
  TANDEM_MADE_BINARY_IN_PLACE(X)
  TANDEM_MADE_BINARY(X)
#undef X
#define X(op) \
  all.push_back({#op "_", written([](const Tensor& y, const Tensors& in) { y.op##_(in[1]); }), 2});
  TANDEM_BINARY_IN_PLACE_OPS(X)
  TANDEM_COMPARISON_OPS(X)
  TANDEM_MADE_BINARY_IN_PLACE(X)
#undef X
  return all;
}

std::vector<Case> other_pointwise() {
  return {
      unary("floor_divide_number", [](const Tensor& a) { return floor_divide(a, 2); }),
      unary("floor_divide_of_number", [](const Tensor& a) { return floor_divide(2, a); }),
      {"floor_divide_beside",
       [](const Tensors& in) { return Tensors{floor_divide(in[0], 2), in[1] * 2}; }, 2},
      binary("floor_divide_partly",
             [](const Tensor& a, const Tensor& b) { return floor_divide(a.detach(), 2) * b; }),
      binary("where", [](const Tensor& a, const Tensor& b) { return where(mask(), a, b); }),
      binary("where_all",
             [](const Tensor& a, const Tensor& b) { return where(mask() | ~mask(), a, b); }),
      binary("masked_fill",
             [](const Tensor& a, const Tensor& b) { return masked_fill(a, mask(), b.sum()); }),
      {"masked_fill_",
       written([](const Tensor& y, const Tensors& in) { y.masked_fill_(mask(), in[1].sum()); }), 2},
      unary("clamp", [](const Tensor& a) { return clamp(a, 0.3, 0.6); }),
      unary("hardtanh", [](const Tensor& a) { return hardtanh(a, 2, 3); }),
      binary("clamp_min", [](const Tensor& a, const Tensor& b) { return clamp_min(a, b); }),
      binary("clamp_max", [](const Tensor& a, const Tensor& b) { return clamp_max(a, b); }),
      binary("lerp", [](const Tensor& a, const Tensor& b) { return lerp(a, b, 0.5); }),
      binary("addcmul", [](const Tensor& a, const Tensor& b) { return addcmul(a, a, b); }),
      binary("addcdiv", [](const Tensor& a, const Tensor& b) { return addcdiv(b, a, b); }),
      unary("nan_to_num", [](const Tensor& a) { return nan_to_num(a); }),
      binary("clamp_both", [](const Tensor& a, const Tensor& b) { return clamp(a, a, b); }),
      binary("clamp_crossed", [](const Tensor& a, const Tensor& b) { return clamp(a, b, a); }),
      binary("isclose", [](const Tensor& a, const Tensor& b) { return isclose(a, b); }),
      binary("div_trunc", [](const Tensor& a, const Tensor& b) { return div(a, b, "trunc"); }),
      binary("div_floor", [](const Tensor& a, const Tensor& b) { return div(a, b, "floor"); }),
      unary("round_decimals", [](const Tensor& a) { return round(a, 1); }),
      unary("hardshrink", [](const Tensor& a) { return hardshrink(a, 2); }),
      unary("softshrink", [](const Tensor& a) { return softshrink(a, 2); }),
      unary("threshold", [](const Tensor& a) { return threshold(a, 2, 3); }),
      unary("positive", [](const Tensor& a) { return positive(a); }),
      binary("prelu", [](const Tensor& a, const Tensor& b) { return prelu(-a, b.slice(0, 0, 1)); }),
      binary("prelu_unused",
             [](const Tensor& a, const Tensor& b) { return prelu(a, b.slice(0, 0, 1)); }),
      unary("zeta_of_number", [](const Tensor& a) { return special::zeta(2.0, a); }),
      binary("zeta", [](const Tensor& a, const Tensor& b) { return special::zeta(b, a); }),
      binary("zeta_partly",
             [](const Tensor& a, const Tensor& b) { return special::zeta(b.detach(), a); }),
      unary("to_integers_and_back", [](const Tensor& a) { return a.to(i32).to(f32); }),
      unary("to_f64", [](const Tensor& a) { return a.to(f64); }),
      unary("detach", [](const Tensor& a) { return a.detach() * 2; }),
      binary("detach_partly", [](const Tensor& a, const Tensor& b) { return a.detach() * b; }),
      unary("detach_and_not", [](const Tensor& a) { return a.detach() * a; }),
      unary("zeros_like", [](const Tensor& a) { return zeros_like(a); }),
      unary("sign_of_sqrt_of_zero", [](const Tensor& a) { return sign(sqrt(a - a)); }),
  };
}

std::vector<Case> reductions_and_shapes() {
  std::vector<Case> cases;
#define X(op) cases.push_back(unary(#op, [](const Tensor& a) { return op(a); }))
  X(sum);
  X(prod);
  X(mean);
  X(amax);
  X(amin);
  X(var);
  X(std);
  X(any);
  X(all);
  X(argmax);
  X(argmin);
#undef X
  const auto none = [](const Tensor& x) { return x.slice(0, 0, 0); };
  const std::vector<Case> more{
      unary("max", [](const Tensor& a) { return max(a, 0).values; }),
      unary("min", [](const Tensor& a) { return min(a, 0, true).values; }),
      unary("indices_of_max", [](const Tensor& a) { return max(a, 0).indices; }),
      unary("min_of_aminmax", [](const Tensor& a) { return aminmax(a).min; }),
      unary("max_of_aminmax", [](const Tensor& a) { return aminmax(a, 0).max; }),
      unary("var_of_var_mean", [](const Tensor& a) { return var_mean(a).var; }),
      unary("mean_of_var_mean", [](const Tensor& a) { return var_mean(a).mean; }),
      unary("std_of_std_mean", [](const Tensor& a) { return std_mean(a).std; }),
      unary("mean_of_std_mean", [](const Tensor& a) { return std_mean(a).mean; }),
      binary("layer_norm",
             [](const Tensor& a, const Tensor& b) { return exp(layer_norm(a, {3}, b)); }),
      binary("layer_norm_without_weight",
             [](const Tensor& a, const Tensor& b) { return exp(layer_norm(a, {3}, {}, b)); }),
      binary("mean_of_layer_norm",
             [](const Tensor& a, const Tensor& b) {
               return native_layer_norm(a, {3}, b, {}, 1e-5).mean;
             }),
      {"mean_beside_layer_norm",
       [](const Tensors& in) {
         const auto found = native_layer_norm(in[0], {3}, in[1], {}, 1e-5);
         return Tensors{found.result, found.mean};
       },
       2},
      {"layer_norm_beside_rstd",
       [](const Tensors& in) {
         const auto found = native_layer_norm(in[0], {3}, in[1], {}, 1e-5);
         return Tensors{found.rstd, exp(found.result)};
       },
       2},
      binary("softmax", [](const Tensor& a, const Tensor& b) { return softmax(a, 0) * b; }),
      unary("logsumexp", [](const Tensor& a) { return logsumexp(a, 0); }),
      binary("cat", [](const Tensor& a, const Tensor& b) { return cat({a, b}); }),
      binary("cat_with_empty", [=](const Tensor& a, const Tensor& b) { return cat({a, none(b)}); }),
      binary("cat_of_empty",
             [=](const Tensor& a, const Tensor& b) { return cat({none(a), none(b)}); }),
      binary("cat_with_filler",
             [=](const Tensor& a, const Tensor& b) { return cat({a.view({1, 3}), none(b)}, 1); }),
      binary("cat_with_empty_matrix",
             [](const Tensor& a, const Tensor& b) {
               return cat({a.view({3, 1}), b.view({3, 1}).slice(1, 0, 0)}, 1);
             }),
      binary("stack", [](const Tensor& a, const Tensor& b) { return stack({a, b}); }),
      unary("slice_of_nothing", none),
      unary("sum_of_nothing", [=](const Tensor& a) { return none(a).sum(); }),
  };
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

std::vector<Case> indexing() {
  const auto two = [](const Tensor& x) { return x.slice(0, 0, 2); };
  return {
      unary("index_select", [](const Tensor& a) { return index_select(a, 0, index()); }),
      unary("gather", [](const Tensor& a) { return gather(a, 0, index()); }),
      binary("index_add",
             [=](const Tensor& a, const Tensor& b) { return index_add(a, 0, index(), two(b)); }),
      binary("scatter",
             [=](const Tensor& a, const Tensor& b) { return scatter(a, 0, index(), two(b)); }),
      binary("scatter_all",
             [](const Tensor& a, const Tensor& b) { return scatter(a, 0, tensor({2, 1, 0}), b); }),
      binary("scatter_add",
             [=](const Tensor& a, const Tensor& b) { return scatter_add(a, 0, index(), two(b)); }),
      binary("index_copy",
             [=](const Tensor& a, const Tensor& b) { return index_copy(a, 0, index(), two(b)); }),
      binary("index_fill",
             [](const Tensor& a, const Tensor& b) { return index_fill(a, 0, index(), b.sum()); }),
      binary("index_put",
             [=](const Tensor& a, const Tensor& b) { return index_put(a, {index()}, two(b)); }),
      unary("take_nothing",
            [](const Tensor& a) { return index_select(a, 0, index().slice(0, 0, 0)); }),
  };
}

std::vector<Case> writes() {
  const auto two = [](const Tensor& x) { return x.slice(0, 0, 2); };
  const auto zero = [](const Tensor& y, const Tensors&) { y.zero_(); };
  const auto copy = [](const Tensor& y, const Tensors& in) { y.copy_(in[1]); };
  return {
      {"zero_", written(zero)},
      {"fill_", written([](const Tensor& y, const Tensors&) { y.fill_(2); })},
      {"fill_with_tensor",
       written([](const Tensor& y, const Tensors& in) { y.fill_(in[1].sum()); }), 2},
      {"copy_", written(copy), 2},
      {"copy_of_constant",
       written([](const Tensor& y, const Tensors& in) { y.copy_(in[1].detach()); }), 2},
      {"copy_to_view_of_all",
       written([](const Tensor& y, const Tensors& in) { y.slice(0).copy_(in[1]); }), 2},
      {"copy_to_part",
       written([=](const Tensor& y, const Tensors& in) { two(y).copy_(two(in[1])); }), 2},
      {"zero_part", written([=](const Tensor& y, const Tensors&) { two(y).zero_(); })},
      {"zero_all_parts", written([=](const Tensor& y, const Tensors&) {
         two(y).zero_();
         y.slice(0, 2).zero_();
       })},
      {"zero_transposed",
       written([](const Tensor& y, const Tensors&) { y.view({3, 1}).t().zero_(); })},
      {"uniform_", written([](const Tensor& y, const Tensors&) { y.uniform_(); })},
      {"normal_", written([](const Tensor& y, const Tensors&) { y.normal_(); })},
      {"index_fill_",
       written([](const Tensor& y, const Tensors&) { y.index_fill_(0, tensor({0, 1, 2}), 1.0); })},
      {"zero_without_grad", written(zero, false)},
      {"copy_without_grad", written(copy, false), 2},
      {"zero_of_detached", written([](const Tensor& y, const Tensors&) { y.detach().zero_(); })},
  };
}

std::vector<Case> programs() {
  const auto overwritten = [](const Tensor& x) {
    const Tensor y = x * 1;
    y.zero_();
    return y;
  };
  return {
      binary("view_of_written",
             [](const Tensor& x, const Tensor& b) {
               const Tensor y = x * 1, v = y.slice(0, 0, 2);
               v.copy_(b.slice(0, 0, 2));
               return v;
             }),
      binary("all_of_written",
             [](const Tensor& x, const Tensor& b) {
               const Tensor y = x * 1, v = y.view({3, 1});
               v.copy_(b.view({3, 1}));
               return v * 1;
             }),
      binary("written_twice",
             [=](const Tensor& x, const Tensor& b) { return overwritten(x).copy_(b); }),
      binary("without_grad_in_between",
             [=](const Tensor& x, const Tensor& b) {
               const Tensor y = overwritten(x);
               {
                 const NoGrad no_grad;
                 y.fill_(2);
               }
               return y * b;
             }),
      {"sign_unused", [](const Tensors& in) { return Tensors{sign(in[0]), in[1] * 2}; }, 2},
      {"sign_and_more", [](const Tensors& in) { return Tensors{sign(in[0]), in[0] * in[1]}; }, 2},
      {"zero_unused", [=](const Tensors& in) { return Tensors{overwritten(in[0]), in[1] * 2}; }, 2},
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto& part :
       {listed_ops(), other_pointwise(), reductions_and_shapes(), indexing(), writes(), programs()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// By case: what PyTorch gave.
std::map<std::string, Kinds> read_table() {
  std::map<std::string, Kinds> table;
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/torch/gradient_kinds.tsv");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, kind;
    words >> name;
    while (words >> kind) table[name].push_back(kind);
  }
  return table;
}

std::string kind_of(const Tensor& gradient) {
  if (!gradient.defined()) return "none";
  return any(gradient != 0).item() != 0 ? "grad" : "zeros";
}

/// Of the last result, by input.
Kinds kinds(const Run& run, int count) {
  Tensors inputs{tensor({0.25, 0.5, 0.75}), tensor({2.0, 3.0, 4.0})};
  inputs.resize(static_cast<size_t>(count));
  for (const Tensor& x : inputs) x.requires_grad_();
  Kinds out;
  try {
    const Tensor result = run(inputs).back();
    if (!result.requires_grad()) return Kinds(inputs.size(), "constant");
    for (const Tensor& g : grad({result.sum()}, inputs, {.allow_unused = true}))
      out.push_back(kind_of(g));
  } catch (const Error&) {
    out.assign(inputs.size(), "refuses");
  }
  return out;
}

TEST(GradientKinds, AreAtens) {
  const auto table = read_table();
  size_t met = 0;
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.name);
    const auto compiled = compile(c.run);
    const Kinds eager = kinds(c.run, c.inputs);
    EXPECT_EQ(kinds([&](const Tensors& in) { return compiled(in); }, c.inputs), eager);
    const auto row = table.find(c.name);
    if (row == table.end()) continue;  // an operator, or a form of one, that PyTorch does not have
    ++met;
    EXPECT_EQ(eager, row->second);
  }
  EXPECT_EQ(met, table.size());
}

}  // namespace
}  // namespace tandem::testing
