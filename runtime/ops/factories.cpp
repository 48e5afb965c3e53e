// Tensors from nothing: constants, ranges, numbers, foreign memory, random values.
#include <fmt/format.h>
#include <tandem/ops/shapes.h>

#include <algorithm>
#include <cmath>

#include "ir/base/error.h"
#include "ir/buffer.h"
#include "ir/geometry.h"
#include "ir/strides.h"
#include "runtime/levels/batched.h"
#include "runtime/ops/call.h"
#include "runtime/tensor/generator.h"
#include "runtime/tensor/tensor_impl.h"
#include "runtime/trace/trace.h"

namespace tandem {
namespace {

using ir::Op;
using runtime::Call;
using runtime::V;

void require_floating(DType dtype, std::string_view op) {
  if (!ir::is_floating(dtype))
    ir::fail(Errc::DType,
             fmt::format("{}: expected a floating dtype, got {}", op, ir::name(dtype)));
}

Tensor random(Op op, const Shape& sizes, DType dtype, const SourceLocation& at) {
  Call c(at, ir::name(op));
  require_floating(dtype, ir::name(op));
  const runtime::DrawScope draws;
  const runtime::Draw d = runtime::draw(sizes, dtype);
  return c.out(c.b.emit(op, {c.in(d.rng, "rng")}, {sizes, dtype, d.offset}));
}

Shape in_order(const Shape& sizes, const ir::Axes& order) {
  Shape ordered;
  for (ir::Axis d : order) ordered.push_back(sizes[static_cast<int>(d)]);
  return ordered;
}

DType dtype_for(std::initializer_list<Number> values, std::optional<DType> dtype) {
  if (dtype) return *dtype;
  auto kind = values.size() == 0 ? Number::Kind::Float : Number::Kind::Bool;
  for (const Number& v : values) kind = std::max(kind, v.kind());
  return kind == Number::Kind::Float ? f32 : kind == Number::Kind::Int ? i64 : boolean;
}

}  // namespace

// --- constants

Tensor full(const Shape& sizes, const Number& value, DType dtype, SourceLocation at) {
  Call c(at);
  return c.out(c.given(value, dtype, sizes));
}
// Eager memory is not cleared; a trace has no undefined values.
Tensor empty(const Shape& sizes, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return runtime::Trace::current() != nullptr ? full(sizes, 0, dtype, at)
                                              : runtime::empty_tensor(sizes, dtype);
}
Tensor zeros(const Shape& sizes, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return full(sizes, 0, dtype, at);
}
Tensor ones(const Shape& sizes, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return full(sizes, 1, dtype, at);
}
Tensor empty_like(const Tensor& like, std::optional<DType> dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (runtime::Trace::current() != nullptr) return zeros_like(like, dtype, at);
  if (runtime::level_depth() != 0) return zeros_like(like, dtype, at);
  return runtime::empty_tensor(like.sizes(), ir::preserved_strides({like.sizes(), like.strides()}),
                               dtype.value_or(like.dtype()));
}
Tensor full_like(const Tensor& like, const Number& value, std::optional<DType> dtype,
                 SourceLocation at) {
  const ir::ErrorScope errors(at);
  const Tensor one = runtime::in_layout_of(like, at, [&](const ir::Axes& order) {
    return full(in_order(like.sizes(), order), value, dtype.value_or(like.dtype()), at);
  });
  return runtime::batched_as(one, like);
}
Tensor zeros_like(const Tensor& like, std::optional<DType> dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return full_like(like, 0, dtype, at);
}
Tensor ones_like(const Tensor& like, std::optional<DType> dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return full_like(like, 1, dtype, at);
}

Tensor arange(const Number& end, std::optional<DType> dtype, SourceLocation at) {
  return arange(0, end, 1, dtype, at);
}
Tensor arange(const Number& start, const Number& end, const Number& step,
              std::optional<DType> dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  const bool is_float = start.is_float() || end.is_float() || step.is_float();
  const DType type = dtype.value_or(is_float ? f32 : i64);
  const double steps = type != i64 ? (end.to_double() - start.to_double()) / step.to_double()
                                   : static_cast<double>(end.to_int() - start.to_int()) /
                                         static_cast<double>(step.to_int());
  if (!(steps >= 0) || steps > 1e15)
    ir::fail(Errc::Argument, fmt::format("arange: the step does not lead from start to end; "
                                         "expected one that does, got start {}, end {} and step {}",
                                         start.to_double(), end.to_double(), step.to_double()));
  Call c(at);
  const bool is_integral = ir::is_integral(type);
  return c.out(c.b.iota(static_cast<int64_t>(std::ceil(steps)), type,
                        is_integral ? Number(start.to_int()) : start,
                        is_integral ? Number(step.to_int()) : step));
}

Tensor eye(Dim n, std::optional<Dim> m, DType dtype, SourceLocation at) {
  Call c(at);
  const V rows = c.b.unsqueeze(c.b.iota(n, i64), 1);
  return c.out(c.b.convert(c.b.eq(rows, c.b.iota(m.value_or(n), i64)), dtype));
}

// --- ranges, places

namespace {

void require_steps(std::string_view op, Dim steps) {
  if (steps < 0)
    ir::fail(Errc::Argument,
             fmt::format("{}: expected at least 0 steps, got {}", op, int64_t{steps}));
}

/// In f64, from both ends to the middle, so that both are exact. Of integers the ends are integers.
V equal_steps(Call& c, const Number& start, const Number& end, Dim steps, DType dtype) {
  const double from = ir::checked_constant(dtype, start).to_double(),
               to = ir::checked_constant(dtype, end).to_double();
  const double step = steps > 1 ? (to - from) / static_cast<double>(int64_t{steps} - 1) : 0;
  const V place = c.b.iota(steps, f64),
          back = c.b.sub(Number(static_cast<double>(steps - 1)), place);
  const V first = c.b.add(c.b.mul(place, Number(step)), Number(from));
  const V second = c.b.sub(Number(to), c.b.mul(back, Number(step)));
  if (steps == 1) return first;
  return c.b.where(c.b.lt(place, Number(static_cast<double>(steps / 2))), first, second);
}

/// The places [2, n] for which `first` <= column < `last` in each row; inside a trace as a tensor
/// of each call's own.
template <class First, class Last>
Tensor triangle(std::string_view op, Dim rows, Dim columns, DType dtype, const SourceLocation& at,
                First first, Last last) {
  if (rows < 0 || columns < 0)
    ir::fail(Errc::Argument, fmt::format("{}: expected sizes of at least 0, got {} and {}", op,
                                         int64_t{rows}, int64_t{columns}));
  if (dtype != i64 && dtype != i32)
    ir::fail(Errc::DType, fmt::format("{}: expected i64 or i32, got {}", op, ir::name(dtype)));
  const auto for_each_row = [&](auto f) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t begin = std::max<int64_t>(first(row), 0),
                    end = std::min<int64_t>(last(row), columns);
      if (begin < end) f(row, begin, end);
    }
  };
  int64_t count = 0;
  for_each_row([&](int64_t, int64_t begin, int64_t end) { count += end - begin; });
  const Tensor t = runtime::empty_tensor({2, count}, dtype);
  const auto fill = [&]<class T>(T* rows_at) {
    T* columns_at = rows_at + count;
    for_each_row([&](int64_t row, int64_t begin, int64_t end) {
      rows_at = std::fill_n(rows_at, end - begin, static_cast<T>(row));
      for (int64_t column = begin; column < end; ++column) *columns_at++ = static_cast<T>(column);
    });
  };
  void* const data = t.impl()->data();
  dtype == i64 ? fill(static_cast<int64_t*>(data)) : fill(static_cast<int32_t*>(data));
  return runtime::Trace::current() != nullptr ? clone(t, at) : t;
}

}  // namespace

