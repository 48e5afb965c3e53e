#include "codegen/contractions/vector_products.h"

#include <algorithm>
#include <optional>

#include "codegen/contractions/contraction.h"
#include "codegen/contractions/split_batches.h"
#include "codegen/contractions/transposition.h"
#include "ir/geometry.h"

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

/// Two dims of a value.
struct Dims {
  int row, column;
};

/// Where view `e` has dims `d` of its result from, unless they come of others.
std::optional<Dims> before_view(const Graph& g, EquationId e, const Dims& d) {
  if (g.op(e) == ir::Op::permute) {
    const ir::Axes& dims = g.attr<ir::Axes>(e, Attr::dims);
    const auto from = [&](int dim) { return static_cast<int>(dims[static_cast<size_t>(dim)]); };
    return Dims{from(d.row), from(d.column)};
  }
  const ir::Shape &to = g.type(g.result(e)).sizes, &from = g.type(g.operand(e, 0)).sizes;
  const int shift = from.rank() - to.rank();
  if (g.op(e) == ir::Op::slice || (g.op(e) == ir::Op::expand && shift == 0)) return d;
  const int first = to.rank() - 2;
  const bool are_last = g.op(e) == ir::Op::view && std::min(d.row, d.column) >= first &&
                        from.rank() >= 2 && from.back() == to.back() &&
                        from[first + shift] == to[first];
  return are_last ? std::optional(Dims{d.row + shift, d.column + shift}) : std::nullopt;
}

/// What `v` lies as, if it is what parts have been written into: the input of which it is the new
/// contents.
ValueId before_writes(const Graph& g, ValueId v) {
  for (EquationId e = g.producer(v); e.valid() && ir::writes_part(g.op(e)); e = g.producer(v))
    v = g.operand(e, 0);
  return v;
}

/// Whether a column's elements lie closer together than a row's.
bool lies_by_columns(const Graph& g, ValueId v) {
  const int rank = g.type(v).sizes.rank();
  Dims d{rank - 2, rank - 1};
  for (EquationId e = g.producer(v); e.valid() && ir::is_view(g.op(e)); e = g.producer(v)) {
    const auto before = before_view(g, e, d);
    if (!before) break;
    d = *before;
    v = g.operand(e, 0);
  }
  const bool turned = d.column < d.row;
  v = before_writes(g, v);
  const ir::Shape& sizes = g.type(v).sizes;
  const int input = g.input_index(v);
  if (input < 0 || sizes[d.row] == 1 || sizes[d.column] == 1) return turned;
  const ir::Strides& strides = g.inputs()[static_cast<size_t>(input)].strides;
  return strides[d.row] < strides[d.column];
}

/// Whether a library's product with `v` would read a copy: of a part, of batches that strides
/// cannot merge, as of those that repeat others, or of an input that is overwritten and, being
/// copied where it is saved, counts as contiguous.
bool takes_copy(const Graph& g, ValueId v) {
  ir::InlineVector<EquationId, 4> chain;
  for (EquationId e = g.producer(v); e.valid() && ir::is_view(g.op(e)); e = g.producer(v)) {
    const ir::Op op = g.op(e);
    if (op != ir::Op::view && op != ir::Op::permute && op != ir::Op::expand) return true;
    chain.push_back(e);
    v = g.operand(e, 0);
  }
  Shown now{whole({}, g.type(v).sizes), {}};
  for (size_t i = chain.size(); i-- > 0;) {
    now = shown(g, chain[i], now);
    if (!now.view) return true;
  }
  const ValueId written = before_writes(g, v);
  const int input = g.input_index(written);
  return input >= 0 && ir::is_overwritten(g, input) &&
         !ir::is_contiguous(g.type(written).sizes, g.inputs()[static_cast<size_t>(input)].strides);
}

/// In the dtype that products are summed in. (What views there are comes before: a convert is read
/// through.)
ValueId widened(ir::Builder& b, ValueId v) {
  return ir::is_half(b.dtype(v)) ? b.convert(v, DType::F32) : v;
}

/// Sums of so few products are computed element by element, one product after the other, where one
/// matrix is so small: a library's products of such take as long as of larger ones.
constexpr int64_t kFewProducts = 8, kSmallMatrix = 64;

bool is_small(const ir::Builder& b, const Factors& f) {
  const ir::Shape &left = b.sizes(f.a), &right = b.sizes(f.b);
  const int64_t k = left.back(), m = left[left.rank() - 2], n = right.back();
  if (k == 1) return true;
  if (k == 0 || k > kFewProducts || std::min(m, n) * k > kSmallMatrix) return false;
  return b.dtype(f.a) != DType::BF16 || is_widened(DType::BF16);
}

