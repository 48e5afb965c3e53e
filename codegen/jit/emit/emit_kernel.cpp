// The structure of a kernel: prologue, unit loop, Serial loops, and Vector loops as a full-width
// main loop with a masked rest.
#include <algorithm>
#include <bit>
#include <span>

#include "codegen/jit/emit/emit.h"
#include "codegen/jit/emit/emit_compute.h"
#include "codegen/jit/emit/emitter.h"
#include "codegen/jit/emit/ranges.h"
#include "codegen/loops/scalar_functions.h"
#include "codegen/loops/scalar_ops.h"
#include "ir/base/error.h"

namespace tandem::jit {
namespace {

using codegen::Instr;
using codegen::Loop;
using ir::DType;

llvm::Function* declare(llvm::Module& module, const std::string& name) {
  auto& context = module.getContext();
  auto* pointer = llvm::PointerType::get(context, 0);
  auto* i64 = llvm::Type::getInt64Ty(context);
  auto* type = llvm::FunctionType::get(i64, {pointer, i64, i64, pointer, pointer}, false);
  auto* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
  for (unsigned argument : {0u, 3u, 4u}) f->addParamAttr(argument, llvm::Attribute::NoAlias);
  return f;
}

/// A kernel with more of polynomials than this calls them: it is so long by then that a call costs
/// little, and LLVM would take a millisecond or more for each.
constexpr size_t kMostInline = 32;

/// Of narrow rows, all columns of which are written out: a longer body is emitted once, with masks,
/// which cost little beside it.
constexpr size_t kLongBody = 128;

/// How much of polynomials a kernel has: a branch costs LLVM as much as several without, and so
/// does a power in f64, whose logarithm has twice the bits.
size_t polynomials(const codegen::Kernel& kernel, const std::vector<bool>& unit) {
  constexpr size_t kBranch = 4, kPower = 5;
  size_t count = 0;
  for (const Instr& i : kernel.code) {
    if (!is_long(i) || i.kind != InstrKind::Compute) continue;
    count += is_longest(i) && i.dtype == ir::DType::F64 ? kPower
             : branches(i) && !unit[i.args[0].index]    ? kBranch
                                                        : 1;
  }
  return count;
}

/// How many polynomials of instructions [begin, end) at most wait one for the other.
unsigned longest_chain(const codegen::Kernel& kernel, size_t begin, size_t end) {
  std::vector<unsigned> chain(end - begin, 0);  // that ends with the instruction
  for (size_t i = begin; i < end; ++i) {
    unsigned& here = chain[i - begin];
    for (InstrId a : kernel.code[i].args)
      if (a.index >= begin) here = std::max(here, chain[a.index - begin]);
    here += is_long(kernel.code[i]);
  }
  return chain.empty() ? 0 : std::ranges::max(chain);
}

/// The most values of instructions [begin, end) that are needed at one time.
unsigned most_live(const codegen::Kernel& kernel, size_t begin, size_t end) {
  std::vector<size_t> last(end - begin, 0);
  for (size_t i = begin; i < end; ++i)
    for (InstrId a : kernel.code[i].args)
      if (a.index >= begin) last[a.index - begin] = i;
  unsigned live = 0, most = 0;
  std::vector<unsigned> ending(end - begin, 0);
  for (size_t i = begin; i < end; ++i) {
    live -= ending[i - begin];
    if (last[i - begin] == 0) continue;
    ++ending[last[i - begin] - begin];
    most = std::max(most, ++live);
  }
  return most;
}

}  // namespace

bool is_long(const Instr& i) {
  return i.kind == InstrKind::RandomBits ||
         (i.kind == InstrKind::Compute && codegen::scalar_op(i.op).is_long());
}

bool is_longest(const Instr& i) {
  return i.kind == InstrKind::Compute &&
         codegen::scalar_op(i.op).code == codegen::ScalarOp::Code::Longest;
}

bool branches(const Instr& i) {
  return codegen::scalar_op(i.op).code == codegen::ScalarOp::Code::Branches;
}

Emitter::Emitter(llvm::Module& module, const Form& form, const Target& target,
                 const std::string& name)
    : module_(module),
      kernel_(form.kernel),
      form_(form),
      open_(form.open),
      target_(target),
      context_(module.getContext()),
      function_(declare(module, name)),
      ir_(llvm::BasicBlock::Create(context_, "entry", function_)),
      index_(kernel_.loops.size()),
      emitted_(kernel_.code.size()),
      running_(kernel_.accumulators.size()),
      ends_(kernel_.code.size()),
      sorted_of_(kernel_.code.size(), -1),
      column_sum_of_(kernel_.code.size(), -1),
      unit_(within_unit(kernel_)),
      calls_(polynomials(kernel_, unit_) > kMostInline),
      ahead_(kernel_.loops.size()) {
  std::vector<size_t> open;
  for (size_t i = 0; i < kernel_.code.size(); ++i) {
    if (kernel_.code[i].kind == InstrKind::LoopBegin) open.push_back(i);
    if (kernel_.code[i].kind == InstrKind::LoopEnd) ends_[open.back()] = i, open.pop_back();
  }
}

void Emitter::emit() {
  prologue();
  find_units_ahead();
  llvm::Value* begin = function_->getArg(1);
  llvm::Value* count = ir_.CreateSub(function_->getArg(2), begin);
  count_loop(count, 1, {}, [&](llvm::Value* i) { unit(ir_.CreateAdd(begin, i)); });
  leave(0);
}

void Emitter::prologue() {
  for (size_t p = 0; p < kernel_.params.size(); ++p) params_.push_back(pointer_at(p));
  if (!open_.empty() || form_.sizes > 0) numbers_ = pointer_at(kernel_.params.size());
  if (keeps_numbers())
    for (InstrId at : open_) read_number(at.index);
  read_sizes();
  llvm::Value* offset = i64(codegen::kLocalGap);
  for (const codegen::Local& l : kernel_.locals) {
    locals_.push_back(ir_.CreateGEP(ir_.getInt8Ty(), function_->getArg(3), offset));
    llvm::Value* bytes =
        ir_.CreateMul(size(l.elements), i64(static_cast<int64_t>(ir::size_of(l.dtype))));
    llvm::Value* lines = ir_.CreateAnd(ir_.CreateAdd(bytes, i64(63)), i64(-64));
    offset = ir_.CreateAdd(offset, ir_.CreateAdd(lines, i64(codegen::kLocalGap)));
  }
}

llvm::Value* Emitter::pointer_at(size_t parameter) {
  llvm::Value* at = ir_.CreateConstGEP1_64(ir_.getPtrTy(), function_->getArg(0), parameter);
  return ir_.CreateAlignedLoad(ir_.getPtrTy(), at, llvm::Align(8));
}

void Emitter::read_sizes() {
  for (int s = 0; s < form_.sizes; ++s) {
    const uint64_t number = open_.size() + static_cast<uint64_t>(s);
    llvm::Value* at = ir_.CreateConstGEP1_64(ir_.getInt64Ty(), numbers_, number);
    sizes_.push_back(ir_.CreateAlignedLoad(ir_.getInt64Ty(), at, llvm::Align(8)));
  }
}

llvm::Value* Emitter::size(int64_t v) {
  if (!is_open_size(v)) return i64(v);
  const OpenSize open = OpenSize::decoded(v);
  llvm::Value* entry = sizes_[static_cast<size_t>(open.number) - open_.size()];
  return open.shift == 0 ? entry : ir_.CreateShl(entry, static_cast<uint64_t>(open.shift));
}

bool Emitter::has_open_extent(LoopId loop) const {
  return !form_.extents.empty() && form_.extents[loop] >= 0;
}

llvm::Value* Emitter::extent(LoopId loop) {
  return size(has_open_extent(loop) ? form_.extents[loop] : kernel_.loops[loop].extent);
}

void Emitter::unit(llvm::Value* number) {
  for (LoopId l = kernel_.loops.next(); l.index-- > 0;) {
    if (kernel_.loops[l].kind != LoopKind::Unit) continue;
    const bool outermost = l.index == 0;
    llvm::Value* count = extent(l);
    index_[l] = outermost ? number : ir_.CreateURem(number, count);
    if (!outermost) number = ir_.CreateUDiv(number, count);
  }
  run(0, kernel_.code.size());
}

void Emitter::run(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    if (kernel_.code[i].kind != InstrKind::LoopBegin) {
      instruction(i);
      continue;
    }
    loop(i);
    i = ends_[i];
  }
}

