#include "codegen/kernels/passes.h"

#include <algorithm>
#include <unordered_map>

#include "codegen/cost/costs.h"
#include "codegen/kernels/pass_order.h"

namespace tandem::codegen {
namespace {

constexpr double kKeepCost = 0.2;                    // recomputing costs more than this: keep it
constexpr int64_t kMaxKeptBytes = int64_t{1} << 19;  // of one row

class PassMaker {
 public:
  PassMaker(const Program& p, const Group& g, int64_t cols, const std::vector<bool>& is_stored)
      : p_(p), g_(g), cols_(cols), is_stored_(is_stored), cost_(g.nodes.size()) {
    for (int i = 0; i < size(); ++i)
      if (node(i).whole) position_[node(i).dest.root] = i;
  }

  Passes run() {
    out_.ready.resize(g_.nodes.size());
    out_.kept.resize(g_.nodes.size());
    int last = 0;
    for (int i = 0; i < size(); ++i) {
      out_.ready[at(i)] = first_pass(i);
      cost_[at(i)] = recompute_cost(i);
      last = std::max(last, out_.ready[at(i)]);
    }
    out_.passes.resize(at(last + 1));
    demand();
    return std::move(out_);
  }

 private:
  static size_t at(int i) { return static_cast<size_t>(i); }
  int size() const { return static_cast<int>(g_.nodes.size()); }
  const Node& node(int i) const { return p_.nodes[at(g_.nodes[at(i)])]; }
  bool is_row(int i) const { return is_row_node(node(i), g_.domain); }
  bool reduces(int i) const {
    return node(i).kind == Node::Kind::RowReduce || node(i).kind == Node::Kind::RowPartial ||
           node(i).kind == Node::Kind::ColPartial;
  }

  /// Calls f(position) for each operand that this group computes.
  template <class F>
  void for_each_inner(int i, F f) const {
    for (const View& v : node(i).operands)
      if (const auto found = position_.find(v.root); found != position_.end()) f(found->second);
  }

  int first_pass(int i) const {
    int pass = 0;
    for_each_inner(i, [&](int from) {
      const bool reduced = node(from).kind == Node::Kind::RowReduce;
      pass = std::max(pass, out_.ready[at(from)] + (reduced ? 1 : 0));
    });
    return pass;
  }

  double recompute_cost(int i) const {
    double cost = node_cost(node(i));
    for (const View& v : node(i).operands) {
      const auto found = position_.find(v.root);
      if (found == position_.end())
        cost += p_.values[at(v.root)].formula() ? 0 : kLoadCost;
      else if (!is_row(found->second) && !reduces(found->second))
        cost += cost_[at(found->second)];
    }
    return std::min(cost, 1e3);
  }

  bool worth_keeping(int i) const {
    if (cost_[at(i)] <= kKeepCost) return false;
    return is_stored_[at(node(i).dest.root)] ||
           cols_ * static_cast<int64_t>(ir::size_of(node(i).dtype)) <= kMaxKeptBytes;
  }

  /// What ends in a pass: reductions and stores.
  bool is_sink(int i) const {
    return reduces(i) || !node(i).whole || is_stored_[at(node(i).dest.root)];
  }

  /// From the last pass to the first, as a kept value is a demand on an earlier one.
  void demand() {
    const size_t count = out_.passes.size();
    std::vector<std::vector<bool>> wanted(count, std::vector<bool>(g_.nodes.size()));
    for (int i = 0; i < size(); ++i) {
      if (is_row(i))
        out_.passes[at(out_.ready[at(i)])].rows.push_back(i);
      else if (is_sink(i))
        wanted[at(out_.ready[at(i)])][at(i)] = true;
    }
    for (size_t pass = count; pass-- > 0;) {
      for (int i = size(); i-- > 0;)
        if (wanted[pass][at(i)]) demand_node(i, static_cast<int>(pass), wanted);
      std::vector<int>& compute = out_.passes[pass].compute;
      std::ranges::reverse(compute);
      compute = consumers_early(p_, g_, compute);
    }
  }

  void demand_node(int i, int pass, std::vector<std::vector<bool>>& wanted) {
    const int ready = out_.ready[at(i)];
    if (ready < pass && worth_keeping(i)) {
      out_.kept[at(i)] = true;
      out_.passes[at(pass)].reload.push_back(i);
      wanted[at(ready)][at(i)] = true;
      return;
    }
    out_.passes[at(pass)].compute.push_back(i);
    for_each_inner(i, [&](int from) {
      if (!is_row(from) && !reduces(from)) wanted[at(pass)][at(from)] = true;
    });
  }

  const Program& p_;
  const Group& g_;
  int64_t cols_;
  const std::vector<bool>& is_stored_;
  std::vector<double> cost_;
  std::unordered_map<int, int> position_;  // value -> the node that computes it
  Passes out_;
};

}  // namespace

Passes make_passes(const Program& program, const Group& group, int64_t cols,
                   const std::vector<bool>& is_stored) {
  return PassMaker(program, group, cols, is_stored).run();
}

}  // namespace tandem::codegen
