// The report of a partition, for people and for programs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "ir/interfaces/partitioner.h"

namespace tandem::ir {
namespace {

using Json = nlohmann::ordered_json;

std::string bytes(int64_t n) { return n < 0 ? "unknown" : fmt::format("{} B", n); }

/// Four digits, however little it is.
std::string micros(double seconds) { return fmt::format("{:.4g} us", seconds * 1e6); }

Json json_of(const SavedValue& v) {
  return {{"name", v.name},
          {"op", v.op},
          {"type", to_string(v.type)},
          {"bytes", v.bytes},
          {"reason", v.reason},
          {"needed_by", v.needed_by},
          {"save_seconds", v.save_seconds},
          {"recompute_seconds", v.recompute_seconds}};
}

Json json_of(const RecomputedValue& v) {
  return {{"name", v.name}, {"op", v.op}, {"type", to_string(v.type)}, {"seconds", v.seconds}};
}

Json json_of(const Candidate& p) {
  return {{"name", p.name},       {"saved_bytes", p.saved_bytes}, {"peak_bytes", p.peak_bytes},
          {"seconds", p.seconds}, {"on_front", p.on_front},       {"chosen", p.chosen}};
}

template <class T>
Json json_of(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(json_of(item));
  return list;
}

}  // namespace

std::string to_text(const PartitionReport& r) {
  std::string out;
  const auto add = [&]<class... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
  };
  add("partition by {}: saves {} (eager {}, byte-minimal {}), recomputes {} equations\n",
      r.partitioner, bytes(r.saved_bytes), bytes(r.eager_bytes), bytes(r.minimal_bytes),
      r.recomputed_equations);
  add("  estimated: {} for saving, {} for recomputing\n", micros(r.save_seconds),
      micros(r.recompute_seconds));
  if (r.limit_bytes >= 0)
    add("  limit {}; least possible within it {}\n", bytes(r.limit_bytes), micros(r.least_seconds));
  if (r.peak_bytes > 0) add("  simulated peak {}\n", bytes(r.peak_bytes));
  for (const SavedValue& v : r.saved) {
    add("  save {}: {} {}, {}: {}; for {}; ", v.name, v.op, to_string(v.type), bytes(v.bytes),
        v.reason, fmt::join(v.needed_by, ", "));
    if (v.op == "input")
      add("reading {}\n", micros(v.save_seconds));
    else
      add("saving {}, recomputing {}\n", micros(v.save_seconds), micros(v.recompute_seconds));
  }
  for (const RecomputedValue& v : r.recomputed)
    add("  recompute {}: {} {}: {}\n", v.name, v.op, to_string(v.type), micros(v.seconds));
  for (const Candidate& p : r.candidates)
    add("  candidate {}: saves {}, peak {}, {}{}{}\n", p.name, bytes(p.saved_bytes),
        bytes(p.peak_bytes), micros(p.seconds), p.on_front ? ", on the front" : "",
        p.chosen ? ", chosen" : "");
  return out;
}

std::string to_json(const PartitionReport& r) {
  const Json json = {
      {"schema", "tandem.partition/1"},     {"partitioner", r.partitioner},
      {"saved_bytes", r.saved_bytes},       {"minimal_bytes", r.minimal_bytes},
      {"eager_bytes", r.eager_bytes},       {"peak_bytes", r.peak_bytes},
      {"limit_bytes", r.limit_bytes},       {"recomputed_equations", r.recomputed_equations},
      {"save_seconds", r.save_seconds},     {"recompute_seconds", r.recompute_seconds},
      {"least_seconds", r.least_seconds},   {"seconds", r.seconds},
      {"saved", json_of(r.saved)},          {"recomputed", json_of(r.recomputed)},
      {"candidates", json_of(r.candidates)}};
  return json.dump(1) + "\n";
}

}  // namespace tandem::ir
