// A position in a text, with the small readers that the parser is made of. Internal.
#ifndef TANDEM_IR_TEXT_TEXT_CURSOR_H
#define TANDEM_IR_TEXT_TEXT_CURSOR_H

#include <string>
#include <string_view>

#include "ir/type.h"

namespace tandem::ir {

/// Every reader first skips blanks, line ends and comments (`;` to the end of the line), and fails
/// with Error{Parse} at the place where it stands.
class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  /// The next character; 0 at the end.
  char peek();
  bool at_end() { return here() == text_.size(); }
  /// Where the next token starts, for fail_at.
  size_t here();

  bool accept(char c);
  void expect(char c);
  /// Takes `word` if it is the next word.
  bool accept_word(std::string_view word);
  void expect_word(std::string_view word);
  /// Letters, digits, underscores and dots; not starting with a digit.
  std::string_view word(std::string_view what);
  /// A name, a quoted name or a number, each perhaps with a number suffix; as it is spelled.
  std::string_view spelled_name();
  int64_t integer();
  int int32();
  /// An integer, or a number with a dot, an exponent, nan or inf, or true or false.
  Number number();
  double floating();
  bool boolean();
  /// The contents of a quoted string.
  std::string string();
  /// A quoted string or a word.
  std::string name();

  [[noreturn]] void fail_at(size_t position, std::string_view problem) const;
  /// Fails at the next token: "expected WHAT, got ...".
  [[noreturn]] void fail_expected(std::string_view what);

 private:
  void skip_blanks();
  std::string_view number_text();
  void skip_string();
  std::string_view token_at(size_t position) const;

  std::string_view text_;
  size_t at_ = 0;
};

/// The contents of `spelled`, a string with its quotes. The quotes and escapes must be well formed.
std::string unquoted(std::string_view spelled);
/// The name behind a spelling that may carry a number suffix; "" for a bare number.
std::string stem_of(std::string_view spelled);
/// The name behind a spelling, suffix and all.
std::string verbatim(std::string_view spelled);

}  // namespace tandem::ir

#endif  // TANDEM_IR_TEXT_TEXT_CURSOR_H
