// Copies that turn rows into columns: a Serial loop around a Vector loop around one load and one
// store, of which each is contiguous along another of the two loops. Square blocks are loaded by
// rows, transposed in registers and stored by rows.
#include "codegen/jit/emitter.h"
#include "ir/error.h"

namespace tandem::jit {
namespace {

int64_t stride_along(const codegen::Affine& a, int loop) {
  for (const auto& t : a.terms)
    if (t.loop == loop) return t.stride;
  return 0;
}

}  // namespace

std::optional<Emitter::Transposition> Emitter::transposition(size_t at) const {
  const auto& code = kernel_.code;
  if (ends_[at] != at + 5 || !code[at].args.empty() || code[at + 1].kind != InstrKind::LoopBegin)
    return {};
  const codegen::Instr &load = code[at + 2], &store = code[at + 3];
  if (load.kind != InstrKind::Load || store.kind != InstrKind::Store) return {};
  if (!load.access.indirect.empty() || !store.access.indirect.empty()) return {};
  if (store.args[0] != static_cast<int>(at) + 2 || store.dtype != load.dtype) return {};
  if (ir::size_of(load.dtype) < 4 && !target_.has("avx512bw")) return {};  // no masks for those
  const int outer = code[at].loop, inner = code[at + 1].loop;
  for (const auto& [x, y] : {std::pair(inner, outer), std::pair(outer, inner)}) {
    const bool by_rows = stride_along(load.access.index, x) == 1;
    const bool by_columns = stride_along(store.access.index, y) == 1;
    if (by_rows && by_columns && stride_along(store.access.index, x) != 1)
      return Transposition{at + 2, at + 3, outer, inner, x, y};
  }
  return {};
}

void Emitter::transposed_copy(const Transposition& t) {
  const size_t size = std::max<size_t>(ir::size_of(kernel_.code[t.load].dtype), 4);
  const auto lanes = static_cast<int64_t>(static_cast<size_t>(target_.vector_bytes) / size);
  const auto trips_of = [&](int l) { return trips(kernel_.loops[static_cast<size_t>(l)]); };
  llvm::Value *outer = trips_of(t.outer), *inner = trips_of(t.inner);
  const auto here = [&](int l, llvm::Value* count) {
    return ir_.CreateSub(count, index_[static_cast<size_t>(l)]);
  };
  count_loop(outer, lanes, {}, [&](llvm::Value* i) {
    index_[static_cast<size_t>(t.outer)] = i;
    count_loop(inner, lanes, {}, [&](llvm::Value* j) {
      index_[static_cast<size_t>(t.inner)] = j;
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
  std::vector<llvm::Value*> block;
  for (unsigned i = 0; i < lanes; ++i) {
    llvm::Value* at = ir_.CreateGEP(from.element, from.base, i64(i * from_step));
    block.push_back(rows ? ir_.CreateMaskedLoad(type, at, align, mask(i, columns, rows),
                                                llvm::Constant::getNullValue(type))
                         : static_cast<llvm::Value*>(ir_.CreateAlignedLoad(type, at, align)));
  }
  transpose(block);
  for (unsigned i = 0; i < lanes; ++i) {
    llvm::Value* at = ir_.CreateGEP(to.element, to.base, i64(i * to_step));
    if (rows)
      ir_.CreateMaskedStore(block[i], at, align, mask(i, rows, columns));
    else
      ir_.CreateAlignedStore(block[i], at, align);
  }
}

// Exchanges one bit of the vector's number with the same bit of the lane's number at a time.
void Emitter::transpose(std::vector<llvm::Value*>& block) {
  const auto lanes = static_cast<unsigned>(block.size());
  for (unsigned bit = lanes / 2; bit > 0; bit /= 2) {
    std::vector<int> low, high;
    for (unsigned l = 0; l < lanes; ++l) {
      low.push_back(static_cast<int>((l & bit) == 0 ? l : lanes + (l ^ bit)));
      high.push_back(static_cast<int>((l & bit) == 0 ? l ^ bit : lanes + l));
    }
    for (unsigned i = 0; i < lanes; ++i) {
      if ((i & bit) != 0) continue;
      llvm::Value *a = block[i], *b = block[i | bit];
      block[i] = ir_.CreateShuffleVector(a, b, low);
      block[i | bit] = ir_.CreateShuffleVector(a, b, high);
    }
  }
}

}  // namespace tandem::jit
