#include "runtime/eager/fused_call.h"

#include "ir/base/error.h"
#include "ir/base/error_scope.h"
#include "runtime/compile/record.h"
#include "runtime/compile/variant.h"
#include "runtime/eager/kept_code.h"
#include "runtime/eager/key.h"
#include "runtime/ops/dispatch.h"
#include "runtime/ops/eager_sink.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime::eager {
namespace {

using ir::OpClass;

using InputTensors = ir::InlineVector<const Tensor*, 8>;

constexpr int64_t kMaxHeldBytes = int64_t{64} << 20;

std::string key_of(const FusedCall& call) {
  Key key;
  for (const Tensor& t : call.inputs) key.add(t.impl()->type()), key.add(t.impl()->strides);
  for (const Pending& p : call.equations) {
    key.add(p.op), key.add(p.operands);
    key.add(std::span<const ir::AttrValue>(p.attrs));
  }
  for (uint32_t output : call.outputs) key.add(output);
  return key.take();
}

/// The call as it would be made inside a function that is traced.
void trace(const FusedCall& call, TraceSession& session) {
  EagerSink sink;
  std::vector<ir::ValueId> values;
  for (const Tensor& t : call.inputs)
    values.push_back(sink.add(session.input(t, "x" + std::to_string(values.size()))));
  for (const Pending& p : call.equations) {
    ir::ValueList operands;
    for (uint32_t v : p.operands) operands.push_back(values[v]);
    values.resize(values.size() + p.results.size());
    sink.emit(p.op, {operands.data(), operands.size()}, p.attrs, false,
              {p.types.data(), p.types.size()}, std::span(values).last(p.results.size()));
  }
  for (uint32_t v : call.outputs) session.result(sink.tensor(values[v]));
}

std::shared_ptr<const Variant> compile(const FusedCall& call,
                                       std::span<const Tensor* const> inputs) {
  const CompileOptions options{.name = ir::ErrorScope::function(), .contract = false};
  Recording recording = record(options.name, [&](TraceSession& session) { trace(call, session); });
  TANDEM_CHECK(recording.inputs.size() == inputs.size(), "a call reads its operands alone");
  Guards guards = make_guards({}, inputs, std::vector<std::string>(inputs.size()));
  for (Tensor& t : recording.inputs) t = Tensor();
  return compile_variant(std::move(recording), std::move(guards), options, {.any_size = true});
}

std::shared_ptr<const Variant> variant_of(const FusedCall& call,
                                          std::span<const Tensor* const> inputs) {
  static auto& kept = *new KeptCode<Variant>(kMaxHeldBytes);
  std::string key = key_of(call);
  const auto serves = [&](const Variant& v) { return matches(v.guards, {}, inputs); };
  if (auto found = kept.find(key, serves)) return found;
  auto made = compile(call, inputs);
  kept.keep(std::move(key), made);
  return made;
}

}  // namespace

bool may_wait(ir::Op op) {
  const ir::OpInfo& info = ir::info(op);
  if (info.effect != ir::Effect::Pure && info.effect != ir::Effect::MayFail) return false;
  switch (info.cls) {
    case OpClass::Pointwise:
    case OpClass::Reduction:
    case OpClass::Contraction:
    case OpClass::View:
    case OpClass::Shape:
    case OpClass::Factory:
    case OpClass::Index:
      return true;
    case OpClass::Scan:
    case OpClass::Linalg:
    case OpClass::Random:
    case OpClass::Control:
    case OpClass::External:
      return false;
  }
  return false;
}

std::vector<Tensor> run_fused(const FusedCall& call) {
  InputTensors list;
  for (const Tensor& t : call.inputs) list.push_back(&t);
  const std::span<const Tensor* const> inputs(list.data(), list.size());
  const auto variant = variant_of(call, inputs);
  std::vector<Tensor> results;
  run_variant(variant, inputs, [&](const std::vector<Tensor>& outputs) {
    for (int i : variant->recording.results) results.push_back(outputs[static_cast<size_t>(i)]);
  });
  return results;
}

}  // namespace tandem::runtime::eager
