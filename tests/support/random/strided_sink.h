// A sink of programs that knows where eager lays each value out, so that what is a view to one is a
// view to the other.
#ifndef TANDEM_TESTS_SUPPORT_RANDOM_STRIDED_SINK_H
#define TANDEM_TESTS_SUPPORT_RANDOM_STRIDED_SINK_H

#include <vector>

#include "ir/build/builder.h"
#include "ir/geometry.h"

namespace tandem::testing {

class StridedSink final : public ir::Sink {
 public:
  explicit StridedSink(ir::Graph& graph) : graph_(graph), sink_(graph) {}

  const ir::Type& type(ir::ValueId v) const override { return graph_.type(v); }
  bool can_view(ir::ValueId v, const ir::Shape& sizes) const override {
    return ir::strides_as(type(v).sizes, strides(v), sizes).has_value();
  }
  void emit(ir::Op op, std::span<const ir::ValueId> operands, ir::AttrsRef attrs, bool in_place,
            std::span<const ir::Type> types, std::span<ir::ValueId> results) override {
    sink_.grad_enabled = grad_enabled;
    sink_.emit(op, operands, attrs, in_place, types, results);
  }

  const ir::Strides& strides(ir::ValueId v) const {
    for (auto i = static_cast<uint32_t>(strides_.size()); i <= v.index; ++i)
      strides_.push_back(laid_out(ir::ValueId{i}));
    return strides_[v.index];
  }
  bool is_contiguous(ir::ValueId v) const { return ir::is_contiguous(type(v).sizes, strides(v)); }

  bool grad_enabled = true;

 private:
  ir::Strides laid_out(ir::ValueId v) const {
    if (const int i = graph_.input_index(v); i >= 0)
      return graph_.inputs()[static_cast<size_t>(i)].strides;
    const ir::EquationId e = graph_.producer(v);
    ir::InlineVector<ir::Extent, 4> from;
    for (ir::ValueId x : graph_.operands(e)) from.push_back({type(x).sizes, strides_[x.index]});
    const ir::Op op = graph_.op(e);
    if (ir::is_view(op))
      return ir::view_geometry(op, from[0].sizes, from[0].strides, graph_.attrs(e), type(v).sizes)
          .strides;
    return ir::result_strides(op, {from.data(), from.size()}, type(v).sizes);
  }

  ir::Graph& graph_;
  ir::GraphSink sink_;
  mutable std::vector<ir::Strides> strides_;  // by value, as far as they were asked for
};

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_RANDOM_STRIDED_SINK_H
