// KernelWriter: appends instructions to a kernel draft, keeping its tables of loops and parameters.
#ifndef TANDEM_CODEGEN_KERNELS_KERNEL_WRITER_H
#define TANDEM_CODEGEN_KERNELS_KERNEL_WRITER_H

#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/draft.h"
#include "codegen/nodes/program.h"

namespace tandem::codegen {

/// How one dimension of a domain runs over loops: index = sum of stride * loop index.
using DimLoops = std::vector<Affine::Term>;

class KernelWriter {
 public:
  explicit KernelWriter(const Program& program) : program_(program) {}

  /// Declares a loop. Unit loops must be declared before the others.
  int loop(Loop::Kind kind, int64_t extent, int clamp_loop = -1, int64_t clamp_total = 0);
  /// `condition`: a bool; where it is false the loop does not run.
  void begin(int loop, int condition = -1);
  void end(int loop);

  int local(ir::DType dtype, int64_t elements);
  int accumulator(const Accumulator& a);

  int constant(const ir::Number& number, ir::DType dtype);
  /// `check`: what a division by zero is reported as, where the op can fail.
  int compute(ir::Op op, std::vector<int> args, ir::DType dtype, const std::string& check = {});
  int load_local(int local, Affine index);
  void store_local(int local, Affine index, int value);
  /// The same at a position that comes from data; `check`: what one out of range is reported as.
  int load_local_at(int local, Access::Indirect at, const std::string& check);
  void store_local_at(int local, Access::Indirect at, int value, const std::string& check);
  int load(int value, Affine index);
  void store(int value, Affine index, int stored);
  /// The same at a position that comes from data; `again`: as in Access.
  int load_at(int value, Affine index, Access::Indirect at, const std::string& check,
              bool again = false);
  void store_at(int value, Affine index, Access::Indirect at, int stored, const std::string& check,
                bool again = false);
  int random_bits(ir::DType dtype, int key, int base, int64_t offset, Affine index);
  void accumulate(int accumulator, std::vector<int> args);
  int reduced(int accumulator, ir::DType dtype);
  int index(Affine index);
  /// An element of any value: loaded, or computed where the value is a formula.
  int read(int value, Affine index);

  ir::DType dtype(int value) const { return program_.roots[static_cast<size_t>(value)].dtype; }
  const Program& program() const { return program_; }

  /// The finished draft.
  KernelDraft take(std::string name, int64_t grain);

 private:
  int push(Instr i);
  void from_data(Access::Indirect at, const std::string& check, bool again);
  /// first + index * increment in the dtype of the Iota root.
  int iota(const Root& root, Affine index);
  int param(int value, Param::Use use);

  const Program& program_;
  KernelDraft draft_;
  std::unordered_map<int, int> params_;  // value -> param
};

/// offset + strides over the dims' loops; dims of stride 0 drop out.
Affine affine(int64_t offset, const std::vector<int64_t>& strides,
              const std::vector<DimLoops>& dims);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_KERNELS_KERNEL_WRITER_H
