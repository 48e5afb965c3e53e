#include "codegen/library/library.h"

#include <algorithm>
#include <cstring>

#include "ir/attr_integers.h"
#include "ir/base/error.h"
#include "machine/attention/attention.h"
#include "machine/library/bf16_matmul.h"
#include "machine/linalg/f64_product.h"
#include "machine/linalg/matrices.h"
#include "machine/lines/lines.h"
#include "machine/products/int8.h"
#include "machine/windows/convolution.h"
#include "machine/windows/pooling/pooling.h"

namespace tandem::codegen {
namespace {

using ir::Attr;
using ir::Dims;
using ir::DType;
using ir::Op;
using machine::Extents;
using machine::Sought;

/// f(T()) for the types that such functions compute in.
template <class F>
void with_library_type(DType dtype, F f) {
  switch (dtype) {
    case DType::F32:
      return f(float());
    case DType::F64:
      return f(double());
    case DType::I64:
      return f(int64_t());
    default:
      TANDEM_CHECK(false, "no library function of this dtype");
  }
}

template <class F>
void with_convolution_type(DType dtype, F f) {
  if (dtype == DType::BF16) return f(machine::Bf16());
  with_library_type(dtype, f);
}

/// One number for each spatial dimension, at the end; `rest` before.
template <class List>
Extents extents(const List& numbers, size_t first, int64_t rest) {
  Extents out{rest, rest, rest};
  std::copy(numbers.begin() + static_cast<std::ptrdiff_t>(first), numbers.end(),
            out.end() - static_cast<std::ptrdiff_t>(numbers.size() - first));
  return out;
}

Extents spatial(const ir::Shape& images) { return extents(images, 2, 1); }

/// From a padded row's first element beyond its end no window begins, however long the stride is:
/// products of strides are then within what images may be large.
Extents within_images(Extents stride, const Extents& input, const Extents& padding) {
  for (size_t d = 0; d < stride.size(); ++d)
    stride[d] = std::min(stride[d], input[d] + 2 * padding[d]);
  return stride;
}

/// The convolution y = x * w that `attrs` speak of.
machine::ConvolutionSpec convolution_spec(Op op, std::span<const ir::AttrValue> attrs,
                                          const ir::Shape& x, const ir::Shape& w,
                                          const ir::Shape& y) {
  const auto numbers = [&](Attr name, int64_t rest) {
    return extents(std::get<Dims>(attrs[static_cast<size_t>(ir::attr_index(op, name))]), 0, rest);
  };
  const auto groups = static_cast<size_t>(ir::attr_index(op, Attr::groups));
  const Extents input = spatial(x), padding = numbers(Attr::padding, 0);
  return {.images = x[0],
          .in = x[1],
          .out = y[1],
          .groups = std::get<int64_t>(attrs[groups]),
          .input = input,
          .kernel = spatial(w),
          .output = spatial(y),
          .stride = within_images(numbers(Attr::stride, 1), input, padding),
          .padding = padding,
          .dilation = numbers(Attr::dilation, 1)};
}

template <class T>
T* data(const ir::BufferView& view) {
  return static_cast<T*>(view.data);
}

void convolution(const LibraryCall& c) {
  const auto& [self, weight] = std::tie(c.operands[0], c.operands[1]);
  const ir::BufferView& result = c.results[0];
  const bool transposed = c.attr<bool>(Attr::transposed);
  const ir::BufferView &x = transposed ? result : self, &y = transposed ? self : result;
  const auto spec = convolution_spec(c.op, c.attrs, x.sizes, weight.sizes, y.sizes);
  with_convolution_type(result.dtype, [&]<class T>(T) {
    const T* bias = c.operands.size() > 2 ? data<T>(c.operands[2]) : nullptr;
    machine::convolve<T>(spec, transposed ? Sought::Input : Sought::Output,
                         {data<T>(x), data<T>(weight), data<T>(y), bias});
  });
}

void convolution_weight(const LibraryCall& c) {
  const auto& [x, y] = std::tie(c.operands[0], c.operands[1]);
  const ir::BufferView& w = c.results[0];
  const auto spec = convolution_spec(c.op, c.attrs, x.sizes, w.sizes, y.sizes);
  with_convolution_type(w.dtype, [&]<class T>(T) {
    machine::convolve<T>(spec, Sought::Weight, {data<T>(x), data<T>(w), data<T>(y)});
  });
}

/// Windows over planes of `input` of which there are those of `output`.
machine::WindowSpec window_spec(const LibraryCall& c, const ir::Shape& input,
                                const ir::Shape& output) {
  const bool adaptive = c.attr<Dims>(Attr::window).empty();
  machine::WindowSpec s{.planes = input[0] * input[1],
                        .input = spatial(input),
                        .output = spatial(output),
                        .window = extents(c.attr<Dims>(Attr::window), 0, adaptive ? 0 : 1),
                        .stride = extents(c.attr<Dims>(Attr::stride), 0, 1),
                        .padding = extents(c.attr<Dims>(Attr::padding), 0, 0)};
  if (ir::has_attr(c.op, Attr::dilation)) s.dilation = extents(c.attr<Dims>(Attr::dilation), 0, 1);
  return s;
}

void window_sum(const LibraryCall& c) {
  const ir::BufferView &x = c.operands[0], &y = c.results[0];
  with_library_type(y.dtype, [&]<class T>(T) {
    machine::sum_windows(window_spec(c, x.sizes, y.sizes), data<const T>(x), data<T>(y));
  });
}

void window_spread(const LibraryCall& c) {
  const ir::BufferView &y = c.operands[0], &x = c.results[0];
  with_library_type(x.dtype, [&]<class T>(T) {
    machine::spread_windows(window_spec(c, x.sizes, y.sizes), data<const T>(y), data<T>(x));
  });
}

void max_pool(const LibraryCall& c) {
  const ir::BufferView &x = c.operands[0], &values = c.results[0], &indices = c.results[1];
  with_library_type(x.dtype, [&]<class T>(T) {
    machine::find_maxima<T>(window_spec(c, x.sizes, values.sizes), data<const T>(x),
                            {data<T>(values), data<int64_t>(indices)});
  });
}

machine::AttentionOptions attention_options(const LibraryCall& c) {
  return {.scale = c.attr<double>(Attr::scale), .causal = c.attr<bool>(Attr::is_causal)};
}

void flash_attention(const LibraryCall& c) {
  machine::attend(c.operands, attention_options(c), c.results);
}

void flash_attention_backward(const LibraryCall& c) {
  machine::attend_backward(c.operands, attention_options(c), c.results);
}

/// mm, bmm, or addmm of an addend of the result's sizes; in bf16 or f64.
void dense_product(const LibraryCall& c) {
  const size_t first = c.operands.size() - 2;
  const ir::BufferView &a = c.operands[first], &b = c.operands[first + 1], &out = c.results[0];
  const auto& algorithm = c.attr<std::string>(Attr::algorithm);
  const int rank = out.sizes.rank();
  machine::DenseProduct p{.batch = rank == 3 ? int64_t{out.sizes[0]} : 1,
                          .m = out.sizes[rank - 2],
                          .n = out.sizes[rank - 1],
                          .transposed_a = algorithm.find(kTransposedA) != std::string::npos,
                          .transposed_b = algorithm.find(kTransposedB) != std::string::npos,
                          .accumulate = first > 0};
  p.k = p.transposed_a ? a.sizes[a.sizes.rank() - 2] : a.sizes.back();
  if (p.accumulate)
    std::memcpy(out.data, c.operands[0].data,
                static_cast<size_t>(int64_t{ir::numel(out.sizes)}) * ir::size_of(out.dtype));
  if (out.dtype == DType::F64)
    machine::multiply_f64(p, data<double>(a), data<double>(b), data<double>(out));
  else
    machine::multiply_bf16(p, a.data, b.data, out.data);
}

void weight_int8pack_mm(const LibraryCall& c) {
  machine::multiply_weight(c.operands[0], c.operands[1], c.operands[2], c.results[0]);
}

void int_mm(const LibraryCall& c) {
  machine::multiply_integers(c.operands[0], c.operands[1], c.results[0]);
}

/// Two products, of the backward five; of causal ones half.
double attention_flops(Op op, std::span<const ir::AttrValue> attrs, std::span<const ir::Type> in) {
  const bool backward = op == Op::flash_attention_backward;
  const bool causal =
      std::get<bool>(attrs[static_cast<size_t>(ir::attr_index(op, Attr::is_causal))]);
  const ir::Type *query = &in[backward ? 1 : 0], *value = query + 2;
  const auto rows = static_cast<double>(int64_t{ir::numel(query->sizes)});
  const double each = rows * static_cast<double>(int64_t{value->sizes[2]});
  return each * (causal ? 1 : 2) * (backward ? 5 : 2);
}

bool is_attention(Op op) { return op == Op::flash_attention || op == Op::flash_attention_backward; }

bool is_int8_product(Op op) { return op == Op::weight_int8pack_mm || op == Op::int_mm; }

/// What reads lines wherever they lie: running sums and products, and selections and sorts, which
/// bring lines that lie across memory side by side. (Running extrema read copies faster.)
constexpr Op kReadAnyLines[] = {Op::cumsum,      Op::cumprod,      Op::logcumsumexp,
                                Op::linear_scan, Op::argsort,      Op::topk_indices,
                                Op::kth_index,   Op::median_index, Op::mode_index};

/// What operands may lie in: one piece; rows; rows or columns of a matrix; anywhere.
enum class Pieces : uint8_t { One, Rows, Lines, Any };
Pieces pieces_of(Op op) {
  if (std::ranges::count(kReadAnyLines, op) > 0) return Pieces::Any;
  if (op == Op::int_mm) return Pieces::Lines;
  return is_attention(op) || op == Op::weight_int8pack_mm ? Pieces::Rows : Pieces::One;
}

struct Entry {
  Op op;
  void (*run)(const LibraryCall&);
};
constexpr Entry kEntries[] = {
    {Op::convolution, convolution},
    {Op::convolution_weight, convolution_weight},
    {Op::window_sum, window_sum},
    {Op::window_spread, window_spread},
    {Op::max_pool, max_pool},
    {Op::flash_attention, flash_attention},
    {Op::flash_attention_backward, flash_attention_backward},
    {Op::weight_int8pack_mm, weight_int8pack_mm},
    {Op::int_mm, int_mm},
    {Op::mm, dense_product},
    {Op::bmm, dense_product},
    {Op::addmm, dense_product},
};

}  // namespace

DType library_dtype(Op op, DType dtype) {
  const bool convolves = op == Op::convolution || op == Op::convolution_weight;
  if (convolves && dtype == DType::BF16 && machine::has_bf16_convolutions()) return dtype;
  return ir::is_half(dtype) ? DType::F32 : dtype;
}

bool leaves_out_unread(Op op) { return op == Op::eigh || op == Op::svd || op == Op::max_pool; }

bool reads_lines(Op op, const ir::Shape& sizes, const ir::Strides& strides) {
  const auto steps_by_one = [&](int d) { return sizes[d] == 1 || strides[d] == 1; };
  const int last = sizes.rank() - 1;
  const Pieces pieces = pieces_of(op);
  if (pieces == Pieces::One || pieces == Pieces::Any) return pieces == Pieces::Any;
  return steps_by_one(last) || (pieces == Pieces::Lines && steps_by_one(last - 1));
}

void run_library(const LibraryCall& call) {
  if (ir::info(call.op).cls == ir::OpClass::Linalg)
    return machine::matrix_function(ir::name(call.op))(
        {call.operands, ir::attr_integers(call.attrs), call.results, call.name});
  if (std::ranges::all_of(
          call.results, [](const ir::BufferView& result) { return ir::numel(result.sizes) == 0; }))
    return;
  if (ir::info(call.op).cls == ir::OpClass::Scan)
    return machine::line_function(ir::name(call.op))(call.operands, ir::attr_integers(call.attrs),
                                                     call.results[0]);
  for (const Entry& entry : kEntries)
    if (entry.op == call.op) return entry.run(call);
  TANDEM_CHECK(false, std::string(ir::name(call.op)) + ": no library function");
}

double library_flops(Op op, std::span<const ir::AttrValue> attrs, std::span<const ir::Type> in,
                     const ir::Type& result) {
  const auto count = [](const ir::Type& t) {
    return static_cast<double>(int64_t{ir::numel(t.sizes)});
  };
  if (op == Op::convolution) {
    const bool transposed =
        std::get<bool>(attrs[static_cast<size_t>(ir::attr_index(op, Attr::transposed))]);
    const ir::Type &x = transposed ? result : in[0], &y = transposed ? in[0] : result;
    return flops(convolution_spec(op, attrs, x.sizes, in[1].sizes, y.sizes));
  }
  if (op == Op::convolution_weight)
    return flops(convolution_spec(op, attrs, in[0].sizes, result.sizes, in[1].sizes));
  if (is_attention(op)) return attention_flops(op, attrs, in);
  if (is_int8_product(op))
    return 2 * count(in[0]) * static_cast<double>(int64_t{result.sizes.back()});
  if (ir::has_attr(op, Attr::algorithm)) {
    const ir::Type& a = in[in.size() - 2];  // as stored: all of [m, k], times all of n
    return 2 * count(a) * static_cast<double>(int64_t{result.sizes.back()});
  }
  return count(in[0]) + count(result);
}

}  // namespace tandem::codegen
