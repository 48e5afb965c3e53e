// The partitioners by name: each chooses a set of saved values, gives a reason for each, and the
// split does the rest.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "ir/error.h"
#include "partition/partition.h"
#include "partition/policies.h"
#include "partition/relax.h"

namespace tandem::partition {
namespace {

using ir::EquationId;
using ir::Graph;
using ir::ValueId;

struct Choice {
  ValueId value;
  std::string reason;
};
using Choices = std::vector<Choice>;

// --- the choices

/// `values` with views as their bases, each once, in graph order.
std::vector<ValueId> bases_of(const Analysis& a, std::vector<ValueId> values) {
  for (ValueId& v : values) v = a.base(v);
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());
  return values;
}

const char* reason_of_input(const Analysis& a, ValueId v) {
  return a.overwritten[v] ? "input that forward overwrites: a copy" : "input: lives anyway";
}

Choices cut(const Analysis& a, const Policy& policy) {
  Choices choices;
  for (ValueId v : bases_of(a, cheapest_saved_set(a, policy))) {
    const char* ban = a.is_primal(v) || !a.forward[v] ? nullptr : policy.ban(v);
    choices.push_back({v, ban              ? ban
                          : a.is_primal(v) ? reason_of_input(a, v)
                                           : "cheaper to save than what it is computed from"});
  }
  return choices;
}

Choices choose_default(const Analysis& a, int64_t max_bytes) {
  return cut(a, relaxed_to(a, default_policy(a), max_bytes));
}

Choices choose_reference(const Analysis& a, int64_t) { return cut(a, reference_policy(a)); }

/// Computed by an equation that the forward half wrote.
bool is_written_in_forward(const Analysis& a, ValueId v) {
  return a.is_primal(v) || (!a.needs_tangent[v] && !a.graph.equation(a.producer(v)).is_backward);
}

bool is_read_in_backward(const Analysis& a, ValueId v) {
  return a.gradient[v] || std::ranges::any_of(a.users[v], [&](EquationId user) {
           return std::ranges::any_of(a.graph.results(user), [&](ValueId result) {
             return a.backward[result] && !is_written_in_forward(a, result);
           });
         });
}

/// What the backward half reads of the forward half.
std::vector<ValueId> read_by_backward(const Analysis& a) {
  std::vector<ValueId> values;
  for (ValueId v : a.all_values())
    if (a.backward[v] && is_written_in_forward(a, v) && is_read_in_backward(a, v))
      values.push_back(v);
  return values;
}

// Views as their bases; constants are written again.
Choices choose_everything(const Analysis& a, int64_t) {
  Choices choices;
  for (ValueId v : bases_of(a, read_by_backward(a)))
    if (!a.is(v, ir::OpClass::Factory)) choices.push_back({v, "read by backward"});
  return choices;
}

// Also what runs once.
Choices choose_inputs(const Analysis& a, int64_t) {
  Choices choices;
  for (ValueId v : a.all_values()) {
    if (!a.backward[v]) continue;
    if (a.is_primal(v))
      choices.push_back({v, reason_of_input(a, v)});
    else if (is_written_in_forward(a, v) && a.has_effects(a.producer(v)) &&
             !a.graph.type(v).is_token)
      choices.push_back({v, "effect: runs once"});
  }
  return choices;
}

// --- the report

/// Marks the equations that stand in the half that computes `wanted` from `given`.
std::vector<bool> equations_for(const Analysis& a, ir::ValueMap<bool> wanted,
                                const ir::ValueMap<bool>& given) {
  std::vector<bool> used(a.graph.num_equations());
  for (size_t i = used.size(); i-- > 0;) {
    const auto results = a.graph.results(a.graph.equation_id(i));
    used[i] = std::ranges::any_of(results, [&](ValueId v) { return wanted[v] && !given[v]; });
    if (!used[i]) continue;
    for (ValueId v : a.graph.operands(a.graph.equation_id(i))) wanted[v] = true;
  }
  return used;
}

int64_t count_recomputed(const Analysis& a, const Choices& choices) {
  ir::ValueMap<bool> saved(a.graph), forward_wants = a.forward;
  for (const Choice& c : choices) saved[c.value] = forward_wants[c.value] = true;
  const auto in_forward = equations_for(a, forward_wants, ir::ValueMap<bool>(a.graph));
  const auto in_backward = equations_for(a, a.gradient, saved);
  int64_t count = 0;
  for (size_t i = 0; i < in_forward.size(); ++i) count += in_forward[i] && in_backward[i];
  return count;
}

int64_t minimal_bytes(const Analysis& a) {
  int64_t bytes = 0;
  for (ValueId v : cheapest_saved_set(a, minimal_policy(a))) bytes += a.saved_bytes(v);
  return bytes;
}

ir::PartitionReport report_of(const Analysis& a, const Choices& choices) {
  ir::PartitionReport report;
  for (const Choice& c : choices) {
    const int64_t bytes = a.saved_bytes(c.value);
    report.saved.push_back({value_name(a.graph, c.value), a.graph.type(c.value), bytes, c.reason});
    report.saved_bytes += bytes;
  }
  report.minimal_bytes = minimal_bytes(a);
  report.recomputed_equations = count_recomputed(a, choices);
  return report;
}

// --- the table

/// Chooses the saved set, at most `max_bytes` of it if the partitioner heeds a limit.
using Choose = Choices (*)(const Analysis& analysis, int64_t max_bytes);

struct Row {
  std::string_view name;
  Choose choose;
};

constexpr Row kRows[] = {
    {"default", choose_default},
    {"reference", choose_reference},
    {"save-all", choose_everything},
    {"recompute-all", choose_inputs},
};

class NamedPartitioner final : public ir::Partitioner {
 public:
  explicit NamedPartitioner(const Row& row) : row_(row) {}
  std::string name() const override { return std::string(row_.name); }

  ir::Partition partition(const Graph& core) const override {
    return partition_within(core, std::numeric_limits<int64_t>::max());
  }

  ir::Partition partition_within(const Graph& core, int64_t tape_bytes) const override {
    const auto start = std::chrono::steady_clock::now();
    const Analysis analysis(core);
    const Choices choices = row_.choose(analysis, tape_bytes);
    std::vector<ValueId> saved;
    for (const Choice& c : choices) saved.push_back(c.value);
    ir::Partition out = split(core, saved);
    out.report = report_of(analysis, choices);
    out.report.partitioner = name();
    out.report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return out;
  }

 private:
  const Row& row_;
};

}  // namespace

int64_t tape_bytes(const Graph& joint) {
  const Analysis a(joint);
  std::vector<bool> held(joint.num_values());
  int64_t bytes = 0;
  for (ValueId v : read_by_backward(a)) {
    while (a.is(v, ir::OpClass::View)) v = joint.operand(a.producer(v), 0);
    if (held[v.index]) continue;
    held[v.index] = true;
    if (!a.is(v, ir::OpClass::Factory)) bytes += a.saved_bytes(v);
  }
  return bytes;
}

std::vector<std::string_view> partitioner_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) names.push_back(row.name);
  return names;
}

std::unique_ptr<ir::Partitioner> make_partitioner(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return std::make_unique<NamedPartitioner>(row);
  ir::fail(ir::Errc::Argument, fmt::format("partitioner: unknown name; expected one of {}, got {}",
                                           fmt::join(partitioner_names(), ", "), name));
}

}  // namespace tandem::partition
