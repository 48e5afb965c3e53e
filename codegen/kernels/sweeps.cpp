#include "codegen/kernels/sweeps.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "codegen/cost/costs.h"
#include "codegen/fusion/domain.h"
#include "codegen/kernels/sweep_order.h"

namespace tandem::codegen {
namespace {

constexpr double kKeepCost = 0.2;                    // recomputing costs more than this: keep it
constexpr double kEqualWork = 1e-3;                  // what differs by less costs the same
constexpr int64_t kMaxKeptBytes = int64_t{1} << 19;  // of one row

class SweepMaker {
 public:
  SweepMaker(const Program& p, const Group& g, int64_t cols, const Table<RootId, bool>& is_stored)
      : p_(p), g_(g), cols_(cols), is_stored_(is_stored), cost_(g.nodes.size()) {
    for (int i = 0; i < size(); ++i)
      if (node(i).whole) position_[node(i).dest.root] = i;
  }

  Sweeps run() {
    out_.ready.resize(g_.nodes.size());
    out_.kept.resize(g_.nodes.size());
    set_ready(0);
    if (g_.domain.row_reduces && steps_inside_rows(g_.domain)) set_ready(after_reductions());
    for (int i = 0; i < size(); ++i) cost_[at(i)] = recompute_cost(i);
    out_.sweeps.resize(at(std::ranges::max(out_.ready) + 1));
    fill(wanted());
    return std::move(out_);
  }

 private:
  using Marks = std::vector<std::vector<bool>>;  // by sweep and node

  static size_t at(int i) { return static_cast<size_t>(i); }
  int size() const { return static_cast<int>(g_.nodes.size()); }
  const Node& node(int i) const { return p_.nodes[g_.nodes[at(i)]]; }
  bool is_row(int i) const { return is_row_node(node(i), g_.domain); }
  bool reduces(int i) const { return reduces_rows(makes(node(i))) || is_column_sum(i); }
  bool is_column_sum(int i) const { return makes(node(i)) == Makes::ColumnBlocks; }

  /// Calls f(position) for each operand that this group computes.
  template <class F>
  void for_each_inner(int i, F f) const {
    for (const View& v : node(i).operands)
      if (const auto found = position_.find(v.root); found != position_.end()) f(found->second);
  }

  /// What steps inside rows runs in sweep `uneven` at the earliest.
  void set_ready(int uneven) {
    for (int i = 0; i < size(); ++i) {
      out_.ready[at(i)] = first_sweep(i);
      if (is_uneven(i)) out_.ready[at(i)] = std::max(out_.ready[at(i)], uneven);
    }
  }

  int after_reductions() const {
    int sweep = 0;
    for (int i = 0; i < size(); ++i)
      if (reduces(i)) sweep = std::max(sweep, out_.ready[at(i)] + 1);
    return sweep;
  }

  bool is_uneven(int i) const { return !is_row(i) && steps_inside_rows(node(i), cols_); }

  int first_sweep(int i) const {
    int sweep = 0;
    for_each_inner(i, [&](int from) {
      const bool reduced = makes(node(from)) == Makes::Rows;
      sweep = std::max(sweep, out_.ready[at(from)] + (reduced ? 1 : 0));
    });
    return sweep;
  }

  /// Whether an element read through the view comes from memory: not computed here, no formula, and
  /// not the same along the row, as that is read before its loop.
  bool is_read_along_row(const View& v) const {
    if (position_.contains(v.root) || p_.roots[v.root].formula()) return false;
    const auto runs = collapsed(v);
    return !runs.empty() && (runs.rbegin()->stride != 0 || runs.rbegin()->size % cols_ != 0);
  }

  double recompute_cost(int i) const {
    double cost = node_cost(node(i));
    for (const View& v : node(i).operands) cost += is_read_along_row(v) ? kLoadCost : 0;
    for_each_inner(i, [&](int from) {
      if (!is_row(from) && !reduces(from)) cost += cost_[at(from)];
    });
    return std::min(cost, 1e3);
  }

  bool worth_keeping(int i) const {
    if (cost_[at(i)] <= kKeepCost) return false;
    return is_stored_[node(i).dest.root] ||
           cols_ * static_cast<int64_t>(ir::size_of(node(i).dtype)) <= kMaxKeptBytes;
  }

