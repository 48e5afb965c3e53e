// The pipeline's table of stages, and what a fault in one of them leaves behind.
#include "runtime/compile/stages.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "ir/interfaces/partitioner.h"
#include "ir/json/json.h"
#include "ir/text/text.h"
#include "runtime/compile/pipeline.h"
#include "tests/support/temporary_folder.h"

namespace tandem::runtime {
namespace {

constexpr const char* kProgram = R"(graph @f traced {
  in %x: f32[4] primal requires_grad
  %y: f32[4] = sigmoid %x
  out %y: result requires_grad
}
)";

TEST(Stages, FitTogether) {
  ir::Level level = ir::Level::Traced;
  std::set<std::string_view> names;
  for (const Stage& stage : stages()) {
    EXPECT_TRUE(names.insert(stage.name).second) << stage.name;
    if (stage.use == Stage::Use::Tools) continue;
    EXPECT_TRUE(stage.first <= level && level <= stage.last) << stage.name;
    level = stage.gives.value_or(level);
  }
  EXPECT_EQ(level, ir::Level::Core);
}

TEST(Stages, AreTimedInOrder) {
  const auto partitioner = make_partitioner("default");
  const CompiledGraphs graphs =
      run_pipeline(ir::parse(kProgram), {.partitioner = partitioner.get(), .contract = false});
  std::vector<std::string> expected, got;
  for (const Stage& stage : stages())
    if (stage.use == Stage::Use::Always) expected.emplace_back(stage.name);
  expected.emplace_back("partition");
  for (const auto& [name, seconds] : graphs.stage_seconds) got.push_back(name);
  EXPECT_EQ(got, expected);
}

// --- faults

struct Faulty final : ir::Partitioner {
  std::string name() const override { return "save-all"; }
  ir::Partition partition(const ir::Graph&) const override {
    ir::check_failed("sum == total", "cut.cpp", 7, "");
  }
};

/// What run_pipeline throws with a partitioner that fails.
std::string fault(bool own_partitioner) {
  const Faulty faulty;
  try {
    run_pipeline(ir::parse(kProgram), {.partitioner = &faulty, .own_partitioner = own_partitioner});
  } catch (const ir::InternalError& error) {
    return error.what();
  }
  return "none";
}

class Faults : public ::testing::Test {
 protected:
  void SetUp() override { setenv("TANDEM_REPRODUCERS", folder.path().c_str(), 1); }
  void TearDown() override { unsetenv("TANDEM_REPRODUCERS"); }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      paths.push_back(entry.path());
    return paths;
  }

  testing::TemporaryFolder folder;
};

TEST_F(Faults, SayHowToMeetThemAgain) {
  const std::string text = fault(false);
  ASSERT_EQ(files().size(), 1u);
  const std::string command = "; again with: tandem opt --pass partition=save-all ";
  EXPECT_TRUE(text.ends_with(command + files()[0].string())) << text;
  std::ifstream file(files()[0]);
  const std::string json{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(ir::from_json(json).at(0).level, ir::Level::Core);
}

TEST_F(Faults, OfTheUsersOwnPartitionerCannotBeMetByACommand) {
  EXPECT_EQ(fault(true), "internal check failed: sum == total (cut.cpp:7)");
  EXPECT_TRUE(files().empty());
}

TEST_F(Faults, AreReportedWhereNothingCanBeWritten) {
  setenv("TANDEM_REPRODUCERS", (folder / "none").c_str(), 1);
  EXPECT_EQ(fault(false), "internal check failed: sum == total (cut.cpp:7)");
}

}  // namespace
}  // namespace tandem::runtime
