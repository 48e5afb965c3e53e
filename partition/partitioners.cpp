// The partitioners by name: each chooses a set of saved values, gives a reason for each, and the
// split does the rest.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <chrono>

#include "ir/base/error.h"
#include "partition/candidates.h"
#include "partition/partition.h"

namespace tandem::partition {
namespace {

using ir::Graph;
using ir::ValueId;

/// Partitions with what follows "=" in the name.
using Run = ir::Partition (*)(const Problem& problem, double argument);

struct Row {
  std::string_view name;
  bool takes_argument;
  bool bounds_memory;
  Run run;
};

constexpr Row kRows[] = {
    {"default", false, false,
     [](const Problem& p, double) { return partition_at(p, choose_default(p)); }},
    {"reference", false, false,
     [](const Problem& p, double) { return partition_at(p, choose_reference(p)); }},
    {"save-all", false, false,
     [](const Problem& p, double) { return partition_at(p, choose_everything(p)); }},
    {"recompute-all", false, true,
     [](const Problem& p, double) { return partition_at(p, choose_inputs(p)); }},
    {"memory_budget", true, true, partition_by_peak},
    {"saved_budget", true, true, partition_by_fraction},
    {"saved_bytes", true, true, partition_by_bytes},
};

class NamedPartitioner final : public ir::Partitioner {
 public:
  NamedPartitioner(std::string name, const Row& row, double argument)
      : name_(std::move(name)), row_(row), argument_(argument) {}
  std::string name() const override { return name_; }
  bool bounds_memory() const override { return row_.bounds_memory; }

  ir::Partition partition(const Graph& core) const override { return partition_within(core, {}); }

  ir::Partition partition_within(const Graph& core,
                                 const ir::PartitionContext& context) const override {
    const auto start = std::chrono::steady_clock::now();
    ir::Partition out = row_.run(Problem(core, context), argument_);
    out.report.partitioner = name();
    constexpr int64_t kUnknown = ir::PartitionContext{}.tape_bytes;
    out.report.eager_bytes = context.tape_bytes == kUnknown ? -1 : context.tape_bytes;
    out.report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return out;
  }

 private:
  std::string name_;
  const Row& row_;
  double argument_;
};

class FunctionPartitioner final : public ir::Partitioner {
 public:
  FunctionPartitioner(std::string name, ChooseSaved choose)
      : name_(std::move(name)), choose_(std::move(choose)) {}
  std::string name() const override { return name_; }
  ir::Partition partition(const Graph& core) const override { return partition_within(core, {}); }

  ir::Partition partition_within(const Graph& core,
                                 const ir::PartitionContext& context) const override {
    const Problem problem(core, context);
    std::vector<ValueId> values = choose_(core);
    for (ValueId v : values) require_value(core, v);
    const auto reason = [this](const Alternative&) { return "chosen by " + name_; };
    ir::Partition out = partition_at(problem, {std::move(values), reason});
    out.report.partitioner = name_;
    return out;
  }

 private:
  void require_value(const Graph& core, ValueId v) const {
    const std::string number = v.valid() ? std::to_string(v.index) : "none";
    if (v.index >= core.num_values())
      ir::fail(ir::Errc::Partition,
               fmt::format("partitioner {}: there is no value {}; expected one of the graph's {}",
                           name_, number, core.num_values()));
    if (core.type(v).is_token)
      ir::fail(ir::Errc::Partition,
               fmt::format("partitioner {}: value {} is a token; expected tensors", name_, number));
  }

  std::string name_;
  ChooseSaved choose_;
};

std::string spelling(const Row& row) {
  return std::string(row.name) + (row.takes_argument ? "=NUMBER" : "");
}

[[noreturn]] void unknown(std::string_view name) {
  std::vector<std::string> known;
  for (const Row& row : kRows) known.push_back(spelling(row));
  ir::fail(ir::Errc::Argument, fmt::format("partitioner: unknown name; expected one of {}, got {}",
                                           fmt::join(known, ", "), name));
}

double number(std::string_view name, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) unknown(name);
  return value;
}

}  // namespace

EagerTape eager_tape(const Graph& joint) {
  const Needs needs(joint);
  ir::ValueMap<bool> held(joint);
  EagerTape tape;
  for (ValueId read : read_by_backward(needs)) {
    const ValueId v = needs.shown_by(read);
    if (!held[v] && !needs.is(v, ir::OpClass::Factory) && !needs.is_free_to_save(v))
      tape.bytes += int64_t{size_in_bytes(joint.type(v))};
    held[v] = true;
  }
  for (const ir::Output& output : joint.outputs())
    tape.outputs.push_back(held[needs.shown_by(output.value)]);
  return tape;
}

std::vector<std::string_view> partitioner_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows)
    if (!row.takes_argument) names.push_back(row.name);
  return names;
}

std::unique_ptr<ir::Partitioner> make_partitioner(std::string_view name) {
  const size_t equals = name.find('=');
  const std::string_view stem = name.substr(0, equals);
  for (const Row& row : kRows) {
    if (row.name != stem || row.takes_argument != (equals != name.npos)) continue;
    const double argument = row.takes_argument ? number(name, name.substr(equals + 1)) : 0;
    return std::make_unique<NamedPartitioner>(std::string(name), row, argument);
  }
  unknown(name);
}

std::unique_ptr<ir::Partitioner> make_partitioner(std::string name, ChooseSaved choose) {
  return std::make_unique<FunctionPartitioner>(std::move(name), std::move(choose));
}

}  // namespace tandem::partition
