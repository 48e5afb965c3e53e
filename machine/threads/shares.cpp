#include "machine/threads/shares.h"

#include <algorithm>

#include "machine/rounding.h"

namespace tandem::machine {
namespace {

/// Units [begin, end) of a share: the first `units % shares` are one unit longer.
std::pair<int64_t, int64_t> share_of(const Cut& cut, int share) {
  const int64_t each = cut.units / cut.shares, longer = cut.units % cut.shares;
  const int64_t begin = each * share + std::min<int64_t>(share, longer);
  return {begin, begin + each + (share < longer ? 1 : 0)};
}

/// The last piece of a share takes the rest.
int pieces_of(const Cut& cut, int share) {
  const auto [begin, end] = share_of(cut, share);
  return static_cast<int>(std::max<int64_t>((end - begin) / cut.piece, 1));
}

}  // namespace

Cut cut_for(int64_t units, int64_t grain, int threads) {
  const int shares = std::min(threads, kMostShares);
  const int64_t longest = ceil_div(units, shares);
  return {units, std::max({grain, ceil_div(longest, kMostPieces), int64_t{1}}), shares};
}

std::pair<int64_t, int64_t> units_of(const Cut& cut, int share, Claim claim) {
  const auto [begin, end] = share_of(cut, share);
  const bool last = claim.end == pieces_of(cut, share);
  return {begin + claim.begin * cut.piece, last ? end : begin + claim.end * cut.piece};
}

int Shares::open(const Cut& cut, uint32_t epoch) {
  int pieces = 0;
  for (int s = 0; s < cut.shares; ++s) {
    const int count = pieces_of(cut, s);
    shares_[static_cast<size_t>(s)].open(epoch, {0, count});
    pieces += count;
  }
  return pieces;
}

bool Shares::is_left(uint32_t epoch, int shares) const {
  return std::any_of(shares_.begin(), shares_.begin() + shares,
                     [&](const Share& share) { return share.is_left(epoch); });
}

}  // namespace tandem::machine