void Emitter::instruction(size_t at) {
  read_operands(at);
  switch (kernel_.code[at].kind) {
    case InstrKind::Constant:
      return constant(at);
    case InstrKind::Index:
      return index(at);
    case InstrKind::Load:
      return load(at);
    case InstrKind::Store:
      return store(at);
    case InstrKind::Compute:
      return compute(at);
    case InstrKind::RandomBits:
      return random_bits(at);
    case InstrKind::Accumulate:
      return accumulate(at);
    case InstrKind::Reduced:
      emitted_[at] = running_[kernel_.code[at].accumulator].result;
      return;
    case InstrKind::LoopBegin:
    case InstrKind::LoopEnd:
      TANDEM_CHECK(false, "a loop is not an instruction");
  }
}

llvm::Value* Emitter::trips(LoopId id) {
  const Loop& loop = kernel_.loops[id];
  if (!loop.clamp_loop.valid()) return extent(id);
  if (is_open_size(loop.clamp_total)) return open_trips(id);
  const int64_t chunks = kernel_.loops[loop.clamp_loop].extent;
  if (chunks * loop.extent <= loop.clamp_total) return i64(loop.extent);
  llvm::Value* start = ir_.CreateMul(index_[loop.clamp_loop], i64(loop.extent));
  llvm::Value* left = ir_.CreateSub(i64(loop.clamp_total), start);
  llvm::Value* n = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, i64(loop.extent));
  const bool may_be_empty = (chunks - 1) * loop.extent > loop.clamp_total;
  return may_be_empty ? ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, n, i64(0)) : n;
}

