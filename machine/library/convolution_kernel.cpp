#include "machine/library/convolution_kernel.h"

#include <algorithm>
#include <cstring>

#include "machine/cpu.h"

namespace tandem::machine {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using DataType = dnnl::memory::data_type;

/// Whether the first spatial dimension is of no use.
bool is_flat(const ConvolutionSpec& s) {
  return s.input[0] == 1 && s.output[0] == 1 && s.kernel[0] == 1 && s.padding[0] == 0;
}

/// The spatial numbers as the library has them.
Dims spatial(const ConvolutionSpec& s, const Extents& e) {
  return {e.begin() + (is_flat(s) ? 1 : 0), e.end()};
}

Dims joined(Dims first, const Dims& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

/// `dims` of a row-major tensor, which has the sizes `outer` in its first dimensions in place.
Desc part_of(const Dims& dims, const Dims& outer, DataType type) {
  Dims strides(dims.size(), 1), whole = dims;
  std::ranges::copy(outer, whole.begin());
  for (size_t d = dims.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * whole[d + 1];
  return {dims, type, strides};
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

ConvolutionSide make_side(const Desc& plain, const Desc& inner, bool is_sought) {
  ConvolutionSide side{plain, inner, {}, {}};
  if (plain == inner) return side;
  const Desc &from = is_sought ? inner : plain, &to = is_sought ? plain : inner;
  const dnnl::reorder::primitive_desc pd(cpu_engine(), from, cpu_engine(), to, user_scratchpad());
  side.reorder.emplace(pd);
  side.scratchpad = pd.scratchpad_desc();
  return side;
}

/// With weights as the library has them: groups in front where there are several.
Dims weight_dims(const ConvolutionSpec& s) {
  const Dims channels{s.out / s.groups, s.in / s.groups};
  return joined(s.groups > 1 ? joined({s.groups}, channels) : channels, spatial(s, s.kernel));
}

Dims image_dims(const ConvolutionSpec& s, int64_t channels, const Extents& sizes) {
  return joined({s.images, channels}, spatial(s, sizes));
}

struct Descs {
  Desc x, w, y;
};

DataType type_of(const ConvolutionKind& kind) {
  return kind.element == ConvolutionElement::Bf16 ? DataType::bf16 : DataType::f32;
}

Descs plain_descs(const ConvolutionSpec& part, const ConvolutionKind& kind) {
  const ConvolutionSpec& whole = kind.spec;
  const DataType type = type_of(kind);
  const Dims whole_w = part.groups > 1 ? Dims{} : Dims{whole.out, whole.in / whole.groups};
  return {part_of(image_dims(part, part.in, part.input), {}, type),
          part_of(weight_dims(part), whole_w, type),
          part_of(image_dims(part, part.out, part.output), {}, type)};
}

// --- layouts

/// Where the library computes f32 faster in row-major tensors (by a product of unfolded images)
/// than in the layout that it would choose, whose blocks of channels, as many as a vector holds,
/// are then all but empty.
struct RowMajorRow {
  Sought sought;
  int vector_bytes;
  int64_t most_channels;  // of the input
};
// In GFLOP/s of a core, blocked and row-major:
constexpr RowMajorRow kRowMajor[] = {
    // Xeon with AVX-512: 3 to 64 channels by 7 x 7: 23, 69; 1 to 32 by 3 x 3: 7.5, 46
    {Sought::Input, 64, 3},
    // EPYC with AVX2: 1 to 32 by 3 x 3: 5.4, 14; 2 to 32 by 5 x 5: 16, 20; 3 to 64 by 7 x 7: 39, 29
    {Sought::Input, 32, 2},
    // 1 to 32 by 3 x 3: 15, 30 and 5.0, 14; 3 to 64 by 3 x 3: 43, 25 and 34, 23
    {Sought::Output, 32, 1},
    {Sought::Weight, 32, 1},
};

bool is_row_major(const ConvolutionKind& kind) {
  const ConvolutionSpec& s = kind.spec;
  if (kind.element != ConvolutionElement::F32 || s.groups > 1) return false;
  return std::ranges::any_of(kRowMajor, [&](const RowMajorRow& row) {
    return row.sought == kind.sought && row.vector_bytes == cpu_features().vector_bytes &&
           s.in <= row.most_channels;
  });
}

/// The tensors as the library is to have them.
Descs wanted_descs(const ConvolutionSpec& s, const ConvolutionKind& kind) {
  const DataType type = type_of(kind);
  const bool row_major = is_row_major(kind);
  const auto desc = [&](const Dims& dims, DataType t) {
    return row_major ? part_of(dims, {}, t) : Desc(dims, t, dnnl::memory::format_tag::any);
  };
  return {desc(image_dims(s, s.in, s.input), type),
          desc(weight_dims(s), kind.sought == Sought::Weight ? DataType::f32 : type),
          desc(image_dims(s, s.out, s.output), type)};
}

// --- primitives

/// What the library calls padding at the end: it may be negative.
Dims end_padding(const ConvolutionSpec& s) {
  Extents end;
  for (size_t d = 0; d < 3; ++d)
    end[d] = (s.output[d] - 1) * s.stride[d] + (s.kernel[d] - 1) * s.dilation[d] + 1 - s.input[d] -
             s.padding[d];
  return spatial(s, end);
}

template <class Primitive>
std::optional<ConvolutionKernel> finished(const typename Primitive::primitive_desc& pd,
                                          const Descs& plain, const Descs& inner, Sought sought) {
  if (std::strncmp(pd.impl_info_str(), "ref", 3) == 0) return std::nullopt;
  return ConvolutionKernel{Primitive(pd),
                           make_side(plain.x, inner.x, sought == Sought::Input),
                           make_side(plain.w, inner.w, sought == Sought::Weight),
                           make_side(plain.y, inner.y, sought == Sought::Output),
                           {},
                           pd.scratchpad_desc()};
}

}  // namespace

size_t in_pages(size_t bytes) {
  constexpr size_t kPage = 4096;
  return (bytes + kPage - 1) / kPage * kPage;
}

size_t ConvolutionKernel::scratch() const {
  return in_pages(std::max({scratchpad.get_size(), x.scratchpad.get_size(), w.scratchpad.get_size(),
                            y.scratchpad.get_size()}));
}

std::optional<ConvolutionKernel> make_kernel(const ConvolutionSpec& s,
                                             const ConvolutionKind& kind) {
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  const Descs plain = plain_descs(s, kind);
  const auto& [x, w, y] = wanted_descs(s, kind);
  const Desc bias =
      kind.has_bias ? Desc({s.out}, type_of(kind), dnnl::memory::format_tag::a) : Desc();
  Dims dilation = spatial(s, s.dilation);
  for (auto& d : dilation) d -= 1;
  const Dims stride = spatial(s, s.stride), begin = spatial(s, s.padding), end = end_padding(s);
  // (A hint of weights as the forward has them.)
  const Desc forward_w = kind.sought == Sought::Weight
                             ? Desc(weight_dims(s), type_of(kind), dnnl::memory::format_tag::any)
                             : w;
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, kDirect, x, forward_w, bias, y, stride, dilation, begin,
       end},
      user_scratchpad(), cpu_engine());
  if (kind.sought == Sought::Output) {
    auto kernel = finished<dnnl::convolution_forward>(
        forward, plain, {forward.src_desc(), forward.weights_desc(), forward.dst_desc()},
        kind.sought);
    if (kernel) kernel->bias = bias;
    return kernel;
  }
  if (kind.sought == Sought::Input) {
    const dnnl::convolution_backward_data::primitive_desc pd(
        {kDirect, x, w, y, stride, dilation, begin, end}, user_scratchpad(), cpu_engine(), forward);
    return finished<dnnl::convolution_backward_data>(
        pd, plain, {pd.diff_src_desc(), pd.weights_desc(), pd.diff_dst_desc()}, kind.sought);
  }
  const dnnl::convolution_backward_weights::primitive_desc pd(
      {kDirect, x, w, y, stride, dilation, begin, end}, user_scratchpad(), cpu_engine(), forward);
  return finished<dnnl::convolution_backward_weights>(
      pd, plain, {pd.src_desc(), pd.diff_weights_desc(), pd.diff_dst_desc()}, kind.sought);
}

}  // namespace tandem::machine
