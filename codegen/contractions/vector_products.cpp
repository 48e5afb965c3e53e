#include "codegen/contractions/vector_products.h"

#include <optional>

#include "codegen/contractions/contraction.h"
#include "codegen/contractions/transposition.h"

namespace tandem::codegen {
namespace {

using ir::Attr;
using ir::DType;
using ir::EquationId;
using ir::Graph;
using ir::ValueId;

struct Factors {
  ValueId a, b;
  std::optional<ValueId> addend;
};

Factors factors_of(const Graph& g, EquationId e) {
  if (g.operands(e).size() == 2) return {g.operand(e, 0), g.operand(e, 1), {}};
  return {g.operand(e, 1), g.operand(e, 2), g.operand(e, 0)};
}

/// Whether a library computes products of `dtype`, other than those of halves in f32.
bool has_library(DType dtype) {
  return !is_widened(dtype) && (dtype == DType::BF16 || is_library_contraction(dtype, {}));
}

/// Whether a column's elements lie closer together than a row's.
bool lies_by_columns(const Graph& g, ValueId v) {
  bool turned = false;
  for (EquationId e = g.producer(v); e.valid() && g.op(e) == ir::Op::permute; e = g.producer(v)) {
    if (!is_transposition(g.attr<ir::Axes>(e, Attr::dims))) break;
    turned = !turned;
    v = g.operand(e, 0);
  }
  const ir::Shape& sizes = g.type(v).sizes;
  const int input = g.input_index(v), column = sizes.rank() - 1, row = column - 1;
  if (input < 0 || sizes[row] == 1 || sizes[column] == 1) return turned;
  const ir::Strides& strides = g.inputs()[static_cast<size_t>(input)].strides;
  return turned != (strides[row] < strides[column]);
}

/// In the dtype that products are summed in. (What views there are comes before: a convert is read
/// through.)
ValueId widened(ir::Builder& b, ValueId v) {
  return is_widened(b.dtype(v)) ? b.convert(v, DType::F32) : v;
}

/// One product for each element, which is added to 0 as those of others are.
ValueId outer_product(ir::Builder& b, const Factors& f) {
  const ValueId column = widened(b, f.a), row = widened(b, f.b);
  return ir::is_floating(b.dtype(column)) ? b.fma(column, row, b.number(0.0, column))
                                          : b.mul(column, row);
}

ValueId sums_of_products(ir::Splicer& splicer, const Factors& f) {
  ir::Builder& b = splicer.builder();
  const Graph& g = splicer.graph();
  ValueId x = f.a, y = f.b;
  const int column = b.sizes(x).rank() - 1;
  const bool gives_column = b.sizes(y)[column] == 1;
  const bool along_rows = gives_column ? !lies_by_columns(g, x) : lies_by_columns(g, y);
  ValueId& other = along_rows ? y : x;
  other = transposed(splicer, other);
  const ir::Shape sizes = b.sizes(gives_column ? x : y);
  for (ValueId* v : {&x, &y}) *v = widened(b, b.expand(*v, sizes));
  const ValueId sums = b.sum(b.mul(x, y), {along_rows ? column : column - 1}, true);
  return gives_column == along_rows ? sums : transposed(splicer, sums);
}

std::optional<ValueId> product_with_vector(ir::Splicer& splicer, const Factors& f) {
  const ir::Shape &a = splicer.builder().sizes(f.a), &b = splicer.builder().sizes(f.b);
  const int column = a.rank() - 1, row = column - 1;
  if (a[column] == 1) return outer_product(splicer.builder(), f);
  if (has_library(splicer.builder().dtype(f.a))) return {};
  if (a[column] == 0 || (a[row] != 1 && b[column] != 1)) return {};
  return sums_of_products(splicer, f);
}

void emit(ir::Splicer& splicer, EquationId e) {
  const Factors f = factors_of(splicer.graph(), e);
  std::optional<ValueId> product = product_with_vector(splicer, f);
  if (!product) return;
  ir::Builder& b = splicer.builder();
  if (f.addend) product = b.add(b.convert(*f.addend, b.dtype(*product)), *product);
  splicer.replace(e, {{b.convert(*product, b.dtype(f.a))}});
}

}  // namespace

Graph with_vector_products(Graph core) {
  const size_t count = core.num_equations();
  ir::Splicer splicer(std::move(core));
  for (uint32_t i = 0; i < count; ++i) {
    splicer.at({i});
    if (ir::has_attr(splicer.graph().op({i}), Attr::algorithm)) emit(splicer, {i});
  }
  return splicer.take();
}

}  // namespace tandem::codegen
