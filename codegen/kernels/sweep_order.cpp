#include "codegen/kernels/sweep_order.h"

#include <algorithm>
#include <unordered_map>

namespace tandem::codegen {
namespace {

class Order {
 public:
  Order(const Program& p, const Group& g, const std::vector<int>& compute)
      : p_(p), g_(g), waiting_(g.nodes.size()), users_(g.nodes.size()) {
    for (size_t i = 0; i < g.nodes.size(); ++i)
      if (node(i).whole) position_[node(i).dest.root] = i;
    for (int i : compute) waiting_[static_cast<size_t>(i)] = true;
    for (int i : compute)
      for (size_t from : inner_operands(static_cast<size_t>(i)))
        users_[from].push_back(static_cast<size_t>(i));
  }

  std::vector<int> run(const std::vector<int>& compute) {
    for (int i : compute) place(static_cast<size_t>(i));
    return std::move(out_);
  }

 private:
  const Node& node(size_t i) const { return p_.nodes[g_.nodes[i]]; }

  /// Operands that the group computes, each once.
  std::vector<size_t> inner_operands(size_t i) const {
    std::vector<size_t> inner;
    for (const View& v : node(i).operands)
      if (const auto found = position_.find(v.root); found != position_.end())
        inner.push_back(found->second);
    std::ranges::sort(inner);
    inner.erase(std::ranges::unique(inner).begin(), inner.end());
    return inner;
  }

  void place(size_t first) {
    std::vector<size_t> next = {first};
    while (!next.empty()) {
      const size_t i = next.back();
      next.pop_back();
      if (!waiting_[i]) continue;
      waiting_[i] = false;
      out_.push_back(static_cast<int>(i));
      for (size_t from : inner_operands(i)) {
        std::erase(users_[from], i);
        add_last_user(from, next);
      }
      add_last_user(i, next);
    }
  }

  /// The one node that still uses the value of `from`, if it can run at once.
  void add_last_user(size_t from, std::vector<size_t>& next) const {
    if (users_[from].size() != 1) return;
    const size_t user = users_[from].front();
    const bool smaller = ir::size_of(node(user).dtype) <= ir::size_of(node(from).dtype);
    if (smaller && node(user).kind == Node::Kind::Pointwise && has_operands_at_hand(user))
      next.push_back(user);
  }

  /// A load would begin the life of one more value.
  bool has_operands_at_hand(size_t i) const {
    return std::ranges::all_of(node(i).operands, [&](const View& v) {
      const auto inner = position_.find(v.root);
      if (inner != position_.end()) return !waiting_[inner->second];
      return p_.roots[v.root].formula();
    });
  }

  const Program& p_;
  const Group& g_;
  std::unordered_map<RootId, size_t> position_;  // of the node that computes it
  std::vector<bool> waiting_;                    // per node: of this sweep and not yet placed
  std::vector<std::vector<size_t>> users_;       // per node: those of this sweep not yet placed
  std::vector<int> out_;
};

}  // namespace

std::vector<int> consumers_early(const Program& program, const Group& group,
                                 const std::vector<int>& compute) {
  return Order(program, group, compute).run(compute);
}

}  // namespace tandem::codegen