/// The products are added to 0 in their order.
ValueId one_by_one(ir::Builder& b, const Factors& f) {
  const ValueId x = widened(b, f.a), y = widened(b, f.b);
  const int column = b.sizes(x).rank() - 1;
  const int64_t k = b.sizes(x)[column];
  const bool floats = ir::is_floating(b.dtype(x));
  const auto at = [&](ValueId v, int dim, int64_t i) {
    return k == 1 ? v : b.slice(v, dim, ir::Dim(i), ir::Dim(i + 1), 1);
  };
  ValueId sum;
  for (int64_t i = 0; i < k; ++i) {
    const ValueId left = at(x, column, i), right = at(y, column - 1, i);
    if (floats)
      sum = b.fma(left, right, i == 0 ? b.number(0.0, left) : sum);
    else
      sum = i == 0 ? b.mul(left, right) : b.add(sum, b.mul(left, right));
  }
  return sum;
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

/// The matrices that `v` [n, r, c] shows as one batch, in the several that they are of.
std::optional<ValueId> before_merge(ir::Splicer& splicer, ValueId v) {
  const Graph& g = splicer.graph();
  EquationId e = g.producer(v);
  const bool turned =
      e.valid() && g.op(e) == ir::Op::permute && is_transposition(g.attr<ir::Axes>(e, Attr::dims));
  if (turned) e = g.producer(g.operand(e, 0));
  if (!e.valid() || g.op(e) != ir::Op::view) return {};
  const ValueId from = g.operand(e, 0);
  const int rank = g.type(from).sizes.rank(), last = g.type(v).sizes.rank() - 1;
  const auto same = before_view(g, e, {last - 1, last});
  if (!same || rank <= last + 1) return {};
  return turned ? transposed(splicer, from) : from;
}

/// Sums of products with a matrix of several batches, which strides might not merge.
ValueId sums_in_batches(ir::Splicer& splicer, const Factors& f) {
  ir::Builder& b = splicer.builder();
  const bool gives_column = b.sizes(f.b).back() == 1;
  const auto matrix = before_merge(splicer, gives_column ? f.a : f.b);
  if (!matrix) return sums_of_products(splicer, f);
  const auto in_batches = [&](const ir::Shape& sizes) {
    ir::Shape all = b.sizes(*matrix);
    for (int d = 1; d <= 2; ++d) all[all.rank() - d] = sizes[sizes.rank() - d];
    return all;
  };
  const ir::Shape &left = b.sizes(f.a), &right = b.sizes(f.b);
  ir::Shape result = left;
  result[result.rank() - 1] = right.back();
  const ValueId vector =
      gives_column ? b.view(f.b, in_batches(right)) : b.view(f.a, in_batches(left));
  const Factors apart = gives_column ? Factors{*matrix, vector, {}} : Factors{vector, *matrix, {}};
  return b.view(sums_of_products(splicer, apart), result);
}

/// Whether sums of products read a matrix faster than a library would. (Measured on Zen 4:
/// libraries take up to twice as long for columns, of which they sum few or many at a time badly,
/// and a quarter longer for rows; but one that multiplies several rows at once keeps a vector of
/// more than half the first cache from being read for each. Of bf16 they multiply rows twice as
/// fast, having instructions for them, and columns half as fast.)
bool sums_are_faster(const Graph& g, const Factors& f) {
  constexpr int64_t kShort = 32, kLong = 1024, kWide = 4096;
  const ir::Shape &left = g.type(f.a).sizes, &right = g.type(f.b).sizes;
  const bool gives_column = right.back() == 1;
  const bool along_rows = gives_column ? !lies_by_columns(g, f.a) : lies_by_columns(g, f.b);
  if (ir::is_half(g.type(f.a).dtype)) return !along_rows;
  const int64_t length = left.back();
  const int64_t results = gives_column ? left[left.rank() - 2] : right.back();
  if (along_rows) return length <= kWide;
  return length <= kShort ? results > kLong : length >= kLong && results <= kWide;
}

std::optional<ValueId> without_library(ir::Splicer& splicer, const Factors& f) {
  const ir::Shape &a = splicer.builder().sizes(f.a), &b = splicer.builder().sizes(f.b);
  const int column = a.rank() - 1, row = column - 1;
  if (is_small(splicer.builder(), f)) return one_by_one(splicer.builder(), f);
  if (a[column] == 0 || (a[row] != 1 && b[column] != 1)) return {};
  const ValueId matrix = b[column] == 1 ? f.a : f.b;
  if (has_library(splicer.builder().dtype(f.a)) && !takes_copy(splicer.graph(), matrix) &&
      !sums_are_faster(splicer.graph(), f))
    return {};
  return sums_in_batches(splicer, f);
}

void emit(ir::Splicer& splicer, EquationId e) {
  const Factors f = factors_of(splicer.graph(), e);
  std::optional<ValueId> product = without_library(splicer, f);
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
