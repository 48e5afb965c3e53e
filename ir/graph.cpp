#include "ir/graph.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "ir/base/error.h"

namespace tandem::ir {
namespace {

constexpr std::string_view kLevels[] = {"traced", "functional", "joint",
                                        "core",   "forward",    "backward"};
constexpr std::string_view kRoles[] = {"primal", "parameter", "rng",      "tangent", "saved",
                                       "result", "mutated",   "gradient", "token"};
constexpr std::string_view kMarks[] = {"auto", "save", "recompute"};
constexpr std::string_view kSources[] = {"output", "input", "view_of_input", "view_of_result"};

template <class E, size_t N>
std::optional<E> find_name(const std::string_view (&names)[N], std::string_view name) {
  const auto* it = std::ranges::find(names, name);
  return it == std::end(names) ? std::nullopt : std::optional(static_cast<E>(it - names));
}

bool same_equation(const Graph& a, const Graph& b, EquationId id) {
  const Equation &p = a.equation(id), &q = b.equation(id);
  return p.op == q.op && p.in_place == q.in_place && p.grad_enabled == q.grad_enabled &&
         p.is_backward == q.is_backward && p.mark == q.mark && p.region == q.region &&
         std::ranges::equal(a.operands(p), b.operands(q)) &&
         std::ranges::equal(a.results(p), b.results(q)) &&
         std::ranges::equal(a.attrs(p), b.attrs(q), same);
}

uint64_t hash(const Type& type) {
  uint64_t hash = static_cast<uint64_t>(type.dtype) * 2 + type.is_token;
  for (const Dim size : type.sizes)
    hash = (hash ^ static_cast<uint64_t>(int64_t{size})) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 32);
}

constexpr uint32_t kNoType = ~uint32_t{0};

}  // namespace

std::string_view name(Level level) { return kLevels[static_cast<size_t>(level)]; }
std::optional<Level> level_named(std::string_view name) { return find_name<Level>(kLevels, name); }
std::string_view name(Role role) { return kRoles[static_cast<size_t>(role)]; }
std::optional<Role> role_named(std::string_view name) { return find_name<Role>(kRoles, name); }
std::string_view name(Mark mark) { return kMarks[static_cast<size_t>(mark)]; }
std::optional<Mark> mark_named(std::string_view name) { return find_name<Mark>(kMarks, name); }
std::string_view name(ResultSource::Kind kind) { return kSources[static_cast<size_t>(kind)]; }
std::optional<ResultSource::Kind> result_kind_named(std::string_view name) {
  return find_name<ResultSource::Kind>(kSources, name);
}

void Graph::set_attr(EquationId e, Attr attr_name, AttrValue value) {
  AttrValue& slot = attrs_[equations_[e.index].first_attr + attr_index(op(e), attr_name)];
  TANDEM_CHECK(slot.index() == value.index(), "an attribute keeps its type");
  slot = std::move(value);
}

int Graph::input_index(ValueId v) const {
  if (producer(v).valid()) return -1;
  const auto number = [](const Input& input) { return input.value.index; };  // rising, as added
  const auto it = std::ranges::lower_bound(inputs_, v.index, {}, number);
  return it != inputs_.end() && it->value == v ? static_cast<int>(it - inputs_.begin()) : -1;
}

const std::string& Graph::hint(ValueId v) const {
  static const auto& kNone = *new std::string;
  return v.index < hints_.size() ? hints_[v.index] : kNone;
}

void Graph::set_hint(ValueId v, std::string hint) {
  if (!producer(v).valid() || (hint.empty() && v.index >= hints_.size())) return;
  if (hints_.size() <= v.index) hints_.resize(v.index + 1);
  hints_[v.index] = std::move(hint);
}

std::optional<Location> Graph::location(EquationId e) const {
  const LocationId id = equations_[e.index].location;
  if (!id.valid()) return std::nullopt;
  const Line& at = locations_[id.index];
  return Location{texts_[at.file], at.line, texts_[at.function]};
}

/// Where the type stands, or is to stand.
uint32_t& Graph::slot_of(const Type& type) {
  const size_t mask = type_slots_.size() - 1;
  size_t at = hash(type) & mask;
  while (type_slots_[at] != kNoType && types_[type_slots_[at]] != type) at = (at + 1) & mask;
  return type_slots_[at];
}

void Graph::grow_type_slots() {
  type_slots_.assign(std::bit_ceil(4 * types_.size() + 8), kNoType);
  for (uint32_t i = 0; i < types_.size(); ++i) slot_of(types_[i]) = i;
}

uint32_t Graph::add_type(const Type& type) {
  if (2 * types_.size() >= type_slots_.size()) grow_type_slots();
  uint32_t& slot = slot_of(type);
  if (slot != kNoType) return slot;
  types_.push_back(type);
  return slot = static_cast<uint32_t>(types_.size() - 1);
}

ValueId Graph::add_value(EquationId producer, const Type& type) {
  const ValueId v{static_cast<uint32_t>(values_.size())};
  values_.emplace_back(add_type(type), producer);
  return v;
}

