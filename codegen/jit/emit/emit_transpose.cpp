// Copies that turn rows into columns: a Serial loop around a Vector loop around one load and one
// store, of which each is contiguous along another of the two loops. Square blocks are loaded by
// rows, transposed in registers and stored by rows. A block's rows are loaded in pieces of 16 bytes
// (loads take the place of shuffles across them). Whole lines may go past the caches.
#include <numeric>

#include "codegen/jit/emit/emitter.h"
#include "ir/base/error.h"

namespace tandem::jit {
namespace {

constexpr int64_t kLine = 64;  // bytes of a cache line

}  // namespace

void Emitter::transposed_copy(const Transposition& t) {
  const size_t size = std::max<size_t>(ir::size_of(kernel_.code[t.load].dtype), 4);
  const auto lanes = static_cast<int64_t>(static_cast<size_t>(target_.vector_bytes) / size);
  llvm::Value *outer = trips(t.outer), *inner = trips(t.inner);
  const auto here = [&](LoopId l, llvm::Value* count) { return ir_.CreateSub(count, index_[l]); };
  count_loop(outer, lanes, {}, [&](llvm::Value* i) {
    index_[t.outer] = i;
    count_loop(inner, lanes, {}, [&](llvm::Value* j) {
      index_[t.inner] = j;
      llvm::Value *rows = here(t.x, t.x == t.outer ? outer : inner),
                  *columns = here(t.y, t.y == t.outer ? outer : inner);
      llvm::Value* fewer = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, rows, columns);
      llvm::Value* whole = ir_.CreateICmpSGE(fewer, i64(lanes));
      when(whole, {}, [&] { transposed_block(t, static_cast<unsigned>(lanes), nullptr, nullptr); });
      when(ir_.CreateNot(whole), {},
           [&] { transposed_block(t, static_cast<unsigned>(lanes), rows, columns); });
    });
  });
}

// The block at the loops' indices; of which, if given, only `rows` along x and `columns` along y.
void Emitter::transposed_block(const Transposition& t, unsigned lanes, llvm::Value* rows,
                               llvm::Value* columns) {
  const Address from = address(t.load), to = address(t.store);
  const int64_t from_step = stride_along(kernel_.code[t.load].access.index, t.y);
  const int64_t to_step = stride_along(kernel_.code[t.store].access.index, t.x);
  llvm::Type* type = vector_type(from.element, lanes);
  const llvm::Align align(from.size);
  // lanes below `count` of vector number i; none if the block has fewer than i vectors
  const auto mask = [&](unsigned i, llvm::Value* vectors, llvm::Value* count) {
    llvm::Value* inside = ir_.CreateICmpSGT(vectors, i64(i));
    llvm::Value* left = ir_.CreateTrunc(ir_.CreateSelect(inside, count, i64(0)), ir_.getInt32Ty());
    return ir_.CreateICmpSLT(lane_numbers(ir_.getInt32Ty(), lanes),
                             ir_.CreateVectorSplat(lanes, left));
  };
  const auto row_at = [&](unsigned row, unsigned column) {
    return ir_.CreateGEP(from.element, from.base, step_of(row, from_step, column));
  };
  const unsigned size = std::min(16 / from.size, lanes);  // of a piece: what unpacking stays within
  std::vector<llvm::Value*> masked_rows;
  for (unsigned i = 0; rows && i < lanes; ++i)
    masked_rows.push_back(ir_.CreateMaskedLoad(type, row_at(i, 0), align, mask(i, columns, rows),
                                               llvm::Constant::getNullValue(type)));
  const auto piece = [&](unsigned row, unsigned column) -> llvm::Value* {
    if (rows) return first_lanes(masked_rows[row], column, size);
    return ir_.CreateAlignedLoad(vector_type(from.element, size), row_at(row, column), align);
  };
  std::vector<llvm::Value*> block;
  for (unsigned column = 0; column < lanes; column += size) {
    std::vector<llvm::Value*> group;
    for (unsigned i = 0; i < size; ++i)
      group.push_back(
          joined(lanes / size, [&](unsigned p) { return piece(p * size + i, column); }));
    unpack(group, size);
    block.insert(block.end(), group.begin(), group.end());
  }
  const auto row_to = [&](unsigned i) {
    return ir_.CreateGEP(to.element, to.base, step_of(i, to_step, 0));
  };
  if (rows) {
    for (unsigned i = 0; i < lanes; ++i)
      ir_.CreateMaskedStore(block[i], row_to(i), align, mask(i, rows, columns));
    return;
  }
  const auto store = [&](llvm::Align aligned_to) {
    std::vector<llvm::StoreInst*> stores;
    for (unsigned i = 0; i < lanes; ++i)
      stores.push_back(ir_.CreateAlignedStore(block[i], row_to(i), aligned_to));
    return stores;
  };
  const bool lines = lanes * to.size == kLine && is_multiple(to_step, kLine / to.size);
  const codegen::Access& written = kernel_.code[t.store].access;
  if (!lines || written.is_local() || !kernel_.params[written.param].streams) {
    store(align);
    return;
  }
  read_rows_ahead(t, from, lanes, from_step);
  past_caches_if_aligned(to, store);
}

