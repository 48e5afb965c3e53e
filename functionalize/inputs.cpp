#include "functionalize/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/base/error.h"
#include "ir/strides.h"

namespace tandem::functionalize {
namespace {

using ir::AttrValue;
using ir::Dim;
using ir::DType;
using ir::Graph;
using ir::ValueId;

/// The memory that an input spans, in bytes from its alias root's first.
struct Extent {
  int input;
  Dim begin, end;
};
using Extents = ir::InlineVector<Extent, 2>;  // mostly one

/// The first of the inputs that autograd knows to share memory with input `i`.
int history_root(const Graph& graph, int i) {
  while (graph.inputs()[i].alias_of && !graph.inputs()[i].alias_of->detached)
    i = graph.inputs()[i].alias_of->input;
  return i;
}

int64_t element_size(const Graph& graph, int i) {
  return static_cast<int64_t>(ir::size_of(graph.type(graph.inputs()[i].value).dtype));
}

/// Follows alias_of to the input that has none; `offset` in bytes.
int alias_root(const Graph& graph, int i, Dim& offset) {
  offset = 0;
  while (const auto& alias = graph.inputs()[i].alias_of) {
    offset += alias->offset * std::min(element_size(graph, i), element_size(graph, alias->input));
    i = alias->input;
  }
  return i;
}

Dim span_of(const ir::Shape& sizes, const ir::Strides& strides) {
  Dim span = 1;
  for (int d = 0; d < sizes.rank(); ++d) span += (sizes[d] - 1) * strides[d];
  return ir::numel(sizes) == 0 ? Dim(0) : span;
}

/// The inputs' extents by alias root, each list in memory order.
std::vector<Extents> extents_by_root(const Graph& graph) {
  std::vector<Extents> all(graph.inputs().size());
  for (int i = 0; i < static_cast<int>(graph.inputs().size()); ++i) {
    const ir::Input& input = graph.inputs()[i];
    Dim offset;
    Extents& list = all[alias_root(graph, i, offset)];
    const Dim span = span_of(graph.type(input.value).sizes, input.strides);
    list.push_back({i, offset, offset + span * element_size(graph, i)});
  }
  const auto place = [](const Extent& e) { return std::pair(int64_t{e.begin}, e.input); };
  for (Extents& list : all) std::ranges::sort(list, std::ranges::less(), place);
  return all;
}

/// `list` in parts that do not overlap each other.
std::vector<Extents> overlapping(const Extents& list) {
  std::vector<Extents> parts, empty;  // what has no elements parts nothing
  Dim reach = 0;
  for (const Extent& e : list) {
    if (e.begin == e.end) {
      empty.push_back({e});
      continue;
    }
    const bool joins = !parts.empty() && e.begin < reach;
    if (!joins) parts.emplace_back();
    reach = joins ? std::max(reach, e.end) : e.end;
    parts.back().push_back(e);
  }
  parts.insert(parts.end(), empty.begin(), empty.end());
  return parts;
}

Dim end_of(const Extents& part) {
  return std::ranges::max_element(part, std::ranges::less(), &Extent::end)->end;
}

int64_t smallest_element(const Graph& graph, const Extents& part) {
  int64_t smallest = element_size(graph, part[0].input);
  for (const Extent& e : part) smallest = std::min(smallest, element_size(graph, e.input));
  return smallest;
}

/// Memory of more elements is not looked at element by element.
constexpr int64_t kLargestWalk = int64_t{1} << 24;

/// Calls visit(element), counted from the tensor's first, for each element.
template <class Visit>
void for_each_element(const ir::Shape& sizes, const ir::Strides& strides, Visit visit) {
  if (ir::numel(sizes) == 0) return;
  std::vector<int64_t> index(static_cast<size_t>(sizes.rank()));
  for (int64_t at = 0;;) {
    visit(at);
    int d = sizes.rank() - 1;
    for (; d >= 0; --d) {
      int64_t& i = index[static_cast<size_t>(d)];
      const int64_t stride = int64_t{strides[d]};
      if (++i < int64_t{sizes[d]}) {
        at += stride;
        break;
      }
      at -= (i - 1) * stride;
      i = 0;
    }
    if (d < 0) return;
  }
}

/// Sets that are joined one by one.
class Joined {
 public:
  explicit Joined(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }
  size_t find(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(size_t a, size_t b) { parent_[find(b)] = find(a); }

 private:
  std::vector<size_t> parent_;
};

/// A part whose memory spans overlap, in parts that have elements in common: tensors may lie
/// between each other's elements.
std::vector<Extents> truly_overlapping(const Graph& graph, const Extents& part) {
  const int64_t unit = smallest_element(graph, part);
  const Dim begin = part[0].begin, units = (end_of(part) - begin) / unit;
  if (part.size() == 1 || units > kLargestWalk) return {part};
  std::vector<int> owner(static_cast<size_t>(int64_t{units}), -1);
  Joined joined(part.size());
  for (size_t i = 0; i < part.size(); ++i) {
    const ir::Input& input = graph.inputs()[part[i].input];
    const int64_t first = int64_t{part[i].begin - begin} / unit,
                  wide = element_size(graph, part[i].input) / unit;
    for_each_element(graph.type(input.value).sizes, input.strides, [&](int64_t at) {
      for (int64_t k = 0; k < wide; ++k) {
        int& one = owner[static_cast<size_t>(first + at * wide + k)];
        if (one >= 0) joined.join(static_cast<size_t>(one), i);
        one = static_cast<int>(i);
      }
    });
  }
  std::vector<Extents> parts(part.size());
  for (size_t i = 0; i < part.size(); ++i) parts[joined.find(i)].push_back(part[i]);
  std::erase_if(parts, [](const Extents& p) { return p.empty(); });
  return parts;
}

/// Which inputs the program writes, itself or through views.
std::vector<bool> written_inputs(const Graph& graph) {
  ir::ValueMap<int> input_of(graph, -1);
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    input_of[graph.inputs()[i].value] = static_cast<int>(i);
  std::vector<bool> written(graph.inputs().size());
  for (const ir::Equation& e : graph.equations()) {
    if (e.operand_count == 0) continue;
    const int input = input_of[graph.operands(e)[0]];
    const bool same_memory = ir::is_view(e.op) || e.op == ir::Op::hook;
    if (same_memory) input_of[graph.results(e)[0]] = input;
    if (e.in_place && input >= 0) written[input] = true;
  }
  return written;
}

class Declarer {
 public:
  Declarer(ir::Rewriter& rewriter, Aliases& aliases, History& history)
      : graph_(rewriter.source()), rewriter_(rewriter), aliases_(aliases), history_(history) {}

