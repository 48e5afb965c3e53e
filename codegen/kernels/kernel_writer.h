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
using DimLoops = ir::InlineVector<Affine::Term, 2>;

class KernelWriter {
 public:
  explicit KernelWriter(const Program& program) : program_(program) {}

  /// Declares a loop. Unit loops must be declared before the others.
  LoopId loop(Loop::Kind kind, int64_t extent, LoopId clamp_loop = {}, int64_t clamp_total = 0);
  /// `condition`: a bool; where it is false the loop does not run.
  void begin(LoopId loop, InstrId condition = {});
  void end(LoopId loop);

  LocalId local(ir::DType dtype, int64_t elements);
  AccumulatorId accumulator(const Accumulator& a);

  InstrId constant(const ir::Number& number, ir::DType dtype);
  /// `check`: what a division by zero is reported as, where the op can fail.
  InstrId compute(ir::Op op, InstrArgs args, ir::DType dtype, const std::string& check = {});
  /// What a Pointwise or Gather node makes of its operands; `table`: where a gather reads, but for
  /// its index.
  InstrId compute_node(const Node& node, InstrArgs args, Affine table);
  InstrId load_local(LocalId local, Affine index);
  void store_local(LocalId local, Affine index, InstrId value);
  /// The same at a position that comes from data; `check`: what one out of range is reported as.
  InstrId load_local_at(LocalId local, Access::Indirect at, const std::string& check);
  void store_local_at(LocalId local, Access::Indirect at, InstrId value, const std::string& check);
  InstrId load(RootId root, Affine index);
  void store(RootId root, Affine index, InstrId value);
  /// The same at a position that comes from data; `again`: as in Access.
  InstrId load_at(RootId root, Affine index, Access::Indirect at, const std::string& check,
                  bool again = false);
  void store_at(RootId root, Affine index, Access::Indirect at, InstrId value,
                const std::string& check, bool again = false);
  InstrId random_bits(ir::DType dtype, InstrId key, InstrId base, int64_t offset, Affine index);
  void accumulate(AccumulatorId accumulator, InstrArgs args);
  InstrId reduced(AccumulatorId accumulator, ir::DType dtype);
  InstrId index(Affine index);
  /// An element of any root: loaded, or computed where it is a formula.
  InstrId read(RootId root, Affine index);

  ir::DType dtype(RootId root) const { return program_.roots[root].dtype; }
  const Program& program() const { return program_; }

  /// From here on a root lies in a local, which holds one of its `slabs` slabs: that of loop
  /// `slab`. `stride`: elements from an element of one slab to the same one of the next.
  void keep(RootId root, LoopId slab, int64_t slabs, int64_t stride);

  /// The finished draft.
  KernelDraft take(std::string name, int64_t grain);

 private:
  InstrId push(Instr i);
  void from_data(Access::Indirect at, const std::string& check, bool again);
  /// first + index * increment in the dtype of the Iota root.
  InstrId iota(const Root& root, Affine index);
  ParamId param(RootId root, Param::Use use);

  const Program& program_;
  KernelDraft draft_;
  /// A root of which a local holds one slab.
  struct Kept {
    LocalId local;
    LoopId slab;
    int64_t every = 0;  // elements of all slabs at one place
    int64_t slabs = 1;
    Affine within(Affine index) const;
  };

  std::unordered_map<RootId, ParamId> params_;
  std::unordered_map<RootId, Kept> kept_;
};

/// offset + strides over the dims' loops; dims of stride 0 drop out.
Affine affine(int64_t offset, const std::vector<int64_t>& strides,
              const std::vector<DimLoops>& dims);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_KERNELS_KERNEL_WRITER_H
