// Runs every tests/filetests/FOLDER/*.ir: `; test: [PASS[,PASS...]]` on the first line (passes as
// `tandem opt` spells them), a graph, then `; expect:` and what the passes make of the graph, as
// comment lines. UPDATE_EXPECT=1 rewrites what is expected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "ir/base/error.h"
#include "ir/interfaces/custom_operator.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tools/passes.h"

namespace tandem {
namespace {

/// Gives its operands again. Files call it `test::note` (ordered) and `test::opaque`.
struct Same final : ir::CustomOperator {
  explicit Same(bool ordered) : is_ordered_(ordered) {}
  bool is_ordered() const override { return is_ordered_; }
  std::vector<ir::Type> result_types(std::span<const ir::Type> operands,
                                     std::string_view) const override {
    return {operands.begin(), operands.end()};
  }
  void run(std::span<const ir::BufferView>, std::string_view,
           std::span<const ir::BufferView>) const override {}

 private:
  bool is_ordered_;
};

const bool kRegistered = [] {
  ir::register_custom_operator("test::note", std::make_shared<Same>(true));
  ir::register_custom_operator("test::opaque", std::make_shared<Same>(false));
  return true;
}();

/// The parts of a test file.
struct FileTest {
  std::string source;  // all up to `; expect:`
  std::optional<std::vector<std::string>> passes;
  std::string expected;
};

std::string read_file(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream{std::string(text)};
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

constexpr std::string_view kTest = "; test:", kExpect = "; expect:\n";

FileTest read_test(const std::string& path) {
  const std::string text = read_file(path);
  const size_t end = text.find(kExpect);
  FileTest test{text.substr(0, end), {}, ""};
  const std::string first = text.substr(0, text.find('\n'));
  if (first.starts_with(kTest))
    test.passes = split(first.substr(std::min(first.size(), kTest.size() + 1)), ',');
  if (end == std::string::npos) return test;
  for (const std::string& line : split(text.substr(end + kExpect.size()), '\n'))
    test.expected += line.substr(std::min<size_t>(line.size(), 2)) + "\n";
  return test;
}

/// What the passes print; an Error is part of it.
std::string run_passes(const FileTest& test) {
  try {
    const ir::Graph graph = ir::parse(test.source);
    ir::verify(graph);
    const tools::Passed passed = tools::run_passes(graph, *test.passes);
    std::string text = passed.text;
    for (const ir::Graph& made : passed.graphs) {
      EXPECT_EQ(ir::parse(ir::print(made)), made);
      if (passed.text.empty()) text += ir::print(made);
    }
    return text;
  } catch (const ir::Error& error) {
    return "error " + std::string(name(error.code())) + ": " + error.what() + "\n";
  }
}

void update(const std::string& path, const FileTest& test, std::string_view got) {
  std::ofstream file(path);
  file << test.source << kExpect;
  for (const std::string& line : split(got, '\n'))
    file << (line.empty() ? ";" : "; ") << line << "\n";
}

std::vector<std::string> all_files() {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(TANDEM_SOURCE_DIR "/tests/filetests"))
    if (entry.path().extension() == ".ir") files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

class FileTests : public ::testing::TestWithParam<std::string> {};

TEST_P(FileTests, PrintsWhatItExpects) {
  const FileTest test = read_test(GetParam());
  ASSERT_TRUE(test.passes) << GetParam() << ":1: expected '; test: [PASS[,PASS...]]'";
  const std::string got = run_passes(test);
  if (std::getenv("UPDATE_EXPECT")) return update(GetParam(), test, got);
  EXPECT_EQ(test.expected, got) << GetParam() << "\nUPDATE_EXPECT=1 accepts what it prints now";
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  const std::filesystem::path path(info.param);
  std::string name = path.parent_path().filename().string() + "_" + path.stem().string();
  std::ranges::replace_if(name, [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, FileTests, ::testing::ValuesIn(all_files()), test_name);

}  // namespace
}  // namespace tandem
