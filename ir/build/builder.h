// Builder: the checked way to write equations. It normalises arguments (negative dims, -1 sizes),
// makes promotion and broadcasting explicit as `convert` and `expand`, infers the result types by
// the op's shape rule, and throws Error on what does not fit. The equations go to a sink: one
// records them into a graph, the runtime's runs them at once on eager kernels. VJP rules and
// decompositions are written once against Builder.
#ifndef TANDEM_IR_BUILD_BUILDER_H
#define TANDEM_IR_BUILD_BUILDER_H

#include <tandem/ir/export.h>
#include <tandem/ir/graph.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::ir {

/// Where a Builder's equations go.
class TANDEM_API Sink {
 public:
  virtual ~Sink() = default;
  virtual const Type& type(ValueId v) const = 0;
  /// True for a number or tandem::Scalar: it has the lowest priority in promotion.
  virtual bool is_weak(ValueId) const { return false; }
  /// True if `view` of v to other sizes is possible without a copy (always, except for eager and
  /// traced strided tensors).
  virtual bool can_view(ValueId, const Shape& /*sizes*/) const { return true; }
  /// Appends one equation; `results` has room for one id per type (none for an in-place equation).
  virtual void emit(Op op, std::span<const ValueId> operands, AttrsRef attrs, bool in_place,
                    std::span<const Type> types, std::span<ValueId> results) = 0;
};

/// Appends to a graph. New equations carry the location, grad mode, half and checkpoint region
/// that are set here.
class TANDEM_API GraphSink final : public Sink {
 public:
  explicit GraphSink(Graph& graph) : graph_(graph) {}
  const Type& type(ValueId v) const override { return graph_.type(v); }
  void emit(Op op, std::span<const ValueId> operands, AttrsRef attrs, bool in_place,
            std::span<const Type> types, std::span<ValueId> results) override;

  /// New equations carry what `e` does.
  void at(const Equation& e) {
    location = e.location;
    grad_enabled = e.grad_enabled;
    is_backward = e.is_backward;
    region = e.region;
  }

  LocationId location;
  bool grad_enabled = true;
  bool is_backward = false;
  uint32_t region = 0;

 private:
  Graph& graph_;
};

class TANDEM_API Builder {
 public:
  using V = ValueId;
  explicit Builder(Sink& sink) : sink_(sink) {}
  Sink& sink() { return sink_; }

  const Type& type(V v) const { return sink_.type(v); }
  const Shape& sizes(V v) const { return sink_.type(v).sizes; }
  DType dtype(V v) const { return sink_.type(v).dtype; }
  int rank(V v) const { return sink_.type(v).rank(); }
  Dim numel(V v) const { return ir::numel(sizes(v)); }

  // --- the general constructors. Operands must already be promoted and broadcast; attributes in
  // the op's order.
  V emit(Op op, std::initializer_list<V> operands, AttrsRef attrs = {});
  V emit(Op op, std::span<const V> operands, AttrsRef attrs = {});
  /// All results of an op that has several, in the row's order.
  ValueList emit_all(Op op, std::span<const V> operands, AttrsRef attrs = {});
  /// The writing form `op_`: operand 0 is written. Result sizes and dtype must be operand 0's.
  void emit_in_place(Op op, std::span<const V> operands, AttrsRef attrs = {});
  /// call, custom_function, custom_operator: the results' types are the subgraph's or the
  /// operator's.
  std::vector<V> emit_call(Op op, std::span<const V> operands, AttrsRef attrs,
                           std::span<const Type> types);

  // --- promotion and broadcasting
  /// ATen's result type (torch.result_type) of operands, with weak and 0-d operands ranked below
  /// the others.
  DType result_type(std::span<const V> operands) const;
  /// Converts all to their result type (`min_float`: at least the default floating dtype f32) and
  /// expands all to their common sizes.
  ValueList promote(std::span<const V> operands, bool min_float = false);
  Shape broadcast(const Shape& a, const Shape& b, std::string_view op) const;
  /// Promotes and broadcasts as `op`'s row asks (div: floats; logical: to bool; ...), then emits
  /// it.
  V pointwise(Op op, std::initializer_list<V> operands, AttrsRef attrs = {});
  /// `op_`: operands after the first are converted and expanded to operand 0's type.
  void pointwise_in_place(Op op, std::initializer_list<V> operands, AttrsRef attrs = {});
  /// A number as an operand beside `like`: a 0-d `full` of the dtype that promotion against `like`
  /// gives the number.
  V number(const Number& value, V like);

