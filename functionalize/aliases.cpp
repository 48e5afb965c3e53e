#include "functionalize/aliases.h"

#include <fmt/format.h>

#include "ir/base/error.h"
#include "ir/strides.h"

namespace tandem::functionalize {

using ir::EquationId;
using ir::ValueId;

std::string place(const ir::Graph& graph, EquationId e) {
  const auto location = graph.location(e);
  return location ? fmt::format(" ({}:{})", location->file, location->line) : std::string();
}

Aliases::Aliases(ir::Rewriter& rewriter, History& history)
    : rewriter_(rewriter), history_(history), aliases_(rewriter.source()) {}

const Aliases::Alias& Aliases::alias(ValueId traced) const {
  const Alias& a = aliases_[traced];
  TANDEM_CHECK(a.storage != kNoStorage, "a value was used before it was traced");
  return a;
}

Aliases::Alias& Aliases::alias(ValueId traced) {
  return const_cast<Alias&>(std::as_const(*this).alias(traced));
}

bool Aliases::made_without_grad(ValueId traced) const {
  const EquationId e = alias(traced).equation;
  return e.valid() && !starts_history(traced) && !rewriter_.source().equation(e).grad_enabled;
}

void Aliases::add_base(ValueId traced, ValueId value) {
  Alias& a = aliases_[traced];
  a.storage = static_cast<uint32_t>(storages_.size());
  a.current = value;
  a.counted_at = traced;
  storages_.emplace_back().base = traced;
}

ValueId Aliases::new_id(const ir::Type& type) {
  const ValueId id{static_cast<uint32_t>(aliases_.size())};
  aliases_.grow(aliases_.size() + 1);
  buffer_types_.push_back(type);
  return id;
}

ValueId Aliases::add_buffer(ValueId value) {
  const ValueId buffer = new_id(rewriter_.target().type(value));
  add_base(buffer, value);
  return buffer;
}

ValueId Aliases::add_detached_buffer(ValueId parent, ir::Op op, std::vector<ir::AttrValue> attrs,
                                     ValueId value) {
  const ValueId buffer = new_id(rewriter_.target().type(value));
  input_views_.push_back(std::move(attrs));
  add_view(buffer, parent, {op, input_views_.back()}, {}, Cut::Nothing);
  alias(buffer).counted_at = buffer;
  alias(buffer).cut = Cut::History;
  set_current(alias(buffer), value);
  return buffer;
}

const ir::Type& Aliases::type(ValueId traced) const {
  const size_t count = rewriter_.source().num_values();
  return traced.index < count ? rewriter_.source().type(traced)
                              : buffer_types_[traced.index - count];
}

void Aliases::add_view(ValueId traced, EquationId e) {
  const ir::Graph& graph = rewriter_.source();
  const Cut cut = cuts_history(graph.op(e))        ? Cut::History
                  : graph.equation(e).grad_enabled ? Cut::Nothing
                                                   : Cut::Gradients;
  add_view(traced, graph.operand(e, 0), {graph.op(e), graph.attrs(e)}, e, cut);
}

void Aliases::add_input_view(ValueId traced, ValueId parent, std::vector<ir::AttrValue> attrs,
                             bool counts_at_parent) {
  input_views_.push_back(std::move(attrs));
  add_view(traced, parent, {ir::Op::as_strided, input_views_.back()}, {}, Cut::Nothing);
  if (!counts_at_parent) alias(traced).counted_at = traced;
}

void Aliases::add_hook(ValueId traced, EquationId e, ir::AttrsRef attrs) {
  const ValueId parent = rewriter_.source().operand(e, 0);
  Storage& storage = storages_[alias(parent).storage];
  if (storage.newest.valid()) fold(storage);  // else the next read would, and forget the hook
  const ValueId value = regenerate(parent);
  at(e);
  add_view(traced, parent, {ir::Op::alias, {}}, e, Cut::Nothing);
  set_current(alias(traced), rewriter_.builder().emit(ir::Op::hook, {value}, attrs));
}

void Aliases::add_view(ValueId traced, ValueId parent, const ViewOp& view, EquationId e, Cut cut) {
  const Alias& from = alias(parent);
  Alias& a = aliases_[traced];
  a.storage = from.storage;
  a.parent = parent;
  a.counted_at = from.counted_at;
  a.view = view;
  a.equation = e;
  a.depth = from.depth + 1;
  a.cut = cut;
  a.hidden = from.hidden || cut != Cut::Nothing;
  a.repeats = from.repeats || repeats_elements(view, type(parent), type(traced));
}

bool Aliases::is_current(const Alias& a) const {
  return a.current.valid() && a.generation == storages_[a.storage].generation;
}

void Aliases::set_current(Alias& a, ValueId value) {
  a.current = value;
  a.generation = storages_[a.storage].generation;
}

void Aliases::at(EquationId e) {
  if (e.valid()) rewriter_.at(e);
}

ValueId Aliases::read(ValueId traced) {
  Storage& storage = storages_[alias(traced).storage];
  if (storage.newest == traced)
    depend_on_overwritten(storage);
  else if (storage.newest.valid())
    fold(storage);
  return regenerate(traced);
}

ValueId Aliases::differentiated(ValueId traced) {
  if (!may_carry_gradient(traced)) return {};
  const ValueId value = read(traced);
  return history_.carries_gradient(value) ? value : ValueId();
}

/// False only if reading `traced` would give a value without history. Emits nothing.
bool Aliases::may_carry_gradient(ValueId traced) {
  const auto carries = [&](ValueId v) { return v.valid() && history_.carries_gradient(v); };
  ValueId v = traced;
  for (; !is_current(alias(v)); v = alias(v).parent)
    if (has_own_history(alias(v))) return carries(alias(v).current);
  const Storage& storage = storages_[alias(traced).storage];
  return carries(alias(v).current) || carries(storage.overwritten) ||
         (storage.newest.valid() && carries(alias(storage.newest).current));
}

/// Only when somebody asks: where the base keeps the rest of its elements, its new value gives
/// those that were overwritten their zeros.
void Aliases::depend_on_overwritten(Storage& storage) {
  if (!storage.overwritten.valid()) return;
  at(storage.last_write);
  ValueId& current = alias(storage.newest).current;
  current = rewriter_.builder().emit(ir::Op::copy, {storage.overwritten, current});
  storage.overwritten = {};
}

/// Whether what is written through `traced` is all of its base.
bool Aliases::replaces_all(ValueId traced) const {
  for (; alias(traced).parent.valid(); traced = alias(traced).parent)
    if (keeps_rest(alias(traced).view.op, type(traced)) || has_own_history(alias(traced)))
      return false;
  return true;
}

/// Applies the views from the nearest alias that is up to date.
ValueId Aliases::regenerate(ValueId traced) {
  ir::ValueList stale;
  for (ValueId v = traced; !is_current(alias(v)); v = alias(v).parent) stale.push_back(v);
  for (size_t i = stale.size(); i-- > 0;) {
    Alias& a = alias(stale[i]);
    at(a.equation);
    const ValueId shown = apply(rewriter_.builder(), a.view, alias(a.parent).current);
    set_current(a, with_own_history(a, shown));
  }
  return alias(traced).current;
}

/// What others wrote changes the data of an alias with its own history, not that history.
ValueId Aliases::with_own_history(const Alias& a, ValueId data) {
  return a.current.valid() && has_own_history(a) ? history_.hidden_write(a.cut, a.current, data)
                                                 : history_.without(a.cut, data);
}

void Aliases::count_write(ValueId traced, EquationId e) {
  const Alias& a = alias(traced);
  Writes& writes = alias(a.counted_at).writes;
  ++writes.count;
  writes.hidden &= a.hidden || !rewriter_.source().equation(e).grad_enabled;
}

void Aliases::write(ValueId traced, ValueId value, EquationId e, ValueId overwritten) {
  count_write(traced, e);
  Alias& a = alias(traced);
  if (a.repeats) {
    if (ir::numel(type(traced).sizes) != 0) write_repeated(traced, value, e, overwritten);
    return;
  }
  Storage& storage = storages_[a.storage];
  if (storage.newest.valid() && storage.newest != traced) fold(storage);
  set_current(a, value);
  storage.newest = traced;
  storage.overwritten = overwritten;
  storage.last_write = e;
}

/// The views that lead to `traced` from the nearest tensor that shows no element twice, last first.
std::vector<ValueId> Aliases::repeating_views(ValueId traced) const {
  std::vector<ValueId> views;
  for (ValueId v = traced; alias(v).repeats; v = alias(v).parent) views.push_back(v);
  return views;
}

/// A write through a view on whose way elements are repeated: of a part that itself repeats none,
/// or of one number. It is folded into the last tensor before the repetition by a view of its own.
void Aliases::write_repeated(ValueId traced, ValueId value, EquationId e, ValueId overwritten) {
  const ir::Graph& graph = rewriter_.source();
  const std::vector<ValueId> views = repeating_views(traced);
  const ValueId parent = alias(views.back()).parent;
  std::vector<ViewOp> chain;
  Cut cut = Cut::Nothing;
  for (size_t i = views.size(); i-- > 0;) {
    chain.push_back(alias(views[i]).view);
    cut = std::max(cut, alias(views[i]).cut);
  }
  const auto strided = as_one_view(type(parent), chain);
  const bool is_one_number = graph.op(e) == ir::Op::fill;
  if (!strided || (!is_one_number && ir::self_overlaps(type(traced).sizes, strided->strides)))
    ir::fail(
        ir::Errc::Mutation,
        fmt::format(
            "{}_: cannot write through a view that overlaps itself; expected each element at a "
            "memory location of its own (clone it first), got {}{}",
            ir::name(graph.op(e)), ir::to_string(graph.type(traced)), place(graph, e)));
  at(e);
  const ValueId once = first_copies(rewriter_.builder(), value, strided->strides);
  const ir::Type type = rewriter_.target().type(once);
  const ValueId single = new_id(type);
  input_views_.push_back({type.sizes, strided->strides, strided->offset});
  add_view(single, parent, {ir::Op::as_strided, input_views_.back()}, {}, cut);
  alias(single).repeats = false;
  Storage& storage = storages_[alias(traced).storage];
  if (storage.newest.valid()) fold(storage);
  set_current(alias(single), once);
  storage.newest = single;
  storage.last_write = e;
  fold(storage);
  const bool reaches = overwritten.valid();
  set_current(alias(traced),
              reaches ? rewriter_.builder().emit(ir::Op::copy, {overwritten, value}) : value);
}

/// Carries the newest write up to the base; all aliases off that path become stale.
void Aliases::fold(Storage& storage) {
  const uint32_t next = storage.generation + 1;
  if (replaces_all(storage.newest)) depend_on_overwritten(storage);
  storage.overwritten = {};
  ValueId v = storage.newest;
  ValueId value = alias(v).current;
  at(storage.last_write);
  for (; alias(v).parent.valid(); v = alias(v).parent) {
    const ValueId above = folded_into_parent(alias(v), value);
    alias(v).current = value;
    alias(v).generation = next;
    value = above;
  }
  alias(v).current = value;
  alias(v).generation = next;
  storage.generation = next;
  storage.newest = {};
}

ValueId Aliases::folded_into_parent(const Alias& child, ValueId value) {
  const ir::Type shown = rewriter_.target().type(value);
  const bool needs_old = keeps_rest(child.view.op, shown) || has_own_history(child);
  const ValueId old = needs_old ? regenerate(child.parent) : ValueId();
  const ir::Type type = this->type(child.parent);
  at(storages_[child.storage].last_write);
  const ValueId above = invert(rewriter_.builder(), child.view, type, old, value);
  return has_own_history(child) ? history_.hidden_write(child.cut, old, above) : above;
}

}  // namespace tandem::functionalize
