#include "codegen/loops/kernel_table.h"

#include <unordered_map>

#include "codegen/memory/in_place.h"

namespace tandem::codegen {
namespace {

/// The kernels of a plan by their hash.
using Known = std::unordered_map<uint64_t, std::vector<KernelId>>;

/// The id in the plan of a kernel equal to `kernel`, which is moved there if it is the first.
KernelId place(Kernel& kernel, Known& known, Table<KernelId, Kernel>& plan) {
  std::vector<KernelId>& same_hash = known[hash(kernel)];
  for (KernelId k : same_hash)
    if (plan[k] == kernel) return k;
  return same_hash.emplace_back(plan.add(std::move(kernel)));
}

KernelId* kernel_of(Launch& launch) { return &launch.kernel; }
KernelId* kernel_of(MatmulCall&) { return nullptr; }
KernelId* kernel_of(ExternalCall&) { return nullptr; }

}  // namespace

KernelId KernelTable::merged(KernelId kernel, ParamId read, ParamId written) {
  const auto [known, fresh] = merged_.try_emplace({kernel, read, written});
  if (!fresh) return known->second;
  auto merged = merged_in_place((*this)[kernel], read, written);
  if (merged) known->second = kernels_.add(std::move(*merged));
  return known->second;
}

KernelId KernelTable::streaming(KernelId kernel, const std::vector<bool>& streams) {
  const auto [known, fresh] = streaming_.try_emplace({kernel, streams});
  if (!fresh) return known->second;
  Kernel variant = (*this)[kernel];
  for (ParamId p : variant.params.ids()) variant.params[p].streams = streams[p.index];
  return known->second = kernels_.add(std::move(variant));
}

void KernelTable::move_into(Plan& plan) {
  Table<KernelId, KernelId> placed(kernels_.size());
  Known known;
  for (Step& step : plan.steps) {
    KernelId* const kernel = std::visit([](auto& s) { return kernel_of(s); }, step);
    if (kernel == nullptr) continue;
    KernelId& now = placed[*kernel];
    if (!now.valid()) now = place(kernels_[*kernel], known, plan.kernels);
    *kernel = now;
  }
}

}  // namespace tandem::codegen
