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
  Declarer(ir::Rewriter& rewriter, Aliases& aliases)
      : graph_(rewriter.source()), rewriter_(rewriter), aliases_(aliases) {}

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
    for (const Extent& e : part)
      if (e.input != container->input)
        aliases_.add_input_view(input(e).value, input(*container).value, view(e, container->begin),
                                true);
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
    ir::Builder& b = rewriter_.builder();
    ValueId buffer = b.full({end - begin}, type(part[0]).dtype, 0);
    for (const Extent& e : part)
      buffer =
          b.emit(ir::Op::as_strided_scatter, {buffer, rewriter_[input(e).value]}, view(e, begin));
    const ValueId base = aliases_.add_buffer(buffer);
    for (const Extent& e : part)
      aliases_.add_input_view(input(e).value, base, view(e, begin), false);
  }

  const Graph& graph_;
  ir::Rewriter& rewriter_;
  Aliases& aliases_;
};

}  // namespace

void declare_inputs(ir::Rewriter& rewriter, Aliases& aliases) { Declarer(rewriter, aliases).run(); }

}  // namespace tandem::functionalize
