#include "partition/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/base/error.h"
#include "partition/split.h"

namespace tandem::partition {
namespace {

using ir::Candidate;

struct Tried {
  Choices choices;
  Candidate point;
  double least_seconds = 0;
};

/// Of what a half returns, but for inputs that it saves as they are.
int64_t bytes_of_outputs(const ir::Graph& half) {
  int64_t bytes = 0;
  for (const ir::Output& output : half.outputs())
    if (output.role != ir::Role::Saved || half.input_index(output.value) < 0)
      bytes += int64_t{size_in_bytes(half.type(output.value))};
  return bytes;
}

/// Simulated peak of a step in bytes beyond the inputs: what is saved, what both halves return, and
/// the arena in which they run one after the other: it stays as large as the larger one needs.
int64_t peak_bytes(const ir::Partition& p, const ir::CostModel& costs) {
  return bytes_of_outputs(p.forward) + bytes_of_outputs(p.backward) +
         std::max(costs.arena_bytes(p.forward), costs.arena_bytes(p.backward));
}

void require_costs(const Problem& p, const char* what) {
  if (!p.estimate.known())
    ir::fail(ir::Errc::Argument,
             fmt::format("{}: the partitioner was given no cost model; expected one", what));
}

void require_fraction(double fraction, const char* what) {
  if (!(fraction >= 0 && fraction <= 1))
    ir::fail(ir::Errc::Argument,
             fmt::format("{}: expected a number from 0 to 1, got {}", what, fraction));
}

Tried tried(const Problem& p, std::string name, Choices choices) {
  const Cost cost = cost_of(p.analysis, p.estimate, choices.values);
  return {std::move(choices), {std::move(name), cost.saved_bytes, 0, cost.seconds()}, 0};
}

Tried tried_within(const Problem& p, std::string name, int64_t bytes) {
  double least = 0;
  Tried t = tried(p, std::move(name), choose_within(p, bytes, least));
  t.least_seconds = least;
  return t;
}

bool beats(const Candidate& a, const Candidate& b) {
  const bool no_worse = a.peak_bytes <= b.peak_bytes && a.seconds <= b.seconds &&
                        (a.peak_bytes > 0 || a.saved_bytes <= b.saved_bytes);
  const bool better = a.peak_bytes < b.peak_bytes || a.seconds < b.seconds ||
                      (a.peak_bytes == 0 && a.saved_bytes < b.saved_bytes);
  return no_worse && better;
}

/// All of them as candidates, by saved bytes; `chosen` is one of them.
std::vector<Candidate> points_of(const std::vector<Tried>& all, const Tried& chosen) {
  std::vector<Candidate> points;
  for (const Tried& t : all) {
    points.push_back(t.point);
    points.back().chosen = &t == &chosen;
    points.back().on_front =
        std::ranges::none_of(all, [&](const Tried& other) { return beats(other.point, t.point); });
  }
  std::ranges::stable_sort(points, {}, &Candidate::saved_bytes);
  return points;
}

/// The default set first, then what needs less memory.
std::vector<Tried> all_tried(const Problem& p) {
  constexpr int kSteps = 8;
  std::vector<Tried> all;
  all.push_back(tried(p, "default", choose_default(p)));
  all.push_back(tried(p, "reference", choose_reference(p)));
  all.push_back(tried(p, "fewest bytes", choose_fewest(p)));
  const int64_t most = all[0].point.saved_bytes, least = all[2].point.saved_bytes;
  for (int k = 0; k < kSteps; ++k)
    all.push_back(tried_within(p, fmt::format("saved budget {}/{}", k, kSteps),
                               std::max(least, most * k / kSteps)));
  return all;
}

/// Beyond what a number of bytes can be there is no limit.
int64_t whole_bytes(double bytes) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return bytes < static_cast<double>(kMost) ? static_cast<int64_t>(bytes) : kMost;
}

ir::Partition partition_within(const Problem& p, int64_t bytes) {
  const Tried t = tried_within(p, "saved budget", bytes);
  ir::Partition out = partition_at(p, t.choices);
  out.report.limit_bytes = bytes;
  out.report.least_seconds = t.least_seconds;
  return out;
}

}  // namespace

ir::Partition partition_at(const Problem& p, const Choices& choices) {
  ir::Partition out = split(p.analysis, choices.values);
  out.report = report_of(p.analysis, p.estimate, choices);
  return out;
}

ir::Partition partition_by_peak(const Problem& p, double fraction) {
  require_costs(p, "memory_budget");
  require_fraction(fraction, "memory_budget");
  std::vector<Tried> all = all_tried(p);
  for (Tried& t : all) {
    const ir::Partition parts = split(p.analysis, t.choices.values);
    t.point.peak_bytes = peak_bytes(parts, *p.context.costs);
  }
  const auto peak = [](const Tried& t) { return t.point.peak_bytes; };
  const int64_t least = peak(*std::ranges::min_element(all, {}, peak));
  const auto range = static_cast<double>(std::max<int64_t>(peak(all[0]) - least, 0));
  const int64_t limit = least + static_cast<int64_t>(std::floor(fraction * range));
  // At 1 the default set itself, which fits; else the fastest that does.
  const Tried* chosen = nullptr;
  for (const Tried& t : all)
    if (peak(t) <= limit && (!chosen || t.point.seconds < chosen->point.seconds)) chosen = &t;
  if (fraction == 1) chosen = &all[0];
  ir::Partition out = partition_at(p, chosen->choices);
  out.report.peak_bytes = peak(*chosen);
  out.report.limit_bytes = limit;
  out.report.candidates = points_of(all, *chosen);
  return out;
}

ir::Partition partition_by_bytes(const Problem& p, double bytes) {
  require_costs(p, "saved_bytes");
  if (!(bytes >= 0))
    ir::fail(ir::Errc::Argument,
             fmt::format("saved_bytes: expected a number of bytes, got {}", bytes));
  return partition_within(p, whole_bytes(bytes));
}

ir::Partition partition_by_fraction(const Problem& p, double fraction) {
  require_costs(p, "saved_budget");
  require_fraction(fraction, "saved_budget");
  const Choices fastest = choose_default(p);
  const Tried whole = tried(p, "default", fastest);
  if (fraction == 1) return partition_at(p, fastest);
  const Tried none = tried(p, "fewest bytes", choose_fewest(p));
  const auto wanted =
      static_cast<int64_t>(std::floor(fraction * static_cast<double>(whole.point.saved_bytes)));
  return partition_within(p, std::max(wanted, none.point.saved_bytes));
}

}  // namespace tandem::partition
