// The kernels of a plan in the making, by number, with the variants that the memory plan asks for.
#ifndef TANDEM_CODEGEN_LOOPS_KERNEL_TABLE_H
#define TANDEM_CODEGEN_LOOPS_KERNEL_TABLE_H

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "codegen/plan.h"

namespace tandem::codegen {

/// Many launches share a kernel, so each variant is made once.
class KernelTable {
 public:
  explicit KernelTable(Table<KernelId, Kernel> kernels) : kernels_(std::move(kernels)) {}

  const Kernel& operator[](KernelId kernel) const { return kernels_[kernel]; }
  /// The kernel with params `read` and `written` as one (memory/in_place.h), or none.
  KernelId merged(KernelId kernel, ParamId read, ParamId written);
  /// The kernel with these params streaming, and no others.
  KernelId streaming(KernelId kernel, const std::vector<bool>& streams);
  /// Moves the kernels that the plan's launches name into the plan, equal ones once, in the order
  /// of their use; renumbers the launches. The table is spent.
  void move_into(Plan& plan);

 private:
  Table<KernelId, Kernel> kernels_;
  std::map<std::tuple<KernelId, ParamId, ParamId>, KernelId> merged_;
  std::map<std::pair<KernelId, std::vector<bool>>, KernelId> streaming_;
};

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_LOOPS_KERNEL_TABLE_H
