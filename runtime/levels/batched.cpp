// What a batched tensor is, and one operation on operands of which some are.
#include "runtime/levels/batched.h"

#include <fmt/format.h>
#include <tandem/autograd/vmap.h>
#include <tandem/ops.h>
#include <tandem/ops/shapes.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <set>

#include "batching/batch.h"
#include "decomps/rules/rules.h"
#include "ir/base/error.h"
#include "ir/geometry.h"
#include "runtime/ops/call.h"
#include "runtime/tape/autograd.h"

namespace tandem::runtime {
namespace {

using batching::BatchRule;
using batching::with_examples;

/// By its decomposition, whose operations are batched in turn.
TensorList run_decomposed(ir::Op op, std::span<const Tensor> operands, ir::AttrsRef attrs,
                          std::span<const ir::Type> types) {
  EagerSink sink;
  ir::Builder builder(sink);
  ir::ValueList ids;
  for (const Tensor& t : operands) ids.push_back(sink.add(t));
  decomps::Context context{builder, op, ids, attrs, types};
  TensorList results;
  for (const ir::ValueId v : decomps::rule_of(op)(context)) results.push_back(sink.tensor(v));
  return results;
}

using ir::Axes;
using Tensors = ir::InlineVector<Tensor, 4>;

/// The operands at level `depth`: all examples of those that are batched there.
struct Physical {
  Physical(std::span<const Tensor> operands, size_t depth) {
    for (const Tensor& t : operands) {
      batched.push_back(batch_depth(t) == depth);
      tensors.push_back(batched.back() ? t.impl()->batched->physical : t);
    }
  }
  Tensors tensors;
  ir::InlineVector<bool, 8> batched;
};

/// Whether each of the examples has these strides.
bool lies_so(const Tensor& all, const Strides& one) {
  for (int d = 0; d < one.rank(); ++d)
    if (all.sizes()[d + 1] > 1 && all.strides()[d + 1] != one[d]) return false;
  return true;
}

/// Results as those of one example are: no view of anything, and each laid out as it would be
/// alone, so that the same views of it can be made.
Tensor as_fresh(const Tensor& all, const Strides& one, const Physical& operands) {
  const auto shares = [&](const Tensor& t) { return share_storage(t, all); };
  Tensor fresh = all;
  if (!lies_so(all, one) || std::ranges::any_of(operands.tensors, shares)) {
    Axes order;
    for (int d = 0; d < one.rank(); ++d) order.push_back(d + 1);
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [&](ir::Axis d) { return one[static_cast<int>(d) - 1]; });
    Axes outermost{0};
    outermost.append(order);
    fresh = permute(clone_tensor(permute(all, outermost)), ir::inverse(outermost));
  }
  forget_base(fresh);
  return fresh;
}

TensorList run_rule(const Physical& physical, size_t depth, ir::Op op, ir::AttrsRef attrs,
                    bool in_place) {
  const Batch batch = *level_at(depth).batch;
  const LevelDepth around(depth - 1);
  EagerSink sink;
  ir::Builder builder(sink);
  ir::ValueList operands;
  for (const Tensor& t : physical.tensors) operands.push_back(sink.add(t));
  const batching::BatchContext context{builder,
                                       op,
                                       operands,
                                       {physical.batched.data(), physical.batched.size()},
                                       attrs,
                                       batch.size,
                                       batch.randomness == Randomness::Same};
  TensorList results;
  if (in_place) {
    batching::apply_batch_in_place(context);
    return results;
  }
  for (const ir::ValueId v : batching::apply_batch(context)) results.push_back(sink.tensor(v));
  return results;
}

TensorList run_each(size_t depth, ir::Op op, std::span<const Tensor> operands, ir::AttrsRef attrs,
                    std::span<const ir::Type> types) {
  const std::vector<Tensor> results =
      each_example(ir::name(op), operands, depth, [&](const std::vector<Tensor>& example) {
        const TensorList list = dispatch(op, example, attrs, false, types);
        return std::vector<Tensor>(list.begin(), list.end());
      });
  return TensorList(results);
}

void check_written(const Tensor& self, size_t depth, ir::Op op) {
  if (batch_depth(self) != depth)
    ir::fail(Errc::Mutation,
             fmt::format("{}_: a tensor that is the same for all examples of vmap is written with "
                         "values of each; expected an argument of the function or a tensor made "
                         "of one (clone, zeros_like)",
                         ir::name(op)));
}

/// Over examples that lie one behind the other.
void check_strided(ir::Op op, const Tensor& self) {
  if (op == ir::Op::as_strided && !self.impl()->batched->physical.is_contiguous())
    ir::fail(Errc::Unsupported,
             "as_strided: inside vmap of examples with gaps; expected a contiguous() tensor");
}

}  // namespace

