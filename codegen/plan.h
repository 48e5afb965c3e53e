// Plan: what a graph is lowered to. Plain data: kernels, the steps that run them, where buffers
// lie. codegen/exec runs it with object code from codegen/jit, without knowing graphs or LLVM.
#ifndef TANDEM_CODEGEN_PLAN_H
#define TANDEM_CODEGEN_PLAN_H

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "codegen/loops/kernel.h"
#include "machine/library/matmul.h"

namespace tandem::codegen {

/// A buffer that a step touches: input or output number `index`, or bytes of the arena.
struct BufferRef {
  enum class Kind : uint8_t { Input, Output, Arena };
  Kind kind = Kind::Arena;
  int index = 0;            // Input, Output
  int64_t byte_offset = 0;  // Arena: from its start; Input, Output: from the first element
  friend bool operator==(const BufferRef&, const BufferRef&) = default;
};

/// Runs kernel `kernel` over all its units.
struct Launch {
  KernelId kernel;
  int64_t units = 0;
  int64_t grain = 1;                // fewest units that are worth a thread
  std::vector<BufferRef> params;    // one per kernel param
  std::vector<std::string> checks;  // what the instructions that can fail are, in code order: the
                                    // op and the user's source line if known
};

/// A library call on f32: C = A B, C += A B, or C = bias + A B.
struct MatmulCall {
  machine::MatmulSpec spec;  // C's columns are contiguous
  BufferRef a, b, c;
  std::optional<BufferRef>
      bias;  // [n], contiguous: what every row of C starts as (spec.accumulate)
};

/// Runs an equation as a whole on contiguous buffers: the user's custom operator, a function of
/// library/library.h, or a branch or loop over Plan::bodies. Of a loop more results follow than the
/// equation's: one like each carry, which every second step writes, and of a while_loop a bool.
struct ExternalCall {
  struct Argument {
    BufferRef buffer;
    ir::Type type;
    ir::Strides strides;
    bool unread = false;  // a result that no step reads, of a function that can do without it
  };
  ir::Op op = ir::Op::custom_operator;
  std::vector<ir::AttrValue> attrs;
  /// Of a custom operator (of either op): what it is registered as, and the call's numbers.
  bool is_custom() const { return ir::info(op).cls == ir::OpClass::External; }
  bool is_control() const { return ir::info(op).cls == ir::OpClass::Control; }
  template <class T>
  const T& attr(ir::Attr name) const {
    return std::get<T>(attrs[static_cast<size_t>(ir::attr_index(op, name))]);
  }
  const std::string& custom_name() const { return std::get<std::string>(attrs[0]); }
  const std::string& numbers() const { return std::get<std::string>(attrs[1]); }
  std::vector<Argument> operands, results;
  std::string check;  // what a failure is reported as, as Launch::checks
};

using Step = std::variant<Launch, MatmulCall, ExternalCall>;

struct PlanInput {
  ir::Type type;
  ir::Strides strides;
};

struct PlanOutput {
  ir::Type type;
  ir::Strides strides;
  int from_input = -1;  // the output is input `from_input`, untouched (a saved primal): nothing is
                        // allocated or copied
  int into_input = -1;  // the plan writes the value into input `into_input`'s memory (a mutation
                        // that autograd permits)
};

struct PlanReport {
  int kernels = 0;  // launches
  int distinct_kernels = 0;
  int library_calls = 0;
  int external_calls = 0;          // of custom operators
  int control_steps = 0;           // branches and loops; what their bodies are made of counts too
  int generated_contractions = 0;  // f64 and integer contractions, as kernels
  int64_t arena_bytes = 0;
};

struct Plan {
  std::string name;
  std::vector<PlanInput> inputs;
  std::vector<PlanOutput> outputs;
  Table<KernelId, Kernel> kernels;  // distinct
  std::vector<Step> steps;          // in order
  int64_t arena_bytes = 0;
  std::vector<int64_t> arena_guards;  // LowerOptions::guard_pages: the pages between the buffers
  PlanReport report;
  std::vector<Plan> bodies;  // of branches and loops, by SubgraphId; contiguous inputs and outputs
};

std::string print(const Plan& plan);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_PLAN_H
