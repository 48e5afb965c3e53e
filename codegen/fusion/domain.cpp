#include "codegen/fusion/domain.h"

#include <algorithm>
#include <span>

#include "codegen/loops/combine.h"

namespace tandem::codegen {
namespace {

/// A domain of one row is one unit of work: only worth it while small.
constexpr int64_t kMaxSingleRow = 8192;
/// Scalar work per row only pays for rows that are long enough, or few.
constexpr int64_t kShortRow = 16, kFewRows = 1024;

void add_cut(Domain& d, int64_t cut) {
  if (cut <= 1 || cut >= d.total) return;
  const auto place = std::ranges::lower_bound(d.cuts, cut) - d.cuts.begin();
  if (place < std::ssize(d.cuts) && d.cuts.begin()[place] == cut) return;
  d.cuts.push_back(cut);
  std::rotate(d.cuts.begin() + place, d.cuts.end() - 1, d.cuts.end());
}

void add_cuts(Domain& d, const View& v) {
  int64_t suffix = 1;
  const auto runs = collapsed(v);
  for (auto r = runs.rbegin(); r != runs.rend(); ++r) add_cut(d, suffix), suffix *= r->size;
}

void add_operand_cuts(Domain& d, const Node& node) {
  for (const View& v : node.operands) add_cuts(d, v);
  if (node.table.root.valid()) add_cuts(d, node.table);
}

bool is_chain(std::span<const int64_t> cuts, int64_t total) {
  for (size_t i = 0; i < cuts.size(); ++i)
    if ((i + 1 < cuts.size() ? cuts[i + 1] : total) % cuts[i] != 0) return false;
  return true;
}

bool cut_between(const Domain& d, int64_t low, int64_t high) {
  const auto at = std::upper_bound(d.cuts.begin(), d.cuts.end(), low);
  return at != d.cuts.end() && *at < high;
}

/// Whether the loops of build_kernel can realise the domain.
bool is_buildable(const Domain& d) {
  if (!is_chain(d.cuts, d.total)) return false;
  if (d.partial.n > 0 && !d.col_partial) {
    if (d.needs_whole_rows() || d.partial.inner != 1) return false;
    if (cut_between(d, 1, d.cols)) return false;
  }
  if (d.row_reduces && d.col_partial && cut_between(d, 1, d.cols)) return false;
  if (d.col_partial && cut_between(d, d.partial.inner, d.partial.inner * d.partial.n)) return false;
  if (!d.row_nodes || d.row_reduces) return true;
  if (d.rows() == 1) return d.total <= kMaxSingleRow;
  return d.cols >= kShortRow || d.rows() <= kFewRows;
}

/// `rows` (one element a row) seen as part of a domain with rows of `cols`.
Domain as_rows(const Domain& rows, int64_t cols) {
  Domain out{.total = rows.total * cols, .cols = cols, .row_nodes = true};
  for (int64_t cut : rows.cuts) out.cuts.push_back(cut * cols);
  return out;
}

bool is_plain(const Domain& d) {
  return d.cols == 0 && d.partial.n == 0 && !d.row_nodes && !d.row_reduces;
}

/// Both are known, and not the same.
bool differ(int64_t a, int64_t b) { return a != 0 && b != 0 && a != b; }

std::optional<Domain> of_equal_totals(const Domain& a, const Domain& b) {
  if (a.total != b.total || differ(a.cols, b.cols) || differ(a.row_block, b.row_block))
    return std::nullopt;
  if (a.partial.n > 0 && b.partial.n > 0) {
    if (a.col_partial != b.col_partial || a.partial.n != b.partial.n ||
        a.partial.outer != b.partial.outer || a.partial.block != b.partial.block)
      return std::nullopt;
  }
  Domain out = a;
  out.cols = std::max(a.cols, b.cols);
  out.row_nodes |= b.row_nodes;
  out.row_reduces |= b.row_reduces;
  out.row_block = std::max(a.row_block, b.row_block);
  if (b.partial.n > 0) out.partial = b.partial, out.col_partial = b.col_partial;
  for (int64_t cut : b.cuts) add_cut(out, cut);
  if (out.cols > 0) add_cut(out, out.cols);
  if (!is_buildable(out)) return std::nullopt;
  return out;
}

std::optional<Domain> with_rows(const Domain& whole, const Domain& rows) {
  if (!is_plain(rows) || rows.total == 0 || whole.total % rows.total != 0) return std::nullopt;
  const int64_t cols = whole.total / rows.total;
  if (cols == 1 || (whole.cols != 0 && whole.cols != cols)) return std::nullopt;
  return of_equal_totals(whole, as_rows(rows, cols));
}

bool is_row_value(const Node& producer, const Domain& d) {
  return makes(producer) == Makes::Rows || is_row_node(producer, d);
}

}  // namespace

bool is_row_node(const Node& node, const Domain& d) { return node.total() != d.total; }

bool steps_inside_rows(const Node& node, int64_t cols) {
  Domain steps{.total = node.total()};
  add_operand_cuts(steps, node);
  if (makes(node) == Makes::Elements) add_cuts(steps, node.dest);
  return cut_between(steps, 1, cols);
}

bool steps_inside_rows(const Domain& d) { return cut_between(d, 1, d.cols); }

bool is_fusible(const Node& node) { return makes(node) != Makes::Alone; }

Domain domain_of(const Node& node) {
  Domain d{.total = node.total()};
  add_operand_cuts(d, node);
  const Reduction& r = node.reduction;
  switch (makes(node)) {
    case Makes::Elements:
    case Makes::Alone:
      add_cuts(d, node.dest);
      break;
    case Makes::Rows:
      d.row_reduces = true;
      d.cols = r.n;
      if (is_ordered(r.combine, r.dtype)) d.row_block = std::min(r.n, r.block);
      break;
    case Makes::RowBlocks:
      d.partial = r;
      d.cols = r.n;
      break;
    case Makes::ColumnBlocks:
      d.partial = r;
      d.col_partial = true;
      d.cols = r.inner;
      add_cut(d, r.n * r.inner);
      break;
  }
  if (d.cols > 0) add_cut(d, d.cols);
  return d;
}

std::optional<Domain> with_dim(const Domain& domain, int64_t inner, int64_t size) {
  Domain d = domain;
  add_cut(d, inner);
  add_cut(d, inner * size);
  if (!is_buildable(d)) return std::nullopt;
  return d;
}

std::optional<Domain> united(const Domain& a, const Domain& b) {
  if (a.total == b.total) return of_equal_totals(a, b);
  return a.total > b.total ? with_rows(a, b) : with_rows(b, a);
}

bool passes_in_registers(const Node& producer, const Node& consumer, const View& view,
                         const Domain& d) {
  if (!producer.whole || is_partial(makes(producer)) || view.root == consumer.table.root)
    return false;
  if (is_row_node(consumer, d))
    return makes(consumer) == Makes::Elements && is_row_value(producer, d) && is_linear(view) &&
           view.numel() == d.rows();
  if (!is_row_value(producer, d)) return is_linear(view);
  return repeated_rows(view) == d.rows();
}

}  // namespace tandem::codegen