  /// What ends in a sweep: reductions and stores.
  bool is_sink(int i) const {
    return reduces(i) || !node(i).whole || is_stored_[node(i).dest.root];
  }

  /// What each sweep computes or reloads.
  Marks wanted() const {
    Marks out(out_.sweeps.size(), std::vector<bool>(g_.nodes.size()));
    for (int i = 0; i < size(); ++i)
      if (!is_row(i) && is_sink(i) && !is_column_sum(i)) out[at(out_.ready[at(i)])][at(i)] = true;
    demand(out);
    for (int i = 0; i < size(); ++i)
      if (is_column_sum(i)) place(i, out);
    return out;
  }

  /// Marks what the marked nodes need. From the last sweep to the first, as a kept value is a
  /// demand on an earlier one.
  void demand(Marks& marks) const {
    for (int sweep = static_cast<int>(marks.size()); sweep-- > 0;)
      for (int i = size(); i-- > 0;) {
        if (!marks[at(sweep)][at(i)]) continue;
        if (is_reloaded(i, sweep))
          marks[at(out_.ready[at(i)])][at(i)] = true;
        else
          for_each_inner(i, [&](int from) {
            if (!is_row(from) && !reduces(from)) marks[at(sweep)][at(from)] = true;
          });
      }
  }

  bool is_reloaded(int i, int sweep) const { return out_.ready[at(i)] < sweep && worth_keeping(i); }

  /// A column sum goes where it costs the least, of equals into the sweep that has the least to do:
  /// any from that on in which it is ready.
  void place(int i, Marks& marks) const {
    const int ready = out_.ready[at(i)], count = static_cast<int>(marks.size());
    int best = ready;
    std::pair<double, double> least;
    for (int sweep = ready; sweep < count && ready + 1 < count; ++sweep) {
      Marks with = marks;
      with[at(sweep)][at(i)] = true;
      demand(with);
      const std::pair cost(std::round(total_work(with) / kEqualWork), work(marks, sweep));
      if (sweep == ready || cost < least) best = sweep, least = cost;
    }
    marks[at(best)][at(i)] = true;
    demand(marks);
  }

  double total_work(const Marks& marks) const {
    double sum = 0;
    for (int sweep = 0; sweep < static_cast<int>(marks.size()); ++sweep) sum += work(marks, sweep);
    return sum;
  }

  /// Of one element in a sweep, in nanoseconds.
  double work(const Marks& marks, int sweep) const {
    double sum = 0;
    std::vector<RootId> read;
    for (int i = 0; i < size(); ++i) {
      if (!marks[at(sweep)][at(i)]) continue;
      sum += is_reloaded(i, sweep) ? kLoadCost : node_cost(node(i)) + kLoadCost * stores(i);
      if (is_reloaded(i, sweep)) continue;
      for (const View& v : node(i).operands)
        if (is_read_along_row(v)) read.push_back(v.root);
    }
    std::ranges::sort(read);
    return sum + kLoadCost * static_cast<double>(std::ranges::unique(read).begin() - read.begin());
  }

  int stores(int i) const { return is_column_sum(i) ? 2 : is_sink(i) && !reduces(i) ? 1 : 0; }

  void fill(const Marks& marks) {
    for (int i = 0; i < size(); ++i)
      if (is_row(i)) out_.sweeps[at(out_.ready[at(i)])].rows.push_back(i);
    for (int sweep = 0; sweep < static_cast<int>(marks.size()); ++sweep) {
      Sweeps::Sweep& to = out_.sweeps[at(sweep)];
      for (int i = 0; i < size(); ++i) {
        if (!marks[at(sweep)][at(i)]) continue;
        const bool kept = is_reloaded(i, sweep);
        to.uneven = to.uneven || is_uneven(i);
        (kept ? to.reload : to.compute).push_back(i);
        if (kept) out_.kept[at(i)] = true;
      }
      to.compute = consumers_early(p_, g_, to.compute);
    }
  }

  const Program& p_;
  const Group& g_;
  int64_t cols_;
  const Table<RootId, bool>& is_stored_;
  std::vector<double> cost_;
  std::unordered_map<RootId, int> position_;  // of the node that computes it
  Sweeps out_;
};

}  // namespace

Sweeps make_sweeps(const Program& program, const Group& group, int64_t cols,
                   const Table<RootId, bool>& is_stored) {
  return SweepMaker(program, group, cols, is_stored).run();
}

}  // namespace tandem::codegen
