// GPT-2's split of text into the pieces within which byte pairs are merged.
#ifndef TANDEM_RUNTIME_DATA_SPLIT_TEXT_H
#define TANDEM_RUNTIME_DATA_SPLIT_TEXT_H

#include <string_view>

namespace tandem::data {

/// How many bytes of `text` (not empty) the first piece has: an English contraction's ending; or
/// letters, numbers, or what is neither nor white space, each with at most one space before; or
/// white space, of which the last character is left to what follows unless it is alone.
size_t first_piece(std::string_view text);

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_DATA_SPLIT_TEXT_H
