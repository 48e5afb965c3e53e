// Every op of ops.def under vmap: against a loop over examples, whichever operands are batched; its
// gradient, its writing form, and one vmap in another.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include "autodiff/vjp.h"
#include "batching/batch.h"
#include "runtime/ops/eager_sink.h"
#include "runtime/tensor/tensor_impl.h"
#include "tests/support/op_samples.h"
#include "tools/memory.h"

namespace tandem::testing {
namespace {

using ir::Buffer;
using ir::Op;
using ir::OpClass;
using Tensors = std::vector<Tensor>;

constexpr int64_t kExamples = 3;

Tensor tensor_of(const Buffer& buffer) {
  const Tensor t = runtime::empty_tensor(buffer.sizes(), buffer.dtype());
  Buffer copy = buffer;
  tools::copy_elements(copy.view(), t.impl()->view());
  return t;
}

/// Whether any order of an operand's elements is an operand.
bool takes_any_order(Op op, size_t operand) {
  if (op == Op::searchsorted) return operand != 0;
  return op != Op::lu_solve && op != Op::lu_permutation;
}

/// All examples of one operand: its elements in order, in reverse, and in order again.
Tensor examples_of(Op op, size_t operand, const Tensor& t) {
  if (!takes_any_order(op, operand)) return stack({t, t, t});
  const Tensor reversed = flip(t.reshape({-1}), {0}).reshape(t.sizes());
  return stack({t, reversed, t});
}

Tensors run(Op op, const Tensors& operands, const OpSample& sample) {
  runtime::EagerSink sink;
  ir::Builder b(sink);
  ir::ValueList values;
  for (const Tensor& t : operands) values.push_back(sink.add(t));
  Tensors results;
  for (const ir::ValueId v : b.emit_all(op, values, sample.attrs))
    results.push_back(sink.tensor(v));
  return results;
}

Tensors write(Op op, const Tensors& operands, const OpSample& sample) {
  runtime::EagerSink sink;
  ir::Builder b(sink);
  ir::ValueList values;
  for (const Tensor& t : operands) values.push_back(sink.add(t));
  b.emit_in_place(op, values, sample.attrs);
  return {operands[0]};
}

/// Gradients of the results' sums of squares, by the operands that have one.
Tensors gradients(Op op, const Tensors& operands, const OpSample& sample) {
  Tensors points = operands, inputs;
  for (size_t i = 0; i < points.size(); ++i) {
    if (!ir::is_floating(points[i].dtype()) || autodiff::vjp_rule(op).refuses(i)) continue;
    inputs.push_back(points[i] = points[i].detach().requires_grad_());
  }
  Tensor sums = zeros({}, f64);
  for (const Tensor& y : run(op, points, sample))
    if (y.requires_grad()) sums = sums + sum(square(y.to(f64)));
  if (!sums.requires_grad() || inputs.empty()) return {};
  Tensors all = grad({sums}, inputs, {.allow_unused = true});
  for (size_t i = 0; i < all.size(); ++i)
    if (!all[i].defined()) all[i] = zeros_like(inputs[i].detach());
  return all;
}

using Body = Tensors (*)(Op, const Tensors&, const OpSample&);

/// Operand i is batched where bit i of `batched` is set.
class Case {
 public:
  Case(Op op, const OpSample& sample, uint32_t batched)
      : op_(op), sample_(sample), batched_(batched) {
    for (size_t i = 0; i < sample.operands.size(); ++i) {
      const Tensor t = tensor_of(sample.operands[i]);
      (is_batched(i) ? all_ : shared_).push_back(is_batched(i) ? examples_of(op, i, t) : t);
    }
  }

  void check(Body body) const {
    const Tensors got = by_vmap(body), expected = by_loop(body);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) compare(got[i], expected[i]);
  }

  /// Examples of examples.
  void check_nested(Body body) const {
    const auto inner = vmap([&](const Tensors& t) { return body(op_, t, sample_); }, options());
    Tensors twice;
    for (const Tensor& t : all_) twice.push_back(stack({t, flip(t, {0})}, 1));
    const Tensors got = vmap(inner, {.in_dims = {1}, .randomness = Randomness::Same})(twice);
    const Tensors expected = by_loop(body);
    for (size_t i = 0; i < got.size(); ++i) {
      compare(got[i][0], expected[i]);
      compare(got[i][1], flip(expected[i], {0}));
    }
  }

 private:
  static VmapOptions options() { return {.randomness = Randomness::Same}; }
  bool is_batched(size_t i) const { return (batched_ >> i & 1) != 0; }

  Tensors joined(const Tensors& all) const {
    Tensors operands;
    size_t a = 0, s = 0;
    for (size_t i = 0; i < sample_.operands.size(); ++i)
      operands.push_back(is_batched(i) ? all[a++] : shared_[s++]);
    return operands;
  }