Tensor linspace(const Number& start, const Number& end, Dim steps, DType dtype, SourceLocation at) {
  Call c(at);
  require_steps("linspace", steps);
  return c.out(c.b.convert(equal_steps(c, start, end, steps, dtype), dtype));
}
Tensor logspace(const Number& start, const Number& end, Dim steps, double base, DType dtype,
                SourceLocation at) {
  Call c(at);
  require_steps("logspace", steps);
  return c.out(c.b.convert(c.b.pow(Number(base), equal_steps(c, start, end, steps, dtype)), dtype));
}
Tensor tril_indices(Dim rows, Dim columns, Dim offset, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return triangle(
      "tril_indices", rows, columns, dtype, at, [](int64_t) { return 0; },
      [&](int64_t row) { return row + offset + 1; });
}
Tensor triu_indices(Dim rows, Dim columns, Dim offset, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return triangle(
      "triu_indices", rows, columns, dtype, at, [&](int64_t row) { return row + offset; },
      [&](int64_t) { return columns; });
}

// --- data

Tensor from_numbers(std::span<const Number> values, const Shape& sizes, DType dtype) {
  if (ir::numel(sizes) != static_cast<int64_t>(values.size()))
    ir::fail(Errc::Shape, fmt::format("tensor: expected as many numbers as {} has elements, got {}",
                                      to_string(sizes), values.size()));
  const Tensor t = runtime::empty_tensor(sizes, dtype);
  auto* at = static_cast<char*>(t.impl()->data());
  for (size_t i = 0; i < values.size(); ++i) {
    if (ir::is_integer(dtype)) (void)ir::checked_constant(dtype, values[i]);
    ir::store_element(at + i * ir::size_of(dtype), dtype, values[i]);
  }
  return t;
}

