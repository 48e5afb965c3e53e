// Writes a group's code: row loops from the schedule; in each row the sweeps, with row values
// between them and element values inside them.
#ifndef TANDEM_CODEGEN_KERNELS_GROUP_WRITER_H
#define TANDEM_CODEGEN_KERNELS_GROUP_WRITER_H

#include "codegen/fusion/fuse.h"
#include "codegen/kernels/schedule.h"

namespace tandem::codegen {

/// All that a unit of the schedule does. `is_stored`: by root, whether it has to be in memory
/// afterwards.
void write_group(const Program& program, const Group& group, const Table<RootId, bool>& is_stored,
                 Schedule schedule, KernelWriter& writer);
/// What is done inside the loops over units and rows.
void write_row(const Program& program, const Group& group, const Table<RootId, bool>& is_stored,
               Schedule schedule, KernelWriter& writer);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_KERNELS_GROUP_WRITER_H
