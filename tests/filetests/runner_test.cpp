// Runs every tests/filetests/FOLDER/*.ir: `; test: PASS[,PASS...]` on the first line, a graph, then
// `; expect:` and what the passes make of the graph, as comment lines. UPDATE_EXPECT=1 rewrites
// what is expected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "autodiff/joint.h"
#include "decomps/decompose.h"
#include "decomps/simplify.h"
#include "functionalize/functionalize.h"
#include "ir/base/error.h"
#include "ir/build/inline.h"
#include "ir/build/rewrite.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "partition/partition.h"

namespace tandem {
namespace {

struct Pass {
  std::string_view name;
  ir::Graph (*run)(const ir::Graph&);
};

constexpr Pass kPasses[] = {
    {"print", [](const ir::Graph& g) { return g; }},
    {"functionalize", functionalize::functionalize},
    {"inline", ir::inline_calls},
    {"joint", autodiff::joint},
    {"decompose", decomps::decompose},
    {"simplify", [](const ir::Graph& g) { return decomps::simplify(g); }},
    {"parts", [](const ir::Graph& g) { return decomps::join_parts(g); }},
    {"cse", [](const ir::Graph& g) { return decomps::eliminate_common_subexpressions(g); }},
    {"dce", [](const ir::Graph& g) { return ir::remove_dead_code(g); }},
    {"scatters", [](const ir::Graph& g) { return decomps::scatter_into_sums(g); }},
    {"fma", [](const ir::Graph& g) { return decomps::form_fma(g); }},
    {"orders", [](const ir::Graph& g) { return decomps::set_reduction_orders(g); }},
};

/// The parts of a test file.
struct FileTest {
  std::string source;  // all up to `; expect:`
  std::vector<std::string> passes;
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

constexpr std::string_view kTest = "; test: ", kExpect = "; expect:\n";

FileTest read_test(const std::string& path) {
  const std::string text = read_file(path);
  const size_t end = text.find(kExpect);
  FileTest test{text.substr(0, end), {}, ""};
  const std::string first = text.substr(0, text.find('\n'));
  if (first.starts_with(kTest)) test.passes = split(first.substr(kTest.size()), ',');
  if (end == std::string::npos) return test;
  for (const std::string& line : split(text.substr(end + kExpect.size()), '\n'))
    test.expected += line.substr(std::min<size_t>(line.size(), 2)) + "\n";
  return test;
}

std::vector<ir::Graph> run_pass(const std::string& name, const std::vector<ir::Graph>& graphs) {
  constexpr std::string_view kPartition = "partition=";
  if (name.starts_with(kPartition)) {
    ir::Partition cut =
        partition::make_partitioner(name.substr(kPartition.size()))->partition(graphs.at(0));
    return {std::move(cut.forward), std::move(cut.backward)};
  }
  const auto* pass = std::ranges::find(kPasses, name, &Pass::name);
  if (pass == std::end(kPasses)) throw std::runtime_error("unknown pass '" + name + "'");
  std::vector<ir::Graph> results;
  for (const ir::Graph& graph : graphs) results.push_back(pass->run(graph));
  return results;
}

/// What the passes print; an Error is part of it.
std::string run_passes(const FileTest& test) {
  try {
    std::vector<ir::Graph> graphs = {ir::parse(test.source)};
    ir::verify(graphs[0]);
    for (const std::string& name : test.passes) {
      graphs = run_pass(name, graphs);
      for (const ir::Graph& graph : graphs) {
        ir::verify_after(name, graph);
        EXPECT_EQ(ir::parse(ir::print(graph)), graph);
      }
    }
    std::string text;
    for (const ir::Graph& graph : graphs) text += ir::print(graph);
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
  ASSERT_FALSE(test.passes.empty()) << GetParam() << ":1: expected '; test: PASS[,PASS...]'";
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