Tensor tensor(const Number& value, std::optional<DType> dtype) {
  return from_numbers({&value, 1}, {}, dtype_for({value}, dtype));
}
Tensor tensor(std::initializer_list<Number> values, std::optional<DType> dtype) {
  return from_numbers({values.begin(), values.size()}, {static_cast<int64_t>(values.size())},
                      dtype_for(values, dtype));
}
Tensor tensor(std::initializer_list<std::initializer_list<Number>> rows,
              std::optional<DType> dtype) {
  std::vector<Number> values;
  auto kind = boolean;
  for (const auto& row : rows) {
    if (row.size() != rows.begin()->size())
      ir::fail(Errc::Shape, "tensor: rows of different lengths; expected equal lengths");
    values.insert(values.end(), row.begin(), row.end());
    kind = ir::promote(kind, dtype_for(row, {}));
  }
  const Shape sizes{static_cast<int64_t>(rows.size()),
                    static_cast<int64_t>(rows.size() == 0 ? 0 : rows.begin()->size())};
  return from_numbers(values, sizes, dtype.value_or(kind));
}

Tensor from_blob(void* data, const Shape& sizes, const Strides& strides, DType dtype,
                 std::function<void(void*)> deleter, bool read_only) {
  if (strides.rank() != sizes.rank())
    ir::fail(Errc::Argument, fmt::format("from_blob: expected one stride per size, got {} and {}",
                                         to_string(sizes), to_string(strides)));
  const auto is_negative = [](Dim d) { return d < 0; };
  if (std::ranges::any_of(sizes, is_negative) || std::ranges::any_of(strides, is_negative))
    ir::fail(Errc::Argument, "from_blob: negative size or stride; expected none");
  const Dim bytes =
      ir::checked_mul(ir::extent(sizes, strides, "from_blob"), ir::size_of(dtype), "from_blob");
  auto impl = std::make_shared<runtime::TensorImpl>();
  impl->storage = runtime::Storage::wrap(data, static_cast<size_t>(int64_t{bytes}),
                                         std::move(deleter), read_only);
  impl->dtype = dtype;
  impl->sizes = sizes;
  impl->strides = strides;
  return Tensor(std::move(impl));
}

