// Copies between memories whose neighbours lie along different dimensions.
#ifndef TANDEM_MACHINE_MEMORY_CROSSING_COPIES_H
#define TANDEM_MACHINE_MEMORY_CROSSING_COPIES_H

#include "ir/buffer.h"

namespace tandem::machine {

/// Copies (views of equal sizes and dtypes) if neighbours of `from` lie along one dimension and
/// those of `to` along another: in square blocks of whole cache lines, so that each line is read
/// once and written once. (Row by row each element would cost a line.) False if they do not.
bool copy_crossing(const ir::BufferView& from, const ir::BufferView& to);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_MEMORY_CROSSING_COPIES_H
