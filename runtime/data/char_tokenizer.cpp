#include <fmt/format.h>
#include <tandem/data/dataset.h>
#include <tandem/data/tokenizer.h>

#include <algorithm>

#include "ir/base/error.h"
#include "runtime/data/utf8.h"

namespace tandem::data {
namespace {

/// Calls f(code, place).
template <class F>
void for_each_character(std::string_view text, F f) {
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (!character.valid)
      ir::fail(Errc::Argument, fmt::format("CharTokenizer: no UTF-8 at byte {}", at));
    f(character.code, at);
    at += character.length;
  }
}

}  // namespace

CharTokenizer::CharTokenizer(std::string_view text) {
  std::vector<bool> seen(0x110000);
  for_each_character(text, [&](char32_t code, size_t /*at*/) { seen[code] = true; });
  for (char32_t code = 0; code < seen.size(); ++code)
    if (seen[code]) characters_.push_back(code);
}

std::vector<int64_t> CharTokenizer::encode(std::string_view text) const {
  std::vector<int64_t> tokens;
  for_each_character(text, [&](char32_t code, size_t at) {
    const auto found = std::ranges::lower_bound(characters_, code);
    if (found == characters_.end() || *found != code)
      ir::fail(Errc::Argument,
               fmt::format("CharTokenizer: '{}' (U+{:04X}) at byte {} is not in the vocabulary",
                           utf8_of(code), static_cast<uint32_t>(code), at));
    tokens.push_back(found - characters_.begin());
  });
  return tokens;
}

std::string CharTokenizer::decode(std::span<const int64_t> tokens) const {
  std::string text;
  for (const int64_t token : tokens) {
    detail::check_index("CharTokenizer", token, vocab_size());
    text += utf8_of(characters_[static_cast<size_t>(token)]);
  }
  return text;
}

std::string CharTokenizer::vocabulary() const {
  std::string all;
  for (const char32_t code : characters_) all += utf8_of(code);
  return all;
}

}  // namespace tandem::data
