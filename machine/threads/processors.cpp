#include "machine/threads/processors.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

namespace tandem::machine {
namespace {

int affinity_size() {
  for (int cpus = 1024; cpus <= 1 << 16; cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    if (!set) break;
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    const int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

bool lists(const std::string& commas, const std::string& word) {
  return ("," + commas + ",").find("," + word + ",") != std::string::npos;
}

/// A mounted hierarchy of control groups that may limit the processor.
struct Hierarchy {
  bool v2;
  std::string subtree;  // what of the hierarchy is mounted
  std::string mounted;  // where
};

/// A line of mountinfo: number, parent, device, subtree, mount point, options, optional fields,
/// "-", type, source, options of the file system.
std::optional<Hierarchy> hierarchy_of(const std::string& line) {
  std::istringstream text(line);
  std::string skip, subtree, mounted, type, options;
  text >> skip >> skip >> skip >> subtree >> mounted;
  while (text >> skip && skip != "-") {
  }
  text >> type >> skip >> options;
  if (type == "cgroup2") return Hierarchy{true, subtree, mounted};
  if (type == "cgroup" && lists(options, "cpu")) return Hierarchy{false, subtree, mounted};
  return std::nullopt;
}

/// The group that a line of /proc/self/cgroup ("NUMBER:CONTROLLERS:PATH") names in this kind of
/// hierarchy.
std::optional<std::string> group_of(const std::string& line, bool v2) {
  const size_t first = line.find(':'), second = line.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  const std::string controllers = line.substr(first + 1, second - first - 1);
  const bool ours = v2 ? controllers.empty() : lists(controllers, "cpu");
  return ours ? std::optional(line.substr(second + 1)) : std::nullopt;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// Processors that the quota of one group pays for, or 0.
int quota_of(const std::string& folder, bool v2) {
  double quota = -1, period = 0;
  if (v2) {
    std::ifstream(folder + "/cpu.max") >> quota >> period;  // "max" is no number
  } else {
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? static_cast<int>(std::ceil(std::min(quota / period, 1e6))) : 0;
}

int least(int a, int b) { return a == 0 || (b != 0 && b < a) ? b : a; }

/// The smallest quota from the group up to what is mounted.
int smallest_quota(const std::string& root, const Hierarchy& h, std::string group) {
  if (h.subtree != "/" && group.starts_with(h.subtree)) group.erase(0, h.subtree.size());
  int found = quota_of(root + h.mounted, h.v2);
  for (; group.size() > 1; group.erase(group.rfind('/')))
    found = least(found, quota_of(root + h.mounted + group, h.v2));
  return found;
}

}  // namespace

int quota_processors(const std::string& root) {
  int found = 0;
  const std::vector<std::string> groups = lines_of(root + "/proc/self/cgroup");
  for (const std::string& mount : lines_of(root + "/proc/self/mountinfo"))
    if (const auto hierarchy = hierarchy_of(mount))
      for (const std::string& line : groups)
        if (const auto group = group_of(line, hierarchy->v2); group && group->starts_with('/'))
          found = least(found, smallest_quota(root, *hierarchy, *group));
  return found;
}

int available_processors() noexcept {
  const int mask = affinity_size();
  try {
    return least(mask, quota_processors());
  } catch (const std::exception&) {
    return mask;  // out of memory: the quota stays unknown
  }
}

}  // namespace tandem::machine
