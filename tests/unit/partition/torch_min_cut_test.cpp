// Reference mode against PyTorch's own min-cut, on the joint graphs that PyTorch traces for the
// programs of `./dev bench partition` (tests/torch/min_cut_sets.py writes them).
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "ir/dtype.h"
#include "ir/graph.h"
#include "partition/analysis.h"
#include "partition/flow/network.h"
#include "partition/policies.h"

namespace tandem::partition {
namespace {

using ir::Graph;
using ir::ValueId;
using Names = std::set<std::string>;

/// One joint graph; attributes are left out, since the rules do not look at them.
class TorchGraph {
 public:
  explicit TorchGraph(const std::string& name) : graph(name, ir::Level::Core) {}

  void add(std::istringstream& line) {
    std::string kind, name;
    line >> kind;
    if (kind == "saved") {
      while (line >> name) saved.insert(name);
      return;
    }
    line >> name;
    if (kind == "input")
      add_input(name, line);
    else if (kind == "equation")
      add_equation(name, line);
    else
      add_output(name, line);
  }

  std::string name_of(ValueId v) const { return names_[v.index]; }

  Graph graph;
  Names saved;

 private:
  static ir::Type read_type(std::istringstream& line) {
    std::string dtype, sizes, size;
    line >> dtype >> sizes;
    ir::Type type{ir::dtype_named(dtype).value(), {}};
    if (sizes == "-") return type;
    for (std::istringstream in(sizes); std::getline(in, size, 'x');)
      type.sizes.push_back(std::stoll(size));
    return type;
  }

  void define(const std::string& name, ValueId v) {
    values_[name] = v;
    names_.resize(v.index + 1);
    names_[v.index] = name;
  }

  void add_input(const std::string& name, std::istringstream& line) {
    const ir::Type type = read_type(line);
    std::string role;
    line >> role;
    ir::Input input;
    input.name = name;
    input.role = role == "tangent" ? ir::Role::Tangent : ir::Role::Primal;
    define(name, graph.add_input(input, type));
  }

  void add_equation(const std::string& name, std::istringstream& line) {
    std::string op, operand;
    line >> op;
    const ir::Type type = read_type(line);
    std::vector<ValueId> operands;
    while (line >> operand) operands.push_back(values_.at(operand));
    const auto known = ir::op_named(op);
    ASSERT_TRUE(known) << graph.name << ": no operator is called " << op;
    const std::vector<ir::AttrValue> attrs(ir::info(*known).attrs.size());
    define(name, graph.result(graph.append(*known, operands, attrs, {{type}})));
  }

  void add_output(const std::string& name, std::istringstream& line) {
    std::string role;
    line >> role;
    ir::Output output;
    output.value = values_.at(name);
    output.role = role == "gradient" ? ir::Role::Gradient : ir::Role::Result;
    graph.add_output(output);
  }

  std::map<std::string, ValueId> values_;
  std::vector<std::string> names_;
};

std::vector<TorchGraph> torch_graphs() {
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/torch/min_cut_sets.txt");
  std::vector<TorchGraph> graphs;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    if (line.starts_with("graph "))
      graphs.emplace_back(line.substr(6));
    else if (!line.starts_with("#"))
      graphs.back().add(words);
  }
  return graphs;
}

std::string listed(const Names& names, const Names& without) {
  std::string text;
  for (const std::string& name : names)
    if (!without.contains(name)) text += " " + name;
  return text.empty() ? " nothing" : text;
}

TEST(TorchMinCut, ReferenceSavesTheSameSet) {
  const std::vector<TorchGraph> graphs = torch_graphs();
  ASSERT_GE(graphs.size(), 9u);
  for (const TorchGraph& torch : graphs) {
    const Analysis analysis(torch.graph);
    Names ours;
    for (ValueId v : cheapest_saved_set(analysis, reference_policy(analysis)))
      ours.insert(torch.name_of(v));
    EXPECT_EQ(ours, torch.saved) << torch.graph.name << ": we alone save"
                                 << listed(ours, torch.saved) << "; PyTorch alone saves"
                                 << listed(torch.saved, ours);
    std::printf("%s: %zu equations, %zu saved\n", torch.graph.name.c_str(),
                torch.graph.num_equations(), ours.size());
  }
}

}  // namespace
}  // namespace tandem::partition
