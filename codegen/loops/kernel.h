// Kernel: the loop-level form between graph and LLVM. A kernel is a flat list of instructions in
// which LoopBegin/LoopEnd bracket loops; every other instruction computes one value per iteration
// of the loops around it (SSA: value = index of the instruction). It can be printed, run by its own
// interpreter, compared and hashed; the emitter (jit/) turns it into explicit vector IR.
//
// A kernel is called for a range of *units*: the iterations of its Unit loops, in row-major order.
// Units are independent of each other and may run on any thread in any order. Inside a unit, Serial
// loops run in order; a Vector loop's iterations are independent except through accumulators and
// may be evaluated many at a time, with masked tails. Vector loops may contain Serial loops
// (register tiles) but no Vector loop.
#ifndef TANDEM_CODEGEN_LOOPS_KERNEL_H
#define TANDEM_CODEGEN_LOOPS_KERNEL_H

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/ids.h"
#include "ir/base/inline_vector.h"
#include "ir/buffer.h"
#include "ir/graph.h"

namespace tandem::codegen {

/// A buffer argument. Sizes are not stated: the plan guarantees that every access lies inside.
struct Param {
  enum class Use : uint8_t { Read, Write, ReadWrite };
  ir::DType dtype = ir::DType::F32;
  Use use = Use::Read;
  bool streams = false;  // of what is written once and not read (a Write, or a ReadWrite but for
                         // accesses `again`): runs of whole vectors go past the caches, which they
                         // would only push other data out of
  friend bool operator==(const Param&, const Param&) = default;
};

/// Scratch memory that every running unit has for itself; contents undefined at the start of a
/// unit.
struct Local {
  ir::DType dtype = ir::DType::F32;
  int64_t elements = 0;
  friend bool operator==(const Local&, const Local&) = default;
};

struct Loop {
  enum class Kind : uint8_t { Unit, Serial, Vector };
  Kind kind = Kind::Serial;
  int64_t extent = 0;
  // A chunk of a longer run: with a clamp_loop the trip count is min(extent, clamp_total - extent
  // * index of clamp_loop).
  LoopId clamp_loop;
  int64_t clamp_total = 0;
  friend bool operator==(const Loop&, const Loop&) = default;
};

/// offset + sum of stride * loop index, in elements.
struct Affine {
  struct Term {
    LoopId loop;
    int64_t stride = 0;
    friend bool operator==(const Term&, const Term&) = default;
  };
  int64_t offset = 0;
  ir::InlineVector<Term, 2> terms;  // by ascending loop, no zero strides
  friend bool operator==(const Affine&, const Affine&) = default;
};
/// From an iteration of the loop to the next.
int64_t stride_along(const Affine& a, LoopId loop);

/// Loads and stores of every n-th element run as whole vectors, sorted, up to this n.
inline constexpr int64_t kMostSortedStride = 32;

/// The address of a Load or Store: base buffer, affine part, and index values read from data
/// (checked: 0 <= value < extent).
struct Access {
  struct Indirect {
    InstrId value;  // an i64 value
    int64_t stride = 0;
    int64_t extent = 0;
    friend bool operator==(const Indirect&, const Indirect&) = default;
  };
  ParamId param;  // one of these two
  LocalId local;
  Affine index;
  std::vector<Indirect> indirect;
  bool again = false;  // what it stores is read or written again: it stays in the caches
  bool is_local() const { return local.valid(); }
  friend bool operator==(const Access&, const Access&) = default;
};

/// How an accumulator combines values.
enum class Combine : uint8_t {
  Sum,
  Prod,
  Max,  // NaN wins
  Min,
  Any,
  All,
  ArgMax,  // of (value, position in the loop): first of equals, NaN counts as largest; the result
           // is i64
  ArgMin,
  Dot,  // acc + a * b: one fma for floats (fused where the CPU has it), wrapping multiply and add
        // for integers
};

/// A value carried over the iterations of `loop`. It is reset where the loop begins and read by
/// Reduced after its end. Over a Vector loop it combines across iterations in the order of
/// ir/reduction_order.h and the result is one value; over a Serial loop it combines in iteration
/// order, elementwise for each iteration of a Vector loop around it.
struct Accumulator {
  Combine combine = Combine::Sum;
  ir::DType dtype = ir::DType::F32;  // of the values combined (ArgMax: of the compared values)
  LoopId loop;
  int64_t lanes = 1;  // ReductionOrder; 1 over Serial loops
  int64_t block = 0;  // 0: the whole loop is one block
  friend bool operator==(const Accumulator&, const Accumulator&) = default;
};

using InstrArgs = ir::InlineVector<InstrId, 3>;

struct Instr {
  enum class Kind : uint8_t {
    LoopBegin,   // loop; args[0], if given: a bool, false for no iteration (Serial loops outside
                 // Vector loops only)
    LoopEnd,     // loop
    Constant,    // dtype, number
    Index,       // i64: `affine` over the loops (an iota, a causal mask's row and column)
    Load,        // dtype = the buffer's; access
    Store,       // access, args[0]
    Compute,     // op (Pointwise primitive) on args; dtype of the result
    RandomBits,  // dtype i32 or i64: word number `affine` of the stream; args = {key, base counter}
                 // (i64 scalars); number = offset
    Accumulate,  // accumulator, args[0] (and args[1] for Dot)
    Reduced,     // accumulator -> value, after its loop
  };
  Kind kind = Kind::Constant;
  ir::DType dtype = ir::DType::F32;
  ir::Op op = ir::Op::add;
  LoopId loop;
  AccumulatorId accumulator;
  InstrArgs args;
  ir::Number number;
  Affine affine;
  Access access;
  friend bool operator==(const Instr&, const Instr&) = default;
};

struct Kernel {
  std::string name;  // for people; not part of equality
  Table<ParamId, Param> params;
  Table<LocalId, Local> locals;
  Table<LoopId, Loop> loops;  // Unit loops first, outermost first
  Table<AccumulatorId, Accumulator> accumulators;
  std::vector<Instr> code;  // Unit loops have no LoopBegin/LoopEnd

