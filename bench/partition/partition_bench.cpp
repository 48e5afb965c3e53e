// partition-bench: the table of `./dev bench partition`. For each program: bytes saved by eager
// PyTorch, by the reference rules, by default, and by the byte-minimal cut; simulated peak; time of
// the solver; time of a step under default, reference and save-all, measured in turns. Then the
// solver's time on long graphs.
#include <fmt/format.h>
#include <tandem/graph.h>
#include <tandem/tandem.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "autodiff/joint.h"
#include "codegen/lower.h"
#include "decomps/decompose.h"
#include "decomps/simplify.h"
#include "ir/rewrite.h"
#include "partition/partition.h"
#include "partition/plans.h"

namespace td = tandem;
using td::Tensor;
using Tensors = std::vector<Tensor>;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// --- the programs: tests/torch/saved_bytes.py has the same

struct Program {
  std::string name;
  Tensors inputs;
  std::function<Tensor(const Tensors&)> loss;
};

Tensor leaf(const td::Shape& sizes) { return td::randn(sizes).requires_grad_(); }

Program ten_cosines() {
  return {"ten_cosines", {leaf({1024, 1024})}, [](const Tensors& v) {
            Tensor x = v[0];
            for (int i = 0; i < 10; ++i) x = td::cos(x);
            return td::sum(x);
          }};
}

Program mlp() {
  Tensors inputs = {td::randn({256, 512}), td::randint(0, 512, {256})};
  for (int i = 0; i < 3; ++i) {
    inputs.push_back(leaf({512, 512}));
    inputs.push_back(leaf({512}));
  }
  return {"mlp", inputs, [](const Tensors& v) {
            Tensor x = v[0];
            for (size_t i = 0; i < 3; ++i) {
              x = td::matmul(x, v[2 + 2 * i]) + v[3 + 2 * i];
              if (i < 2) x = td::relu(x);
            }
            return td::cross_entropy(x, v[1]);
          }};
}

constexpr size_t kBlockParameters = 12;

void add_block(Tensors& inputs, int64_t c) {
  for (const auto& sizes : std::vector<td::Shape>{{c},
                                                  {c},
                                                  {c, 3 * c},
                                                  {3 * c},
                                                  {c, c},
                                                  {c},
                                                  {c},
                                                  {c},
                                                  {c, 4 * c},
                                                  {4 * c},
                                                  {4 * c, c},
                                                  {c}})
    inputs.push_back(leaf(sizes));
}

Tensor block(const Tensors& v, size_t first, Tensor x, int64_t heads, double dropout) {
  const auto p = [&](size_t i) -> const Tensor& { return v[first + i]; };
  const td::Dim batch = x.size(0), time = x.size(1), c = x.size(2);
  const auto dropped = [&](const Tensor& t) { return dropout > 0 ? td::dropout(t, dropout) : t; };
  const auto qkv =
      td::split(td::matmul(td::layer_norm(x, {c}, p(0), p(1), 1e-5), p(2)) + p(3), c, 2);
  const auto head = [&](const Tensor& t) {
    return t.view({batch, time, heads, c / heads}).transpose(1, 2);
  };
  const Tensor y =
      td::scaled_dot_product_attention(head(qkv[0]), head(qkv[1]), head(qkv[2]), {}, true);
  x = x + dropped(td::matmul(y.transpose(1, 2).reshape({batch, time, c}), p(4)) + p(5));
  const Tensor h = td::matmul(td::layer_norm(x, {c}, p(6), p(7), 1e-5), p(8)) + p(9);
  return x + dropped(td::matmul(td::gelu(h, "tanh"), p(10)) + p(11));
}

Program one_block(const std::string& name, int64_t batch, int64_t time, int64_t c, int64_t heads,
                  double dropout) {
  Tensors inputs = {leaf({batch, time, c})};
  add_block(inputs, c);
  return {name, inputs, [heads, dropout](const Tensors& v) {
            return td::sum(block(v, 1, v[0], heads, dropout));
          }};
}

Program nanogpt() {
  constexpr int64_t kLayers = 4, kHeads = 4, kChannels = 128, kTime = 64, kBatch = 8, kVocab = 65;
  Tensors inputs = {td::randint(0, kVocab, {kBatch, kTime}),
                    td::randint(0, kVocab, {kBatch, kTime}),
                    leaf({kVocab, kChannels}),
                    leaf({kTime, kChannels}),
                    leaf({kChannels}),
                    leaf({kChannels})};
  for (int i = 0; i < kLayers; ++i) add_block(inputs, kChannels);
  return {"nanogpt", inputs, [](const Tensors& v) {
            Tensor x = td::embedding(v[2], v[0]) + v[3];
            for (size_t i = 0; i < kLayers; ++i)
              x = block(v, 6 + i * kBlockParameters, x, kHeads, 0);
            const Tensor logits =
                td::matmul(td::layer_norm(x, {kChannels}, v[4], v[5], 1e-5), v[2].t());
            return td::cross_entropy(logits.view({-1, kVocab}), v[1].view({-1}));
          }};
}

Program ln_gelu() {
  return {"ln_gelu", {leaf({2048, 1024}), leaf({1024}), leaf({1024})}, [](const Tensors& v) {
            return td::sum(td::gelu(td::layer_norm(v[0], {1024}, v[1], v[2], 1e-5), "tanh"));
          }};
}

Program product_sum() {
  Tensors inputs;
  for (int i = 0; i < 6; ++i) inputs.push_back(leaf({1024, 1024}));
  return {"product_sum", inputs, [](const Tensors& v) {
            return td::sum((v[0] * v[2]) * v[3] + v[1] * v[4] + ((v[0] * v[1]) * v[2]) * v[5]);
          }};
}

