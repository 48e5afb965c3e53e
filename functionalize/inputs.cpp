#include "functionalize/inputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/error.h"
#include "ir/strides.h"

namespace tandem::functionalize {
namespace {

using ir::AttrValue;
using ir::Dim;
using ir::Graph;
using ir::ValueId;

/// The memory that an input spans, in elements from its alias root's first.
struct Extent {
  int input;
  Dim begin, end;
};
using Extents = std::vector<Extent>;

/// The first of the inputs that autograd knows to share memory with input `i`.
int history_root(const Graph& graph, int i) {
  while (graph.inputs()[i].alias_of && !graph.inputs()[i].alias_of->detached)
    i = graph.inputs()[i].alias_of->input;
  return i;
}

/// Follows alias_of to the input that has none.
int alias_root(const Graph& graph, int i, Dim& offset) {
  for (offset = 0; graph.inputs()[i].alias_of; i = graph.inputs()[i].alias_of->input)
    offset += graph.inputs()[i].alias_of->offset;
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
    list.push_back({i, offset, offset + span_of(graph.type(input.value).sizes, input.strides)});
  }
  for (Extents& list : all) std::ranges::stable_sort(list, std::ranges::less(), &Extent::begin);
  return all;
}

/// `list` in parts that do not overlap each other.
std::vector<Extents> overlapping(const Extents& list) {
  std::vector<Extents> parts;
  Dim reach = 0;
  for (const Extent& e : list) {
    const bool joins = !parts.empty() && e.begin < reach && e.begin < e.end;
    if (!joins) parts.emplace_back();
    reach = joins ? std::max(reach, e.end) : e.end;
    parts.back().push_back(e);
  }
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
    for (const Extents& list : extents_by_root(graph_))
      for (const Extents& part : overlapping(list))
        if (part.size() > 1 && std::ranges::any_of(part, is_written))
          add_overlapping(part);
        else
          std::ranges::for_each(part, [&](const Extent& e) { add_alone(e.input); });
  }

 private:
  const ir::Input& input(const Extent& e) const { return graph_.inputs()[e.input]; }
  const ir::Type& type(const Extent& e) const { return graph_.type(input(e).value); }

  void add_alone(int i) {
    const ValueId v = graph_.inputs()[i].value;
    aliases_.add_base(v, rewriter_[v]);
  }

  void add_overlapping(const Extents& part) {
    std::ranges::for_each(part, [&](const Extent& e) { check(part[0], e); });
    const Extent* container = find_container(part);
    if (!container) return add_views_of_buffer(part);
    add_alone(container->input);
    const Memory memory{input(*container).value, rewriter_[input(*container).value],
                        container->begin, container->end - container->begin};
    for (const auto& [root, members] : by_history(part)) {
      const bool main = root == history_root(graph_, container->input);
      const ValueId parent = main ? memory.id : add_history(memory, members);
      for (const Extent& e : members)
        if (e.input != container->input)
          aliases_.add_input_view(input(e).value, parent, view(e, memory.begin), main);
    }
  }

  /// What stands for the memory that inputs share: an id of `aliases_`, its value, and where it
  /// lies.
  struct Memory {
    ValueId id, value;
    Dim begin, length;
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
    const ValueId own = put_together(members, memory.begin, memory.length);
    const ValueId data = rewriter_.builder().emit(
        ir::Op::as_strided, {history_.detached(memory.value)}, whole(memory.length));
    return aliases_.add_detached_buffer(memory.id, whole(memory.length),
                                        history_.hidden_write(own, data));
  }

  static std::vector<AttrValue> whole(Dim length) {
    return {std::vector<Dim>{length}, std::vector<Dim>{1}, Dim(0)};
  }

  void check(const Extent& first, const Extent& e) const {
    if (type(e).dtype == type(first).dtype && !ir::self_overlaps(type(e).sizes, input(e).strides))
      return;
    ir::fail(ir::Errc::Unsupported,
             fmt::format("a write to inputs that share memory: expected {} and {} to have equal "
                         "dtypes, and each element a memory location of its own, got {} and {}",
                         input(first).name, input(e).name, ir::to_string(type(first)),
                         ir::to_string(type(e))));
  }

  /// A contiguous input that contains all others.
  const Extent* find_container(const Extents& part) const {
    const Dim end = std::ranges::max_element(part, std::ranges::less(), &Extent::end)->end;
    for (const Extent& e : part)
      if (e.begin == part[0].begin && e.end == end &&
          input(e).strides == ir::contiguous_strides(type(e).sizes))
        return &e;
    return nullptr;
  }

  std::vector<AttrValue> view(const Extent& e, Dim begin) const {
    const auto list = [](const ir::Shape& s) { return std::vector<Dim>(s.begin(), s.end()); };
    return {list(type(e).sizes), list(input(e).strides), e.begin - begin};
  }

  void add_views_of_buffer(const Extents& part) {
    const Dim begin = part[0].begin;
    const Dim end = std::ranges::max_element(part, std::ranges::less(), &Extent::end)->end;
    const auto groups = by_history(part);
    const bool one = groups.size() == 1;
    const ValueId all = put_together(part, begin, end - begin);
    const ValueId data = one ? all : history_.detached(all);
    const Memory memory{aliases_.add_buffer(data), data, begin, end - begin};
    for (const auto& [root, members] : groups) {
      const ValueId parent = one ? memory.id : add_history(memory, members);
      for (const Extent& e : members)
        aliases_.add_input_view(input(e).value, parent, view(e, begin), false);
    }
  }

  ValueId put_together(const Extents& members, Dim begin, Dim length) {
    ir::Builder& b = rewriter_.builder();
    ValueId buffer = b.full({length}, type(members[0]).dtype, 0);
    for (const Extent& e : members)
      buffer =
          b.emit(ir::Op::as_strided_scatter, {buffer, rewriter_[input(e).value]}, view(e, begin));
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
