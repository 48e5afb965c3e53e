#include "codegen/jit/transposition.h"

#include <utility>

namespace tandem::jit {

using codegen::Instr;
using codegen::LoopId;

namespace {

/// Rows of so few elements are read whole for each column, which fills vectors better than blocks
/// do (codegen/jit/interleaved.h).
constexpr int64_t kFewColumns = 4;

}  // namespace

std::optional<Transposition> transposition(const codegen::Kernel& kernel, size_t at,
                                           bool any_size) {
  using enum Instr::Kind;
  const auto& code = kernel.code;
  constexpr Instr::Kind kKinds[] = {LoopBegin, LoopBegin, Load, Store, LoopEnd, LoopEnd};
  if (at + std::size(kKinds) > code.size()) return {};
  for (size_t i = 0; i < std::size(kKinds); ++i)
    if (code[at + i].kind != kKinds[i]) return {};
  const Instr &load = code[at + 2], &store = code[at + 3];
  if (!code[at].args.empty() || store.args[0].index != at + 2 || store.dtype != load.dtype)
    return {};
  if (!load.access.indirect.empty() || !store.access.indirect.empty()) return {};
  if (!any_size && ir::size_of(load.dtype) < 4) return {};
  const LoopId outer = code[at].loop, inner = code[at + 1].loop;
  for (const auto& [x, y] : {std::pair(inner, outer), std::pair(outer, inner)}) {
    const bool by_rows = stride_along(load.access.index, x) == 1;
    const bool by_columns = stride_along(store.access.index, y) == 1;
    const bool are_narrow = y == inner && stride_along(load.access.index, y) <= kFewColumns;
    if (by_rows && by_columns && !are_narrow && stride_along(store.access.index, x) != 1)
      return Transposition{at + 2, at + 3, outer, inner, x, y};
  }
  return {};
}

}  // namespace tandem::jit
