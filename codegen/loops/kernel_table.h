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
  explicit KernelTable(std::vector<Kernel> kernels) : kernels_(std::move(kernels)) {}

  const Kernel& operator[](int kernel) const { return kernels_[static_cast<size_t>(kernel)]; }
  /// The kernel with params `read` and `written` as one (memory/in_place.h), or -1.
  int merged(int kernel, int read, int written);
  /// The kernel with these params streaming, and no others.
  int streaming(int kernel, const std::vector<bool>& streams);
  /// Moves the kernels that the plan's launches name into the plan, equal ones once, in the order
  /// of their use; renumbers the launches. The table is spent.
  void move_into(Plan& plan);

 private:
  int add(Kernel kernel);

  std::vector<Kernel> kernels_;
  std::map<std::tuple<int, int, int>, int> merged_;
  std::map<std::pair<int, std::vector<bool>>, int> streaming_;
};

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_LOOPS_KERNEL_TABLE_H