// --- tensors

size_t batch_depth(const Tensor& t) {
  const Batched* batched = t.impl()->batched.get();
  if (batched == nullptr) return 0;
  const size_t depth = depth_of(batched->level);
  if (depth == 0)
    ir::fail(Errc::Argument,
             "a tensor of one example is used after its vmap, or on another thread; expected it "
             "among the results of vmap's function");
  return depth;
}

size_t batch_depth(std::span<const Tensor> tensors) {
  size_t innermost = 0;
  for (const Tensor& t : tensors)
    if (t.defined()) innermost = std::max(innermost, batch_depth(t));
  return innermost;
}

Tensor one_example(const Tensor& physical, size_t depth) {
  const TensorImpl& from = *physical.impl();
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = from.storage;
  impl->dtype = from.dtype;
  impl->sizes = Shape(std::span(from.sizes.begin() + 1, from.sizes.end()));
  impl->strides = Strides(std::span(from.strides.begin() + 1, from.strides.end()));
  impl->offset = from.offset;
  impl->made_at = current_location();
  impl->batched = std::make_shared<Batched>(Batched{level_at(depth).id, physical});
  return Tensor(std::move(impl));
}

Tensor all_examples(const Tensor& t, size_t depth) {
  if (batch_depth(t) == depth) return t.impl()->batched->physical;
  const LevelDepth around(depth - 1);
  return expand(t, with_examples(level_at(depth).batch->size, t.sizes()));
}

namespace {

/// Whether `t` is batched wherever `like` is.
bool has_examples_of(const Tensor& t, const Tensor& like) {
  const size_t of_t = batch_depth(t), of_like = batch_depth(like);
  if (of_like == 0) return true;
  if (of_t < of_like) return false;
  const Tensor& physical = t.impl()->batched->physical;
  return has_examples_of(physical, of_t == of_like ? like.impl()->batched->physical : like);
}

/// -0, which a sum with leaves as it is, batched wherever `like` is.
Tensor nothing_at_levels_of(const Tensor& like, DType dtype) {
  const size_t depth = batch_depth(like);
  if (depth == 0) return full_tensor({}, dtype, Number(-0.0));
  const LevelDepth around(depth - 1);
  const Tensor one = nothing_at_levels_of(like.impl()->batched->physical, dtype);
  return one_example(expand(one, Shape{level_at(depth).batch->size}), depth);
}

}  // namespace

Tensor batched_as(const Tensor& t, const Tensor& like) {
  return has_examples_of(t, like) ? t : t + nothing_at_levels_of(like, t.dtype());
}

void refuse_batched(const Tensor& t, std::string_view what) {
  if (!is_batched(t)) return;
  batch_depth(t);
  ir::fail(
      Errc::Argument,
      fmt::format("{}: inside vmap the tensor stands for many examples, whose elements differ; "
                  "expected operators alone (where() instead of a branch)",
                  what));
}

bool is_differentiated(const Tensor& t) {
  return requires_grad(t) || (is_batched(t) && is_differentiated(t.impl()->batched->physical));
}

// --- operations

