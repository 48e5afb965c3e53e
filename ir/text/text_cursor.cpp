#include "ir/text/text_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "ir/base/error.h"
#include "ir/text/spelling.h"

namespace tandem::ir {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The character after a backslash, or -1 if there is no such escape. `u00XX` is the only long one.
int escaped(std::string_view& rest) {
  const char c = rest.front();
  rest.remove_prefix(1);
  if (c == '"' || c == '\\') return c;
  if (c == 'n') return '\n';
  unsigned code = 0;
  if (c != 'u' || rest.size() < 4) return -1;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + 4, code, 16);
  if (error != std::errc() || end != rest.data() + 4 || code > 0x7f) return -1;
  rest.remove_prefix(4);
  return static_cast<int>(code);
}

}  // namespace

std::string unquoted(std::string_view spelled) {
  std::string out;
  std::string_view rest = spelled.substr(1, spelled.size() - 2);
  while (!rest.empty()) {
    const char c = rest.front();
    rest.remove_prefix(1);
    out += c == '\\' ? static_cast<char>(escaped(rest)) : c;
  }
  return out;
}

std::string stem_of(std::string_view spelled) {
  if (spelled[0] == '"') return unquoted(spelled.substr(0, spelled.rfind('"') + 1));
  if (!is_name_start(spelled[0])) return "";
  if (has_number_suffix(spelled)) spelled = spelled.substr(0, spelled.rfind('.'));
  return std::string(spelled);
}

std::string verbatim(std::string_view spelled) {
  return spelled[0] == '"' ? stem_of(spelled) : std::string(spelled);
}

void TextCursor::skip_blanks() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ';')
      at_ = std::min(text_.find('\n', at_), text_.size());
    else if (c == ' ' || c == '\n' || c == '\t' || c == '\r')
      ++at_;
    else
      return;
  }
}

char TextCursor::peek() {
  skip_blanks();
  return at_ < text_.size() ? text_[at_] : '\0';
}

size_t TextCursor::here() {
  skip_blanks();
  return at_;
}

bool TextCursor::accept(char c) {
  if (at_end() || text_[at_] != c) return false;
  ++at_;
  return true;
}

void TextCursor::expect(char c) {
  if (!accept(c)) fail_expected(fmt::format("'{}'", c));
}

std::string_view TextCursor::word(std::string_view what) {
  const size_t start = here();
  if (start == text_.size() || !is_name_start(text_[start])) fail_expected(what);
  while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
  return text_.substr(start, at_ - start);
}

bool TextCursor::accept_word(std::string_view expected) {
  const size_t start = here();
  if (start == text_.size() || !is_name_start(text_[start])) return false;
  if (word(expected) == expected) return true;
  at_ = start;
  return false;
}

void TextCursor::expect_word(std::string_view expected) {
  if (!accept_word(expected)) fail_expected(fmt::format("'{}'", expected));
}

void TextCursor::skip_string() {
  const size_t start = at_++;
  for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
    if (text_[at_] != '\\') continue;
    std::string_view rest = text_.substr(at_ + 1);
    const size_t length = rest.size();
    if (rest.empty() || escaped(rest) < 0) fail_at(at_, "unknown escape in a string");
    at_ += length - rest.size();
  }
  if (at_ == text_.size()) fail_at(start, "a string without an end");
  ++at_;
}

std::string TextCursor::string() {
  const size_t start = here();
  if (peek() != '"') fail_expected("a string");
  skip_string();
  return unquoted(text_.substr(start, at_ - start));
}

std::string TextCursor::name() { return peek() == '"' ? string() : std::string(word("a name")); }

std::string_view TextCursor::spelled_name() {
  const size_t start = at_;  // no blanks between the sigil and the name
  if (at_ < text_.size() && text_[at_] == '"') skip_string();
  while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
  if (at_ == start) fail_expected("a name");
  return text_.substr(start, at_ - start);
}

std::string_view TextCursor::number_text() {
  const size_t start = here();
  const auto part = [&](char c) {
    const bool exponent_sign = at_ > start && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
    return is_name_char(c) || ((c == '-' || c == '+') && (at_ == start || exponent_sign));
  };
  while (at_ < text_.size() && part(text_[at_])) ++at_;
  return text_.substr(start, at_ - start);
}

int64_t TextCursor::integer() {
  const size_t start = here();
  std::string_view digits = number_text();
  if (digits.size() > 1 && digits[0] == '+' && is_digit(digits[1])) digits.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range) fail_at(start, "integer outside 64 bits");
  if (error == std::errc() && end == digits.data() + digits.size()) return value;
  at_ = start;
  fail_expected("an integer");
}

int TextCursor::int32() {
  const size_t start = here();
  const int64_t value = integer();
  if (value < 0 || value > std::numeric_limits<int>::max())
    fail_at(start, fmt::format("number outside its range; expected 0 or more, got {}", value));
  return static_cast<int>(value);
}

double TextCursor::floating() {
  const size_t start = here();
  const std::string_view text = number_text();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole && text.find_first_of(".eEn") != std::string_view::npos) return value;
  at_ = start;
  fail_expected("a floating-point number (with a '.' or an exponent)");
}

bool TextCursor::boolean() {
  const bool value = accept_word("true");
  if (!value && !accept_word("false")) fail_expected("true or false");
  return value;
}

Number TextCursor::number() {
  if (accept_word("true")) return true;
  if (accept_word("false")) return false;
  const size_t start = here();
  const bool is_float = number_text().find_first_of(".eEn") != std::string_view::npos;
  at_ = start;
  if (is_float) return floating();
  return integer();
}

std::string_view TextCursor::token_at(size_t position) const {
  size_t end = position;
  while (end < text_.size() && is_name_char(text_[end])) ++end;
  return text_.substr(position, std::clamp<size_t>(end - position, 1, 40));
}

void TextCursor::fail_at(size_t position, std::string_view problem) const {
  const std::string_view before = text_.substr(0, position);
  const auto line = 1 + std::ranges::count(before, '\n');
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  fail(Errc::Parse, fmt::format("{}:{}: {}", line, position - line_start + 1, problem));
}

void TextCursor::fail_expected(std::string_view what) {
  const size_t position = here();
  const std::string got = position == text_.size() ? std::string("the end of the text")
                                                   : fmt::format("'{}'", token_at(position));
  fail_at(position, fmt::format("syntax; expected {}, got {}", what, got));
}

}  // namespace tandem::ir
