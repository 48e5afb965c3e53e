// The interface of backends: one functional graph in, an executable out. Forward and backward may
// have different ones.
#ifndef TANDEM_IR_INTERFACES_BACKEND_H
#define TANDEM_IR_INTERFACES_BACKEND_H

#include <tandem/ir/buffer.h>
#include <tandem/ir/export.h>
#include <tandem/ir/graph.h>

#include <memory>
#include <span>
#include <string>

namespace tandem::ir {

/// Figures about one compiled graph, for reports.
struct ExecutableReport {
  int kernels = 0;
  int distinct_kernels = 0;
  int library_calls = 0;
  int generated_contractions = 0;
  int interpreted_equations = 0;
  int new_kernels = 0;  // of the distinct ones: whose machine code had to be made
  int64_t arena_bytes = 0;
  int64_t held_bytes = 0;      // of memory from call to call, beside machine code
  double lower_seconds = 0;    // fusion and memory plan
  double codegen_seconds = 0;  // machine code
  double library_seconds = 0;  // what the library makes for its calls
};

class TANDEM_API Executable {
 public:
  virtual ~Executable() = default;
  /// Runs on caller-provided memory: the addresses of the first elements of the graph's inputs and
  /// outputs, in its order, laid out as it says. Any number of threads may call at once. Throws
  /// Error on what data makes fail (an index out of range), before any output that is a caller's
  /// tensor is written.
  virtual void run(std::span<void* const> inputs, std::span<void* const> outputs) const = 0;
  /// For output i: the input that it is, untouched (then run() does not write it, and its address
  /// may be null), or -1.
  virtual int output_from_input(int output) const = 0;
  /// For output i: the input whose memory run() writes it into (a mutation that the epilogue then
  /// need not replay), or -1.
  virtual int output_into_input(int /*output*/) const { return -1; }
  virtual ExecutableReport report() const = 0;
};

class TANDEM_API Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual std::unique_ptr<Executable> compile(const Graph& graph) const = 0;
};

}  // namespace tandem::ir

#endif  // TANDEM_IR_INTERFACES_BACKEND_H
