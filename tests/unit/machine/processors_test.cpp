#include "machine/threads/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "tests/support/temporary_folder.h"
namespace tandem::machine {
namespace {

namespace fs = std::filesystem;

/// The quota that files of these contents give.
int quota(const std::map<std::string, std::string>& files) {
  const testing::TemporaryFolder root;
  for (const auto& [name, text] : files) {
    const fs::path path = root.path() / fs::path(name).relative_path();
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  return quota_processors(root.path().string());
}

const std::string kV2 = "30 24 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw";
const std::string kV1 =
    "31 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 24 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset";

TEST(Processors, NoQuota) {
  EXPECT_EQ(quota({}), 0);
  EXPECT_EQ(quota({{"/proc/self/cgroup", "0::/"}, {"/proc/self/mountinfo", kV2}}), 0);
  EXPECT_EQ(quota({{"/proc/self/cgroup", "0::/a"},
                   {"/proc/self/mountinfo", kV2},
                   {"/sys/fs/cgroup/a/cpu.max", "max 100000"}}),
            0);
  EXPECT_EQ(quota({{"/proc/self/cgroup", "5:cpu,cpuacct:/"},
                   {"/proc/self/mountinfo", kV1},
                   {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1"},
                   {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000"}}),
            0);
}

TEST(Processors, QuotaOfVersion2IsRoundedUp) {
  for (const auto& [text, processors] : std::map<std::string, int>{{"50000 100000", 1},
                                                                   {"100000 100000", 1},
                                                                   {"100001 100000", 2},
                                                                   {"150000 100000", 2},
                                                                   {"20000 10000", 2},
                                                                   {"1650000 100000", 17}})
    EXPECT_EQ(quota({{"/proc/self/cgroup", "0::/a/b"},
                     {"/proc/self/mountinfo", kV2},
                     {"/sys/fs/cgroup/a/b/cpu.max", text}}),
              processors)
        << text;
}

TEST(Processors, QuotaOfVersion1) {
  EXPECT_EQ(quota({{"/proc/self/cgroup", "6:cpuset:/x\n5:cpu,cpuacct:/a"},
                   {"/proc/self/mountinfo", kV1},
                   {"/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000"},
                   {"/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000"}}),
            3);
}

TEST(Processors, GroupsAroundCountToo) {
  EXPECT_EQ(quota({{"/proc/self/cgroup", "0::/a/b/c"},
                   {"/proc/self/mountinfo", kV2},
                   {"/sys/fs/cgroup/a/cpu.max", "200000 100000"},
                   {"/sys/fs/cgroup/a/b/cpu.max", "max 100000"},
                   {"/sys/fs/cgroup/a/b/c/cpu.max", "800000 100000"}}),
            2);
  EXPECT_EQ(quota({{"/proc/self/cgroup", "0::/"},
                   {"/proc/self/mountinfo", kV2},
                   {"/sys/fs/cgroup/cpu.max", "300000 100000"}}),
            3)
      << "a container sees its own group as the root";
}

TEST(Processors, APartOfTheHierarchyIsMounted) {
  const std::string part = "30 24 0:27 /box/7 /sys/fs/cgroup rw - cgroup2 cgroup rw";
  EXPECT_EQ(quota({{"/proc/self/cgroup", "0::/box/7/job"},
                   {"/proc/self/mountinfo", part},
                   {"/sys/fs/cgroup/job/cpu.max", "100000 100000"}}),
            1);
  EXPECT_EQ(quota({{"/proc/self/cgroup", "0::/box/7"},
                   {"/proc/self/mountinfo", part},
                   {"/sys/fs/cgroup/cpu.max", "100000 100000"}}),
            1);
}

TEST(Processors, AffinityMask) {
  std::thread([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(available_processors(), 1);
  }).join();
}

}  // namespace
}  // namespace tandem::machine
