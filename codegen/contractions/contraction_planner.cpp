// What is decided about contractions before the partition: which algorithm, and in which layout the
// result is computed. A contraction that is only used transposed is computed transposed: (A B)^T =
// B^T A^T; so a weight's gradient comes out as the weight is stored, without a copy.
#include <algorithm>

#include "codegen/contractions/contraction.h"
#include "codegen/lower.h"
#include "ir/build/rewrite.h"
#include "machine/linalg/f64_product.h"

namespace tandem::codegen {
namespace {

using ir::Attr;
using ir::EquationId;
using ir::Graph;
using ir::ValueId;

/// Whether `dims` exchanges the last two dims and nothing else.
bool is_transposition(std::span<const ir::Axis> dims) {
  const auto rank = static_cast<int64_t>(dims.size());
  if (rank < 2) return false;
  for (int64_t d = 0; d + 2 < rank; ++d)
    if (dims[static_cast<size_t>(d)] != d) return false;
  return dims[static_cast<size_t>(rank - 2)] == rank - 1 &&
         dims[static_cast<size_t>(rank - 1)] == rank - 2;
}

ir::Axes transposition(int rank) {
  ir::Axes dims;
  for (int d = 0; d < rank; ++d) dims.push_back(d);
  std::swap(dims[static_cast<size_t>(rank - 2)], dims[static_cast<size_t>(rank - 1)]);
  return dims;
}

/// The contraction of two operands that view `e` transposes, if nothing else uses it; else invalid.
EquationId transposed_contraction(const Graph& g, EquationId e, const std::vector<uint32_t>& uses) {
  if (!ir::has_attr(g.op(e), Attr::dims) || !ir::is_view(g.op(e))) return {};
  const ValueId value = g.operand(e, 0);
  const EquationId contraction = g.producer(value);
  if (!contraction.valid() || !is_transposition(g.attr<ir::Axes>(e, Attr::dims))) return {};
  if (!ir::has_attr(g.op(contraction), Attr::algorithm) || g.operands(contraction).size() != 2)
    return {};
  const bool same_half = g.equation(contraction).is_backward == g.equation(e).is_backward;
  return same_half && uses[value.index] == 1 ? contraction : EquationId();
}

/// The transposition of `v` by `dims`; of one that was transposed: what it was.
ValueId transposed(ir::Splicer& splicer, ValueId v, const ir::Axes& dims) {
  const Graph& g = splicer.graph();
  const EquationId e = g.producer(v);
  const bool again =
      e.valid() && g.op(e) == ir::Op::permute && g.attr<ir::Axes>(e, Attr::dims) == dims;
  return again ? g.operand(e, 0) : splicer.builder().permute(v, dims);
}

/// B^T A^T in place of view `e` of the contraction A B.
void emit_transposed(ir::Splicer& splicer, EquationId e, EquationId contraction) {
  const Graph& g = splicer.graph();
  const ir::Axes dims = g.attr<ir::Axes>(e, Attr::dims);
  const ValueId a = g.operand(contraction, 0), b = g.operand(contraction, 1);
  const ValueId left = transposed(splicer, b, dims), right = transposed(splicer, a, dims);
  splicer.replace(e, {{splicer.builder().emit(g.op(contraction), {left, right}, {std::string()})}});
}

Graph with_transposed_contractions(Graph core) {
  const std::vector<uint32_t> uses = ir::use_counts(core);
  std::vector<EquationId> contractions;  // by equation: the one that it transposes
  for (uint32_t i = 0; i < core.num_equations(); ++i)
    contractions.push_back(transposed_contraction(core, {i}, uses));
  ir::Splicer splicer(std::move(core));
  for (uint32_t i = 0; i < contractions.size(); ++i) {
    splicer.at({i});
    if (contractions[i].valid()) emit_transposed(splicer, {i}, contractions[i]);
  }
  return splicer.take();
}

/// Whether one of the matrices that give `result` is a single row or column.
bool is_with_vector(const ir::Shape& result) {
  const int rank = result.rank();
  return result[rank - 2] == 1 || result[rank - 1] == 1;
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

/// The matrices of a batch with rows as columns.
ValueId turned(ir::Splicer& splicer, ValueId v) {
  ir::Axes dims;
  for (int d = 0; d < splicer.builder().sizes(v).rank(); ++d) dims.push_back(d);
  std::swap(dims[dims.size() - 2], dims.back());
  return transposed(splicer, v, dims);
}

/// A B, one of which is a vector, as sums of products along the matrix as it lies: a product of the
/// library would read a widened copy. (Views come before the converts, which are read through.)
ValueId sums_of_products(ir::Splicer& splicer, ValueId x, ValueId y) {
  ir::Builder& b = splicer.builder();
  const Graph& g = splicer.graph();
  const int column = b.sizes(x).rank() - 1;
  const bool gives_column = b.sizes(y)[column] == 1;
  const bool along_rows = gives_column ? !lies_by_columns(g, x) : lies_by_columns(g, y);
  ValueId& other = along_rows ? y : x;
  other = turned(splicer, other);
  const ir::Shape sizes = b.sizes(gives_column ? x : y);
  for (ValueId* v : {&x, &y}) *v = b.convert(b.expand(*v, sizes), ir::DType::F32);
  const ValueId sums = b.sum(b.mul(x, y), {along_rows ? column : column - 1}, true);
  return gives_column == along_rows ? sums : turned(splicer, sums);
}

/// In f32 between converts: the same sums, rounded once.
void emit_widened(ir::Splicer& splicer, EquationId e) {
  const Graph& g = splicer.graph();
  ir::Builder& b = splicer.builder();
  const ir::Type type = g.type(g.result(e));
  ir::ValueList wide;
  for (const ValueId v : g.operands(e)) wide.push_back(v);
  ValueId sum;
  if (is_with_vector(type.sizes)) {
    sum = sums_of_products(splicer, wide[wide.size() - 2], wide.back());
    if (wide.size() == 3) sum = b.add(b.convert(wide[0], ir::DType::F32), sum);
  } else {
    for (ValueId& v : wide) v = b.convert(v, ir::DType::F32);
    sum = b.emit(g.op(e), wide, {std::string()});
  }
  splicer.replace(e, {{b.convert(sum, type.dtype)}});
}

Graph with_widened_contractions(Graph core) {
  const size_t count = core.num_equations();
  ir::Splicer splicer(std::move(core));
  for (uint32_t i = 0; i < count; ++i) {
    const Graph& g = splicer.graph();
    const EquationId e{i};
    const bool widens =
        ir::has_attr(g.op(e), Attr::algorithm) && is_widened(g.type(g.result(e)).dtype);
    splicer.at(e);
    if (widens) emit_widened(splicer, e);
  }
  return splicer.take();
}

// --- products with vectors

/// Whether `e` is a product that neither a library nor the processor has a way for.
bool is_generated(const Graph& g, EquationId e) {
  if (!ir::has_attr(g.op(e), Attr::algorithm)) return false;
  const ir::DType dtype = g.type(g.result(e)).dtype;
  return dtype != ir::DType::BF16 && !is_library_contraction(dtype, {});
}

struct Factors {
  ValueId a, b;
  std::optional<ValueId> addend;
};

Factors factors_of(const Graph& g, EquationId e) {
  if (g.operands(e).size() == 2) return {g.operand(e, 0), g.operand(e, 1), {}};
  return {g.operand(e, 1), g.operand(e, 2), g.operand(e, 0)};
}

void emit_sum(ir::Splicer& splicer, EquationId e, ValueId product, std::optional<ValueId> addend) {
  splicer.replace(e, {{addend ? splicer.builder().add(*addend, product) : product}});
}

/// A column by a row: one product for each element, which is added to 0 as those of others are.
void emit_outer(ir::Splicer& splicer, EquationId e, const Factors& x) {
  ir::Builder& builder = splicer.builder();
  const bool rounds = ir::is_floating(builder.dtype(x.a));
  const ValueId product =
      rounds ? builder.fma(x.a, x.b, builder.number(0.0, x.a)) : builder.mul(x.a, x.b);
  emit_sum(splicer, e, product, x.addend);
}

/// A matrix, and which of its last two dims is summed.
struct SummedMatrix {
  ValueId matrix;
  bool by_rows;
};

/// Whether the rows of `v`, an input of the graph, lie across memory.
bool has_columns(const Graph& g, ValueId v) {
  const int input = g.input_index(v);
  if (input < 0) return false;
  const ir::Strides& strides = g.inputs()[static_cast<size_t>(input)].strides;
  const int rank = g.type(v).sizes.rank();
  return strides[rank - 2] < strides[rank - 1];
}

/// As its memory is likely to lie.
SummedMatrix as_it_lies(ir::Splicer& splicer, SummedMatrix x) {
  const Graph& g = splicer.graph();
  const EquationId e = g.producer(x.matrix);
  const bool is_view = e.valid() && g.op(e) == ir::Op::permute;
  if (is_view && is_transposition(g.attr<ir::Axes>(e, Attr::dims)))
    x = {g.operand(e, 0), !x.by_rows};
  if (!has_columns(g, x.matrix)) return x;
  const ir::Axes dims = transposition(g.type(x.matrix).sizes.rank());
  return {transposed(splicer, x.matrix, dims), !x.by_rows};
}

/// A matrix and a vector: the sums are the work. As reductions they run along whichever dim lies in
/// memory, in lanes, and in parts that threads share; and fuse with what is around.
void emit_sums(ir::Splicer& splicer, EquationId e, const Factors& f) {
  ir::Builder& builder = splicer.builder();
  const ir::Type t = builder.type(splicer.graph().result(e));
  const bool of_row = t.sizes[t.sizes.rank() - 2] == 1;
  const SummedMatrix given{of_row ? f.b : f.a, of_row}, x = as_it_lies(splicer, given);
  ValueId vector = of_row ? f.a : f.b;
  if (x.by_rows == given.by_rows)
    vector = transposed(splicer, vector, transposition(t.sizes.rank()));
  const ValueId sums =
      builder.sum(builder.mul(x.matrix, vector), {ir::Axis(x.by_rows ? -2 : -1)}, true);
  emit_sum(splicer, e, builder.convert(builder.view(sums, t.sizes), t.dtype), f.addend);
}

void emit_with_vectors(ir::Splicer& splicer, EquationId e) {
  const Graph& g = splicer.graph();
  const Factors f = factors_of(g, e);
  const ir::Shape a = g.type(f.a).sizes, b = g.type(f.b).sizes;
  const int rank = a.rank();
  if (a[rank - 1] == 1)
    emit_outer(splicer, e, f);
  else if (a[rank - 1] > 1 && (a[rank - 2] == 1 || b[rank - 1] == 1))
    emit_sums(splicer, e, f);
}

Graph with_vector_products(Graph core) {
  const size_t count = core.num_equations();
  ir::Splicer splicer(std::move(core));
  for (uint32_t i = 0; i < count; ++i) {
    splicer.at({i});
    if (is_generated(splicer.graph(), {i})) emit_with_vectors(splicer, {i});
  }
  return splicer.take();
}

std::string algorithm_of(const Graph& g, EquationId e) {
  const size_t count = g.operands(e).size();
  const ir::Type &a = g.type(g.operand(e, count - 2)), &result = g.type(g.result(e));
  const bool is_large = result.dtype == ir::DType::F64 &&
                        machine::is_large_f64_product(a.sizes[a.sizes.rank() - 2],
                                                      result.sizes.back(), a.sizes.back());
  if (is_large) return std::string(kBlas);
  return std::string(result.dtype == ir::DType::BF16 ? kBf16 : algorithm_for(result.dtype));
}

class Planner final : public ir::ContractionPlanner {
 public:
  Graph plan(Graph core) const override {
    for (uint32_t i = 0; i < core.subgraphs().size(); ++i)
      core.subgraph({i}) = plan(std::move(core.subgraph({i})));
    Graph out = with_widened_contractions(with_transposed_contractions(std::move(core)));
    out = with_vector_products(std::move(out));
    for (size_t i = 0; i < out.num_equations(); ++i) {
      const EquationId e = out.equation_id(i);
      if (!ir::has_attr(out.op(e), Attr::algorithm)) continue;
      out.set_attr(e, Attr::algorithm, algorithm_of(out, e));
    }
    return out;
  }
};

}  // namespace

std::unique_ptr<ir::ContractionPlanner> make_contraction_planner() {
  return std::make_unique<Planner>();
}

}  // namespace tandem::codegen