// Stores whole lines; not past the caches unless they begin where lines of `to` do.
void Emitter::past_caches_if_aligned(
    const Address& to, ir::FunctionRef<std::vector<llvm::StoreInst*>(llvm::Align)> store) {
  llvm::Value* aligned = ir_.CreateICmpEQ(
      ir_.CreateAnd(ir_.CreatePtrToInt(to.base, ir_.getInt64Ty()), i64(kLine - 1)), i64(0));
  when(aligned, {}, [&] {
    auto* one = llvm::ConstantAsMetadata::get(ir_.getInt32(1));
    for (llvm::StoreInst* s : store(llvm::Align(kLine)))
      s->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(context_, one));
  });
  when(ir_.CreateNot(aligned), {}, [&] { store(llvm::Align(to.size)); });
}

/// `count` steps and `more` elements.
llvm::Value* Emitter::step_of(unsigned count, int64_t step, int64_t more) {
  return ir_.CreateAdd(ir_.CreateMul(size(step), i64(count)), i64(more));
}

// Asks for the rows of the block after the next, where blocks follow each other along the rows.
void Emitter::read_rows_ahead(const Transposition& t, const Address& from, unsigned lanes,
                              int64_t from_step) {
  if (t.x != t.inner) return;
  for (unsigned i = 0; i < lanes; ++i)
    ir_.CreateIntrinsic(
        llvm::Intrinsic::prefetch, {ir_.getPtrTy()},
        {ir_.CreateGEP(from.element, from.base, step_of(i, from_step, 2 * int64_t{lanes})),
         ir_.getInt32(0), ir_.getInt32(3), ir_.getInt32(1)});
}

// part(0), part(1), ... side by side in one vector; `count` is a power of two.
llvm::Value* Emitter::joined(unsigned count, const std::function<llvm::Value*(unsigned)>& part) {
  std::vector<llvm::Value*> all;
  for (unsigned p = 0; p < count; ++p) all.push_back(part(p));
  for (; all.size() > 1; all.resize(all.size() / 2))
    for (size_t i = 0; i < all.size() / 2; ++i) {
      const auto size = llvm::cast<llvm::FixedVectorType>(all[2 * i]->getType())->getNumElements();
      std::vector<int> lanes(size_t{2} * size);
      std::iota(lanes.begin(), lanes.end(), 0);
      all[i] = ir_.CreateShuffleVector(all[2 * i], all[2 * i + 1], lanes);
    }
  return all[0];
}

// `size` vectors, transposed within each piece of `size` lanes: each step interleaves the pieces of
// vectors i and i + size / 2, as the machine's unpack instructions do.
void Emitter::unpack(std::vector<llvm::Value*>& vectors, unsigned size) {
  const auto lanes = llvm::cast<llvm::FixedVectorType>(vectors[0]->getType())->getNumElements();
  std::vector<int> halves[2];
  for (unsigned half = 0; half < 2; ++half)
    for (unsigned l = 0; l < lanes; ++l) {
      const unsigned within = half * size / 2 + l % size / 2;
      halves[half].push_back(static_cast<int>(l / size * size + within + l % 2 * lanes));
    }
  for (unsigned step = 1; step < size; step *= 2) {
    std::vector<llvm::Value*> next;
    for (size_t i = 0; i < size / 2; ++i)
      for (const auto& half : halves)
        next.push_back(ir_.CreateShuffleVector(vectors[i], vectors[i + size / 2], half));
    vectors = std::move(next);
  }
}

}  // namespace tandem::jit
