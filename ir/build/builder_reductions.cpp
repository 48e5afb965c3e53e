// Builder: reductions, normalisations, losses and contractions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/base/error.h"
#include "ir/build/builder.h"

namespace tandem::ir {
namespace {

using V = ValueId;

Shape without_last(const Shape& sizes, int count) {
  return {std::span(sizes.begin(), sizes.size() - count)};
}

Shape appended(Shape sizes, std::initializer_list<Dim> more) {
  for (Dim d : more) sizes.push_back(d);
  return sizes;
}

}  // namespace

Axes Builder::reduced_dims(std::span<const Axis> dims, int rank, std::string_view op) const {
  Axes out = wrap_dims(dims, rank, op);
  for (int d = 0; dims.empty() && d < rank; ++d) out.push_back(d);
  std::ranges::sort(out);
  return out;
}

ValueList Builder::reduce_all(Op op, V self, std::span<const Axis> dims, bool keepdim,
                              AttrsRef first_attrs) {
  const Shape from = sizes(self);
  if (from.empty()) {  // ATen reduces a 0-d tensor as if it had one dimension of one element
    wrap_dims(dims, 1, name(op));
    return reduce_all(op, view(self, {1}), {}, false, first_attrs);
  }
  InlineVector<AttrValue, 4> attrs{reduced_dims(dims, from.rank(), name(op))};
  attrs.append(first_attrs);
  attrs.push_back(keepdim);
  if (has_attr(op, Attr::order)) attrs.push_back(Dims());
  return emit_all(op, {&self, 1}, std::span<const AttrValue>(attrs));
}

V Builder::reduce(Op op, V self, std::span<const Axis> dims, bool keepdim) {
  const Type from = type(self);
  if (op == Op::any || op == Op::all) {
    const V result = reduce_all(op, convert(self, DType::Bool), dims, keepdim)[0];
    return from.dtype == DType::U8 ? convert(result, DType::U8) : result;  // as ATen
  }
  if ((op != Op::argmax && op != Op::argmin) || !dims.empty() || from.rank() == 0)
    return reduce_all(op, self, dims, keepdim)[0];
  const V flat = reduce_all(op, reshape(self, {ir::numel(from.sizes)}), {}, false)[0];
  return keepdim ? view(flat, Shape::filled(from.rank(), 1)) : flat;
}

V Builder::counting(V magnitudes, V atol, V rtol) {
  const V relative = mul(unsqueeze(rtol, -1), amax(magnitudes, {-1}, true));
  return gt(magnitudes, maximum(unsqueeze(atol, -1), relative));
}

V Builder::mean(V self, std::span<const Axis> dims, bool keepdim) {
  return reduce(Op::mean, self, dims, keepdim);
}

V Builder::var(V self, std::span<const Axis> dims, double correction, bool keepdim,
               bool take_root) {
  return reduce_all(take_root ? Op::std : Op::var, self, dims, keepdim, {correction})[0];
}

ValueList Builder::var_mean(V self, std::span<const Axis> dims, double correction, bool keepdim,
                            bool take_root) {
  return reduce_all(take_root ? Op::std_mean : Op::var_mean, self, dims, keepdim, {correction});
}

ValueList Builder::aminmax(V self, std::span<const Axis> dims, bool keepdim) {
  return reduce_all(Op::aminmax, self, dims, keepdim);
}

ValueList Builder::extremum_with_indices(Op op, V self, int dim, bool keepdim) {
  const Axis over = dim;
  return reduce_all(op, self, {&over, 1}, keepdim);
}

V Builder::logsumexp(V self, std::span<const Axis> dims, bool keepdim) {
  const bool floating = is_floating(dtype(self));
  return reduce(Op::logsumexp, floating ? self : convert(self, DType::F32), dims, keepdim);
}

V Builder::along_dim(Op op, V self, int dim) {
  if (rank(self) > 0) return emit(op, {self}, {int64_t{wrap_dim(dim, rank(self), name(op))}});
  return view(along_dim(op, view(self, {1}), dim), {});
}

V Builder::softmax(V self, int dim) { return along_dim(Op::softmax, self, dim); }
V Builder::log_softmax(V self, int dim) { return along_dim(Op::log_softmax, self, dim); }

ValueList Builder::norm(Op op, V self, std::optional<V> weight, std::optional<V> bias,
                        int64_t extent, double eps) {
  ValueList operands = {self};
  if (bias && !weight) weight = full_like(*bias, 1);
  if (weight) operands.push_back(*weight);
  if (bias) operands.push_back(*bias);
  return emit_all(op, operands, {extent, eps});
}

V Builder::cross_entropy(V self, V target, int64_t ignore_index, double label_smoothing,
                         std::string reduction) {
  const Shape target_sizes = sizes(target);
  const int rank = this->rank(self);
  const bool keeps_rows = reduction == "none";
  if (rank != 2 && rank > 0) {  // [c] or [n, c, d...]: rows of classes
    if (rank > 2) {
      Axes order{0};
      for (int d = 2; d < rank; ++d) order.push_back(d);
      order.push_back(1);
      self = permute(self, order);
    }
    const Shape classes_last = sizes(self);
    if (without_last(classes_last, 1) != target_sizes)
      fail(Errc::Shape,
           fmt::format("cross_entropy: target does not fit self; expected {}, got {}",
                       to_string(without_last(classes_last, 1)), to_string(target_sizes)));
    const Dim rows = ir::numel(target_sizes);
    self = reshape(self, {rows, classes_last.back()});
    target = reshape(target, {rows});
  }
  const V loss = emit(Op::cross_entropy, {self, target},
                      {ignore_index, label_smoothing, std::move(reduction)});
  return keeps_rows ? view(loss, target_sizes) : loss;
}

V Builder::sum_to(V v, const Shape& target) {
  const Shape from = sizes(v);
  if (from == target) return v;
  const int added = from.rank() - target.rank();
  Axes dims;
  for (int d = 0; d < from.rank(); ++d)
    if (d < added || (target[d - added] == 1 && from[d] != 1)) dims.push_back(d);
  if (dims.empty()) return view(v, target);  // not a broadcast: refused there
  return view(convert(sum(v, dims), dtype(v)), target);
}

V Builder::mm(V a, V b) { return emit(Op::mm, {a, b}, {std::string()}); }
V Builder::bmm(V a, V b) { return emit(Op::bmm, {a, b}, {std::string()}); }

V Builder::addmm(V self, V mat1, V mat2) {
  if (rank(mat1) == 2 && rank(mat2) == 2) self = expand(self, {sizes(mat1)[0], sizes(mat2)[1]});
  return emit(Op::addmm, {self, mat1, mat2}, {std::string()});
}

V Builder::matmul(V a, V b) {
  const int a_rank = rank(a), b_rank = rank(b);
  if (a_rank == 0 || b_rank == 0)
    fail(Errc::Shape, fmt::format("matmul: an operand has no dimensions; expected at least 1 in "
                                  "each, got {} and {}",
                                  to_string(sizes(a)), to_string(sizes(b))));
  // A vector on the left is a row, one on the right a column; the added dimension goes at the end.
  if (a_rank == 1 || b_rank == 1) {
    const V product = matmul(a_rank == 1 ? unsqueeze(a, 0) : a, b_rank == 1 ? unsqueeze(b, 1) : b);
    Shape result = sizes(product);
    if (b_rank == 1) result.erase(result.rank() - 1);
    if (a_rank == 1) result.erase(result.rank() - (b_rank == 1 ? 1 : 2));
    return view(product, result);
  }
  if (a_rank == 2 && b_rank == 2) return mm(a, b);
  if (b_rank == 2) {
    const Shape like = sizes(a);
    return rows_as(mm(as_rows(a), b), like);
  }
  return batched_matmul(a, b);
}

V Builder::as_rows(V x) {
  const Shape from = sizes(x);
  return reshape(x, {ir::numel(without_last(from, 1)), from.back()});
}

V Builder::rows_as(V rows, const Shape& like) {
  return view(rows, appended(without_last(like, 1), {sizes(rows)[1]}));
}

V Builder::batched_matmul(V a, V b) {
  const Shape a_sizes = sizes(a), b_sizes = sizes(b);
  const Shape batch = broadcast(without_last(a_sizes, 2), without_last(b_sizes, 2), "matmul");
  const auto flatten_batch = [&](V v, const Shape& from) {
    const Dim rows = from[from.rank() - 2], columns = from.back();
    const V full_batch = expand(v, appended(batch, {rows, columns}));
    return reshape(full_batch, {ir::numel(batch), rows, columns});
  };
  const V product = bmm(flatten_batch(a, a_sizes), flatten_batch(b, b_sizes));
  return view(product, appended(batch, {a_sizes[a_sizes.rank() - 2], b_sizes.back()}));
}

V Builder::linear(V x, V weight, std::optional<V> bias) {
  if (rank(x) == 0 || rank(weight) != 2 || sizes(x).back() != sizes(weight)[1])
    fail(Errc::Shape, fmt::format("linear: sizes do not fit; expected x [..., in] and weight [out, "
                                  "in], got {} and {}",
                                  to_string(sizes(x)), to_string(sizes(weight))));
  const Shape like = sizes(x);
  const V transposed = t(weight), rows = as_rows(x);
  return rows_as(bias ? addmm(*bias, rows, transposed) : mm(rows, transposed), like);
}

void Builder::broadcast_batches(std::span<V> operands, std::string_view op) {
  Shape batch;
  for (V v : operands) {
    if (rank(v) < 2)
      fail(Errc::Shape, fmt::format("{}: too few dimensions; expected matrices [..., n, m], got {}",
                                    op, to_string(sizes(v))));
    batch = broadcast(batch, without_last(sizes(v), 2), op);
  }
  for (V& v : operands) {
    const Shape from = sizes(v);
    v = expand(v, appended(batch, {from[from.rank() - 2], from.back()}));
  }
}

// A row without any score above -inf is fully masked.
V Builder::attention_probabilities(V scores) {
  const Shape from = sizes(scores);
  const Axis last = from.rank() - 1;
  const V p = softmax(scores, from.rank() - 1);
  if (from.back() == 0) return p;
  const V masked = eq(reduce(Op::amax, scores, {&last, 1}, true),
                      Number(-std::numeric_limits<double>::infinity()));
  return where(masked, 0, p);
}

V Builder::scaled_dot_product_attention(V q, V k, V v, std::optional<V> mask,
                                        std::optional<double> scale, bool is_causal) {
  ValueList operands = {q, k, v};
  if (mask && is_causal)
    fail(Errc::Argument,
         "scaled_dot_product_attention: a mask beside is_causal; expected one of "
         "the two, got both");
  broadcast_batches(operands, "scaled_dot_product_attention");
  k = operands[1];
  const Shape q_sizes = sizes(operands[0]);
  if (mask) {
    Shape scores = q_sizes;
    scores[scores.rank() - 1] = sizes(k)[rank(k) - 2];
    const V same_kind = is_integral(dtype(*mask)) ? *mask : convert(*mask, dtype(q));
    operands.push_back(expand(same_kind, scores));
  }
  const double factor = scale.value_or(1 / std::sqrt(static_cast<double>(q_sizes.back())));
  return emit(Op::scaled_dot_product_attention, operands, {factor, is_causal});
}

}  // namespace tandem::ir