/// Of a clamped loop, of whose run and chunks nothing is known.
llvm::Value* Emitter::open_trips(LoopId id) {
  const Loop& loop = kernel_.loops[id];
  llvm::Value* start = ir_.CreateMul(index_[loop.clamp_loop], extent(id));
  llvm::Value* left = ir_.CreateSub(size(loop.clamp_total), start);
  llvm::Value* n = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, extent(id));
  return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, n, i64(0));
}

void Emitter::loop(size_t at) {
  const LoopId id = kernel_.code[at].loop;
  const Loop& loop = kernel_.loops[id];
  if (loop.kind == LoopKind::Vector) return vector_loop(at);
  // (Smaller elements need masks of their own.)
  if (const auto copy = transposition(kernel_, at, target_.has("avx512bw")))
    return transposed_copy(*copy);
  llvm::Value* count = trips(id);
  if (!kernel_.code[at].args.empty())
    count = ir_.CreateSelect(emitted_[kernel_.code[at].args[0].index].parts[0], count, i64(0));
  find_ahead(at);
  begin_accumulators(id);
  count_loop(count, 1, slots_of(id), [&](llvm::Value* i) {
    index_[id] = i;
    run(at + 1, ends_[at]);
  });
  end_accumulators(id);
}

void Emitter::vector_loop(size_t at) {
  const LoopId id = kernel_.code[at].loop;
  llvm::Value* count = trips(id);
  scope_ = choose_scope(at);
  find_interleaved(at);
  if (has_blocks(id)) {
    blocked_loop(at, count);
  } else {
    begin_accumulators(id);
    vector_range(at, i64(0), count);
    end_accumulators(id);
  }
  scope_ = {};
}

void Emitter::vector_range(size_t at, llvm::Value* first, llvm::Value* count) {
  const LoopId id = kernel_.code[at].loop;
  const auto step = static_cast<int64_t>(scope_.lanes) * scope_.parts;
  if (!sorted_.empty() && ends_[at] - at > kLongBody) return masked_range(at, first, count);
  llvm::Value* main = ir_.CreateAnd(count, i64(-step));
  count_loop(main, step, slots_of(id), [&](llvm::Value* i) {
    index_[id] = ir_.CreateAdd(first, i);
    run(at + 1, ends_[at]);
    read_ahead();
  });
  rest(at, ir_.CreateAdd(first, main), ir_.CreateSub(count, main));
}

// With a mask in all iterations.
void Emitter::masked_range(size_t at, llvm::Value* first, llvm::Value* count) {
  const LoopId id = kernel_.code[at].loop;
  const Scope full = scope_;
  const auto step = static_cast<int64_t>(scope_.lanes) * scope_.parts;
  count_loop(count, step, slots_of(id), [&](llvm::Value* i) {
    llvm::Value* left = ir_.CreateSub(count, i);
    index_[id] = ir_.CreateAdd(first, i);
    set_masks(ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, i64(step)));
    run(at + 1, ends_[at]);
    read_ahead();
  });
  scope_ = full;
}