  // --- factories
  V full(const Shape& sizes, DType dtype, const Number& value);
  V full_like(V v, const Number& value) { return full(sizes(v), dtype(v), value); }
  V zeros_like(V v) { return full_like(v, 0); }
  V iota(Dim length, DType dtype, const Number& first = 0, const Number& increment = 1);

  // --- pointwise (operands of any dtype and broadcastable sizes; a Number stands for a weak
  // operand)
#define TANDEM_BUILDER_UNARY(op) \
  V op(V a) { return pointwise(Op::op, {a}); }
#define TANDEM_BUILDER_BINARY(op)                                             \
  V op(V a, V b) { return pointwise(Op::op, {a, b}); }                        \
  V op(V a, const Number& b) { return pointwise(Op::op, {a, number(b, a)}); } \
  V op(const Number& a, V b) { return pointwise(Op::op, {number(a, b), b}); }
  // clang-format off
  TANDEM_BUILDER_UNARY(neg) TANDEM_BUILDER_UNARY(abs) TANDEM_BUILDER_UNARY(sign)
  TANDEM_BUILDER_UNARY(floor) TANDEM_BUILDER_UNARY(ceil) TANDEM_BUILDER_UNARY(round)
  TANDEM_BUILDER_UNARY(trunc) TANDEM_BUILDER_UNARY(exp) TANDEM_BUILDER_UNARY(exp2)
  TANDEM_BUILDER_UNARY(expm1) TANDEM_BUILDER_UNARY(log) TANDEM_BUILDER_UNARY(log2)
  TANDEM_BUILDER_UNARY(log10) TANDEM_BUILDER_UNARY(log1p) TANDEM_BUILDER_UNARY(sqrt)
  TANDEM_BUILDER_UNARY(rsqrt) TANDEM_BUILDER_UNARY(reciprocal) TANDEM_BUILDER_UNARY(sin)
  TANDEM_BUILDER_UNARY(cos) TANDEM_BUILDER_UNARY(tan) TANDEM_BUILDER_UNARY(asin)
  TANDEM_BUILDER_UNARY(acos) TANDEM_BUILDER_UNARY(atan) TANDEM_BUILDER_UNARY(sinh)
  TANDEM_BUILDER_UNARY(cosh) TANDEM_BUILDER_UNARY(tanh) TANDEM_BUILDER_UNARY(asinh)
  TANDEM_BUILDER_UNARY(acosh) TANDEM_BUILDER_UNARY(atanh) TANDEM_BUILDER_UNARY(erf)
  TANDEM_BUILDER_UNARY(erfc) TANDEM_BUILDER_UNARY(sigmoid) TANDEM_BUILDER_UNARY(logical_not)
  TANDEM_BUILDER_UNARY(bitwise_not) TANDEM_BUILDER_UNARY(square) TANDEM_BUILDER_UNARY(relu)
  TANDEM_BUILDER_UNARY(isnan) TANDEM_BUILDER_UNARY(isinf) TANDEM_BUILDER_UNARY(isfinite)
  TANDEM_BUILDER_UNARY(clone) TANDEM_BUILDER_UNARY(stop_gradient)
  TANDEM_BUILDER_UNARY(stop_backward)
  TANDEM_BUILDER_BINARY(keep_history) TANDEM_BUILDER_BINARY(keep_backward)
  TANDEM_BUILDER_BINARY(add) TANDEM_BUILDER_BINARY(sub) TANDEM_BUILDER_BINARY(mul)
  TANDEM_BUILDER_BINARY(div) TANDEM_BUILDER_BINARY(floor_divide) TANDEM_BUILDER_BINARY(div_floor)
  TANDEM_BUILDER_BINARY(remainder)
  TANDEM_BUILDER_BINARY(fmod) TANDEM_BUILDER_BINARY(pow) TANDEM_BUILDER_BINARY(atan2)
  TANDEM_BUILDER_BINARY(maximum) TANDEM_BUILDER_BINARY(minimum) TANDEM_BUILDER_BINARY(eq)
  TANDEM_BUILDER_BINARY(ne) TANDEM_BUILDER_BINARY(lt) TANDEM_BUILDER_BINARY(le)
  TANDEM_BUILDER_BINARY(gt) TANDEM_BUILDER_BINARY(ge) TANDEM_BUILDER_BINARY(logical_and)
  TANDEM_BUILDER_BINARY(logical_or) TANDEM_BUILDER_BINARY(logical_xor)
  TANDEM_BUILDER_BINARY(bitwise_and) TANDEM_BUILDER_BINARY(bitwise_or)
  TANDEM_BUILDER_BINARY(bitwise_xor) TANDEM_BUILDER_BINARY(shift_left)
  TANDEM_BUILDER_BINARY(shift_right);
  // clang-format on
#undef TANDEM_BUILDER_UNARY
#undef TANDEM_BUILDER_BINARY

