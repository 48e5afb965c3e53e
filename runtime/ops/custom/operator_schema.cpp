#include "runtime/ops/custom/operator_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "ir/base/error.h"

namespace tandem::runtime {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  OperatorSchema run() {
    OperatorSchema schema;
    schema.name = word("a name");
    expect("(");
    schema.arguments = list(true);
    expect("->");
    if (take("("))
      schema.results = list(false);
    else
      schema.results.push_back(item(false));
    skip();
    if (at_ != text_.size()) fail("the end");
    for (size_t i = 0; i < schema.results.size(); ++i)
      if (schema.results[i].name.empty()) schema.results[i].name = fmt::format("result{}", i);
    return schema;
  }

 private:
  /// Items up to the closing parenthesis.
  std::vector<OperatorSchema::Argument> list(bool named) {
    std::vector<OperatorSchema::Argument> items;
    if (take(")")) return items;
    do items.push_back(item(named));
    while (take(","));
    expect(")");
    return items;
  }

  OperatorSchema::Argument item(bool named) {
    OperatorSchema::Argument a;
    a.kind = word("a type");
    const bool is_number = a.kind == "float" || a.kind == "int" || a.kind == "bool";
    if (a.kind != "Tensor" && !(named && is_number)) fail("Tensor, float, int or bool");
    if (a.kind == "Tensor" && take("(")) {
      a.alias = word("a letter");
      a.written = take("!");
      expect(")");
    }
    skip();
    if (named || is_word(peek())) a.name = word("a name");
    return a;
  }

  static bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':' || c == '.';
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip() {
    while (peek() == ' ' || peek() == '\n') ++at_;
  }
  std::string word(const char* what) {
    skip();
    const size_t start = at_;
    while (is_word(peek())) ++at_;
    if (at_ == start) fail(what);
    return std::string(text_.substr(start, at_ - start));
  }
  bool take(std::string_view token) {
    skip();
    const bool found = text_.substr(at_, token.size()) == token;
    if (found) at_ += token.size();
    return found;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail(token);
  }
  [[noreturn]] void fail(std::string_view expected) const {
    ir::fail(ir::Errc::Parse,
             fmt::format("register_operator: malformed schema \"{}\"; expected {} at column {}",
                         text_, expected, at_ + 1));
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

OperatorSchema parse_schema(std::string_view text) { return Parser(text).run(); }

}  // namespace tandem::runtime
