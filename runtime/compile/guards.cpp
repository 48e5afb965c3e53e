#include "runtime/compile/guards.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/error.h"
#include "runtime/compile/graph_values.h"
#include "runtime/ops/dispatch.h"
#include "runtime/ops/matmul_precision.h"
#include "runtime/tape/autograd.h"

namespace tandem::runtime {
namespace {

/// Finds, for each tensor in turn, the first earlier one over the same storage. Open addressing
/// over storage addresses, on the stack for as many tensors as most calls have.
class StorageIndex {
 public:
  explicit StorageIndex(size_t tensors) {
    while (capacity_ < 2 * tensors) capacity_ *= 2;
    if (capacity_ > kInline)
      heap_.resize(capacity_);
    else
      std::fill_n(inline_, capacity_, Slot());
  }

  /// The first earlier tensor with this storage, or -1 after adding number `i`.
  int find_or_add(const Storage* storage, int i) {
    Slot* const slots = heap_.empty() ? inline_ : heap_.data();
    size_t at = (reinterpret_cast<uintptr_t>(storage) >> 4) * 0x9E3779B97F4A7C15ull >> 32;
    for (;; ++at) {
      Slot& slot = slots[at & (capacity_ - 1)];
      if (slot.storage == storage) return slot.first;
      if (slot.storage == nullptr) return slot = {storage, i}, -1;
    }
  }

 private:
  struct Slot {
    const Storage* storage;
    int first;
  };
  static constexpr size_t kInline = 256;
  size_t capacity_ = 8;
  Slot inline_[kInline];  // only the first capacity_ are in use
  std::vector<Slot> heap_;
};

/// The parts of a guard that concern one tensor alone.
bool matches_alone(const TensorGuard& guard, const Tensor& tensor) {
  if (!tensor.defined()) return false;
  const TensorImpl& t = *tensor.impl();
  const bool receives = receives_gradient(tensor);  // and so requires grad
  return !t.is_traced() && t.dtype == guard.dtype && t.sizes == guard.sizes &&
         has_layout(t, guard.strides) && receives == guard.receives_gradient &&
         (receives || requires_grad(tensor) == guard.requires_grad) && t.is_weak == guard.is_weak &&
         (!guard.is_leaf || *guard.is_leaf == is_leaf(tensor)) &&
         (!guard.storage_offset || *guard.storage_offset == t.offset) &&
         (guard.object == nullptr || guard.object == tensor.impl());
}

/// The first tensor before number `i` that is a view of the same tensor, or -1.
int first_with_history(std::span<const Tensor* const> tensors, size_t i) {
  for (size_t k = 0; k < i; ++k)
    if (autograd_base(*tensors[k]) == autograd_base(*tensors[i])) return static_cast<int>(k);
  return -1;
}

/// The first tensor before number `i` that is the same object, or -1.
int first_same(std::span<const Tensor* const> tensors, size_t i) {
  for (size_t k = 0; k < i; ++k)
    if (tensors[k]->is_same(*tensors[i])) return static_cast<int>(k);
  return -1;
}

bool matches_aliasing(const TensorGuard& guard, int first, std::span<const Tensor* const> tensors,
                      size_t i) {
  if (first != guard.shares_storage) return false;
  if (first < 0) return true;
  const TensorImpl& t = *tensors[i]->impl();
  if (offset_between(t, *tensors[first]->impl()) != guard.offset) return false;
  return first_with_history(tensors, i) == guard.shares_history &&
         first_same(tensors, i) == guard.same_as;
}

std::string explain_tensor(const TensorGuard& g, const Tensor& t) {
  if (t.dtype() != g.dtype)
    return fmt::format("expected dtype {}, got {}", ir::name(g.dtype), ir::name(t.dtype()));
  if (t.sizes() != g.sizes)
    return fmt::format("expected sizes {}, got {}", ir::to_string(g.sizes),
                       ir::to_string(t.sizes()));
  if (!has_layout(*t.impl(), g.strides))
    return fmt::format("expected strides {}, got {}", ir::to_string(g.strides),
                       ir::to_string(t.strides()));
  if (t.requires_grad() != g.requires_grad)
    return fmt::format("expected requires_grad {}, got {}", g.requires_grad, t.requires_grad());
  if (receives_gradient(t) != g.receives_gradient)
    return g.receives_gradient ? "expected a tensor with a history, got a view made under NoGrad"
                               : "expected a view made under NoGrad, got a tensor with a history";
  if (g.is_leaf && *g.is_leaf != is_leaf(t))
    return *g.is_leaf ? "expected a leaf, got the result of an operation"
                      : "expected the result of an operation, got a leaf";
  if (g.storage_offset && *g.storage_offset != t.storage_offset())
    return fmt::format("expected storage offset {}, got {}", *g.storage_offset, t.storage_offset());
  if (g.object != nullptr && g.object != t.impl())
    return "expected the tensor that the function captures, got another";
  return "expected another kind of number (a Scalar or a tensor)";
}

}  // namespace

Guards make_guards(std::span<const uint64_t> tokens, std::span<const Tensor* const> tensors,
                   std::span<const std::string> names) {
  Guards guards;
  guards.tokens.assign(tokens.begin(), tokens.end());
  guards.grad_mode = grad_enabled();
  guards.autocast = autocast_state();
  guards.matmul_precision = float32_matmul_precision();
  StorageIndex index(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorImpl& t = *tensors[i]->impl();
    TensorGuard g;
    g.name = names[i];
    g.dtype = t.dtype;
    g.sizes = t.sizes;
    g.strides = t.strides;
    g.requires_grad = requires_grad(*tensors[i]);
    g.receives_gradient = receives_gradient(*tensors[i]);
    g.is_weak = t.is_weak;
    g.shares_storage = index.find_or_add(t.storage.get(), static_cast<int>(i));
    if (g.shares_storage >= 0) {
      g.offset = offset_between(t, *tensors[g.shares_storage]->impl());
      g.shares_history = first_with_history(tensors, i);
      g.same_as = first_same(tensors, i);
    }
    guards.tensors.push_back(std::move(g));
  }
  return guards;
}

uint64_t look_of(std::span<const uint64_t> tokens, std::span<const Tensor* const> tensors) {
  uint64_t hash = tokens.size();
  const auto mix = [&](uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15ull;
    hash ^= hash >> 32;
  };
  for (const uint64_t token : tokens) mix(token);
  for (const Tensor* t : tensors) {
    if (!t->defined()) continue;
    const TensorImpl& impl = *t->impl();
    mix(static_cast<uint64_t>(impl.dtype) << 32 | impl.sizes.size());
    for (const Dim size : impl.sizes) mix(static_cast<uint64_t>(int64_t{size}));
  }
  return hash;
}

bool matches(const Guards& guards, std::span<const uint64_t> tokens,
             std::span<const Tensor* const> tensors) {
  if (guards.grad_mode != grad_enabled() || guards.autocast != autocast_state() ||
      guards.matmul_precision != float32_matmul_precision() ||
      tensors.size() != guards.tensors.size() || !std::ranges::equal(tokens, guards.tokens))
    return false;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!matches_alone(guards.tensors[i], *tensors[i])) return false;
  return !guards.check_aliasing || shares_as_guarded(guards, tensors);
}