ValueId Graph::add_input(Input input, const Type& type) {
  input.value = add_value({}, type);
  inputs_.push_back(std::move(input));
  return inputs_.back().value;
}

EquationId Graph::add_equation(Equation e, std::span<const AttrValue> attrs) {
  e.first_operand = static_cast<uint32_t>(operands_.size());
  e.first_result = static_cast<uint32_t>(results_.size());
  e.first_attr = static_cast<uint32_t>(attrs_.size());
  equations_.push_back(e);
  for (const AttrValue& value : attrs) attrs_.push_back(value);
  return {static_cast<uint32_t>(equations_.size() - 1)};
}

ValueId Graph::add_result(EquationId producer, const Type& type) {
  return results_.emplace_back(add_value(producer, type));
}

EquationId Graph::append(Op op, std::span<const ValueId> operands, AttrsRef attrs,
                         std::span<const Type> results, bool in_place) {
  TANDEM_CHECK(attrs.size() == info(op).attrs.size(),
               std::string(ir::name(op)) + ": wrong number of attributes");
  const EquationId id = add_equation({.op = op,
                                      .in_place = in_place,
                                      .operand_count = static_cast<uint32_t>(operands.size()),
                                      .result_count = static_cast<uint32_t>(results.size())},
                                     attrs);
  for (ValueId v : operands) operands_.push_back(v);
  for (const Type& type : results) add_result(id, type);
  return id;
}

EquationId Graph::append_copy(const Graph& source, EquationId e, ValueMap<ValueId>& map,
                              uint32_t first_location) {
  const Equation& from = source.equation(e);
  const EquationId id = add_equation(from, source.attrs(from));
  if (LocationId& location = equations_.back().location; location.valid())
    location.index += first_location;
  for (ValueId v : source.operands(from)) {
    TANDEM_CHECK(map[v].valid(), "a value was used before it was rewritten");
    operands_.push_back(map[v]);
  }
  for (ValueId v : source.results(from)) {
    map[v] = add_result(id, source.type(v));
    if (v.index < source.hints_.size()) set_hint(map[v], source.hints_[v.index]);
  }
  return id;
}

void Graph::rename_uses(std::span<const ValueId> renamed) {
  for (uint32_t i = 0; i < equations_.size(); ++i) rename_operands({i}, renamed);
  for (Output& output : outputs_) output.value = renamed[output.value.index];
}

void Graph::inherit(ValueId v, const Graph& from, ValueId old) {
  const EquationId to = producer(v), old_producer = from.producer(old);
  if (!to.valid()) return;
  if (const std::string& name = from.hint(old); !name.empty() && hint(v).empty()) set_hint(v, name);
  Mark& mark = equations_[to.index].mark;
  if (mark == Mark::Auto && old_producer.valid()) mark = from.equation(old_producer).mark;
}

// What the removed equations had in the other tables stays there unused.
void Graph::keep_only(std::span<const EquationId> order) {
  std::vector<Equation> equations;
  std::vector<Value> values;
  equations.reserve(order.size());
  values.reserve(inputs_.size() + order.size());
  std::vector<ValueId> moved(values_.size());
  const auto keep = [&](ValueId& v, EquationId producer) {
    values.emplace_back(values_[v.index].type, producer);
    v = moved[v.index] = {static_cast<uint32_t>(values.size() - 1)};
  };
  for (Input& input : inputs_) keep(input.value, {});
  for (EquationId e : order) {
    const Equation& equation = equations.emplace_back(equations_[e.index]);
    const EquationId id{static_cast<uint32_t>(equations.size() - 1)};
    for (uint32_t k = 0; k < equation.result_count; ++k)
      keep(results_[equation.first_result + k], id);
  }
  std::vector<std::string> hints(hints_.empty() ? 0 : values.size());
  for (uint32_t v = 0; v < hints_.size(); ++v)
    if (moved[v].valid()) hints[moved[v].index] = std::move(hints_[v]);
  equations_ = std::move(equations);
  values_ = std::move(values);
  hints_ = std::move(hints);
  rename_uses(moved);
}

namespace {

/// The range of `from` that begins at `first` moves to the end of `to`, and begins there.
template <class T>
void move_range(std::vector<T>& from, uint32_t& first, size_t count, std::vector<T>& to) {
  const auto begin = from.begin() + first;
  first = static_cast<uint32_t>(to.size());
  to.insert(to.end(), std::move_iterator(begin), std::move_iterator(begin + count));
}

}  // namespace

