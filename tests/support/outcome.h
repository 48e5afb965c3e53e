// Everything that a caller can see of a function's run: its results, gradients, and what it did to
// the inputs. Two runs are compared as text that says where they differ.
#ifndef TANDEM_TESTS_SUPPORT_OUTCOME_H
#define TANDEM_TESTS_SUPPORT_OUTCOME_H

#include <tandem/tandem.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tandem::testing {

using Tensors = std::vector<Tensor>;

/// How inputs take part in autograd.
enum class Setting : uint8_t { Plain, Leaf, NonLeaf };

/// Makes the tensors that a test's inputs are (views of), so that one description serves all
/// settings. The same seed gives the same values in every source.
class Source {
 public:
  explicit Source(Setting setting) : setting_(setting) {}

  Setting setting() const { return setting_; }
  /// A new tensor with these values; of a floating dtype: a leaf that requires grad, or the result
  /// of an operation on one, or neither, as the setting says.
  Tensor operator()(const Tensor& values);
  /// Values in [-1, 1).
  Tensor noise(const Shape& sizes, uint64_t seed, DType dtype = f32);
  /// Small integers, whose sums and products are exact.
  Tensor integers(const Shape& sizes, uint64_t seed, DType dtype = f32);
  void add_leaf(const Tensor& leaf) { leaves_.push_back(leaf); }
  /// The leaves behind what was made.
  const Tensors& leaves() const { return leaves_; }
  /// All that was made, gaps of inputs that are views of it included.
  const Tensors& memories() const { return memories_; }

 private:
  Tensor with_history(const Tensor& values);

  Setting setting_;
  Tensors leaves_, memories_;
};

using MakeInputs = std::function<Tensors(Source&)>;
using Program = std::function<Tensors(const Tensors&)>;

struct RunOptions {
  Setting setting = Setting::Plain;
  bool grad_mode = true;  // of the call; backward is run in either case
  int calls = 1;          // on the same inputs, one after the other
  bool backward = true;   // with small integers as gradients of all results and non-leaf inputs
};

struct Outcome {
  Tensors inputs, results, leaves, gradients;
  Tensors memories;                                    // whole, behind the inputs
  std::vector<uint64_t> bumps;                         // of the inputs' versions, by the calls
  std::optional<Error> forward_error, backward_error;  // what the calls, or the backward, threw
};

/// Runs `function` on new inputs.
Outcome run(const Program& function, const MakeInputs& make_inputs, const RunOptions& options);

/// The first thing in which `actual` differs from `expected`: values (f32 within `tolerance` of the
/// largest magnitude, f64 within 1e-12; all equal if 0), memory between
/// the elements of inputs, layouts, identity, shared memory,
/// requires_grad, is_leaf, versions, grad slots, kinds of errors. Empty if nothing does. Where
/// `expected` refused to run backward (a saved tensor was written), `actual` may do so or not.
std::string difference(const Outcome& expected, const Outcome& actual, double tolerance);

/// "": the inputs are as if nothing had happened to them; else what differs from new ones.
std::string untouched(const Outcome& failed, const MakeInputs& make_inputs,
                      const RunOptions& options);

/// The largest magnitude among results, inputs and gradients.
double largest_magnitude(const Outcome& outcome);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_OUTCOME_H
