// The state of emitting one kernel, shared by the emit_*.cpp files. Control flow follows the
// kernel's loops; SSA values need no search for phi positions because only accumulators are carried
// over a loop. Inside a Vector loop a kernel value is `parts` vectors of `lanes` elements (the loop
// is unrolled by instruction, so that independent work stands side by side) or, if it is the same
// in all iterations, still one scalar.
#ifndef TANDEM_CODEGEN_JIT_EMIT_EMITTER_H
#define TANDEM_CODEGEN_JIT_EMIT_EMITTER_H

#include <bit>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/jit/form.h"
#include "codegen/jit/interleaved.h"
#include "codegen/jit/jit.h"
#include "codegen/jit/llvm.h"
#include "codegen/jit/transposition.h"
#include "codegen/loops/kernel.h"
#include "ir/base/function_ref.h"

namespace tandem::jit {

using codegen::AccumulatorId;
using codegen::InstrId;
using codegen::LoopId;
using codegen::Table;
using InstrKind = codegen::Instr::Kind;
using LoopKind = codegen::Loop::Kind;
using Parts = llvm::SmallVector<llvm::Value*, 4>;
/// Places of SSA values that a loop or branch may change: phis are made for them.
using Slots = std::vector<llvm::Value**>;

/// Whether the op's code is a polynomial rather than an instruction or two.
bool is_long(const codegen::Instr& i);
/// Whether it is so long that those of one vector keep a processor busy.
bool is_longest(const codegen::Instr& i);
/// Whether the op's code has a branch for rare arguments.
bool branches(const codegen::Instr& i);

/// Whether the bits of the result depend on the order of combination.
bool is_ordered(const codegen::Accumulator& acc);
llvm::Constant* identity_of(const codegen::Accumulator& acc, llvm::Type* type);

class Emitter {
 public:
  Emitter(llvm::Module& module, const Form& form, const Target& target, const std::string& name);
  void emit();

 private:
  /// What a kernel instruction computed.
  struct Emitted {
    Parts parts;
    bool uniform = true;
  };

  /// The Vector loop being emitted; outside of one, one scalar part.
  struct Scope {
    LoopId loop;
    unsigned lanes = 1, parts = 1;
    Parts masks;                // by part: lanes inside the loop; null where all are
    Parts left;                 // by part, as masks: how many are inside, which may be below 0
    std::vector<unsigned> few;  // by part, as masks: how many, if that is known; 0 where all are

    bool vector() const { return loop.valid(); }
    llvm::Value* mask(unsigned part) const { return masks.empty() ? nullptr : masks[part]; }
    unsigned few_in(unsigned part) const { return few.empty() ? 0 : few[part]; }
  };

  /// The running state of an accumulator: vectors that follow each other in its lanes (over a
  /// Vector loop), or the parts of the scope (over a Serial loop).
  struct Running {
    Parts value;
    Parts position;              // ArgMax, ArgMin; below 0: nothing seen yet
    llvm::Value* nan = nullptr;  // if NaNs are noted apart: lanes that have seen one
    Emitted result;
  };

  /// Where an access goes in a Vector loop: lane l of part p is base + (p * lanes + l) *
  /// lane_stride + varying[p][l], in elements.
  struct Address {
    llvm::Value* base;
    llvm::Type* element;
    unsigned size;  // of an element, bytes
    int64_t lane_stride = 0;
    Parts varying;
    bool both_ways = false;  // memory that the kernel both reads and writes
    bool uniform() const { return lane_stride == 0 && varying.empty(); }
  };

  // --- emit_kernel.cpp: structure
  void prologue();
  void read_sizes();
  llvm::Value* pointer_at(size_t parameter);
  void unit(llvm::Value* number);
  void run(size_t begin, size_t end);
  void instruction(size_t at);
  void loop(size_t at);
  void vector_loop(size_t at);
  void vector_range(size_t at, llvm::Value* first, llvm::Value* count);
  void masked_range(size_t at, llvm::Value* first, llvm::Value* count);
  void rest(size_t at, llvm::Value* first, llvm::Value* count);
  bool counts_parts(size_t at) const;
  bool is_shorter_by_part(size_t at) const;
  void set_masks(llvm::Value* count);
  Scope choose_scope(size_t at) const;
  bool is_of_bytes(size_t at) const;
  unsigned choose_parts(size_t at, unsigned lanes) const;
  llvm::Value* trips(LoopId loop);
  llvm::Value* open_trips(LoopId loop);