  static Tensors copies_of(const Tensors& tensors) {
    Tensors copies;
    for (const Tensor& t : tensors) copies.push_back(t.clone());
    return copies;
  }

  Tensors by_vmap(Body body) const {
    return vmap([&](const Tensors& all) { return body(op_, joined(all), sample_); },
                options())(copies_of(all_));
  }

  Tensors by_loop(Body body) const {
    std::vector<Tensors> parts;
    for (int64_t k = 0; k < kExamples; ++k) {
      Tensors one;
      for (const Tensor& t : all_) one.push_back(t[k].clone());
      const Tensors results = body(op_, joined(one), sample_);
      parts.resize(results.size());
      for (size_t i = 0; i < results.size(); ++i) parts[i].push_back(results[i]);
    }
    Tensors whole;
    for (const Tensors& p : parts) whole.push_back(stack(p));
    return whole;
  }

  void compare(const Tensor& got, const Tensor& expected) const {
    ASSERT_EQ(got.sizes(), expected.sizes());
    ASSERT_EQ(got.dtype(), expected.dtype());
    const bool is_wide = !ir::is_floating(got.dtype()) || got.dtype() == f64;
    const double tolerance = is_wide ? 1e-9 : 2e-4;
    EXPECT_TRUE(allclose(got.to(f64), expected.to(f64), tolerance, tolerance, true))
        << ir::name(op_) << ", largest difference "
        << max(abs(got.to(f64) - expected.to(f64))).item();
  }

  Op op_;
  const OpSample& sample_;
  uint32_t batched_;
  Tensors all_, shared_;
};

/// Of the operands that may be batched: any of few, else each alone and all.
std::vector<uint32_t> subsets(Op op, const OpSample& sample) {
  const bool is_drawn = ir::info(op).cls == OpClass::Random;
  const size_t count = is_drawn ? sample.operands.size() - 1 : sample.operands.size();
  const uint32_t all = (1U << count) - 1;
  std::vector<uint32_t> found;
  for (uint32_t s = 1; s <= all; ++s)
    if (count <= 3 || s == all || (s & (s - 1)) == 0) found.push_back(s);
  return found;
}

bool is_writable(Op op, const OpSample& sample, uint32_t batched) {
  if (!ir::info(op).in_place || (batched & 1) == 0) return false;
  const Tensors results = [&] {
    Tensors operands;
    for (const Buffer& o : sample.operands) operands.push_back(tensor_of(o));
    return run(op, operands, sample);
  }();
  return results[0].dtype() == sample.operands[0].dtype();
}

class Vmap : public ::testing::TestWithParam<Op> {};

TEST_P(Vmap, IsALoop) {
  const Op op = GetParam();
  for (const int64_t length : {0, 1, 7})
    for (const OpSample& sample : op_samples(op, length))
      for (const uint32_t batched : subsets(op, sample)) {
        SCOPED_TRACE(fmt::format("length {}, batched {:b}", length, batched));
        const Case c(op, sample, batched);
        c.check(run);
        if (is_writable(op, sample, batched)) c.check(write);
        if (HasFailure()) return;
      }
}

TEST_P(Vmap, OfGradientsAndOfVmap) {
  const Op op = GetParam();
  const bool has_gradient =
      autodiff::vjp_rule(op).kind == autodiff::VjpRule::Kind::Differentiable && op != Op::nextafter;
  for (const OpSample& sample : op_samples(op, 7)) {
    const std::vector<uint32_t> all = subsets(op, sample);
    if (all.empty() || sample.operands[0].dtype() == DType::F32) continue;
    for (const uint32_t batched : all)
      if (has_gradient) Case(op, sample, batched).check(gradients);
    // (as_strided speaks of the memory of contiguous examples.)
    const bool is_nested = ir::info(op).cls != OpClass::Random && op != Op::as_strided;
    if (is_nested && all.back() + 1 == 1U << sample.operands.size())
      Case(op, sample, all.back()).check_nested(run);
    if (HasFailure()) return;
  }
}

std::vector<Op> batched_ops() {
  std::vector<Op> ops;
  for (int i = 0; i < ir::kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    const auto samples = op_samples(op, 7);
    if (!samples.empty() && !subsets(op, samples[0]).empty()) ops.push_back(op);
  }
  return ops;
}

INSTANTIATE_TEST_SUITE_P(All, Vmap, ::testing::ValuesIn(batched_ops()),
                         [](const auto& op) { return std::string(ir::name(op.param)); });

TEST(VmapRules, FewOpsRunExampleByExample) {
  std::vector<std::string_view> loops;
  for (int i = 0; i < ir::kOpCount; ++i)
    if (batching::batch_rule(static_cast<Op>(i)).kind == batching::BatchRule::Kind::Loop)
      loops.push_back(ir::name(static_cast<Op>(i)));
  EXPECT_EQ(loops, (std::vector<std::string_view>{"custom_operator", "ordered_operator"}));
}

}  // namespace
}  // namespace tandem::testing