// Fewer iterations than the parts of the scope have lanes: at once, or, if that saves much code,
// vector by vector. A single one is outside of vectors: LLVM makes scalars of whatever leads to the
// one lane that is stored, and of some comparisons' results then a vector of one, which it has no
// instruction for.
void Emitter::rest(size_t at, llvm::Value* first, llvm::Value* count) {
  const LoopId id = kernel_.code[at].loop;
  const Scope full = scope_;
  const auto lanes = static_cast<int64_t>(scope_.lanes);
  const auto body = [&](llvm::Value* start, llvm::Value* left) {
    index_[id] = ir_.CreateAdd(first, start);
    set_masks(left);
    run(at + 1, ends_[at]);
  };
  const auto* known = llvm::dyn_cast<llvm::ConstantInt>(count);
  if (known && known->isOne() && !counts_parts(at)) {
    scope_ = {};
    index_[id] = first;
    run(at + 1, ends_[at]);
    scope_ = full;
    return;
  }
  if (known) scope_.parts = static_cast<unsigned>((known->getSExtValue() + lanes - 1) / lanes);
  if (!known && is_shorter_by_part(at)) {
    scope_.parts = 1;
    count_loop(count, lanes, {}, [&](llvm::Value* i) { body(i, ir_.CreateSub(count, i)); });
  } else {
    when(ir_.CreateICmpNE(count, i64(0)), slots_of(id), [&] { body(i64(0), count); });
  }
  scope_ = full;
}

/// Whether something in the Vector loop counts its parts, as accumulators and random words do.
bool Emitter::counts_parts(size_t at) const {
  const std::span body(kernel_.code.begin() + static_cast<ptrdiff_t>(at), ends_[at] - at);
  return std::ranges::any_of(body, [](const Instr& i) {
    return i.kind == InstrKind::Accumulate || i.kind == InstrKind::RandomBits;
  });
}

/// Whether the Vector loop computes at length, and nothing in it counts its parts.
bool Emitter::is_shorter_by_part(size_t at) const {
  const std::span body(kernel_.code.begin() + static_cast<ptrdiff_t>(at), ends_[at] - at);
  return std::ranges::any_of(body, is_long) && !counts_parts(at);
}

void Emitter::set_masks(llvm::Value* count) {
  const auto* known = llvm::dyn_cast<llvm::ConstantInt>(count);
  for (unsigned p = 0; p < scope_.parts; ++p) {
    const uint64_t before = uint64_t{p} * scope_.lanes;
    const uint64_t inside = known ? known->getZExtValue() - before : 0;
    scope_.few.push_back(inside < scope_.lanes ? static_cast<unsigned>(inside) : 0);
    if (inside >= scope_.lanes) {
      scope_.masks.push_back(nullptr), scope_.left.push_back(nullptr);
      continue;
    }
    llvm::Value* left =
        ir_.CreateTrunc(ir_.CreateSub(count, i64(static_cast<int64_t>(before))), ir_.getInt32Ty());
    scope_.left.push_back(left);
    scope_.masks.push_back(
        ir_.CreateICmpSLT(lane_numbers(ir_.getInt32Ty(), scope_.lanes), spread(left)));
  }
}

/// Vectors of four-byte lanes whose elements, if they are bytes, fill one. (One thread of a Zen 4,
/// AVX2, 10^6 elements: 1.3 to 1.8 times as fast, shifts 3.8. Vectors of a line are as fast in
/// parts, 0.9 where rows begin anywhere.)
constexpr unsigned kPartsOfBytes = 4;
constexpr int kLineBytes = 64;

