#include "runtime/control/checkpoints.h"

#include <tandem/ops.h>

#include <cmath>
#include <utility>

#include "ir/dim.h"

namespace tandem::control {
namespace {

bool& wanted_here() {
  thread_local bool wanted = false;
  return wanted;
}

/// A length of chunks near the root: one that leaves nothing over, if there is one.
int64_t chunk_length(int64_t length) {
  const auto root = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(length))));
  for (int64_t chunk = root; chunk >= 2 && 2 * chunk >= root; --chunk)
    if (length % chunk == 0) return chunk;
  return root;
}

/// The slices [begin, end) of something stacked, in groups of `chunk` if there is one.
Tensor slices_of(const Tensor& stacked, int64_t begin, int64_t end, int64_t chunk) {
  const Tensor part = stacked.slice(0, begin, end);
  if (chunk == 0) return part;
  Shape sizes = {(end - begin) / chunk, chunk};
  for (int64_t d = 1; d < part.dim(); ++d) sizes.push_back(part.size(d));
  return part.reshape(sizes);
}

/// The chunks of ys as one.
Tensor joined(const Tensor& chunks) {
  Shape sizes = {chunks.size(0) * chunks.size(1)};
  for (int64_t d = 2; d < chunks.dim(); ++d) sizes.push_back(chunks.size(d));
  return chunks.reshape(sizes);
}

/// A scan in two parts: chunks of equal length, then the steps that are left over (in reverse those
/// first).
class ChunkedScan {
 public:
  ChunkedScan(Body body, const Tensors& tensors, size_t carries, int64_t length, bool reverse)
      : body_(body),
        xs_(tensors.begin() + static_cast<ptrdiff_t>(carries), tensors.end()),
        state_(tensors.begin(), tensors.begin() + static_cast<ptrdiff_t>(carries)),
        length_(length),
        reverse_(reverse),
        chunk_(chunk_length(length)),
        whole_(length / chunk_ * chunk_) {}

  Tensors run() {
    Tensors chunks, rest;
    if (reverse_ && whole_ < length_) rest = run_rest();
    chunks = run_chunks();
    if (!reverse_ && whole_ < length_) rest = run_rest();
    Tensors results = state_;
    for (size_t i = 0; i < chunks.size(); ++i)
      results.push_back(rest.empty() ? joined(chunks[i]) : cat({joined(chunks[i]), rest[i]}, 0));
    return results;
  }

 private:
  Tensors run_chunks() {
    const auto chunk = [&](const Tensors& t) {
      return record_scan(body_, t, state_.size(), chunk_, reverse_);
    };
    return ys_of(
        record_scan(chunk, inputs(0, whole_, chunk_), state_.size(), whole_ / chunk_, reverse_));
  }

  Tensors run_rest() {
    return ys_of(
        record_scan(body_, inputs(whole_, length_, 0), state_.size(), length_ - whole_, reverse_));
  }

  Tensors inputs(int64_t begin, int64_t end, int64_t chunk) const {
    Tensors all = state_;
    for (const Tensor& x : xs_) all.push_back(slices_of(x, begin, end, chunk));
    return all;
  }

  /// Goes on from the carries.
  Tensors ys_of(Tensors results) {
    const auto middle = results.begin() + static_cast<ptrdiff_t>(state_.size());
    state_.assign(results.begin(), middle);
    results.erase(results.begin(), middle);
    return results;
  }

  const Body body_;
  const Tensors xs_;
  Tensors state_;
  const int64_t length_;
  const bool reverse_;
  const int64_t chunk_, whole_;
};

}  // namespace

CheckpointScans::CheckpointScans(bool wanted) : before_(std::exchange(wanted_here(), wanted)) {}
CheckpointScans::~CheckpointScans() { wanted_here() = before_; }
bool CheckpointScans::wanted() { return wanted_here(); }

Tensors record_in_chunks(Body body, const Tensors& tensors, size_t carries, int64_t length,
                         bool reverse) {
  return ChunkedScan(body, tensors, carries, length, reverse).run();
}

}  // namespace tandem::control