size_t batch_level_of(ir::Op op, std::span<const Tensor> operands) {
  size_t innermost = batch_depth(operands);
  TANDEM_CHECK(innermost <= level_depth(), "a tensor of a level that operations do not see");
  if (ir::info(op).cls != ir::OpClass::Random) return innermost;
  for (size_t depth = level_depth(); depth > innermost; --depth) {
    const auto& batch = level_at(depth).batch;
    if (batch && batch->randomness == Randomness::Different) innermost = depth;
  }
  return innermost;
}

Dim draws_at_levels(Dim count) {
  std::vector<std::optional<Batch>> batches;
  for (const Level& level : levels_aside()) batches.push_back(level.batch);
  for (size_t depth = level_depth(); depth > 0; --depth) batches.push_back(level_at(depth).batch);
  for (const std::optional<Batch>& batch : batches) {
    if (!batch) continue;
    if (batch->randomness == Randomness::Error)
      ir::fail(Errc::Argument,
               fmt::format("{}: random numbers inside vmap; expected the option randomness to say "
                           "whether examples draw the same ones or different ones",
                           ir::ErrorScope::function()));
    if (batch->randomness == Randomness::Different)
      count = ir::checked_mul(count, batch->size, "vmap: random numbers");
  }
  return count;
}

TensorList dispatch_batched(size_t depth, ir::Op op, std::span<const Tensor> operands,
                            ir::AttrsRef attrs, bool in_place, std::span<const ir::Type> types) {
  if (in_place) check_written(operands[0], depth, op);
  check_strided(op, operands[0]);
  const BatchRule::Kind kind = batching::batch_rule(op).kind;
  if (kind == BatchRule::Kind::Decomposed) return run_decomposed(op, operands, attrs, types);
  if (kind == BatchRule::Kind::Loop) return run_each(depth, op, operands, attrs, types);
  const Physical physical(operands, depth);
  TensorList results = run_rule(physical, depth, op, attrs, in_place);
  if (in_place) return {operands[0]};
  for (size_t i = 0; i < results.size(); ++i) {
    if (!ir::is_view(op)) {
      const LevelDepth around(depth - 1);
      results[i] = as_fresh(results[i], result_strides(op, operands, types[i].sizes), physical);
    }
    results[i] = one_example(results[i], depth);
  }
  return results;
}

namespace {

void warn_of_loop(std::string_view function) {
  static std::mutex mutex;
  static auto& known = *new std::set<std::string, std::less<>>;
  const std::lock_guard lock(mutex);
  if (known.emplace(function).second)
    std::fprintf(stderr, "tandem: vmap runs %.*s example by example: it has no batching rule\n",
                 static_cast<int>(function.size()), function.data());
}

}  // namespace

std::vector<Tensor> each_example(
    std::string_view function, std::span<const Tensor> tensors, size_t depth,
    ir::FunctionRef<std::vector<Tensor>(const std::vector<Tensor>&)> run) {
  warn_of_loop(function);
  const Dim size = level_at(depth).batch->size;
  if (size == 0)
    ir::fail(Errc::Unsupported,
             fmt::format("{}: runs example by example, and vmap has none; expected at least one",
                         function));
  const Physical physical(tensors, depth);
  std::vector<Tensor> results;
  {
    const LevelDepth around(depth - 1);
    std::vector<std::vector<Tensor>> all;
    for (Dim i = 0; i < size; i += 1) {
      std::vector<Tensor> example(physical.tensors.begin(), physical.tensors.end());
      for (size_t k = 0; k < example.size(); ++k)
        if (physical.batched[k]) example[k] = select(example[k], 0, i);
      const std::vector<Tensor> one = run(example);
      all.resize(one.size());
      for (size_t r = 0; r < one.size(); ++r) all[r].push_back(one[r]);
    }
    for (const std::vector<Tensor>& parts : all) results.push_back(stack(parts, 0));
  }
  for (Tensor& t : results) t = one_example(t, depth);
  return results;
}

}  // namespace tandem::runtime
