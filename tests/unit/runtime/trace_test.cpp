// Traces: what they record, stand-ins, constants, and tensors that outlive them.
#include "runtime/trace/trace.h"

#include <gtest/gtest.h>
#include <tandem/ops.h>

#include <thread>

#include "ir/interpreter/interpret.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "runtime/ops/dispatch.h"

namespace tandem {
namespace {

using runtime::Trace;
using runtime::TraceScope;

/// Records fn(stand-in of x) and returns the graph.
template <class F>
ir::Graph trace(const Tensor& x, F fn, std::vector<Tensor>* inputs = nullptr) {
  const auto recording = std::make_shared<Trace>("f");
  {
    const TraceScope scope(recording);
    recording->add_output(fn(recording->add_input(x, "x", ir::Role::Primal)));
  }
  if (inputs != nullptr) *inputs = recording->real_inputs();
  ir::Graph graph = recording->finish();
  ir::verify(graph);
  return graph;
}

int count(const ir::Graph& graph, ir::Op op) {
  int n = 0;
  for (const ir::Equation& e : graph.equations()) n += e.op == op ? 1 : 0;
  return n;
}

template <class F>
std::string trace_error(F f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Errc::Trace) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "expected an Error";
  return "";
}

TEST(Trace, RecordsViewsAndWrites) {
  const ir::Graph g = trace(zeros({2, 3}), [](const Tensor& x) {
    x[0].add_(1.5);
    return relu(x.t()) * 2;
  });
  EXPECT_EQ(count(g, ir::Op::select), 1);
  EXPECT_EQ(count(g, ir::Op::add), 1);
  EXPECT_EQ(g.outputs()[0].strides, Strides({1, 3}));
  EXPECT_EQ(g.inputs().size(), 1u);
  ASSERT_TRUE(g.location(g.equation_id(0)));
  EXPECT_NE(g.location(g.equation_id(0))->file.find("trace_test.cpp"), std::string::npos);
}

TEST(Trace, CapturesBecomeInputs) {
  const Tensor w = ones({3}).requires_grad_(), view = zeros({4}), part = view.slice(0, 1, 4);
  std::vector<Tensor> inputs;
  const ir::Graph g =
      trace(view, [&](const Tensor& x) { return x.slice(0, 0, 3) + w * w + part; }, &inputs);
  ASSERT_EQ(inputs.size(), 3u);
  EXPECT_TRUE(inputs[1].is_same(w));
  EXPECT_EQ(g.inputs()[1].role, ir::Role::Parameter);
  EXPECT_TRUE(g.inputs()[1].requires_grad);
  ASSERT_TRUE(g.inputs()[2].alias_of.has_value());
  EXPECT_EQ(g.inputs()[2].alias_of->offset, 1);
  EXPECT_TRUE(g.outputs()[0].requires_grad);
}

TEST(Trace, BackwardIsRecorded) {
  const Tensor x = ones({3}).requires_grad_();
  const ir::Graph g = trace(x, [](const Tensor& t) {
    (t * t).sum().backward();
    return t.grad() * 1;
  });
  ASSERT_EQ(g.epilogue.grads.size(), 1u);
  EXPECT_EQ(g.epilogue.grads[0].input, 0);
  EXPECT_GE(g.epilogue.grads[0].output, 0);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Trace, GradSlotsAreReadAndCleared) {
  const Tensor x = ones({3}).requires_grad_();
  x.set_grad(full({3}, 2));
  std::vector<Tensor> inputs;
  const ir::Graph accumulates = trace(
      x,
      [](const Tensor& t) {
        (t * 3).sum().backward();
        return t.detach();
      },
      &inputs);
  ASSERT_EQ(inputs.size(), 2u);  // the old gradient, written in place
  EXPECT_TRUE(inputs[1].is_same(x.grad()));
  EXPECT_TRUE(accumulates.epilogue.grads.empty());
  const ir::Graph clears = trace(x, [](const Tensor& t) {
    t.set_grad({});
    return t.detach();
  });
  ASSERT_EQ(clears.epilogue.grads.size(), 1u);
  EXPECT_EQ(clears.epilogue.grads[0].output, -1);
}

TEST(Trace, ConstantsAreFolded) {
  trace(zeros({2}), [](const Tensor& x) {
    const Tensor two = full({2}, 1) + 1;
    EXPECT_EQ(two.sum().item(), 4);
    two[0].mul_(3);
    trace_error([&] { two.sum().item(); });
    return x;
  });
}

TEST(Trace, ValuesAreUnknown) {
  const Tensor captured = ones({});
  trace(zeros({}), [&](const Tensor& x) {
    const std::string text = trace_error([&] { (x + 1).item(); });
    EXPECT_NE(text.find("trace_test.cpp"), std::string::npos) << text;
    trace_error([&] { captured.item(); });
    trace_error([&] { x.data<float>(); });
    return x;
  });
}

TEST(Trace, TensorsDoNotOutliveIt) {
  Tensor kept;
  trace(zeros({2}), [&](const Tensor& x) { return kept = x + 1; });
  EXPECT_NE(trace_error([&] { kept + 1; }).find("trace_test.cpp"), std::string::npos);
  trace(zeros({2}), [&](const Tensor& x) {
    trace_error([&] { kept + x; });
    return x;
  });
  trace(zeros({2}), [&](const Tensor& x) {
    std::thread([&] { trace_error([&] { x + 1; }); }).join();
    return x;
  });
}

TEST(Trace, ExceptionsEndIt) {
  EXPECT_THROW(trace(zeros({2}), [](const Tensor&) -> Tensor { throw 3; }), int);
  EXPECT_EQ(Trace::current(), nullptr);
}

TEST(Trace, RandomnessIsAnInput) {
  const ir::Graph g = trace(zeros({5}), [](const Tensor& x) {
    const Tensor unused = rand({9});
    return x + randn({5});
  });
  EXPECT_EQ(g.inputs().back().role, ir::Role::Rng);
  EXPECT_EQ(g.epilogue.rng_draws, 3 + 2);
  EXPECT_EQ(g.attr<Dim>(g.equation_id(1), ir::Attr::offset), 3);
}

TEST(Trace, EagerAndInterpretedRandomsAgree) {
  for (DType dtype : {f32, f64, bf16}) {
    const ir::Graph g =
        trace(zeros({7}, dtype), [&](const Tensor& x) { return x + randn({7}, dtype); });
    ir::Buffer rng({DType::I64, {2}});
    rng.set(0, 5);
    rng.set(1, 0);
    std::vector<ir::Buffer> in;
    in.emplace_back(ir::Type{dtype, {7}});
    in.push_back(std::move(rng));
    const auto out = ir::interpret(g, in);
    manual_seed(5);
    const std::vector<double> eager = randn({7}, dtype).to_vector<double>();
    for (int i = 0; i < 7; ++i) EXPECT_EQ(out[0].at(i).to_double(), eager[static_cast<size_t>(i)]);
  }
}

struct Triple : Function<Triple> {
  static Tensor forward(FunctionContext& context, const Tensor& x) {
    const Tensor factor = x * 0 + 3;
    context.save_for_backward({x, factor});
    return x * factor;
  }
  static std::vector<Tensor> backward(FunctionContext& context, const std::vector<Tensor>& grads) {
    return {grads[0] * context.saved()[1]};
  }
};

TEST(Trace, CustomFunctionsAreOneEquation) {
  const Tensor x = ones({2}).requires_grad_();
  const ir::Graph g = trace(x, [](const Tensor& t) { return Triple::apply(t * 2); });
  ASSERT_EQ(count(g, ir::Op::custom_function), 1);
  EXPECT_EQ(g.subgraphs().size(), 2u);
  EXPECT_TRUE(g.outputs()[0].requires_grad);
  const ir::Graph walked = trace(x, [](const Tensor& t) {
    Triple::apply(t).sum().backward();
    return t.grad() * 1;
  });
  std::vector<ir::Buffer> in;
  in.emplace_back(ir::Type{f32, {2}});
  EXPECT_EQ(ir::interpret(walked, in)[0].at(1).to_double(), 3);
}

TEST(Trace, ScalarsStayWeak) {
  const Scalar lr(0.5);
  std::vector<Tensor> inputs;
  const ir::Graph g = trace(zeros({2}), [&](const Tensor& x) { return x * lr; }, &inputs);
  EXPECT_EQ(inputs.size(), 2u);
  EXPECT_EQ(g.type(g.outputs()[0].value).dtype, f32);
}

}  // namespace
}  // namespace tandem
