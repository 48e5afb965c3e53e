// EagerSink: where the equations of a public call go, of a rule of a gradient that runs, and of a
// decomposition without code of its own.
#ifndef TANDEM_RUNTIME_OPS_EAGER_SINK_H
#define TANDEM_RUNTIME_OPS_EAGER_SINK_H

#include <tandem/tensor.h>

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "ir/base/inline_vector.h"
#include "ir/build/builder.h"
#include "runtime/eager/fused_call.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::runtime {

/// Builder's sink over tensors: ValueId i is the i-th value it knows.
class EagerSink final : public ir::Sink {
 public:
  enum class Mode : uint8_t {
    AtOnce,
    // What is done outside traces on many elements waits until its result is asked for, and runs as
    // one with what it waited for.
    MayWait,
  };
  explicit EagerSink(Mode mode = Mode::AtOnce) : mode_(mode) {}

  /// Says that so many elements are made of what is added, be it few itself: if they are many,
  /// the operations on it may wait too.
  void expect(Dim elements);

  ir::ValueId add(const Tensor& t);
  /// A value of which only the type is known; no equation may use it.
  ir::ValueId add_type(const ir::Type& type);
  /// Runs what the value waits for.
  const Tensor& tensor(ir::ValueId v);
  /// Runs what these values wait for, as one.
  void compute(std::span<const ir::ValueId> values);

  const ir::Type& type(ir::ValueId v) const override { return slot(v).type; }
  bool is_weak(ir::ValueId v) const override;
  bool can_view(ir::ValueId v, const Shape& sizes) const override;
  void emit(ir::Op op, std::span<const ir::ValueId> operands, ir::AttrsRef attrs, bool in_place,
            std::span<const ir::Type> types, std::span<ir::ValueId> results) override;

 private:
  struct Slot {
    Tensor tensor;
    ir::Type type;
    bool given = false;                     // by the caller, not computed
    int pending = -1;                       // which equation gives it, while there is no tensor
    std::optional<uint64_t> bits = {};      // of a number, until an equation reads it
    Strides strides = {};                   // while there is no tensor: those that it will have
    std::optional<ir::ValueId> shown = {};  // of a view: what it shows
  };
  /// A tensor that an equation reads, as it was when the equation came.
  struct Read {
    int equation;
    Tensor tensor;
    uint64_t version;
  };
  /// The equations that wait, in order.
  struct Waiting {
    std::vector<eager::Pending> equations;
    std::vector<Read> reads;
    bool grad_mode;
  };

  ir::ValueId add(Slot&& slot);
  std::optional<uint64_t> number_bits(ir::Op op, std::span<const ir::ValueId> operands,
                                      ir::AttrsRef attrs, const ir::Type& type) const;
  const Tensor& read(ir::ValueId v);
  void check_written(ir::ValueId self) const;
  bool waits(ir::Op op, std::span<const ir::ValueId> operands,
             std::span<const ir::Type> types) const;
  void wait(ir::Op op, std::span<const ir::ValueId> operands, ir::AttrsRef attrs,
            std::span<const ir::Type> types, std::span<ir::ValueId> results);
  Strides strides_of(ir::Op op, std::span<const ir::ValueId> operands,
                     std::span<const ir::AttrValue> attrs, const ir::Type& type) const;
  const Strides& strides(ir::ValueId v) const;
  void run_at_once(const eager::Pending& equation);
  bool gain_as_one(std::span<const eager::Pending* const> equations) const;
  bool run_as_one(std::span<const eager::Pending* const> equations,
                  std::span<const ir::ValueId> wanted);
  void check_unchanged(const std::vector<bool>& needed) const;
  const Slot& slot(ir::ValueId v) const {
    return v.index < kFew ? few_[v.index] : (*more_)[v.index - kFew];
  }
  Slot& slot(ir::ValueId v) { return v.index < kFew ? few_[v.index] : (*more_)[v.index - kFew]; }

  // References to what is in a slot stay valid. Most calls have few and allocate nothing.
  static constexpr size_t kFew = 10;
  Mode mode_;
  bool expects_many_ = false;
  ir::InlineVector<Slot, kFew> few_;
  std::unique_ptr<std::deque<Slot>> more_;
  std::unique_ptr<Waiting> waiting_;
};

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_OPS_EAGER_SINK_H
