// Branches and loops outside of traces: they run.
#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/control_flow.h>
#include <tandem/ops.h>

#include <algorithm>

#include "ir/base/error.h"
#include "runtime/control/body.h"
#include "runtime/control/checkpoints.h"
#include "runtime/control/levels.h"
#include "runtime/control/record.h"
#include "runtime/levels/batched.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tensor/tensor_impl.h"
#include "runtime/trace/trace.h"

namespace tandem::control {

using runtime::Trace;

namespace {

/// What has fewer steps keeps the carries of each even where memory is bounded.
constexpr int64_t kChunkedLength = 8;

/// `t` if nobody else sees it, else a copy: what bodies are handed and give is their own.
Tensor own(Tensor t) {
  if (!t.defined()) ir::fail(Errc::Argument, "control flow: a body gives an undefined tensor");
  const bool alone = t.impl().use_count() == 1 && t.impl()->storage.use_count() == 1;
  if (!t.is_contiguous()) return t.contiguous();
  if (alone) return t;
  return clone(t);
}

Tensors own_all(Tensors tensors) {
  for (Tensor& t : tensors) t = own(std::move(t));
  return tensors;
}

/// What runs once for all examples has to have no effects of one.
void check_effects(const char* who, const TracedBody& body) {
  if (!body.writes.empty())
    ir::fail(Errc::Mutation,
             fmt::format("{}: inside vmap, where its predicate differs between examples, its body "
                         "writes a tensor from outside; expected a carry",
                         who));
}

int64_t common_length(std::span<const Tensor> xs, const ScanOptions& options) {
  std::optional<int64_t> length = options.length;
  for (const Tensor& x : xs) {
    if (x.dim() == 0)
      ir::fail(Errc::Shape, "scan: xs have no dimension to go along; expected at least one");
    const int64_t own = x.sizes()[0];
    if (length && *length != own)
      ir::fail(Errc::Shape,
               fmt::format("scan: xs of different lengths; expected {}, got {}", *length, own));
    length = own;
  }
  if (!length || *length < 0)
    ir::fail(Errc::Argument, "scan: expected xs, or a length that is not negative");
  return *length;
}

/// What `body` would give by steps of which there is none.
Tensors no_slices(Body body, std::span<const Tensor> tensors, size_t carries) {
  std::vector<ir::Type> ports = types_of(tensors);
  for (ir::Type& type : std::span(ports).subspan(carries)) type = slice_of(type);
  const std::vector<ir::Type> types = trace_body("scan", ports, body).result_types();
  check_carries("scan", types_of(tensors.first(carries)), types);
  Tensors none;
  for (const ir::Type& type : std::span(types).subspan(carries))
    none.push_back(runtime::empty_tensor(stack_of(type, 0).sizes, type.dtype));
  return none;
}

class EagerScan {
 public:
  EagerScan(Body body, Tensors tensors, size_t carries, int64_t length, bool reverse)
      : body_(body), length_(length), reverse_(reverse) {
    const auto middle = tensors.begin() + static_cast<ptrdiff_t>(carries);
    xs_.assign(middle, tensors.end());
    tensors.erase(middle, tensors.end());
    carries_ = own_all(std::move(tensors));
    types_ = types_of(carries_);
  }

  Tensors run() {
    for (int64_t i = 0; i < length_; ++i) step(reverse_ ? length_ - 1 - i : i);
    Tensors results = std::move(carries_);
    for (Tensors& slices : ys_) results.push_back(stack(slices, 0));
    return results;
  }

 private:
  void step(int64_t at) {
    Tensors inputs = std::move(carries_);
    for (const Tensor& x : xs_) inputs.push_back(own(select(x, 0, at)));
    Tensors outputs = body_(std::move(inputs));
    check_carries("scan", types_, types_of(outputs));
    ys_.resize(outputs.size() - types_.size(), Tensors(static_cast<size_t>(length_)));
    for (size_t i = 0; i < ys_.size(); ++i)
      ys_[i][static_cast<size_t>(at)] = own(std::move(outputs[types_.size() + i]));
    outputs.resize(types_.size());
    carries_ = own_all(std::move(outputs));
  }

  const Body body_;
  const int64_t length_;
  const bool reverse_;
  Tensors xs_, carries_;
  std::vector<ir::Type> types_;
  std::vector<Tensors> ys_;
};

}  // namespace

Tensors run_cond(const Tensor& pred, Body then, Body otherwise) {
  if (Trace::current() != nullptr) return record_cond(pred, then, otherwise);
  const Tensor predicate = as_predicate(pred, "cond");
  if (runtime::is_batched(predicate)) return record_cond(predicate, then, otherwise);
  return own_all(predicate.item<bool>() ? then({}) : otherwise({}));
}

namespace {

/// One more step for the examples that go on.
Tensors step_of_some(Body body, const Tensors& state, const Tensor& goes_on) {
  Tensors copies;
  for (const Tensor& t : state) copies.push_back(clone(t));
  Tensors next = body(std::move(copies));
  check_carries("while_loop", types_of(state), types_of(next));
  for (size_t i = 0; i < next.size(); ++i) next[i] = where(goes_on, next[i], state[i]);
  return next;
}

}  // namespace

Tensors run_while(Condition condition, Body body, Tensors carries, const WhileOptions& options) {
  if (options.max_steps.value_or(0) < 0)
    ir::fail(Errc::Argument, fmt::format("while_loop: expected max_steps of at least 0, got {}",
                                         *options.max_steps));
  if (Trace::current() != nullptr)
    return options.max_steps ? record_bounded_while(condition, body, carries, *options.max_steps)
                             : record_while(condition, body, carries);
  const std::vector<ir::Type> types = types_of(carries);
  Tensors state = own_all(std::move(carries));
  bool differs = false;
  for (int64_t step = 0; step != options.max_steps.value_or(-1); ++step) {
    const Tensor goes_on = as_predicate(condition(state), "while_loop");
    if (!any_example(goes_on).item<bool>()) break;
    if (runtime::is_batched(goes_on)) {
      if (!differs) check_effects("while_loop", trace_body("body", types, body));
      differs = true;
      warn_of_select("the steps of a while_loop");
      state = step_of_some(body, state, goes_on);
    } else {
      state = own_all(body(std::move(state)));
      check_carries("while_loop", types, types_of(state));
    }
  }
  return state;
}

Tensors run_scan(Body body, Tensors tensors, size_t carries, const ScanOptions& options) {
  const std::span<const Tensor> all(tensors);
  const int64_t length = common_length(all.subspan(carries), options);
  if (Trace::current() != nullptr) {
    const bool chunks = CheckpointScans::wanted() && grad_enabled() && length >= kChunkedLength;
    return (chunks ? record_in_chunks : record_scan)(body, tensors, carries, length,
                                                     options.reverse);
  }
  if (length > 0)
    return EagerScan(body, std::move(tensors), carries, length, options.reverse).run();
  Tensors ys = no_slices(body, all, carries);
  tensors.resize(carries);
  Tensors results = own_all(std::move(tensors));
  results.insert(results.end(), ys.begin(), ys.end());
  return results;
}

Tensor is_before(const Tensor& index, int64_t branch) { return index < branch; }

Tensor step_number(int64_t first) { return full({}, first, DType::I64); }

}  // namespace tandem::control
