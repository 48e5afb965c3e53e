#include <fmt/format.h>

#include <queue>
#include <tuple>

#include "ir/base/error.h"
#include "runtime/data/bpe.h"

namespace tandem::data {
namespace {

/// A part of the piece, in a list; a part that was merged into its left neighbour has token -1.
struct Part {
  Token token;
  int32_t before, after;  // -1: none
};

/// A pair that may be merged: it is stale if either part has changed since.
struct Candidate {
  int32_t rank, left;
  Token left_token, right_token, merged;
  bool operator>(const Candidate& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

class PieceMerger {
 public:
  static constexpr size_t kLongest = size_t{1} << 30;

  PieceMerger(const Bpe& bpe, std::string_view piece) : bpe_(bpe) {
    if (piece.size() > kLongest)
      ir::fail(ir::Errc::Argument,
               fmt::format("BpeTokenizer: {} bytes without a place to split them", piece.size()));
    const auto size = static_cast<int32_t>(piece.size());
    for (int32_t i = 0; i < size; ++i) {
      const auto byte = static_cast<unsigned char>(piece[static_cast<size_t>(i)]);
      if (bpe.of_byte[byte] < 0)
        ir::fail(
            ir::Errc::Argument,
            fmt::format("BpeTokenizer: the vocabulary has no token for the byte {:#04x}", byte));
      parts_.push_back({bpe.of_byte[byte], i - 1, i + 1 < size ? i + 1 : -1});
    }
    for (int32_t i = 0; i + 1 < size; ++i) consider(i);
  }

  void merge_all() {
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      if (is_current(best)) merge(best);
    }
  }

  void append(std::vector<int64_t>& tokens) const {
    for (int32_t i = 0; i >= 0; i = at(i).after) tokens.push_back(at(i).token);
  }

 private:
  const Part& at(int32_t i) const { return parts_[static_cast<size_t>(i)]; }
  Part& at(int32_t i) { return parts_[static_cast<size_t>(i)]; }

  /// The pair that begins at part `left`.
  void consider(int32_t left) {
    const int32_t right = left < 0 ? -1 : at(left).after;
    if (right < 0) return;
    const auto found = bpe_.merges.find(pair_key(at(left).token, at(right).token));
    if (found == bpe_.merges.end()) return;
    candidates_.push(
        {found->second.rank, left, at(left).token, at(right).token, found->second.merged});
  }

  bool is_current(const Candidate& pair) const {
    const int32_t right = at(pair.left).after;
    return at(pair.left).token == pair.left_token && right >= 0 &&
           at(right).token == pair.right_token;
  }

  void merge(const Candidate& pair) {
    Part& left = at(pair.left);
    Part& right = at(left.after);
    left.token = pair.merged;
    left.after = right.after;
    right.token = -1;
    if (left.after >= 0) at(left.after).before = pair.left;
    consider(left.before);
    consider(pair.left);
  }

  const Bpe& bpe_;
  std::vector<Part> parts_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
};

}  // namespace

void append_tokens(const Bpe& bpe, std::string_view piece, std::vector<int64_t>& tokens) {
  PieceMerger merger(bpe, piece);
  merger.merge_all();
  merger.append(tokens);
}

}  // namespace tandem::data
