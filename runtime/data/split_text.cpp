#include "runtime/data/split_text.h"

#include "runtime/data/utf8.h"

namespace tandem::data {
namespace {

struct Classified {
  CharacterClass of;
  size_t length;
};
/// Bytes that are no character are of no class.
Classified classified_at(std::string_view text, size_t at) {
  const Character character = character_at(text, at);
  return {character.valid ? class_of(character.code) : CharacterClass::Other, character.length};
}

size_t contraction(std::string_view text) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(ending)) return ending.size();
  return 0;
}

size_t white_space(std::string_view text) {
  size_t end = 0, last = 0;  // where the last character begins
  while (end < text.size()) {
    const Classified next = classified_at(text, end);
    if (next.of != CharacterClass::Space) return last > 0 ? last : end;
    last = end;
    end += next.length;
  }
  return end;
}

}  // namespace

size_t first_piece(std::string_view text) {
  if (const size_t ending = contraction(text)) return ending;
  const size_t begin = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const Classified first = classified_at(text, begin);
  if (first.of == CharacterClass::Space) return white_space(text);
  size_t end = begin + first.length;
  while (end < text.size()) {
    const Classified next = classified_at(text, end);
    if (next.of != first.of) break;
    end += next.length;
  }
  return end;
}

}  // namespace tandem::data
