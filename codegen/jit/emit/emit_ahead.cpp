// Reading ahead. A row loop of several sweeps meets a row in the first and has it at hand in the
// others, so memory would work in bursts. So all sweeps ask for the next row, each for a share that
// with what it stores is as much of all traffic as it computes of all work, into the nearest cache
// that holds that row beside this one. A unit of several loop nests does the same in a simpler way:
// its last one, which stores, asks for all of the next unit.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "codegen/jit/emit/emitter.h"

namespace tandem::jit {
namespace {

using codegen::Access;
using codegen::Affine;

constexpr int64_t kNearBytes = 20480;             // of 32 KB or more
constexpr int64_t kFarBytes = 131072;             // of a second level of 256 KB or more
constexpr int64_t kUnitBytes = int64_t{1} << 20;  // half of a second level of 2 MB
constexpr int kLongWork = 8;                      // of a polynomial; of another instruction 1

/// What sweeps access along the row.
struct Stream {
  Access access;  // of the row's first element
  ir::DType dtype;
  size_t sweep;  // that has it first
  int64_t row_stride;
  bool reads;

  bool is_in_memory() const { return !access.is_local() && row_stride != 0; }
  double size() const { return static_cast<double>(ir::size_of(dtype)); }
};

Access at_first(Access access, LoopId loop) {
  ir::erase_if(access.index.terms, [&](const Affine::Term& t) { return t.loop == loop; });
  return access;
}

/// Whether the loop's iterations access one element after the other.
bool runs_along(const Access& access, LoopId loop) {
  return access.indirect.empty() && stride_along(access.index, loop) == 1;
}

/// What the sweep [begin, end), number `sweep` of the row loop at `row`, accesses along the row.
void add_streams(const codegen::Kernel& kernel, size_t row, size_t begin, size_t end, size_t sweep,
                 std::vector<Stream>& streams) {
  for (size_t i = begin; i < end; ++i) {
    const codegen::Instr& x = kernel.code[i];
    const LoopId loop = kernel.code[begin].loop;
    const bool reads = x.kind == InstrKind::Load;
    if ((!reads && x.kind != InstrKind::Store) || !runs_along(x.access, loop)) continue;
    const Access access = at_first(x.access, loop);
    if (std::ranges::none_of(streams, [&](const Stream& s) { return s.access == access; }))
      streams.push_back(
          {access, x.dtype, sweep, stride_along(access.index, kernel.code[row].loop), reads});
  }
}

double work_of(const codegen::Kernel& kernel, size_t begin, size_t end) {
  double work = 0;
  for (size_t i = begin + 1; i < end; ++i) work += is_long(kernel.code[i]) ? kLongWork : 1;
  return work;
}

/// What lies in the near caches for a row of `extent` elements, with the next one.
int64_t held_bytes(std::span<const Stream> streams, int64_t extent) {
  int64_t bytes = 0;
  for (const Stream& s : streams)
    bytes +=
        (s.reads && s.is_in_memory() ? 2 : 1) * extent * static_cast<int64_t>(ir::size_of(s.dtype));
  return bytes;
}

/// How much of the next row each sweep asks for, in bytes of an element of all streams.
std::vector<double> asked_bytes(std::span<const Stream> streams, std::span<const double> work) {
  std::vector<double> stores(work.size()), asked;
  double reads = 0, traffic = 0;
  for (const Stream& s : streams) {
    if (!s.is_in_memory()) continue;
    (s.reads ? reads : stores[s.sweep]) += s.size();
    traffic += s.size();
  }
  const double all_work = std::accumulate(work.begin(), work.end(), 0.0);
  for (size_t p = 0; p < work.size(); ++p)
    asked.push_back(std::max(traffic * work[p] / all_work - stores[p], 0.0));
  const double all = std::accumulate(asked.begin(), asked.end(), 0.0);
  for (double& bytes : asked) bytes *= reads / all;
  return asked;
}

/// A sweep asks for these quarters of a stream's next row.
struct Share {
  size_t sweep;
  const Stream* stream;
  int first_quarter, quarters;
};

/// How many of its quarters a stream of elements of `size` bytes has before byte `end`.
int quarters_before(double end, double size) {
  return static_cast<int>(std::clamp(std::round(4 * end / size), 0.0, 4.0));
}

/// The streams stand one after the other, and the sweeps share them out.
std::vector<Share> shares_of(std::span<const Stream> streams, std::span<const double> work) {
  const std::vector<double> asked = asked_bytes(streams, work);
  std::vector<Share> shares;
  double begin = 0;  // of the stream
  for (const Stream& s : streams) {
    if (!s.reads || !s.is_in_memory()) continue;
    double end = 0;  // of the sweep's share
    int first = 0;
    for (size_t p = 0; p < work.size(); ++p) {
      const int next = quarters_before((end += asked[p]) - begin, s.size());
      if (next > first) shares.push_back({p, &s, first, next - first});
      first = next;
    }
    begin += s.size();
  }
  return shares;
}

bool has_one_unit_loop(const codegen::Kernel& kernel) {
  const auto& loops = kernel.loops;
  return loops.size() > 1 && loops[LoopId{0}].kind == LoopKind::Unit &&
         loops[LoopId{1}].kind != LoopKind::Unit;
}

/// What a unit reads along a Vector loop.
struct UnitRead {
  Access access;
  ir::DType dtype;
  LoopId loop;
  int64_t unit_stride;
  int64_t elements;  // of a unit
};

/// By instructions [begin, end) of a kernel of one Unit loop.
std::vector<UnitRead> unit_reads(const codegen::Kernel& kernel, size_t begin, size_t end) {
  std::vector<UnitRead> reads;
  std::vector<LoopId> open;
  for (size_t i = begin; i < end; ++i) {
    const codegen::Instr& x = kernel.code[i];
    if (x.kind == InstrKind::LoopBegin) open.push_back(x.loop);
    if (x.kind == InstrKind::LoopEnd) open.pop_back();
    if (x.kind != InstrKind::Load || open.empty() || x.access.is_local() ||
        kernel.loops[open.back()].kind != LoopKind::Vector || !runs_along(x.access, open.back()))
      continue;
    int64_t elements = 1;
    for (LoopId l : open) elements *= kernel.loops[l].extent;
    reads.push_back(
        {x.access, x.dtype, open.back(), stride_along(x.access.index, LoopId{0}), elements});
  }
  return reads;
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
  std::vector<Stream> streams;
  std::vector<double> work;
  for (size_t sweep : sweeps) {
    add_streams(kernel_, row, sweep, ends_[sweep], work.size(), streams);
    work.push_back(work_of(kernel_, sweep, ends_[sweep]));
  }
  const auto loop_of = [&](size_t p) { return kernel_.code[sweeps[p]].loop; };
  const int64_t bytes = held_bytes(streams, kernel_.loops[loop_of(0)].extent);
  if (bytes > kFarBytes) return;
  const int locality = bytes <= kNearBytes ? 3 : 2;
  for (const Share& s : shares_of(streams, work))
    ahead_[loop_of(s.sweep)].push_back({s.stream->access, s.stream->row_stride, s.stream->dtype,
                                        locality, s.first_quarter, s.quarters});
}

/// The outermost loops of a unit.
std::vector<size_t> Emitter::nests() const {
  std::vector<size_t> nests;
  for (size_t i = 0; i < kernel_.code.size(); ++i)
    if (kernel_.code[i].kind == InstrKind::LoopBegin) nests.push_back(i), i = ends_[i];
  return nests;
}

/// Of a unit of several loop nests, the last one asks for what the next unit reads of what the
/// earlier ones met too.
void Emitter::find_units_ahead() {
  const std::vector<size_t> all = nests();
  if (all.size() < 2 || !has_one_unit_loop(kernel_)) return;
  const std::vector<UnitRead> met = unit_reads(kernel_, 0, all.back());
  std::vector<UnitRead> asked = unit_reads(kernel_, all.back(), kernel_.code.size());
  std::erase_if(asked, [&](const UnitRead& x) {
    const auto is_of = [&](const UnitRead& y) { return y.access.param == x.access.param; };
    return x.unit_stride == 0 || std::ranges::none_of(met, is_of);
  });
  int64_t bytes = 0;
  for (const UnitRead& x : asked) bytes += x.elements * static_cast<int64_t>(ir::size_of(x.dtype));
  if (bytes > kUnitBytes) return;
  for (const UnitRead& x : asked)
    ahead_[x.loop].push_back({at_first(x.access, x.loop), x.unit_stride, x.dtype, 2, 0, 4});
}

// With element i of its row a sweep asks for element `first_quarter / 4` rows + i * `quarters` / 4.
void Emitter::read_ahead() {
  constexpr int64_t kLine = 64;
  for (const Ahead& x : ahead_[scope_.loop]) {
    llvm::Value* element = ir_.CreateMul(index_[scope_.loop], i64(x.quarters));
    element = ir_.CreateAdd(ir_.CreateMul(extent(scope_.loop), i64(x.first_quarter)), element);
    Address a = address(x.access, x.dtype);
    a.base = ir_.CreateGEP(a.element, a.base, size(x.row_stride));
    a.base = ir_.CreateGEP(a.element, a.base, ir_.CreateLShr(element, 2));
    const int64_t bytes = int64_t{scope_.parts} * scope_.lanes * a.size * x.quarters / 4;
    for (int64_t line = 0; line < bytes; line += kLine)
      ir_.CreateIntrinsic(llvm::Intrinsic::prefetch, {ir_.getPtrTy()},
                          {ir_.CreateGEP(ir_.getInt8Ty(), a.base, i64(line)), ir_.getInt32(0),
                           ir_.getInt32(static_cast<uint32_t>(x.locality)), ir_.getInt32(1)});
  }
}

}  // namespace tandem::jit