Program matmul_cos() {
  Tensors inputs;
  for (int i = 0; i < 6; ++i) inputs.push_back(leaf({512, 512}));
  return {"matmul_cos", inputs, [](const Tensors& v) {
            Tensor x = v[0];
            for (size_t i = 1; i < 6; ++i) x = td::cos(td::matmul(x, v[i]));
            return td::sum(x);
          }};
}

std::vector<Program> programs() {
  return {ten_cosines(),
          mlp(),
          one_block("block_dropout", 4, 128, 256, 4, 0.1),
          nanogpt(),
          one_block("gpt2_block", 1, 256, 768, 12, 0),
          ln_gelu(),
          product_sum(),
          matmul_cos()};
}

// --- one row

/// One program under one partitioner.
class Compiled {
 public:
  Compiled(const Program& program, const std::string& partition)
      : program_(program),
        step_(td::compile(program.loss, {.name = program.name, .partition = partition})) {
    run();
  }

  /// Seconds of forward and backward.
  double run() {
    for (const Tensor& t : program_.inputs)
      if (t.requires_grad()) t.set_grad({});
    const auto start = Clock::now();
    step_(program_.inputs).backward();
    return seconds_since(start);
  }

  const td::CompiledGraphs& graphs() { return step_.graphs(program_.inputs); }

  /// Saved bytes, outputs and the larger arena.
  int64_t peak() {
    const td::CompiledGraphs& g = graphs();
    return g.partition.saved_bytes +
           std::max(g.forward_report.arena_bytes, g.backward_report.arena_bytes);
  }

 private:
  const Program& program_;
  td::Compiled<std::function<Tensor(const Tensors&)>, Tensor, const Tensors&> step_;
};

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

/// Bytes that eager PyTorch saves, by program.
std::map<std::string, int64_t> eager_table(const std::string& path) {
  std::map<std::string, int64_t> table;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t bytes = 0;
    if (words >> name >> bytes && name != "#") table[name] = bytes;
  }
  return table;
}

std::string megabytes(int64_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / 1e6);
}

void print_row(const Program& program, const std::map<std::string, int64_t>& eager, int rounds) {
  const std::vector<std::string> names = {"default", "reference", "save-all"};
  std::vector<Compiled> compiled;
  for (const std::string& name : names) compiled.emplace_back(program, name);
  std::vector<std::vector<double>> seconds(names.size());
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < names.size(); ++i) seconds[i].push_back(compiled[i].run());
  const td::PartitionReport& own = compiled[0].graphs().partition;
  const auto found = eager.find(program.name);
  fmt::print("| {} | {} | {} | {} | {} | {} | {} | {:.2f} |", program.name,
             found == eager.end() ? "?" : megabytes(found->second),
             megabytes(compiled[0].graphs().eager_saved_bytes),
             megabytes(compiled[1].graphs().partition.saved_bytes), megabytes(own.saved_bytes),
             megabytes(own.minimal_bytes), megabytes(compiled[0].peak()), own.seconds * 1e3);
  for (const auto& times : seconds) fmt::print(" {:.3f} |", median(times) * 1e3);
  fmt::print("\n");
  std::fflush(stdout);
}

// --- the solver's growth

td::Graph long_graph(int layers) {
  namespace ir = td::ir;
  ir::Graph graph("long", ir::Level::Functional);
  std::vector<ir::ValueId> inputs;
  for (const char* name : {"x", "w"}) {
    ir::Input input;
    input.name = name;
    input.requires_grad = true;
    input.strides = ir::contiguous_strides({16, 16});
    inputs.push_back(graph.add_input(input, {ir::DType::F32, {16, 16}}));
  }
  ir::GraphSink sink(graph);
  ir::Builder b(sink);
  ir::ValueId x = inputs[0];
  for (int i = 0; i < layers; ++i)
    x = b.add(x, b.emit(ir::Op::gelu, {b.mm(x, inputs[1])}, {std::string("none")}));
  ir::Output output;
  output.value = x;
  output.requires_grad = true;
  output.strides = ir::contiguous_strides({16, 16});
  graph.add_output(output);
  graph.epilogue.results.push_back({.requires_grad = true});
  td::ir::Graph core = td::decomps::simplify(td::decomps::decompose(td::autodiff::joint(graph)));
  core = ir::remove_dead_code(td::decomps::eliminate_common_subexpressions(core));
  return td::decomps::set_reduction_orders(core);
}

void print_growth() {
  const auto costs = td::codegen::make_cost_model();
  fmt::print("\n| equations | default, ms | reference, ms |\n|---|---|---|\n");
  for (int layers : {60, 600, 6000}) {
    const td::Graph core = long_graph(layers);
    fmt::print("| {} |", core.num_equations());
    for (const char* name : {"default", "reference"}) {
      std::vector<double> seconds;
      for (int round = 0; round < 3; ++round)
        seconds.push_back(td::partition::make_partitioner(name)
                              ->partition_within(core, {.costs = costs.get()})
                              .report.seconds);
      fmt::print(" {:.1f} |", median(seconds) * 1e3);
    }
    fmt::print("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 15;
  const auto eager = eager_table(argc > 1 ? argv[1] : "tests/torch/saved_bytes.tsv");
  td::manual_seed(1);
  fmt::print(
      "Megabytes beyond inputs and parameters; milliseconds, medians of {} rounds.\n\n"
      "| program | PyTorch eager | our tape | reference | default | byte-minimal | peak | solver, "
      "ms | "
      "step default | step reference | step save-all "
      "|\n|---|---|---|---|---|---|---|---|---|---|---|\n",
      rounds);
  for (const Program& program : programs()) print_row(program, eager, rounds);
  print_growth();
  return 0;
}
