// The tables of a byte-pair encoding, and how they are read.
#ifndef TANDEM_RUNTIME_DATA_BPE_H
#define TANDEM_RUNTIME_DATA_BPE_H

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tandem::data {

/// A token's number; -1: none.
using Token = int32_t;

struct Merge {
  int32_t rank;
  Token merged;
};

/// What the files say.
struct Bpe {
  std::vector<std::string> bytes;  // by token
  std::unordered_map<std::string, Token> token_of;
  std::array<Token, 256> of_byte;
  std::unordered_map<uint64_t, Merge> merges;  // by pair_key
  std::map<std::string, Token, std::less<>> special;
};

inline uint64_t pair_key(Token left, Token right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

/// From vocab.json and merges.txt. Error says what is malformed.
Bpe bpe_of_files(std::string_view vocab, std::string_view merges,
                 const std::vector<std::string>& special);
/// From tokenizer.json.
Bpe bpe_of_tokenizer_json(std::string_view json);

/// Merges the pairs within one piece, those of the lowest rank first, and of one rank from the
/// left; appends what is left. Error{Argument} for a byte that the vocabulary has not.
void append_tokens(const Bpe& bpe, std::string_view piece, std::vector<int64_t>& tokens);

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_DATA_BPE_H
