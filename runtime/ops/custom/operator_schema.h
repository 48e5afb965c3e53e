// The schema of a custom operator, parsed.
#ifndef TANDEM_RUNTIME_OPS_CUSTOM_OPERATOR_SCHEMA_H
#define TANDEM_RUNTIME_OPS_CUSTOM_OPERATOR_SCHEMA_H

#include <string>
#include <string_view>
#include <vector>

namespace tandem::runtime {

struct OperatorSchema {
  struct Argument {
    std::string kind;   // Tensor, float, int or bool
    std::string alias;  // the letters of `Tensor(a!)`, or ""
    bool written = false;
    std::string name;
  };
  std::string name;
  std::vector<Argument> arguments;  // in order
  std::vector<Argument> results;
};

/// Error{Parse} that says where `text` is malformed.
OperatorSchema parse_schema(std::string_view text);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_OPS_CUSTOM_OPERATOR_SCHEMA_H
