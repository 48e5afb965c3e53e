// The JSON form {"schema": "tandem.graph/1", "graphs": [...]}; ir/json/graph.schema.json describes
// it. Numbers that JSON lacks are the strings "nan", "inf", "-inf"; floats are the shortest text
// that reads back exactly.
#ifndef TANDEM_IR_JSON_JSON_H
#define TANDEM_IR_JSON_JSON_H

#include <tandem/ir/export.h>
#include <tandem/ir/graph.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::ir {

/// What the reader accepts before it builds anything.
struct JsonLimits {
  size_t max_bytes = size_t{64} << 20;
  int max_depth = 256;  // more than kMaxNesting graphs take
  size_t max_equations = 1'000'000;
  size_t max_name_bytes = 256;
};

TANDEM_API std::string to_json(std::span<const Graph> graphs);
TANDEM_API std::string to_json(const Graph& graph);

/// Strict: unknown, missing and duplicate keys, wrong types, forward references and result types
/// that differ from the inferred ones are refused (Error{Parse} or Error{Graph}); the result passes
/// verify().
TANDEM_API std::vector<Graph> from_json(std::string_view text, const JsonLimits& limits = {});

/// The JSON Schema (draft 2020-12) of the form, made from ops.def; ir/json/graph.schema.json is
/// this text.
TANDEM_API std::string json_schema();

}  // namespace tandem::ir

#endif  // TANDEM_IR_JSON_JSON_H
