// What one public call does on many elements runs as one compiled function: memory is read and
// written once, one node stands on the tape, and what it saves is the partition's choice.
#ifndef TANDEM_RUNTIME_EAGER_FUSED_CALL_H
#define TANDEM_RUNTIME_EAGER_FUSED_CALL_H

#include <vector>

#include "runtime/tensor/tensor_impl.h"

namespace tandem::runtime::eager {

/// An equation that runs when one of its results is asked for. Values are numbers in a list of
/// whoever holds it.
struct Pending {
  ir::Op op;
  ir::InlineVector<uint32_t, 4> operands, results;
  std::vector<ir::AttrValue> attrs;
  ir::Types types;  // of the results
};

/// Operations on tensors. Values are numbered: the inputs, each once, then what equations give.
struct FusedCall {
  std::vector<Tensor> inputs;
  std::vector<Pending> equations;
  std::vector<uint32_t> outputs;
};

/// Whether an operation may wait for those that read its result: others see nothing of it but that.
bool may_wait(ir::Op op);

/// The outputs of the call. Code is kept by what is done, and the inputs' types and layouts. Throws
/// Error if an index in the data is out of range.
std::vector<Tensor> run_fused(const FusedCall& call);

}  // namespace tandem::runtime::eager

#endif  // TANDEM_RUNTIME_EAGER_FUSED_CALL_H