  // --- emit_control.cpp: blocks and phis
  /// body(i) for i = 0, step, ... below `count`, a multiple of step.
  void count_loop(llvm::Value* count, int64_t step, const Slots& slots,
                  const std::function<void(llvm::Value*)>& body);
  void when(llvm::Value* condition, const Slots& slots, const std::function<void()>& body);
  /// Returns from the kernel.
  void leave(int64_t status);
  /// Leaves the kernel with an error if `bad`.
  void fail_if(llvm::Value* bad, size_t instruction, llvm::Value* value, llvm::Value* extent);
  /// The same for a value of the scope: reports the first lane in which bad(part) holds.
  void fail_if_any(const Emitted& value, size_t instruction, llvm::Value* extent,
                   const std::function<llvm::Value*(llvm::Value*)>& bad);
  llvm::BasicBlock* block(const char* name);

  // --- emit_memory.cpp
  Address address(size_t at);
  Address address(const codegen::Access& access, ir::DType dtype);
  void check_indices(size_t at);
  bool stays_the_same(const codegen::Access& access) const;
  void load(size_t at);
  void store(size_t at);
  llvm::Value* load_part(const Address& a, unsigned part);
  void store_part(const Address& a, unsigned part, llvm::Value* value);
  bool takes_few(const Address& a, unsigned part, bool stores) const;
  llvm::Value* load_few(const Address& a, unsigned part);
  bool may_stream(const codegen::Access& access, const Address& a) const;
  void stream(const Address& a, const Parts& values);
  llvm::Value* part_base(const Address& a, unsigned part);
  llvm::Value* last_lane(const Address& a, unsigned part);
  llvm::Value* lane_pointers(const Address& a, unsigned part);
  llvm::Value* to_register(llvm::Value* v, ir::DType dtype);
  llvm::Value* to_memory(llvm::Value* v, ir::DType dtype);

  // --- emit_interleaved.cpp
  struct Sorted {
    Interleaved what;
    std::vector<Parts> columns;  // of what is loaded: by part
  };
  void find_interleaved(size_t at);
  Address address(const Sorted& s);
  llvm::Value* row_mask(const Interleaved& i, unsigned part, unsigned vector);
  void load_sorted(size_t at, Sorted& s);
  void load_rows(Sorted& s);
  void store_sorted(size_t at, Sorted& s);
  /// Accumulators of one lane that each row of a Vector loop adds to together, by their
  /// instructions. The first one's value is that of all.
  struct ColumnSums {
    std::vector<size_t> members;
    unsigned width() const { return std::bit_ceil(static_cast<unsigned>(members.size())); }
  };
  void find_column_sums(size_t at);
  Running& running_of(const ColumnSums& sums, size_t column);
  void begin_column_sums();
  void add_rows(size_t at, const ColumnSums& sums);
  void end_column_sums();

  // --- emit_ahead.cpp
  /// What a sweep over a row asks for of the next row.
  struct Ahead {
    codegen::Access access;  // of this row's first element
    int64_t row_stride;
    ir::DType dtype;
    int locality;  // of the prefetch: 3 into the first cache, 2 into the second
    int first_quarter, quarters;
  };
  std::vector<size_t> sweeps_of(size_t row) const;
  void find_ahead(size_t row);
  std::vector<size_t> nests() const;
  void find_units_ahead();
  void read_ahead();

  // --- emit_transpose.cpp
  void transposed_copy(const Transposition& t);
  void transposed_block(const Transposition& t, unsigned lanes, llvm::Value* rows,
                        llvm::Value* columns);
  void past_caches_if_aligned(const Address& to,
                              ir::FunctionRef<std::vector<llvm::StoreInst*>(llvm::Align)> store);
  void read_rows_ahead(const Transposition& t, const Address& from, unsigned lanes,
                       int64_t from_step);
  llvm::Value* step_of(unsigned count, int64_t step, int64_t more);
  llvm::Value* joined(unsigned count, const std::function<llvm::Value*(unsigned)>& part);
  void unpack(std::vector<llvm::Value*>& vectors, unsigned size);

  // --- emit_values.cpp: everything that computes a value
  void constant(size_t at);
  bool keeps_numbers() const;
  bool is_open(size_t at) const;
  void read_number(size_t at);
  void read_operands(size_t at);
  void index(size_t at);
  void compute(size_t at);
  Parts compute_parts(size_t at, ir::DType from, bool uniform);
  Parts compute_together(size_t at, ir::DType from);
  bool is_called(size_t at) const;
  void random_bits(size_t at);
  llvm::Value* random_lanes(const codegen::Instr& i, llvm::Value* key, llvm::Value* base,
                            llvm::Value* word);
  bool random_is_aligned(const codegen::Instr& i) const;
  void random_groups(size_t at, llvm::Value* key, llvm::Value* base);
  llvm::Value* in_turn(llvm::Value* a, llvm::Value* b, unsigned first, unsigned count);
  /// `offset` + the affine's terms, without that of the scope's loop.
  llvm::Value* outer_affine(const codegen::Affine& affine);
  int64_t lane_stride(const codegen::Affine& affine) const;
  /// Lane 0 of part 0.
  llvm::Value* affine(const codegen::Affine& affine);
  /// The value as vectors of the scope.
  llvm::Value* part(InstrId value, unsigned part);
  llvm::Value* spread(llvm::Value* scalar);
  /// <0, 1, 2, ...> * stride in `element`.
  llvm::Constant* lane_numbers(llvm::Type* element, unsigned lanes, int64_t stride = 1);
  void set(size_t at, Parts parts, bool uniform);

