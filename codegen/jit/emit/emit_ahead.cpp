// Reading ahead. A row loop of several sweeps waits for memory in the sweep that meets the row
// first and computes in the others: there it asks for the next row, into the nearest cache that
// holds it beside this one.
#include <algorithm>

#include "codegen/jit/emit/emitter.h"

namespace tandem::jit {
namespace {

using codegen::Access;
using codegen::Affine;

constexpr int64_t kNearBytes = 20480;           // of 32 KB or more
constexpr int64_t kFarBytes = 131072;           // of a second level of 256 KB or more
constexpr LoopId kAnySweep{LoopId::kNone - 1};  // in place of the loop that an access runs over

/// What sweeps access along the row.
struct Stream {
  Access access;  // over kAnySweep
  ir::DType dtype;
  size_t first_sweep;
  int64_t row_stride;
  bool reads;

  bool from_memory() const { return !access.is_local() && row_stride != 0; }
};

Access over(Access access, LoopId from, LoopId to) {
  for (Affine::Term& t : access.index.terms)
    if (t.loop == from) t.loop = to;
  return access;
}

int64_t stride_over(const Affine& a, LoopId loop) {
  for (const Affine::Term& t : a.terms)
    if (t.loop == loop) return t.stride;
  return 0;
}

}  // namespace

bool Emitter::same_length(LoopId loop, LoopId other) const {
  return kernel_.loops[loop] == kernel_.loops[other] &&
         (form_.extents.empty() || form_.extents[loop] == form_.extents[other]);
}

/// The Vector loops of a row loop's body; none if it has other loops, or runs of several lengths.
std::vector<size_t> Emitter::sweeps_of(size_t row) const {
  std::vector<size_t> sweeps;
  for (size_t i = row + 1; i < ends_[row]; ++i) {
    if (kernel_.code[i].kind != InstrKind::LoopBegin) continue;
    const codegen::Loop& loop = kernel_.loops[kernel_.code[i].loop];
    const LoopId first = sweeps.empty() ? kernel_.code[i].loop : kernel_.code[sweeps[0]].loop;
    if (!same_length(kernel_.code[i].loop, first) || loop.kind != LoopKind::Vector) return {};
    sweeps.push_back(i);
    i = ends_[i];
  }
  return sweeps;
}

void Emitter::find_ahead(size_t row) {
  const std::vector<size_t> sweeps = sweeps_of(row);
  if (sweeps.size() < 2) return;
  const auto loop_of = [&](size_t sweep) { return kernel_.code[sweeps[sweep]].loop; };
  std::vector<Stream> streams;
  for (size_t p = 0; p < sweeps.size(); ++p)
    for (size_t i = sweeps[p]; i < ends_[sweeps[p]]; ++i) {
      const codegen::Instr& x = kernel_.code[i];
      const bool reads = x.kind == InstrKind::Load;
      if ((!reads && x.kind != InstrKind::Store) || !x.access.indirect.empty() ||
          stride_over(x.access.index, loop_of(p)) != 1)
        continue;
      const Access access = over(x.access, loop_of(p), kAnySweep);
      if (std::none_of(streams.begin(), streams.end(),
                       [&](const Stream& s) { return s.access == access; }))
        streams.push_back(
            {access, x.dtype, p, stride_over(access.index, kernel_.code[row].loop), reads});
    }

  int64_t bytes = 0;
  std::vector<int> busy(sweeps.size());
  const int64_t extent = kernel_.loops[loop_of(0)].extent;
  for (const Stream& s : streams) {
    const bool twice = s.reads && s.from_memory();
    bytes += (twice ? 2 : 1) * extent * static_cast<int64_t>(ir::size_of(s.dtype));
    busy[s.first_sweep] += s.from_memory();
  }
  if (bytes > kFarBytes) return;
  const int locality = bytes <= kNearBytes ? 3 : 2;
  for (const Stream& s : streams) {
    if (!s.reads || !s.from_memory() || s.first_sweep + 1 == sweeps.size()) continue;
    const auto sweep =
        std::min_element(busy.begin() + static_cast<ptrdiff_t>(s.first_sweep) + 1, busy.end());
    ++*sweep;
    const LoopId loop = loop_of(static_cast<size_t>(sweep - busy.begin()));
    Access next = over(s.access, kAnySweep, loop);
    ahead_[loop].push_back({std::move(next), s.row_stride, s.dtype, locality});
  }
}

void Emitter::read_ahead() {
  constexpr int64_t kLine = 64;
  for (const Ahead& x : ahead_[scope_.loop]) {
    Address a = address(x.access, x.dtype);
    a.base = ir_.CreateGEP(a.element, a.base, size(x.row_stride));
    const int64_t bytes = int64_t{scope_.parts} * scope_.lanes * a.size;
    for (int64_t line = 0; line < bytes; line += kLine)
      ir_.CreateIntrinsic(llvm::Intrinsic::prefetch, {ir_.getPtrTy()},
                          {ir_.CreateGEP(ir_.getInt8Ty(), a.base, i64(line)), ir_.getInt32(0),
                           ir_.getInt32(static_cast<uint32_t>(x.locality)), ir_.getInt32(1)});
  }
}

}  // namespace tandem::jit