  /// a * b + c, rounded once.
  V fma(V a, V b, V c) { return pointwise(Op::fma, {a, b, c}); }
  /// condition: bool, broadcast with the others.
  V where(V condition, V self, V other);
  V where(V condition, V self, const Number& other) {
    return where(condition, self, number(other, self));
  }
  V where(V condition, const Number& self, V other) {
    return where(condition, number(self, other), other);
  }
  V clamp(V self, std::optional<Number> min, std::optional<Number> max);
  /// `v` itself if it already has the dtype.
  V convert(V v, DType dtype);
  V masked_fill(V self, V mask, const Number& value);

  // --- reductions; dims may be negative, none means all
  V reduce(Op op, V self, std::span<const Axis> dims, bool keepdim = false);
  V sum(V self, std::span<const Axis> dims = {}, bool keepdim = false) {
    return reduce(Op::sum, self, dims, keepdim);
  }
  V sum(V self, std::initializer_list<Axis> dims, bool keepdim = false) {
    return sum(self, std::span(dims.begin(), dims.size()), keepdim);
  }
  V amax(V self, std::initializer_list<Axis> dims, bool keepdim = false) {
    return reduce(Op::amax, self, {dims.begin(), dims.size()}, keepdim);
  }
  /// Which of the magnitudes [..., k] of a matrix's singular or eigenvalues count: those above
  /// max(atol, rtol * the largest), tolerances [...].
  V counting(V magnitudes, V atol, V rtol);
  V mean(V self, std::span<const Axis> dims = {}, bool keepdim = false);
  V mean(V self, std::initializer_list<Axis> dims, bool keepdim = false) {
    return mean(self, std::span(dims.begin(), dims.size()), keepdim);
  }
  V var(V self, std::span<const Axis> dims, double correction, bool keepdim,
        bool take_root = false);
  /// (var or std, mean), (min, max), and for Op::max_with_indices or min_with_indices (values,
  /// indices).
  ValueList var_mean(V self, std::span<const Axis> dims, double correction, bool keepdim,
                     bool take_root = false);
  ValueList aminmax(V self, std::span<const Axis> dims, bool keepdim);
  ValueList extremum_with_indices(Op op, V self, int dim, bool keepdim);
  V logsumexp(V self, std::span<const Axis> dims, bool keepdim);
  V softmax(V self, int dim);
  V log_softmax(V self, int dim);
  V layer_norm(V self, std::optional<V> weight, std::optional<V> bias, int normalized_dims,
               double eps) {
    return native_layer_norm(self, weight, bias, normalized_dims, eps)[0];
  }
  /// (result, mean, rstd)
  ValueList native_layer_norm(V self, std::optional<V> weight, std::optional<V> bias,
                              int normalized_dims, double eps) {
    return norm(Op::native_layer_norm, self, weight, bias, normalized_dims, eps);
  }
  ValueList native_group_norm(V self, std::optional<V> weight, std::optional<V> bias,
                              int64_t groups, double eps) {
    return norm(Op::native_group_norm, self, weight, bias, groups, eps);
  }
  V cross_entropy(V self, V target, int64_t ignore_index, double label_smoothing,
                  std::string reduction);
  /// Sums `v` over the dims along which `sizes` was broadcast to v's sizes, so that the result has
  /// `sizes`.
  V sum_to(V v, const Shape& sizes);

  // --- contractions
  V mm(V a, V b);
  V bmm(V a, V b);
  V addmm(V self, V mat1, V mat2);
  /// torch.matmul: vectors, matrices, broadcast batches; made of views, mm and bmm.
  V matmul(V a, V b);
  /// x @ weight^T + bias; weight [out, in].
  V linear(V x, V weight, std::optional<V> bias);
  V scaled_dot_product_attention(V q, V k, V v, std::optional<V> mask, std::optional<double> scale,
                                 bool is_causal);
  /// softmax over the last dimension, with zeros for rows of -inf.
  V attention_probabilities(V scores);