  // --- emit_reduce.cpp
  void begin_accumulators(LoopId loop);
  void end_accumulators(LoopId loop);
  Slots slots_of(LoopId loop);
  void accumulate(size_t at);
  void accumulate_lanes(const codegen::Accumulator& acc, Running& r, unsigned part, llvm::Value* x);
  void take(const codegen::Accumulator& acc, Running& r, size_t slot, llvm::Value* x,
            llvm::Value* position, llvm::Value* mask);
  void halve(const codegen::Accumulator& acc, Running& r);
  /// Whether NaNs are noted apart, so that max and min are one instruction.
  bool notes_nan(const codegen::Accumulator& acc) const;
  void accumulate_numbers(const codegen::Accumulator& acc, Running& r, InstrId value);
  void halve_numbers(const codegen::Accumulator& acc, Running& r);
  llvm::Value* extreme(const codegen::Accumulator& acc, llvm::Value* a, llvm::Value* b);
  llvm::Value* combine(const codegen::Accumulator& acc, llvm::Value* a, llvm::Value* b);
  llvm::Value* dot(const codegen::Accumulator& acc, llvm::Value* a, llvm::Value* b,
                   llvm::Value* sum);
  llvm::Value* better(const codegen::Accumulator& acc, llvm::Value* value, llvm::Value* position,
                      llvm::Value* than_value, llvm::Value* than_position);
  unsigned lanes_of(const codegen::Accumulator& acc) const;
  void set_results(LoopId loop);
  bool has_blocks(LoopId loop) const;

  // --- emit_blocks.cpp
  /// The results of blocks, an array on the stack: number l of 2^l blocks, a binary counter.
  struct Partials {
    llvm::Value* array;
    llvm::Type* type;
  };
  void blocked_loop(size_t at, llvm::Value* count);
  llvm::Value* lowest_bit(llvm::Value* of);
  void load_partial(LoopId loop, const std::vector<Partials>& partials, llvm::Value* level);
  void join_partial(LoopId loop, const std::vector<Partials>& partials, llvm::Value* level);
  void keep_partial(LoopId loop, const std::vector<Partials>& partials, llvm::Value* block);
  void combine_partials(LoopId loop, const std::vector<Partials>& partials, llvm::Value* blocks);
  int64_t block_of(LoopId loop) const;
  llvm::Value* stack_array(llvm::Type* element, int64_t count);

  llvm::Type* vector_type(llvm::Type* element, unsigned lanes) const;
  llvm::Value* any(llvm::Value* mask);
  llvm::Value* first_lanes(llvm::Value* v, unsigned from, unsigned count);
  llvm::ConstantInt* i64(int64_t v) { return ir_.getInt64(static_cast<uint64_t>(v)); }
  /// A size of the form's kernel, which may be open.
  llvm::Value* size(int64_t v);
  llvm::Value* extent(LoopId loop);
  bool has_open_extent(LoopId loop) const;
  bool same_length(LoopId loop, LoopId other) const;

  llvm::Module& module_;
  const codegen::Kernel& kernel_;
  const Form& form_;
  const std::vector<InstrId>& open_;  // constants
  const Target& target_;
  llvm::LLVMContext& context_;
  llvm::Function* function_;
  llvm::IRBuilder<> ir_;
  Scope scope_;
  Table<codegen::ParamId, llvm::Value*> params_;
  Table<codegen::LocalId, llvm::Value*> locals_;
  llvm::Value* numbers_ = nullptr;     // the table of what is open
  std::vector<llvm::Value*> sizes_;    // of the table
  Table<LoopId, llvm::Value*> index_;  // of the scope's loop: of lane 0 of part 0
  std::vector<Emitted> emitted_;       // by instruction
  Table<AccumulatorId, Running> running_;
  std::vector<size_t> ends_;    // LoopBegin -> its LoopEnd
  std::vector<Sorted> sorted_;  // of the scope's loop
  std::vector<int> sorted_of_;  // by instruction: which it belongs to, or -1
  std::vector<ColumnSums> column_sums_;
  std::vector<int> column_sum_of_;           // by instruction: as above
  std::vector<bool> unit_;                   // by instruction: NaN or within [-1, 1]
  bool calls_;                               // polynomials are functions rather than inline
  Table<LoopId, std::vector<Ahead>> ahead_;  // of Vector loops
};

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_EMIT_EMITTER_H
