// The text form of graphs: one line per equation, types always written. `parse(print(g)) == g`.
// Grammar in ir/README.md.
#ifndef TANDEM_IR_TEXT_TEXT_H
#define TANDEM_IR_TEXT_TEXT_H

#include <tandem/ir/export.h>
#include <tandem/ir/graph.h>

#include <string>
#include <string_view>

namespace tandem::ir {

struct PrintOptions {
  bool locations = false;  // "; file:line" after each equation
};

TANDEM_API std::string print(const Graph& graph, const PrintOptions& options = {});

/// The equations around `e` (5 before and after), with a mark at `e`: for error messages.
TANDEM_API std::string print_around(const Graph& graph, EquationId e);

/// The graph of a text; Error{Parse} "line:column: problem; expected ..., got ..." for anything
/// else. Verifies nothing beyond syntax, op names, attribute names and types, and that values are
/// defined before use; result types are re-inferred and compared.
TANDEM_API Graph parse(std::string_view text);

}  // namespace tandem::ir

#endif  // TANDEM_IR_TEXT_TEXT_H
