// Primitives that functions of machine/ compute: which function, for eager and compiled equations.
#ifndef TANDEM_CODEGEN_LIBRARY_LIBRARY_H
#define TANDEM_CODEGEN_LIBRARY_LIBRARY_H

#include <span>
#include <string_view>

#include "ir/buffer.h"
#include "ir/op.h"

namespace tandem::codegen {

/// Follow the `algorithm` of a contraction computed as a whole where an operand is given as the
/// matrix that it is the transposition of.
inline constexpr std::string_view kTransposedA = " transposed-a", kTransposedB = " transposed-b";

/// An equation. Operands and results are contiguous, but for operands that read_lines().
struct LibraryCall {
  ir::Op op;
  std::span<const ir::AttrValue> attrs;
  std::span<const ir::BufferView> operands;
  std::span<const ir::BufferView> results;
  std::string_view name;  // of errors

  template <class T>
  const T& attr(ir::Attr name) const {
    return std::get<T>(attrs[static_cast<size_t>(ir::attr_index(op, name))]);
  }
};

/// The dtype that the function of `op` takes and gives values of `dtype` in: f32 for halves (but
/// for convolutions of bf16 on processors that have them), else their own.
ir::DType library_dtype(ir::Op op, ir::DType dtype);

/// Whether the function of `op` does without work for results without an address, which nobody
/// reads.
bool leaves_out_unread(ir::Op op);

/// Whether the function of `op` reads an operand with these strides, though it be in several
/// pieces: some read rows, whose elements alone lie side by side, or columns too, running sums any
/// lines.
bool reads_lines(ir::Op op, const ir::Shape& sizes, const ir::Strides& strides);

/// Runs the equation; operands and results have library dtypes. An internal error for an op that
/// no function computes. Throws Error (out_of_memory; argument, of matrices without such factors).
void run_library(const LibraryCall& call);

/// Its multiplications and additions, from the types of what it reads and gives.
double library_flops(ir::Op op, std::span<const ir::AttrValue> attrs,
                     std::span<const ir::Type> operands, const ir::Type& result);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_LIBRARY_LIBRARY_H
