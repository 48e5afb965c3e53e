#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ir/base/error.h"
#include "ir/json/json_tape.h"
#include "runtime/data/bpe.h"
#include "runtime/data/utf8.h"

namespace tandem::data {
namespace {

using ir::Errc;
using ir::JsonTape;
using Kind = JsonTape::Kind;

[[noreturn]] void malformed(const std::string& what) { ir::fail(Errc::File, what); }

/// The characters that stand for bytes: printable ones for themselves, others from U+0100 on.
std::unordered_map<char32_t, char> byte_alphabet() {
  std::unordered_map<char32_t, char> byte_of;
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    byte_of.emplace(printable ? byte : next++, static_cast<char>(byte));
  }
  return byte_of;
}

/// The bytes that a token of the files stands for; one with other characters stands for itself.
class ByteSpelling {
 public:
  std::string bytes_of(std::string_view spelled) const {
    std::string bytes;
    for (size_t at = 0; at < spelled.size();) {
      const Character character = character_at(spelled, at);
      const auto found = byte_of_.find(character.code);
      if (!character.valid || found == byte_of_.end()) return std::string(spelled);
      bytes += found->second;
      at += character.length;
    }
    return bytes;
  }

 private:
  std::unordered_map<char32_t, char> byte_of_ = byte_alphabet();
};

/// Vocabulary and merges as they are spelled.
class Builder {
 public:
  void add_token(std::string_view spelled, int64_t number) {
    if (number < 0 || number >= kMostTokens)
      malformed(fmt::format("token \"{}\": number {}; expected 0 to {}", spelled, number,
                            kMostTokens - 1));
    if (!spelled_.emplace(spelled, static_cast<Token>(number)).second)
      malformed(fmt::format("token \"{}\" twice", spelled));
    add_bytes(spelling_.bytes_of(spelled), static_cast<Token>(number));
  }

  void add_merge(std::string_view left, std::string_view right) {
    const Token a = of(left), b = of(right), both = of(std::string(left) + std::string(right));
    if (bytes(a) + bytes(b) != bytes(both))
      malformed(fmt::format("merge \"{} {}\": the token of both spells other bytes", left, right));
    const auto rank = static_cast<int32_t>(bpe_.merges.size());
    if (!bpe_.merges.emplace(pair_key(a, b), Merge{rank, both}).second)
      malformed(fmt::format("merge \"{} {}\" twice", left, right));
  }

  /// With its number, or -1: the next.
  void add_special(const std::string& text, int64_t number) {
    if (text.empty()) malformed("a special token without text");
    const auto known = spelled_.find(text);
    if (known != spelled_.end() && number >= 0 && known->second != number)
      malformed(fmt::format("special token \"{}\": number {}; the vocabulary has {}", text, number,
                            known->second));
    const auto next = static_cast<int64_t>(bpe_.bytes.size());
    if (known == spelled_.end()) add_token(text, number < 0 ? next : number);
    const Token token = spelled_.find(text)->second;
    bpe_.bytes[static_cast<size_t>(token)] = text;
    bpe_.token_of[text] = token;
    bpe_.special[text] = token;
  }

  Bpe finish() {
    if (bpe_.bytes.size() > 2 * spelled_.size() + 256)
      malformed(
          fmt::format("{} tokens with numbers up to {}", spelled_.size(), bpe_.bytes.size() - 1));
    for (size_t byte = 0; byte < 256; ++byte) {
      const auto found = bpe_.token_of.find(std::string(1, static_cast<char>(byte)));
      bpe_.of_byte[byte] = found == bpe_.token_of.end() ? -1 : found->second;
    }
    return std::move(bpe_);
  }

 private:
  static constexpr int64_t kMostTokens = int64_t{1} << 24;

  Token of(std::string_view spelled) const {
    const auto found = spelled_.find(std::string(spelled));
    if (found == spelled_.end())
      malformed(fmt::format("a merge has \"{}\", which the vocabulary has not", spelled));
    return found->second;
  }

  const std::string& bytes(Token token) const { return bpe_.bytes[static_cast<size_t>(token)]; }

  void add_bytes(std::string bytes, Token token) {
    const auto at = static_cast<size_t>(token);
    if (bpe_.bytes.size() <= at) {
      bpe_.bytes.resize(at + 1);
      used_.resize(at + 1);
    }
    if (used_[at]) malformed(fmt::format("two tokens have the number {}", token));
    used_[at] = true;
    bpe_.token_of.emplace(bytes, token);
    bpe_.bytes[at] = std::move(bytes);
  }

  ByteSpelling spelling_;
  std::unordered_map<std::string, Token> spelled_;
  std::vector<bool> used_;
  Bpe bpe_;
};

// --- JSON

/// A value of a tape.
struct Value {
  const JsonTape& tape;
  uint32_t node = 0;

