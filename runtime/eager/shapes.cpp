// Ops that rearrange, join, or replace parts: all are copies between views.
#include "ir/geometry.h"
#include "runtime/eager/kernels.h"
#include "runtime/eager/loops.h"

namespace tandem::runtime::eager::kernels {
namespace {

BufferView moved(BufferView view, int64_t offset) {
  view.data =
      static_cast<char*>(view.data) + offset * static_cast<int64_t>(ir::size_of(view.dtype));
  return view;
}

/// `whole` cut to `size` elements of dimension `dim` from `start` on.
BufferView part(const BufferView& whole, int dim, int64_t start, Dim size) {
  BufferView view = moved(whole, start * int64_t{whole.strides[dim]});
  view.sizes[dim] = size;
  return view;
}

/// out = self, then src over what `view` shows of it.
void scatter(const Args& a, ir::Op view) {
  copy_elements(a.in[0], a.out);
  const BufferView& src = a.in[1];
  const ir::ViewGeometry g = view_geometry(view, a.out.sizes, a.out.strides, a.attrs, src.sizes);
  BufferView target = moved(a.out, g.offset);
  target.sizes = src.sizes;
  target.strides = g.strides;
  copy_elements(src, target);
}

}  // namespace

void slice_scatter(const Args& a) { scatter(a, ir::Op::slice); }
void diagonal_scatter(const Args& a) { scatter(a, ir::Op::diagonal); }
void as_strided_scatter(const Args& a) { scatter(a, ir::Op::as_strided); }

void cat(const Args& a) {
  int64_t start = 0;
  for (const BufferView& piece : a.in) {
    const Dim size = piece.sizes[a.dim()];
    copy_elements(piece, part(a.out, a.dim(), start, size));
    start += size;
  }
}

void pad(const Args& a) {
  uint64_t value = 0;
  ir::store_element(&value, a.out.dtype, a.attr<Number>(ir::Attr::value));
  copy_elements({&value, a.out.dtype, a.out.sizes, Strides::filled(a.out.sizes.rank(), 0)}, a.out);
  const auto& padding = a.dims(ir::Attr::padding);
  BufferView inside = a.out;
  for (int d = 0; d < a.out.sizes.rank(); ++d)
    inside = part(inside, d, padding[static_cast<size_t>(2 * d)], a.in[0].sizes[d]);
  copy_elements(a.in[0], inside);
}

void flip(const Args& a) {
  BufferView from = a.in[0];
  for (ir::Axis dim : a.axes()) {
    const int d = static_cast<int>(dim);
    if (from.sizes[d] > 0) from = moved(from, (from.sizes[d] - 1) * from.strides[d]);
    from.strides[d] = Dim(0) - from.strides[d];
  }
  copy_elements(from, a.out);
}

}  // namespace tandem::runtime::eager::kernels