  void run() {
    const std::vector<bool> written = written_inputs(graph_);
    const auto is_written = [&](const Extent& e) { return bool{written[e.input]}; };
    const auto add_all_alone = [&](const Extents& part) {
      for (const Extent& e : part) add_alone(e.input);
    };
    for (const Extents& list : extents_by_root(graph_)) {
      for (const Extents& part : overlapping(list)) {
        if (std::ranges::none_of(part, is_written)) {
          add_all_alone(part);
          continue;
        }
        for (const Extents& p : truly_overlapping(graph_, part))
          p.size() > 1 || overlaps_itself(p[0]) ? add_overlapping(p) : add_all_alone(p);
      }
    }
  }

 private:
  const ir::Input& input(const Extent& e) const { return graph_.inputs()[e.input]; }
  const ir::Type& type(const Extent& e) const { return graph_.type(input(e).value); }

  void add_alone(int i) {
    const ValueId v = graph_.inputs()[i].value;
    aliases_.add_base(v, rewriter_[v]);
  }

  void add_overlapping(const Extents& part) {
    for (const Extent& e : part) check_no_self_overlap(e);
    const auto differs = [&](const Extent& e) { return type(e).dtype != type(part[0]).dtype; };
    if (std::ranges::any_of(part, differs)) return add_views_of_bytes(part);
    const Extent* container = find_container(part);
    if (!container) return add_views_of_buffer(part);
    add_alone(container->input);
    const Memory memory{input(*container).value, rewriter_[input(*container).value],
                        container->begin, container->end};
    for (const auto& [root, members] : by_history(part)) {
      const bool main = root == history_root(graph_, container->input);
      const ValueId parent = main ? memory.id : add_history(memory, members);
      for (const Extent& e : members)
        if (e.input != container->input)
          aliases_.add_input_view(input(e).value, parent, view(e, memory.begin), main);
    }
  }

  /// What stands for the memory that inputs share: an id of `aliases_`, its value, and where it
  /// lies, in bytes.
  struct Memory {
    ValueId id, value;
    Dim begin, end;
  };

  /// The inputs by the tensor that they are views of, as far as autograd knows.
  std::vector<std::pair<int, Extents>> by_history(const Extents& part) const {
    std::vector<std::pair<int, Extents>> groups;
    for (const Extent& e : part) {
      const int root = history_root(graph_, e.input);
      const auto known = std::ranges::find(groups, root, &std::pair<int, Extents>::first);
      if (known == groups.end())
        groups.push_back({root, {e}});
      else
        known->second.push_back(e);
    }
    return groups;
  }

  /// The same data with a history that only these inputs share.
  ValueId add_history(const Memory& memory, const Extents& members) {
    const DType dtype = type(members[0]).dtype;
    const Dim length = (memory.end - memory.begin) / static_cast<int64_t>(ir::size_of(dtype));
    const ValueId own = put_together(zeros(memory, dtype), members, memory.begin);
    const bool same = rewriter_.builder().dtype(memory.value) == dtype;
    const ir::Op op = same ? ir::Op::as_strided : ir::Op::view_dtype;
    std::vector<AttrValue> attrs{dtype};
    if (same) attrs = {ir::Dims{length}, ir::Dims{1}, Dim(0)};
    const ValueId data =
        rewriter_.builder().emit(op, {history_.without(Cut::History, memory.value)}, attrs);
    return aliases_.add_detached_buffer(memory.id, op, std::move(attrs),
                                        history_.hidden_write(Cut::History, own, data));
  }

