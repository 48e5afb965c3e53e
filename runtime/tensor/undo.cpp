#include "runtime/tensor/undo.h"

#include <ranges>

namespace tandem::runtime {

namespace {

std::unique_ptr<AutogradMeta> copy_of(const AutogradMeta* from) {
  if (from == nullptr) return nullptr;
  auto copy = std::make_unique<AutogradMeta>();
  copy->requires_grad = from->requires_grad;
  copy->retains_grad = from->retains_grad;
  copy->grad = from->grad;
  copy->node = from->node;
  copy->result = from->result;
  copy->accumulator = from->accumulator;
  if (from->view) copy->view = std::make_unique<ViewOf>(*from->view);
  copy->generation = from->generation;
  copy->arrangement = from->arrangement;
  copy->has_views = from->has_views;
  copy->hooks = from->hooks;
  copy->outside_history = from->outside_history;
  return copy;
}

/// In place: the call's inputs may be pointers to the gradient in it.
void put_back(std::unique_ptr<AutogradMeta>& to, std::unique_ptr<AutogradMeta>& from) {
  if (from == nullptr || to == nullptr)
    to = std::move(from);
  else
    *to = std::move(*from);
}

}  // namespace

Undo::~Undo() {
  for (State& s : std::views::reverse(states_)) {
    s.impl->storage = std::move(s.storage);
    s.impl->dtype = s.dtype;
    s.impl->sizes = std::move(s.sizes);
    s.impl->strides = std::move(s.strides);
    s.impl->offset = s.offset;
    put_back(s.impl->autograd, s.autograd);
  }
  for (const Version& v : std::views::reverse(versions_)) v.storage->restore_version(v.version);
}

void Undo::note_version(const Tensor& t) {
  const auto& storage = t.impl()->storage;
  versions_.push_back({storage, storage->version()});
}

void Undo::note(const std::shared_ptr<TensorImpl>& impl) {
  states_.push_back({impl, impl->storage, impl->dtype, impl->sizes, impl->strides, impl->offset,
                     copy_of(impl->autograd.get())});
}

void Undo::note(const Tensor& t) {
  note_version(t);
  if (const AutogradMeta* meta = t.impl()->autograd.get(); meta != nullptr && meta->view)
    note(meta->view->base);
  note(t.impl());
}

void Undo::keep() {
  states_.clear();
  versions_.clear();
}

}  // namespace tandem::runtime