// --- random

Tensor rand(const Shape& sizes, DType dtype, SourceLocation at) {
  return random(Op::rand, sizes, dtype, at);
}
Tensor randn(const Shape& sizes, DType dtype, SourceLocation at) {
  return random(Op::randn, sizes, dtype, at);
}
Tensor rand_like(const Tensor& like, std::optional<DType> dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return runtime::in_layout_of(like, at, [&](const ir::Axes& order) {
    return rand(in_order(like.sizes(), order), dtype.value_or(like.dtype()), at);
  });
}
Tensor randn_like(const Tensor& like, std::optional<DType> dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return runtime::in_layout_of(like, at, [&](const ir::Axes& order) {
    return randn(in_order(like.sizes(), order), dtype.value_or(like.dtype()), at);
  });
}

namespace {

/// Random bits in [0, range), where range counts modulo 2^64.
V below(Call& c, V bits, uint64_t range) {
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
  const auto number = static_cast<int64_t>(range);
  // 63 random bits modulo the range: the bias is below range / 2^63.
  if (number > 0) return c.b.remainder(c.b.bitwise_and(bits, ~kLow), number);
  // All 64, of which the range is more than half: unsigned order is signed order of x ^ kLow.
  const V inside = c.b.lt(c.b.bitwise_xor(bits, kLow), number ^ kLow);
  return c.b.where(inside, bits, c.b.sub(bits, number));
}

void require_held(int64_t low, int64_t high, DType dtype) {
  const auto holds = [&](int64_t v) {
    return ir::is_floating(dtype)
               ? std::abs(ir::rounded_to(dtype, Number(static_cast<double>(v))).to_double()) <
                     std::numeric_limits<double>::infinity()
               : ir::rounded_to(dtype, Number(v)).to_int() == v;
  };
  if (!holds(low) || !holds(high - 1))
    ir::fail(Errc::Argument, fmt::format("randint: the range does not fit the dtype; expected "
                                         "numbers of {}, got {} to {}",
                                         ir::name(dtype), low, high - 1));
}

}  // namespace

Tensor randint(int64_t low, int64_t high, const Shape& sizes, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (low >= high)
    ir::fail(Errc::Argument, fmt::format("randint: expected low < high, got {} and {}", low, high));
  require_held(low, high, dtype);
  Call c(at);
  const runtime::DrawScope draws;
  const runtime::Draw d = runtime::draw(sizes, i64);
  const V bits = c.b.emit(Op::random_bits, {c.in(d.rng, "rng")}, {sizes, i64, d.offset});
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  return c.out(c.b.convert(c.b.add(below(c, bits, range), low), dtype));
}

Tensor dropout(const Tensor& self, double p, bool training, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (!(p >= 0 && p <= 1))
    ir::fail(Errc::Argument, fmt::format("dropout: expected a probability, got {}", p));
  if (!training || p == 0 || self.numel() == 0) return self;
  require_floating(self.dtype(), "dropout");
  Call c(at);
  const V v = c.in(self);
  const runtime::DrawScope draws;
  const runtime::Draw d = runtime::draw(self.sizes(), f32);
  return c.out(c.b.emit(Op::dropout, {v, c.in(d.rng, "rng")}, {p, d.offset}));
}

const Tensor& Tensor::uniform_(double from, double to, SourceLocation at) const {
  const ir::ErrorScope errors(at);
  const runtime::DrawScope draws;
  const Tensor values = tandem::rand(sizes(), dtype(), at);
  return copy_(Located(values.mul(Located(to - from, at)).add(Located(from, at)), at));
}
const Tensor& Tensor::normal_(double mean, double std, SourceLocation at) const {
  const ir::ErrorScope errors(at);
  const runtime::DrawScope draws;
  const Tensor values = tandem::randn(sizes(), dtype(), at);
  return copy_(Located(values.mul(Located(std, at)).add(Located(mean, at)), at));
}

}  // namespace tandem
