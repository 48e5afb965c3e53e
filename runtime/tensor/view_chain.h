// ViewChain: the steps that lead from a base to a view of it. That of a view of a view shares the
// steps of the first, so that a chain of n views takes n steps of memory.
#ifndef TANDEM_RUNTIME_TENSOR_VIEW_CHAIN_H
#define TANDEM_RUNTIME_TENSOR_VIEW_CHAIN_H

#include <algorithm>
#include <memory>
#include <vector>

#include "ir/graph.h"
#include "runtime/tape/delete_in_turn.h"

namespace tandem::runtime {

class ViewChain {
 public:
  ViewChain() = default;
  explicit ViewChain(std::vector<ir::ViewStep> steps) {
    for (ir::ViewStep& step : steps) push_back(std::move(step));
  }

  void push_back(ir::ViewStep step) {
    const size_t length = size() + 1;
    last_ = std::shared_ptr<Link>(new Link{std::move(step), std::move(last_), length},
                                  delete_in_turn<Link>);
  }

  size_t size() const { return last_ ? last_->length : 0; }

  /// From the base on.
  std::vector<ir::ViewStep> steps() const {
    std::vector<ir::ViewStep> steps;
    for (const Link* link = last_.get(); link != nullptr; link = link->before.get())
      steps.push_back(link->step);
    std::ranges::reverse(steps);
    return steps;
  }

 private:
  struct Link {
    ir::ViewStep step;
    std::shared_ptr<Link> before;
    size_t length;
    Link* next_dead = nullptr;
  };

  std::shared_ptr<Link> last_;
};

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TENSOR_VIEW_CHAIN_H