  bool overlaps_itself(const Extent& e) const {
    return ir::self_overlaps(type(e).sizes, input(e).strides);
  }

  /// The sizes with repeated dimensions left out.
  ir::Shape sizes_once(const Extent& e) const {
    ir::Shape sizes = type(e).sizes;
    for (int d = 0; d < sizes.rank(); ++d)
      if (input(e).strides[d] == 0) sizes[d] = std::min<int64_t>(sizes[d], 1);
    return sizes;
  }

  void check_no_self_overlap(const Extent& e) const {
    if (ir::self_overlaps(sizes_once(e), input(e).strides))
      ir::fail(ir::Errc::Unsupported,
               fmt::format("a write to inputs that share memory: expected each element of {} at a "
                           "memory location of its own, got strides {} of {}",
                           input(e).name, ir::to_string(input(e).strides), ir::to_string(type(e))));
  }

  /// A contiguous input that contains all others.
  const Extent* find_container(const Extents& part) const {
    for (const Extent& e : part)
      if (e.begin == part[0].begin && e.end == end_of(part) &&
          input(e).strides == ir::contiguous_strides(type(e).sizes))
        return &e;
    return nullptr;
  }

  /// What leads from memory that begins at `begin`, as elements of the input's dtype, to the input.
  std::vector<AttrValue> view(const Extent& e, Dim begin) const {
    return {type(e).sizes, input(e).strides, (e.begin - begin) / element_size(graph_, e.input)};
  }

  void add_views_of_buffer(const Extents& part) {
    Memory memory{{}, {}, part[0].begin, end_of(part)};
    const auto groups = by_history(part);
    const bool one = groups.size() == 1;
    const ValueId all = put_together(zeros(memory, type(part[0]).dtype), part, memory.begin);
    memory.value = one ? all : history_.without(Cut::History, all);
    memory.id = aliases_.add_buffer(memory.value);
    for (const auto& [root, members] : groups)
      add_views(members, one ? memory.id : add_history(memory, members), memory.begin);
  }

  /// Inputs of several dtypes: as views of a buffer of integers as small as the smallest element.
  /// (Inputs of one history have one dtype.)
  void add_views_of_bytes(const Extents& part) {
    Memory memory = aligned(part);
    const DType unit = ir::integer_of(smallest_element(graph_, part));
    ir::Builder& b = rewriter_.builder();
    const auto groups = by_history(part);
    memory.value = zeros(memory, unit);
    for (const auto& [root, members] : groups) {
      const ValueId as_members = b.view_dtype(memory.value, type(members[0]).dtype);
      memory.value = b.view_dtype(put_together(as_members, members, memory.begin), unit);
    }
    memory.id = aliases_.add_buffer(memory.value);
    for (const auto& [root, members] : groups)
      add_views(members, add_history(memory, members), memory.begin);
  }

  /// The memory of all, in whole elements of each of their dtypes.
  Memory aligned(const Extents& part) const {
    const auto size = [&](const Extent& e) { return element_size(graph_, e.input); };
    const Extent& widest = *std::ranges::max_element(part, std::ranges::less(), size);
    const int64_t step = size(widest);
    const auto whole = [&](int64_t bytes) { return (bytes + step - 1) / step * step; };
    return {{},
            {},
            widest.begin - whole(int64_t{widest.begin - part[0].begin}),
            widest.begin + whole(int64_t{end_of(part) - widest.begin})};
  }

  void add_views(const Extents& members, ValueId parent, Dim begin) {
    for (const Extent& e : members)
      aliases_.add_input_view(input(e).value, parent, view(e, begin), false);
  }

  ValueId zeros(const Memory& memory, DType dtype) {
    const Dim length = (memory.end - memory.begin) / static_cast<int64_t>(ir::size_of(dtype));
    return rewriter_.builder().full({length}, dtype, 0);
  }

  /// `buffer`, of the inputs' dtype, with their elements in it.
  ValueId put_together(ValueId buffer, const Extents& members, Dim begin) {
    ir::Builder& b = rewriter_.builder();
    for (const Extent& e : members) {
      const ValueId once = first_copies(b, rewriter_[input(e).value], input(e).strides);
      std::vector<AttrValue> attrs = view(e, begin);
      attrs[0] = b.sizes(once);
      buffer = b.emit(ir::Op::as_strided_scatter, {buffer, once}, attrs);
    }
    return buffer;
  }

  const Graph& graph_;
  ir::Rewriter& rewriter_;
  Aliases& aliases_;
  History& history_;
};

}  // namespace

void declare_inputs(ir::Rewriter& rewriter, Aliases& aliases, History& history) {
  Declarer(rewriter, aliases, history).run();
}

}  // namespace tandem::functionalize
