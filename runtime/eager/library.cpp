// Primitives that functions of machine/ compute on contiguous memory, or on rows of it; what
// lies otherwise, and halves, are copied.
#include "codegen/library/library.h"

#include <deque>

#include "ir/geometry.h"
#include "runtime/eager/kernels.h"
#include "runtime/eager/loops.h"

namespace tandem::runtime::eager::kernels {
namespace {

bool is_ready(ir::Op op, const BufferView& from) {
  return codegen::library_dtype(op, from.dtype) == from.dtype &&
         (ir::is_contiguous(from.sizes, from.strides) ||
          codegen::reads_lines(op, from.sizes, from.strides));
}

BufferView ready(ir::Op op, const BufferView& from, std::deque<Packed>& copies) {
  if (is_ready(op, from)) return from;
  const DType dtype = codegen::library_dtype(op, from.dtype);
  const BufferView& copy = copies.emplace_back(from.sizes, dtype).view();
  copy_elements(from, copy);
  return copy;
}

void library(const Args& a) {
  std::deque<Packed> copies;
  std::vector<BufferView> operands, results;
  for (const BufferView& in : a.in) operands.push_back(ready(a.op, in, copies));
  const auto direct = [&](const BufferView& out) {
    return out.data == nullptr ||  // left out
           (codegen::library_dtype(a.op, out.dtype) == out.dtype &&
            ir::is_contiguous(out.sizes, out.strides));
  };
  for (const BufferView& out : a.outs)
    results.push_back(
        direct(out)
            ? out
            : copies.emplace_back(out.sizes, codegen::library_dtype(a.op, out.dtype)).view());
  codegen::run_library({a.op, a.attrs, operands, results});
  for (size_t i = 0; i < results.size(); ++i)
    if (!direct(a.outs[i])) copy_elements(results[i], a.outs[i]);
}

}  // namespace

void convolution(const Args& a) { library(a); }
void convolution_weight(const Args& a) { library(a); }
void window_sum(const Args& a) { library(a); }
void window_spread(const Args& a) { library(a); }
void max_pool(const Args& a) { library(a); }
void weight_int8pack_mm(const Args& a) { library(a); }
void int_mm(const Args& a) { library(a); }
void flash_attention(const Args& a) { library(a); }
void flash_attention_backward(const Args& a) { library(a); }

}  // namespace tandem::runtime::eager::kernels