  // --- views and shapes; dims may be negative
  V view(V self, const Shape& sizes);     // one size may be -1; `self` itself if nothing changes
  V reshape(V self, const Shape& sizes);  // view where the sink can, else a copy first
  V permute(V self, std::span<const Axis> dims);
  V permute(V self, std::initializer_list<Axis> dims) {
    return permute(self, std::span(dims.begin(), dims.size()));
  }
  V transpose(V self, int dim0, int dim1);
  V t(V self) { return transpose(self, 0, 1); }
  V expand(V self, const Shape& sizes);  // -1 keeps a size; `self` itself if nothing changes
  V slice(V self, int dim, std::optional<Dim> start, std::optional<Dim> end,
          Dim step = 1);  // Python's clamping
  V select(V self, int dim, Dim index);
  V squeeze(V self, std::span<const Axis> dims);
  V squeeze(V self);
  V unsqueeze(V self, int dim);
  V flatten(V self, int start_dim, int end_dim);
  V diagonal(V self, Dim offset, int dim0, int dim1);
  V as_strided(V self, const Shape& sizes, const Strides& strides, Dim offset);
  V unfold(V self, int dim, Dim length, Dim step);
  V view_dtype(V self, DType dtype);  // `self` itself if it already has the dtype
  /// The bits of `v` as a dtype of the same size.
  V bitcast(V v, DType dtype);
  V cat(std::span<const V> tensors, int dim);
  V stack(std::span<const V> tensors, int dim);
  V pad(V self, std::span<const Dim> padding, const Number& value);
  V flip(V self, std::span<const Axis> dims);
  V slice_scatter(V self, V src, int dim, Dim start, Dim end, Dim step);
  V select_scatter(V self, V src, int dim, Dim index);

  // --- index; as in ATen a 0-d tensor counts as one dimension of one element
  V index_select(V self, int dim, V index);
  V gather(V self, int dim, V index);
  V index_add(V self, int dim, V index, V src);
  V scatter_add(V self, int dim, V index, V src);
  V scatter(V self, int dim, V index, V src);
  /// index_add, scatter_add, scatter, scatter_prod, scatter_amax, scatter_amin
  V scatter_into(Op op, V self, int dim, V index, V src);
  /// Their writing forms.
  void scatter_in_place(Op op, V self, int dim, V index, V src);
  V embedding(V weight, V indices);

  /// A vector of one element for a 0-d value; any other as it is.
  V at_least_1d(V v);

  /// A dimension in [-rank, rank) as [0, rank); Error{Index} otherwise.
  int wrap_dim(int64_t dim, int rank, std::string_view op) const;
  /// The same for each of `dims`, in their order; a dimension that appears twice is an Error.
  Axes wrap_dims(std::span<const Axis> dims, int rank, std::string_view op) const;

 private:
  InlineVector<Type, 4> types_of(std::span<const V> values) const;
  void expand_all(std::span<V> operands, std::string_view op);
  /// The dtype in which `op` computes on these operands.
  DType operand_dtype(Op op, std::span<const V> operands) const;
  /// The operands in that dtype, but for masks and conditions.
  ValueList converted(Op op, std::span<const V> operands, DType dtype);
  /// `dims`, or all if there are none, ascending in [0, rank).
  /// Expands matrices [..., n, m] to what their leading sizes broadcast to.
  void broadcast_batches(std::span<V> operands, std::string_view op);
  Axes reduced_dims(std::span<const Axis> dims, int rank, std::string_view op) const;
  /// `first_attrs` stand between dims and keepdim.
  ValueList reduce_all(Op op, V self, std::span<const Axis> dims, bool keepdim,
                       AttrsRef first_attrs = {});
  V along_dim(Op op, V self, int dim);
  /// `extent`: the attribute that says what is normalised.
  ValueList norm(Op op, V self, std::optional<V> weight, std::optional<V> bias, int64_t extent,
                 double eps);
  /// How many dimensions `dim` may name: a 0-d value has one.
  int dims_of(V v) const { return std::max(rank(v), 1); }
  /// [..., k] as [n, k], and [n, m] as [..., m] with the leading sizes of `like`.
  V as_rows(V x);
  V rows_as(V rows, const Shape& like);
  V batched_matmul(V a, V b);

  Sink& sink_;
};

}  // namespace tandem::ir

#endif  // TANDEM_IR_BUILD_BUILDER_H
