// Batching rules: for every op, how one equation computes the results of many examples. A batched
// value has a dimension of its own in front, which counts examples. One table serves vmap, eager
// and traced; rules are written against Builder, so that what they emit can be differentiated,
// recorded and batched again.
#ifndef TANDEM_BATCHING_BATCH_H
#define TANDEM_BATCHING_BATCH_H

#include <span>

#include "ir/build/builder.h"

namespace tandem::batching {

/// What a rule sees: the operands, those that are batched as [size, ...]. One at least is, or the
/// op is random.
struct BatchContext {
  ir::Builder& b;
  ir::Op op;
  std::span<const ir::ValueId> operands;
  std::span<const bool> batched;
  std::span<const ir::AttrValue> attrs;
  ir::Dim size;
  bool same_draws = false;  // random ops draw the same numbers for all examples
};

struct BatchRule {
  enum class Kind : uint8_t {
    Aligned,     // the op itself, its dimensions one further behind
    Folded,      // the op itself, the examples in its own first dimension
    Formula,     // by operations of its own
    Decomposed,  // a composite: by its decomposition
    Alone,       // never batched: it has no operands that could be
    Subgraph,    // call, custom_function, hook: who owns the subgraphs knows
    Loop,        // example by example
  };
  Kind kind = Kind::Alone;
  ir::ValueList (*formula)(BatchContext&) = nullptr;
};

const BatchRule& batch_rule(ir::Op op);

/// Sizes with the number of examples in front.
ir::Shape with_examples(ir::Dim size, std::span<const ir::Dim> sizes);

/// Runs op's rule, which is neither Decomposed, Alone, Subgraph nor Loop. All results are batched.
ir::ValueList apply_batch(const BatchContext& context);

/// The pointwise `op_`: operand 0, which is batched, is written.
void apply_batch_in_place(const BatchContext& context);

}  // namespace tandem::batching

#endif  // TANDEM_BATCHING_BATCH_H