Emitter::Scope Emitter::choose_scope(size_t at) const {
  const LoopId id = kernel_.code[at].loop;
  bool four = false, eight = false;
  for (size_t i = at; i < ends_[at]; ++i) {
    const Instr& x = kernel_.code[i];
    if (x.kind == InstrKind::Index || x.kind == InstrKind::Accumulate ||
        x.kind == InstrKind::LoopBegin || x.kind == InstrKind::LoopEnd || x.dtype == DType::Bool)
      continue;
    (ir::size_of(x.dtype) == 8 ? eight : four) = true;
  }
  Scope scope;
  scope.loop = id;
  const auto widest = static_cast<unsigned>(target_.vector_bytes) / (eight && !four ? 8 : 4);
  const auto extent = static_cast<uint64_t>(kernel_.loops[id].extent);
  const uint64_t needed = std::bit_ceil(std::clamp<uint64_t>(extent, 2, 1024));
  scope.lanes = static_cast<unsigned>(std::min<uint64_t>(widest, needed));
  scope.parts = choose_parts(at, scope.lanes);
  const bool are_short = target_.vector_bytes < kLineBytes;
  if (are_short && scope.parts == kPartsOfBytes && is_of_bytes(at))
    scope.lanes *= scope.parts, scope.parts = 1;
  return scope;
}

/// Whether the Vector loop reads, computes and writes nothing but bytes and truths, and divides
/// none.
bool Emitter::is_of_bytes(size_t at) const {
  const std::span body(kernel_.code.begin() + static_cast<ptrdiff_t>(at) + 1, ends_[at] - at - 1);
  return std::ranges::all_of(body, [](const Instr& i) {
    const bool is_plain = i.kind == InstrKind::Load || i.kind == InstrKind::Store ||
                          i.kind == InstrKind::Constant ||
                          (i.kind == InstrKind::Compute && !codegen::divides(i.op));
    return is_plain && ir::size_of(i.dtype) == 1;
  });
}

// Reductions in order need as many parts as cover their lanes. Elsewhere: enough independent chains
// to hide latencies, as long as their values fit in registers.
unsigned Emitter::choose_parts(size_t at, unsigned lanes) const {
  constexpr unsigned kLong = 8, kLongBody = 100;
  const LoopId id = kernel_.code[at].loop;
  unsigned ordered = 0, inner = 0, cost = 0, random = 0;
  bool longest = false;
  for (const codegen::Accumulator& acc : kernel_.accumulators)
    if (acc.loop == id) ordered = std::max(ordered, lanes_of(acc) / lanes);
  if (ordered > 0) return ordered;
  for (size_t i = at + 1; i < ends_[at]; ++i) {
    inner += kernel_.code[i].kind == InstrKind::Accumulate;
    cost += is_long(kernel_.code[i]) ? kLong : 1;
    longest |= is_longest(kernel_.code[i]);
    random += kernel_.code[i].kind == InstrKind::RandomBits;
  }
  const auto extent = static_cast<uint64_t>(kernel_.loops[id].extent);
  auto parts = static_cast<unsigned>(std::bit_floor(std::clamp<uint64_t>(extent / lanes, 1, 4)));
  const unsigned registers = target_.vector_bytes == 64 ? 32 : 16;
  if (inner > 0) {  // few columns at once, be the last vector a part of one
    const auto all =
        static_cast<unsigned>(std::clamp<uint64_t>((extent + lanes - 1) / lanes, 1, 4));
    return std::min(std::bit_ceil(all), std::bit_floor(std::max(1u, registers * 3 / 4 / inner)));
  }
  if (random > 0) return parts;  // one counter gives the words of up to four parts
  if (longest) return 1;
  // In a long chain, whose steps wait for each other and hide what comes after, parts are worth
  // more than what then lies on the stack.
  if (cost > kLongBody && 4 * kLong * longest_chain(kernel_, at + 1, ends_[at]) > cost)
    return parts;
  // A polynomial's own values take about eight registers; a long body has independent work enough.
  if (cost > 12) parts = std::min(parts, registers / 8);
  if (cost > kLongBody) parts = std::min(parts, 2u);
  const unsigned live = most_live(kernel_, at + 1, ends_[at]);
  while (parts > 1 && parts * live + registers / 4 > registers) parts /= 2;
  return parts;
}

size_t code_length(const codegen::Kernel& kernel) {
  constexpr size_t kEach = 3, kPolynomial = 20, kLongest = 40;
  size_t length = kEach;
  for (const Instr& i : kernel.code)
    length += is_longest(i) ? kLongest : is_long(i) ? kPolynomial : 1;
  return length;
}

void emit_kernel(llvm::Module& module, const Form& form, const Target& target,
                 const std::string& name) {
  Emitter(module, form, target, name).emit();
}

}  // namespace tandem::jit
