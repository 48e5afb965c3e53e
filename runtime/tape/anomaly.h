// What DetectAnomaly asks of this thread, and the checks.
#ifndef TANDEM_RUNTIME_TAPE_ANOMALY_H
#define TANDEM_RUNTIME_TAPE_ANOMALY_H

#include <tandem/autograd/anomaly.h>
#include <tandem/tensor.h>

#include <span>
#include <string_view>
#include <vector>

#include "ir/base/function_ref.h"
#include "ir/graph.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::runtime {

struct Node;

extern constinit thread_local AnomalyOptions t_anomaly_options;

inline bool checks_gradients() { return t_anomaly_options.check_nan; }
inline bool checks_results() { return t_anomaly_options.check_forward; }
/// Whether this thread runs operations one by one, so that each is known by itself.
inline bool detects_anomaly() { return checks_gradients() || checks_results(); }

/// Results are not checked while it lives: the rules of gradients may go through infinities.
class UncheckedResults {
 public:
  UncheckedResults();
  ~UncheckedResults();
  UncheckedResults(const UncheckedResults&) = delete;
  UncheckedResults& operator=(const UncheckedResults&) = delete;

 private:
  bool previous_;
};

/// What `run`, which is `op` on these operands, gives. Error if a NaN or an infinity arises in it.
TensorList run_checked(ir::Op op, std::span<const Tensor> operands,
                       ir::FunctionRef<TensorList()> run);

/// Error if one of the gradients of the results of `node`, before its rule runs, has a NaN.
void check_arrived(const Node& node, std::span<const Tensor> gradients);
/// Error if one of the gradients of its operands, as its rule gives them, has a NaN.
void check_given(const Node& node, std::span<const Tensor> gradients);

/// If one of `outputs`, which compiled code of `graph` gave, has a NaN: the Error that names the
/// equation in which it arises, if the interpreter meets one too.
void check_compiled(std::string_view name, const ir::Graph& graph,
                    std::span<const Tensor* const> inputs, std::span<const Tensor> outputs);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TAPE_ANOMALY_H
