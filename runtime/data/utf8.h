// Characters of UTF-8 and their classes.
#ifndef TANDEM_RUNTIME_DATA_UTF8_H
#define TANDEM_RUNTIME_DATA_UTF8_H

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::data {

/// A character, or bytes that are none: as many as begin one, at least one (the Unicode Standard's
/// maximal subparts).
struct Character {
  char32_t code = 0;
  size_t length = 1;
  bool valid = false;
  bool cut = false;  // not valid only because the text ends
};
/// At byte `at`, which is there.
Character character_at(std::string_view text, size_t at);

std::string utf8_of(char32_t code);

enum class CharacterClass : uint8_t { Other, Letter, Number, Space };
CharacterClass class_of(char32_t code);

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_DATA_UTF8_H
