#include "codegen/loops/kernel_table.h"

#include <unordered_map>

#include "codegen/memory/in_place.h"

namespace tandem::codegen {
namespace {

/// The kernels of a plan by their hash.
using Known = std::unordered_map<uint64_t, std::vector<int>>;

/// The number in the plan of a kernel equal to `kernel`, which is moved there if it is the first.
int place(Kernel& kernel, Known& known, std::vector<Kernel>& plan) {
  std::vector<int>& same_hash = known[hash(kernel)];
  for (int i : same_hash)
    if (plan[static_cast<size_t>(i)] == kernel) return i;
  same_hash.push_back(static_cast<int>(plan.size()));
  plan.push_back(std::move(kernel));
  return same_hash.back();
}

}  // namespace

int KernelTable::add(Kernel kernel) {
  kernels_.push_back(std::move(kernel));
  return static_cast<int>(kernels_.size()) - 1;
}

int KernelTable::merged(int kernel, int read, int written) {
  const auto [known, fresh] = merged_.try_emplace({kernel, read, written}, -1);
  if (!fresh) return known->second;
  auto merged = merged_in_place((*this)[kernel], read, written);
  if (merged) known->second = add(std::move(*merged));
  return known->second;
}

int KernelTable::streaming(int kernel, const std::vector<bool>& streams) {
  const auto [known, fresh] = streaming_.try_emplace({kernel, streams}, -1);
  if (!fresh) return known->second;
  Kernel variant = (*this)[kernel];
  for (size_t i = 0; i < streams.size(); ++i) variant.params[i].streams = streams[i];
  return known->second = add(std::move(variant));
}

void KernelTable::move_into(Plan& plan) {
  std::vector<int> numbers(kernels_.size(), -1);
  Known known;
  for (Step& step : plan.steps) {
    auto* launch = std::get_if<Launch>(&step);
    if (launch == nullptr) continue;
    const auto kernel = static_cast<size_t>(launch->kernel);
    if (numbers[kernel] < 0) numbers[kernel] = place(kernels_[kernel], known, plan.kernels);
    launch->kernel = numbers[kernel];
  }
}

}  // namespace tandem::codegen
