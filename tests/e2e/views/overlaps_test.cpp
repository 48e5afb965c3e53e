// Which writes are refused because what is written and an operand lie in one memory: those that
// PyTorch refuses (tests/torch/overlaps.py), eager and compiled, as views of one argument and as
// arguments. A refused write changes nothing.
#include <gtest/gtest.h>
#include <tandem/ops/out_forms.h>
#include <tandem/tandem.h>

#include <fstream>
#include <functional>
#include <map>
#include <sstream>

namespace tandem::testing {
namespace {

struct Call {
  DType dtype;
  std::function<void(const Tensor& w, const Tensor& x)> write;
};

Tensor three(const Tensor& w) { return ones({3}, w.dtype()); }
Tensor places() { return ones({3}, i64); }
Tensor grid() { return ones({3, 3}, i64); }
Tensor all() { return ones({3, 3}, boolean); }
Tensor row(const Tensor& x) { return x.dim() == 2 ? x.select(0, 0) : x; }

using T = const Tensor&;
using Calls = std::map<std::string, Call>;

Calls writes() {
  return {
      {"copy_", {f64, [](T w, T x) { w.copy_(x); }}},
      {"fill_", {f64, [](T w, T x) { w.fill_(x); }}},
      {"clamp_min_", {f64, [](T w, T x) { w.clamp_min_(x); }}},
      {"clamp_max_", {f64, [](T w, T x) { w.clamp_max_(x); }}},
      {"bitwise_and_", {i64, [](T w, T x) { w.bitwise_and_(x); }}},
      {"bitwise_or_", {i64, [](T w, T x) { w.bitwise_or_(x); }}},
      {"gcd_", {i64, [](T w, T x) { w.gcd_(x); }}},
      {"lcm_", {i64, [](T w, T x) { w.lcm_(x); }}},
      {"bitwise_xor_", {i64, [](T w, T x) { w.bitwise_xor_(x); }}},
      {"lerp_ end", {f64, [](T w, T x) { w.lerp_(x, 0.5); }}},
      {"lerp_ weight", {f64, [](T w, T x) { w.lerp_(ones_like(w), x); }}},
      {"addcmul_ tensor1", {f64, [](T w, T x) { w.addcmul_(x, ones_like(w)); }}},
      {"addcmul_ tensor2", {f64, [](T w, T x) { w.addcmul_(ones_like(w), x); }}},
      {"addcdiv_ tensor2", {f64, [](T w, T x) { w.addcdiv_(ones_like(w), x); }}},
      {"masked_fill_ mask", {boolean, [](T w, T x) { w.masked_fill_(x, true); }}},
      {"masked_fill_ value", {f64, [](T w, T x) { w.masked_fill_(all(), x); }}},
      {"addmm_ mat1", {f64, [](T w, T x) { w.addmm_(x, ones_like(w)); }}},
      {"index_add_ index", {i64, [](T w, T x) { w.index_add_(0, row(x), ones_like(w)); }}},
      {"index_add_ src", {f64, [](T w, T x) { w.index_add_(0, places(), x); }}},
      {"index_copy_ index", {i64, [](T w, T x) { w.index_copy_(0, row(x), ones_like(w)); }}},
      {"index_copy_ src", {f64, [](T w, T x) { w.index_copy_(0, places(), x); }}},
      {"index_fill_ index", {i64, [](T w, T x) { w.index_fill_(0, row(x), 2); }}},
      {"index_fill_ value", {f64, [](T w, T x) { w.index_fill_(0, places(), x); }}},
      {"scatter_ index", {i64, [](T w, T x) { w.scatter_(0, x, ones_like(w)); }}},
      {"scatter_ src", {f64, [](T w, T x) { w.scatter_(0, grid(), x); }}},
      {"scatter_add_ index", {i64, [](T w, T x) { w.scatter_add_(0, x, ones_like(w)); }}},
      {"scatter_add_ src", {f64, [](T w, T x) { w.scatter_add_(0, grid(), x); }}},
      {"index_put_ index", {i64, [](T w, T x) { w.index_put_({row(x)}, ones_like(w)); }}},
      {"index_put_ values", {f64, [](T w, T x) { w.index_put_({places()}, x); }}},
      {"index_put_ mask", {boolean, [](T w, T x) { w.index_put_({x}, ones({1}, boolean)); }}},
      {"masked_scatter_ mask", {boolean, [](T w, T x) { w.masked_scatter_(x, ones_like(w)); }}},
      {"masked_scatter_ src", {f64, [](T w, T x) { w.masked_scatter_(all(), x); }}},
  };
}

Calls out_forms() {
  return {
      {"sum_out", {f64, [](T w, T x) { sum_out(w.select(1, 0), x, {1}); }}},
      {"amax_out", {f64, [](T w, T x) { amax_out(w.select(1, 0), x, {1}); }}},
      {"where_out", {f64, [](T w, T x) { where_out(w, all(), x, ones_like(w)); }}},
      {"clamp_out", {f64, [](T w, T x) { clamp_out(w, x, 0, 1); }}},
      {"lerp_out", {f64, [](T w, T x) { lerp_out(w, x, ones_like(w), 0.5); }}},
      {"addcmul_out", {f64, [](T w, T x) { addcmul_out(w, x, ones_like(w), ones_like(w)); }}},
      {"addcdiv_out", {f64, [](T w, T x) { addcdiv_out(w, x, ones_like(w), ones_like(w)); }}},
      {"tril_out", {f64, [](T w, T x) { tril_out(w, x); }}},
      {"softmax_out", {f64, [](T w, T x) { softmax_out(w, x, 0); }}},
      {"log_softmax_out", {f64, [](T w, T x) { log_softmax_out(w, x, 0); }}},
      {"addmm_out self", {f64, [](T w, T x) { addmm_out(w, x, ones_like(w), ones_like(w)); }}},
      {"addmm_out mat1", {f64, [](T w, T x) { addmm_out(w, ones_like(w), x, ones_like(w)); }}},
      {"matmul_out", {f64, [](T w, T x) { matmul_out(w, x, ones_like(w)); }}},
      {"mm_out", {f64, [](T w, T x) { mm_out(w, x, ones_like(w)); }}},
      {"cat_out",
       {f64,
        [](T w, T x) {
          const Tensor parts[] = {x.dim() == 2 ? x.slice(0, 0, 2) : x, ones({1, 3}, w.dtype())};
          cat_out(w, parts);
        }}},
      {"stack_out",
       {f64,
        [](T w, T x) {
          const Tensor parts[] = {row(x), three(w), three(w)};
          stack_out(w, parts);
        }}},
      {"index_select_out self", {f64, [](T w, T x) { index_select_out(w, x, 0, places()); }}},
      {"index_select_out index",
       {i64, [](T w, T x) { index_select_out(w, ones_like(w), 0, row(x)); }}},
      {"gather_out self", {f64, [](T w, T x) { gather_out(w, x, 0, grid()); }}},
      {"gather_out index", {i64, [](T w, T x) { gather_out(w, ones_like(w), 0, x); }}},
      {"index_add_out self",
       {f64, [](T w, T x) { index_add_out(w, x, 0, places(), ones_like(w)); }}},
      {"index_add_out src",
       {f64, [](T w, T x) { index_add_out(w, ones_like(w), 0, places(), x); }}},
      {"scatter_add_out self",
       {f64, [](T w, T x) { scatter_add_out(w, x, 0, grid(), ones_like(w)); }}},
      {"scatter_add_out src",
       {f64, [](T w, T x) { scatter_add_out(w, ones_like(w), 0, grid(), x); }}},
      {"scatter_out self", {f64, [](T w, T x) { scatter_out(w, x, 0, grid(), ones_like(w)); }}},
      {"scatter_out src", {f64, [](T w, T x) { scatter_out(w, ones_like(w), 0, grid(), x); }}},
      {"index_copy_out src",
       {f64, [](T w, T x) { index_copy_out(w, ones_like(w), 0, places(), x); }}},
  };
}

Calls calls() {
  Calls all_calls = writes();
  all_calls.merge(out_forms());
#define X(op) all_calls.try_emplace(#op "_", f64, [](T w, T x) { w.op##_(x); });
  TANDEM_BINARY_IN_PLACE_OPS(X)
  TANDEM_COMPARISON_OPS(X)
  TANDEM_MADE_BINARY_IN_PLACE(X)
#undef X
#define X(op) \
  all_calls.try_emplace(#op "_out", f64, [](T w, T x) { op##_out(w, x, ones_like(w)); });
  TANDEM_BINARY_IN_PLACE_OPS(X)
  TANDEM_BINARY_OPS(X)
#undef X
#define X(op) all_calls.try_emplace(#op "_out", f64, [](T w, T x) { op##_out(w, x); });
  TANDEM_UNARY_IN_PLACE_OPS(X)
  TANDEM_UNARY_OPS(X)
#undef X
  return all_calls;
}

Tensor written(const Tensor& memory) { return memory.slice(0, 0, 9).view({3, 3}); }

/// What lies at `place` of the memory that `w` begins.
Tensor read(const std::string& place, const Tensor& memory, const Tensor& w) {
  if (place == "same") return w;
  if (place == "alias") return w.view({3, 3});
  if (place == "shifted") return memory.slice(0, 3, 12).view({3, 3});
  if (place == "apart") return memory.slice(0, 9, 18).view({3, 3});
  if (place == "gapped") return memory.as_strided({3, 3}, {6, 2}, 0);
  if (place == "transposed") return w.t();
  if (place == "repeated") return w.select(0, 0).expand({3, 3});
  if (place == "row") return w.select(0, 0);
  if (place == "element") return w.select(0, 0).select(0, 0);
  const DType other = memory.dtype() == f64 ? i64 : f64;  // converted
  return memory.view(other).slice(0, 3, 12).view({3, 3});
}

std::string verdict(const std::function<void()>& call) {
  try {
    call();
    return "done";
  } catch (const Error& error) {
    const bool overlap = std::string(error.what()).find("in the same memory") != std::string::npos;
    if (overlap && error.code() == Errc::Mutation) return "refused";
    // (Of a dtype and an overlap that both are wrong, either may be named.)
    return error.code() == Errc::DType ? "refused" : error.what();
  }
}

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line);
  for (std::string cell; std::getline(in, cell, '\t');) out.push_back(cell);
  return out;
}

TEST(Overlaps, AreRefusedWherePyTorchRefusesThem) {
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/torch/overlaps.tsv");
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  const std::vector<std::string> header = cells(line);
  const std::map<std::string, Call> table = calls();
  int refused = 0, done = 0;
  while (std::getline(file, line)) {
    const std::vector<std::string> expected = cells(line);
    ASSERT_TRUE(table.contains(expected[0])) << expected[0];
    const Call& call = table.at(expected[0]);
    for (size_t i = 1; i < expected.size(); ++i) {
      if (expected[i] == "-") continue;
      SCOPED_TRACE(expected[0] + ", " + header[i]);
      const auto fresh = [&] { return ones({40}, call.dtype); };
      const auto of_views = [&](const Tensor& m) {
        const Tensor w = written(m);
        call.write(w, read(header[i], m, w));
      };
      EXPECT_EQ(verdict([&] { of_views(fresh()); }), expected[i]) << "eager";
      const Tensor memory = fresh();
      EXPECT_EQ(verdict([&] { compile(of_views)(memory); }), expected[i]) << "compiled, views";
      const Tensor shared = fresh(), w = written(shared), x = read(header[i], shared, w);
      const auto of_arguments =
          compile([&](const Tensor& a, const Tensor& b) { call.write(a, b); });
      EXPECT_EQ(verdict([&] { of_arguments(w, x); }), expected[i]) << "compiled, arguments";
      const bool unchanged = shared.version() + memory.version() == 0;
      EXPECT_EQ(unchanged, expected[i] == "refused");
      ++(expected[i] == "refused" ? refused : done);
    }
  }
  EXPECT_GT(refused, 200);
  EXPECT_GT(done, 200);
}

}  // namespace
}  // namespace tandem::testing
