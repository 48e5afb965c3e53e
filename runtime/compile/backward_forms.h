// The compiled forms of one backward: for all tangents and gradients, and for the subsets that
// calls turned out to need.
#ifndef TANDEM_RUNTIME_COMPILE_BACKWARD_FORMS_H
#define TANDEM_RUNTIME_COMPILE_BACKWARD_FORMS_H

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "ir/base/function_ref.h"
#include "ir/graph.h"
#include "ir/interfaces/backend.h"

namespace tandem::runtime {

struct Variant;

/// Which tangents are defined, and which gradients wanted.
struct BackwardRequest {
  std::span<const bool> defined, wanted;
  bool is_full() const;
};

/// One form. Its graph's inputs are some of the full backward's, its outputs some of the gradients.
struct BackwardForm {
  struct Source {
    bool is_tangent;
    size_t index;  // among the tangents, or among what the node keeps
  };
  /// A gradient that is a part of a tangent as it lies there, and needs no code.
  struct Part {
    size_t gradient, tangent;     // of the full backward
    ir::Strides tangent_strides;  // as its graph has them
    ir::Shape sizes;
    ir::Strides strides;
    ir::Dim offset;  // from the tangent's first element
  };
  std::vector<Part> parts;
  std::shared_ptr<const ir::Graph> graph;
  std::vector<Source> sources;                 // by input of `graph`
  std::vector<size_t> gradients;               // by output of `graph`: which of the full backward's
  std::unique_ptr<ir::Executable> executable;  // where it is not itself differentiated, or
  std::shared_ptr<const Variant> function;     // as a compiled function of its inputs
};

/// The gradients wanted of `full` that are parts of defined tangents.
std::vector<BackwardForm::Part> parts_of_tangents(const ir::Graph& full,
                                                  const BackwardRequest& request);

/// The part of `full` (a graph of tangents and kept values to gradients) that `request` needs: that
/// graph itself if all of it.
BackwardForm make_form(const std::shared_ptr<const ir::Graph>& full,
                       const BackwardRequest& request);

/// Forms by request, made on first use. Any number of threads may ask.
class BackwardForms {
 public:
  using Make = ir::FunctionRef<BackwardForm(const BackwardRequest& request)>;

  /// The form for `request`; `make` is called if there is none yet.
  std::shared_ptr<const BackwardForm> get(const BackwardRequest& request, Make make);
  /// Whether there is the one for all tangents and gradients.
  bool has_full() const { return full_.made; }

 private:
  struct Entry {
    std::vector<bool> key;
    std::once_flag once;
    std::atomic<bool> made{false};
    std::shared_ptr<const BackwardForm> form;
  };
  std::shared_ptr<Entry> entry(const BackwardRequest& request);

  Entry full_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Entry>> partial_;  // oldest first
};

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_COMPILE_BACKWARD_FORMS_H