bool shares_as_guarded(const Guards& guards, std::span<const Tensor* const> tensors) {
  StorageIndex index(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int first = index.find_or_add(tensors[i]->impl()->storage.get(), static_cast<int>(i));
    if (!matches_aliasing(guards.tensors[i], first, tensors, i)) return false;
  }
  return true;
}

std::string explain_tokens(const Guards& guards, std::span<const uint64_t> tokens) {
  const auto [expected, got] = std::ranges::mismatch(guards.tokens, tokens);
  if (expected == guards.tokens.end() && got == tokens.end()) return "";
  auto first = static_cast<size_t>(expected - guards.tokens.begin());
  for (const GuardName& g : guards.names) {
    if (first >= g.tokens) {
      first -= g.tokens;
      continue;
    }
    if (g.spell == nullptr || got == tokens.end()) return g.name + ": another value";
    return fmt::format("{}: expected {}, got {}", g.name, g.spell(*expected), g.spell(*got));
  }
  return "the arguments have more numbers, strings or containers";
}

std::string explain_miss(const Guards& guards, std::span<const uint64_t> tokens,
                         std::span<const Tensor* const> tensors) {
  if (guards.grad_mode != grad_enabled())
    return fmt::format("grad mode: expected {}, got {}", guards.grad_mode, grad_enabled());
  if (guards.autocast != autocast_state())
    return fmt::format("autocast: expected {}, got {}", to_string(guards.autocast),
                       to_string(autocast_state()));
  if (guards.matmul_precision != float32_matmul_precision())
    return fmt::format("float32 matmul precision: expected {}, got {}",
                       name(guards.matmul_precision), name(float32_matmul_precision()));
  if (std::string changed = explain_tokens(guards, tokens); !changed.empty()) return changed;
  if (tensors.size() != guards.tensors.size())
    return fmt::format("structure: expected {} tensors, got {}", guards.tensors.size(),
                       tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorGuard& g = guards.tensors[i];
    if (!tensors[i]->defined()) return g.name + ": expected a defined tensor";
    if (!matches_alone(g, *tensors[i])) return g.name + ": " + explain_tensor(g, *tensors[i]);
  }
  return matches(guards, tokens, tensors)
             ? ""
             : "alias pattern: the tensors share storage in another way";
}

}  // namespace tandem::runtime