  /// Product of the Unit loops' extents (1 if there are none).
  int64_t units() const;
  friend bool operator==(const Kernel& a, const Kernel& b);
};

/// The C signature of a compiled kernel. Runs units [begin, end). `params` are the addresses of the
/// kernel's params and, after them, that of a table of numbers if the code does without its
/// kernel's constants and sizes. `scratch` holds the locals one after the other, each aligned to 64
/// bytes, with gaps (scratch_bytes). Returns 0, or 1 after writing what failed to `error`; every
/// index is checked before a store that depends on it.
struct KernelError {
  int64_t instruction =
      0;              // position in Kernel::code of the access (or of the integer division by zero)
  int64_t value = 0;  // the index that came
  int64_t extent = 0;  // what it had to stay below
};
using KernelFunction = int64_t (*)(void* const* params, int64_t begin, int64_t end, void* scratch,
                                   KernelError* error);

/// Bytes before, between and behind locals. Rows and locals of whole pages would else have the same
/// places in their pages, and a load waits for a store that only seems to write what it reads.
inline constexpr int64_t kLocalGap = 320;
size_t scratch_bytes(const Kernel& kernel);
/// Whether `param` has stores that may go past the caches.
bool can_stream(const Kernel& kernel, ParamId param);
/// A bound on how many elements of `param` are read; places that come from data may be any.
int64_t most_read(const Kernel& kernel, ParamId param);
std::string print(const Kernel& kernel);
/// Throws InternalError if the kernel breaks a rule of this header.
void verify(const Kernel& kernel);
/// The loop-level interpreter: the oracle for the emitter. Same contract as KernelFunction.
int64_t interpret(const Kernel& kernel, void* const* params, int64_t begin, int64_t end,
                  KernelError* error);
/// A hash of everything that operator== compares: identical kernels compile once.
uint64_t hash(const Kernel& kernel);
/// Bytes that are equal exactly if the kernels are.
std::string content(const Kernel& kernel);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_LOOPS_KERNEL_H
