// How names, strings and numbers are spelled in the text and JSON forms. Internal.
#ifndef TANDEM_IR_TEXT_SPELLING_H
#define TANDEM_IR_TEXT_SPELLING_H

#include <string>
#include <string_view>

#include "ir/type.h"

namespace tandem::ir {

/// The shortest text that reads back exactly and cannot be taken for an integer: "0.5", "1.0",
/// "1e-05", "-0.0", "nan", "inf", "-inf".
std::string spell(double value);
/// "true", "-3", "0.5".
std::string spell(const Number& value);

/// `text` in double quotes, with JSON's escapes.
std::string quoted(std::string_view text);

/// True if `name` ends in a dot and digits, which the printer appends to tell equal names apart.
bool has_number_suffix(std::string_view name);

/// `name` as the text form spells it: as it is if it is a letter or underscore followed by letters,
/// digits, underscores and dots; in quotes otherwise.
std::string spell_name(std::string_view name);
/// spell_name() for a name that may get a number suffix: one that already looks so is quoted.
std::string spell_stem(std::string_view name);

bool is_name_start(char c);
bool is_name_char(char c);

}  // namespace tandem::ir

#endif  // TANDEM_IR_TEXT_SPELLING_H