void Graph::shrink_to_fit() {
  std::vector<ValueId> operands, results;
  std::vector<AttrValue> attrs;
  operands.reserve(operands_.size()), results.reserve(results_.size()),
      attrs.reserve(attrs_.size());
  for (Equation& e : equations_) {
    move_range(operands_, e.first_operand, e.operand_count, operands);
    move_range(results_, e.first_result, e.result_count, results);
    move_range(attrs_, e.first_attr, info(e.op).attrs.size(), attrs);
  }
  operands_ = std::move(operands), results_ = std::move(results), attrs_ = std::move(attrs);
  keep_used_types();
  const auto shrink = [](auto&... lists) { (lists.shrink_to_fit(), ...); };
  shrink(inputs_, outputs_, equations_, values_, types_, operands_, results_, attrs_, hints_,
         locations_, texts_, subgraphs_);
}

void Graph::keep_used_types() {
  std::vector<Type> types;
  types.reserve(types_.size());
  std::vector<uint32_t> moved(types_.size(), kNoType);
  for (Value& value : values_) {
    uint32_t& to = moved[value.type];
    if (to == kNoType) {
      to = static_cast<uint32_t>(types.size());
      types.push_back(std::move(types_[value.type]));
    }
    value.type = to;
  }
  types_ = std::move(types);
  type_slots_ = {};
}

void Graph::reserve(const Graph& other, size_t times) {
  const auto reserve = [&](auto& table, const auto& like) { table.reserve(times * like.size()); };
  reserve(inputs_, other.inputs_);
  reserve(outputs_, other.outputs_);
  reserve(equations_, other.equations_);
  reserve(values_, other.values_);
  reserve(operands_, other.operands_);
  reserve(results_, other.results_);
  reserve(attrs_, other.attrs_);
  reserve(hints_, other.hints_);
}

SubgraphId Graph::add_subgraph(Graph graph) {
  subgraphs_.push_back(std::move(graph));
  return {static_cast<uint32_t>(subgraphs_.size() - 1)};
}

uint32_t Graph::add_text(std::string_view text) {
  // Equations mostly come from one file or two; a search of all would be quadratic.
  constexpr size_t kLatest = 8;
  for (size_t i = texts_.size(); i-- > 0 && i + kLatest >= texts_.size();)
    if (texts_[i] == text) return static_cast<uint32_t>(i);
  texts_.emplace_back(text);
  return static_cast<uint32_t>(texts_.size() - 1);
}

LocationId Graph::add_location(Location location) {
  const Line line{add_text(location.file), location.line, add_text(location.function)};
  if (locations_.empty() || locations_.back() != line) locations_.push_back(line);
  return {static_cast<uint32_t>(locations_.size() - 1)};
}

uint32_t Graph::add_locations(const Graph& other) {
  const auto first = static_cast<uint32_t>(locations_.size());
  const auto first_text = static_cast<uint32_t>(texts_.size());
  texts_.insert(texts_.end(), other.texts_.begin(), other.texts_.end());
  for (const Line& at : other.locations_)
    locations_.push_back({first_text + at.file, at.line, first_text + at.function});
  return first;
}

int64_t Graph::held_bytes() const {
  const auto bytes = [](const auto&... lists) {
    return (0 + ... + (lists.capacity() * sizeof *lists.data()));
  };
  auto held =
      static_cast<int64_t>(bytes(inputs_, outputs_, equations_, values_, types_, type_slots_,
                                 operands_, results_, attrs_, hints_, locations_, texts_));
  for (const Graph& inner : subgraphs_) held += inner.held_bytes();
  return held;
}

bool operator==(const Graph& a, const Graph& b) {
  const auto equations_match = [&] {
    if (a.num_equations() != b.num_equations()) return false;
    for (size_t i = 0; i < a.num_equations(); ++i)
      if (!same_equation(a, b, a.equation_id(i))) return false;
    return true;
  };
  const auto values_match = [&] {
    if (a.num_values() != b.num_values()) return false;
    for (uint32_t v = 0; v < a.num_values(); ++v)
      if (a.producer({v}) != b.producer({v}) || a.type({v}) != b.type({v})) return false;
    return true;
  };
  const auto hints_match = [&] {
    for (uint32_t v = 0; v < std::max(a.hints_.size(), b.hints_.size()); ++v)
      if (a.hint({v}) != b.hint({v})) return false;
    return true;
  };
  return a.name == b.name && a.level == b.level && a.epilogue == b.epilogue &&
         a.inputs_ == b.inputs_ && a.outputs_ == b.outputs_ && values_match() &&
         equations_match() && hints_match() && a.subgraphs_ == b.subgraphs_;
}

Strides contiguous_strides(const Shape& sizes) {
  Strides strides = Strides::filled(sizes.rank(), 1);
  Dim step = 1;
  for (int d = sizes.rank() - 1; d >= 0; --d) {
    strides[d] = step;
    step = checked_mul(step, sizes[d] > 1 ? sizes[d] : Dim(1), "strides");
  }
  return strides;
}

std::vector<uint32_t> use_counts(const Graph& graph) {
  std::vector<uint32_t> counts(graph.num_values());
  for (const Equation& e : graph.equations())
    for (ValueId v : graph.operands(e)) ++counts[v.index];
  for (const Output& o : graph.outputs()) ++counts[o.value.index];
  return counts;
}

}  // namespace tandem::ir
