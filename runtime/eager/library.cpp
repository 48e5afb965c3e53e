// Primitives that functions of machine/ compute on contiguous memory; what lies otherwise, and
// halves, are copied.
#include "codegen/library/library.h"

#include <deque>

#include "ir/geometry.h"
#include "runtime/eager/kernels.h"
#include "runtime/eager/loops.h"

namespace tandem::runtime::eager::kernels {
namespace {

BufferView ready(const BufferView& from, std::deque<Packed>& copies) {
  const DType dtype = codegen::library_dtype(from.dtype);
  if (dtype == from.dtype && ir::is_contiguous(from.sizes, from.strides)) return from;
  const BufferView& copy = copies.emplace_back(from.sizes, dtype).view();
  copy_elements(from, copy);
  return copy;
}

void library(const Args& a) {
  std::deque<Packed> copies;
  std::vector<BufferView> operands;
  for (const BufferView& in : a.in) operands.push_back(ready(in, copies));
  const DType dtype = codegen::library_dtype(a.out.dtype);
  const bool direct = dtype == a.out.dtype && ir::is_contiguous(a.out.sizes, a.out.strides);
  const BufferView result = direct ? a.out : copies.emplace_back(a.out.sizes, dtype).view();
  codegen::run_library({a.op, a.attrs, operands, {&result, 1}});
  if (!direct) copy_elements(result, a.out);
}

}  // namespace

void convolution(const Args& a) { library(a); }
void convolution_weight(const Args& a) { library(a); }
void window_sum(const Args& a) { library(a); }
void window_spread(const Args& a) { library(a); }
void max_pool_indices(const Args& a) { library(a); }

}  // namespace tandem::runtime::eager::kernels
