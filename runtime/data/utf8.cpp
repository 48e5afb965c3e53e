#include "runtime/data/utf8.h"

#include <algorithm>
#include <iterator>

namespace tandem::data {
namespace {

constexpr uint32_t kClasses[] = {
#include "runtime/data/unicode_classes.inc"
};

/// Bytes that follow a first byte, and the range of the first of them.
struct Form {
  unsigned char first, last;
  size_t following;
  unsigned char least, most;
};
constexpr Form kForms[] = {
    {0xc2, 0xdf, 1, 0x80, 0xbf}, {0xe0, 0xe0, 2, 0xa0, 0xbf}, {0xe1, 0xec, 2, 0x80, 0xbf},
    {0xed, 0xed, 2, 0x80, 0x9f}, {0xee, 0xef, 2, 0x80, 0xbf}, {0xf0, 0xf0, 3, 0x90, 0xbf},
    {0xf1, 0xf3, 3, 0x80, 0xbf}, {0xf4, 0xf4, 3, 0x80, 0x8f},
};

}  // namespace

Character character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const auto* const form = std::ranges::find_if(
      kForms, [&](const Form& f) { return first >= f.first && first <= f.last; });
  if (form == std::end(kForms)) return {};
  char32_t code = first & (0x3fu >> form->following);
  for (size_t i = 1; i <= form->following; ++i) {
    if (at + i == text.size()) return {.length = i, .cut = true};
    const bool second = i == 1;
    if (byte(i) < (second ? form->least : 0x80) || byte(i) > (second ? form->most : 0xbf))
      return {.length = i};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  return {code, form->following + 1, true};
}

std::string utf8_of(char32_t code) {
  if (code < 0x80) return {static_cast<char>(code)};
  const size_t following = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  std::string text(following + 1, '\0');
  for (size_t i = following; i > 0; --i, code >>= 6)
    text[i] = static_cast<char>(0x80 | (code & 0x3f));
  text[0] = static_cast<char>((0xff00 >> (following + 1) & 0xff) | code);
  return text;
}

CharacterClass class_of(char32_t code) {
  const auto* const next = std::ranges::upper_bound(kClasses, 4 * uint32_t{code} + 3);
  return static_cast<CharacterClass>(next[-1] & 3);
}

}  // namespace tandem::data