  Kind kind() const { return tape.kind(node); }
  bool is_null() const { return kind() == Kind::Null; }
  bool is_false() const { return kind() == Kind::Bool && tape.integer(node) == 0; }
  std::string_view text() const {
    if (kind() != Kind::String) malformed("JSON: expected a text");
    return tape.string(node);
  }
  int64_t integer() const {
    if (kind() != Kind::Integer) malformed("JSON: expected an integer");
    return tape.integer(node);
  }
  /// Calls f(key, value) for each member of an object.
  template <class F>
  void for_members(F f) const {
    if (kind() != Kind::Object) malformed("JSON: expected an object");
    for (uint32_t key = node + 1; key < tape.next(node); key = tape.next(key + 1))
      f(tape.string(key), Value{tape, key + 1});
  }
  /// Calls f(value) for each element of an array.
  template <class F>
  void for_elements(F f) const {
    if (kind() != Kind::Array) malformed("JSON: expected an array");
    for (uint32_t element = node + 1; element < tape.next(node); element = tape.next(element))
      f(Value{tape, element});
  }
  /// Error if there is none.
  Value operator[](std::string_view name) const {
    const Value found = find(name);
    if (found.node == node) malformed(fmt::format("JSON: expected a member \"{}\"", name));
    return found;
  }
  bool has(std::string_view name) const { return find(name).node != node; }

 private:
  Value find(std::string_view name) const {
    Value found = *this;
    for_members([&](std::string_view key, const Value& value) {
      if (key == name) found.node = value.node;
    });
    return found;
  }
};

constexpr ir::JsonLimits kLimits{.max_bytes = size_t{256} << 20};

// --- the files

void add_vocabulary(const Value& vocabulary, Builder& builder) {
  vocabulary.for_members([&](std::string_view token, const Value& number) {
    builder.add_token(token, number.integer());
  });
}

void add_merge_line(std::string_view line, Builder& builder) {
  const size_t blank = line.find(' ');
  if (blank == line.npos || line.find(' ', blank + 1) != line.npos)
    malformed(fmt::format("a merge \"{}\"; expected two tokens", line));
  builder.add_merge(line.substr(0, blank), line.substr(blank + 1));
}

/// One a line, below a line of the version.
void add_merges(std::string_view text, Builder& builder) {
  for (int64_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    try {
      add_merge_line(line, builder);
    } catch (const ir::Error& e) {
      malformed(fmt::format("line {}: {}", number, e.what()));
    }
  }
}

/// Of an object: the value is null, false or "".
bool is_unset(const Value& object, std::string_view name) {
  if (!object.has(name)) return true;
  const Value value = object[name];
  return value.is_null() || value.is_false() ||
         (value.kind() == Kind::String && value.text().empty());
}

std::string_view type_of(const Value& part) {
  return part.is_null() ? std::string_view("null") : part["type"].text();
}

void require_gpt2_kind(const Value& root) {
  const auto refuse = [](std::string_view part, std::string_view has, std::string_view expected) {
    malformed(fmt::format("{} {}; expected {}", part, has, expected));
  };
  const Value model = root["model"], split = root["pre_tokenizer"];
  if (type_of(model) != "BPE") refuse("model", type_of(model), "BPE");
  if (type_of(split) != "ByteLevel") refuse("pre_tokenizer", type_of(split), "ByteLevel");
  if (root.has("normalizer") && !root["normalizer"].is_null())
    refuse("normalizer", type_of(root["normalizer"]), "none");
  if (split.has("use_regex") && split["use_regex"].is_false())
    refuse("pre_tokenizer", "without GPT-2's split", "use_regex");
  if (!is_unset(split, "add_prefix_space")) refuse("pre_tokenizer", "add_prefix_space", "none");
  for (const std::string_view name : {"dropout", "unk_token", "continuing_subword_prefix",
                                      "end_of_word_suffix", "byte_fallback", "ignore_merges"})
    if (!is_unset(model, name)) refuse("model", name, "none");
}

}  // namespace

Bpe bpe_of_files(std::string_view vocab, std::string_view merges,
                 const std::vector<std::string>& special) {
  Builder builder;
  const JsonTape tape(vocab, kLimits);
  add_vocabulary(Value{tape}, builder);
  add_merges(merges, builder);
  for (const std::string& token : special) builder.add_special(token, -1);
  return builder.finish();
}

Bpe bpe_of_tokenizer_json(std::string_view json) {
  const JsonTape tape(json, kLimits);
  const Value root{tape};
  require_gpt2_kind(root);
  Builder builder;
  add_vocabulary(root["model"]["vocab"], builder);
  root["model"]["merges"].for_elements([&](const Value& merge) {
    if (merge.kind() == Kind::String) return add_merge_line(merge.text(), builder);
    std::vector<std::string_view> parts;
    merge.for_elements([&](const Value& part) { parts.push_back(part.text()); });
    if (parts.size() != 2) malformed("a merge; expected two tokens");
    builder.add_merge(parts[0], parts[1]);
  });
  if (root.has("added_tokens"))
    root["added_tokens"].for_elements([&](const Value& token) {
      builder.add_special(std::string(token["content"].text()), token["id"].integer());
    });
  return builder.finish();
}

}  // namespace tandem::data
