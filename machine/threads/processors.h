// How many processors' worth of time this process may use.
#ifndef TANDEM_MACHINE_THREADS_PROCESSORS_H
#define TANDEM_MACHINE_THREADS_PROCESSORS_H

#include <string>

namespace tandem::machine {

/// Processors that the affinity mask allows, or fewer where a control group's quota pays for fewer
/// (rounded up); at least 1.
int available_processors() noexcept;

/// The smallest quota of the process's control group and those around it (cpu.max of version 2,
/// cpu.cfs_quota_us of version 1) in processors, rounded up, or 0 where there is none. The files
/// are read below `root`: /proc/self/cgroup, /proc/self/mountinfo and the mount points that it
/// names.
int quota_processors(const std::string& root = "");

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_THREADS_PROCESSORS_H
