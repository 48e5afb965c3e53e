#include "ir/json/json_tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "ir/base/error.h"

namespace tandem::ir {

using Kind = JsonTape::Kind;

/// nlohmann/json's events, appended to a tape.
class JsonTapeBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonTapeBuilder(JsonTape& tape, std::string_view text, const JsonLimits& limits)
      : tape_(tape), text_(text), limits_(limits) {}

  bool null() override { return add(Kind::Null), true; }
  bool boolean(bool value) override { return add(Kind::Bool).integer = value, true; }
  bool number_integer(number_integer_t value) override {
    return add(Kind::Integer).integer = value, true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      add(Kind::BigInteger);
    else
      add(Kind::Integer).integer = static_cast<int64_t>(value);
    return true;
  }
  bool number_float(number_float_t value, const string_t& spelled) override {
    const bool is_float = spelled.find_first_of(".eE") != std::string::npos;
    return add(is_float ? Kind::Float : Kind::BigInteger).floating = value, true;
  }
  bool string(string_t& value) override {
    add(Kind::String).slice = {static_cast<uint32_t>(tape_.characters_.size()),
                               static_cast<uint32_t>(value.size())};
    tape_.characters_ += value;
    return true;
  }
  bool binary(binary_t&) override { return false; }  // no such thing in JSON
  bool key(string_t& value) override { return string(value); }
  bool start_object(size_t) override { return open(Kind::Object); }
  bool start_array(size_t) override { return open(Kind::Array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    const std::string_view before = text_.substr(0, position > 0 ? position - 1 : 0);
    const size_t line_start = before.rfind('\n') + 1;
    std::string_view what = error.what();
    what.remove_prefix(std::min(what.find("] ") + 2, what.size()));
    fail(Errc::Parse, fmt::format("{}:{}: not JSON: {}", 1 + std::ranges::count(before, '\n'),
                                  before.size() - line_start + 1, what));
  }

 private:
  JsonTape::Node& add(Kind kind) {
    const auto next = static_cast<uint32_t>(tape_.nodes_.size() + 1);
    tape_.nodes_.push_back({kind, next, {0}});
    return tape_.nodes_.back();
  }
  bool open(Kind kind) {
    if (open_.size() == static_cast<size_t>(limits_.max_depth))
      fail(Errc::Parse,
           fmt::format("json: nested too deeply; expected at most {} levels", limits_.max_depth));
    open_.push_back(static_cast<uint32_t>(tape_.nodes_.size()));
    add(kind);
    return true;
  }
  bool close() {
    tape_.nodes_[open_.back()].next = static_cast<uint32_t>(tape_.nodes_.size());
    open_.pop_back();
    return true;
  }

  JsonTape& tape_;
  std::string_view text_;
  const JsonLimits& limits_;
  std::vector<uint32_t> open_;
};

JsonTape::JsonTape(std::string_view text, const JsonLimits& limits) {
  const size_t most = std::min<size_t>(limits.max_bytes, std::numeric_limits<uint32_t>::max());
  if (text.size() > most)
    fail(Errc::Parse,
         fmt::format("json: too long; expected at most {} bytes, got {}", most, text.size()));
  JsonTapeBuilder builder(*this, text, limits);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
}

namespace {

std::string_view describe(Kind kind) {
  static constexpr std::string_view kNames[] = {
      "null",    "a boolean", "an integer", "an integer outside 64 bits",
      "a float", "a string",  "an object",  "an array"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

std::string JsonValue::path() const {
  if (!parent_) return "";
  const std::string before = parent_->path();
  if (key_.data() == nullptr) return fmt::format("{}[{}]", before, index_);
  return before.empty() ? std::string(key_) : fmt::format("{}.{}", before, key_);
}

void JsonValue::fail(const std::string& problem) const {
  const std::string where = path();
  ir::fail(Errc::Parse, fmt::format("{}: {}", where.empty() ? "json" : where, problem));
}

void JsonValue::expect(Kind kind) const {
  if (tape_->kind(node_) != kind)
    fail(fmt::format("wrong type; expected {}, got {}", describe(kind),
                     describe(tape_->kind(node_))));
}

bool JsonValue::as_bool() const {
  expect(Kind::Bool);
  return tape_->integer(node_) != 0;
}

int64_t JsonValue::as_integer() const {
  expect(Kind::Integer);
  return tape_->integer(node_);
}

int64_t JsonValue::as_integer(int64_t least, int64_t most) const {
  const int64_t value = as_integer();
  if (value < least || value > most)
    fail(fmt::format("number outside its range; expected {} to {}, got {}", least, most, value));
  return value;
}

double JsonValue::as_float() const {
  if (tape_->kind(node_) != Kind::String) {
    expect(Kind::Float);
    return tape_->floating(node_);
  }
  const std::string_view text = tape_->string(node_);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text != "inf" && text != "-inf")
    fail(fmt::format("not a number; expected a float, \"nan\", \"inf\" or \"-inf\", got \"{}\"",
                     text));
  return text == "inf" ? kInf : -kInf;
}

std::string JsonValue::as_string(size_t max_bytes) const {
  expect(Kind::String);
  const std::string_view text = tape_->string(node_);
  if (text.size() > max_bytes)
    fail(fmt::format("string too long; expected at most {} bytes, got {}", max_bytes, text.size()));
  return std::string(text);
}

size_t JsonValue::size() const {
  size_t count = 0;
  for_each([&](const JsonValue&) { ++count; });
  return count;
}

std::vector<JsonValue> JsonValue::members(std::span<const std::string_view> keys) const {
  std::vector<JsonValue> out(keys.size());
  read_members(keys, out);
  return out;
}

void JsonValue::read_members(std::span<const std::string_view> keys,
                             std::span<JsonValue> out) const {
  expect(Kind::Object);
  const uint32_t end = tape_->next(node_);
  for (uint32_t n = node_ + 1; n < end; n = tape_->next(n + 1)) {
    const std::string_view key = tape_->string(n);
    const size_t i = std::ranges::find(keys, key) - keys.begin();
    if (i == keys.size()) fail(fmt::format("unknown key \"{}\"", key.substr(0, 64)));
    if (out[i].tape_) fail(fmt::format("key \"{}\" is given twice", key));
    out[i] = JsonValue(*this, n + 1, keys[i], 0);
  }
  for (size_t i = 0; i < keys.size(); ++i)
    if (!out[i].tape_) fail(fmt::format("key \"{}\" is missing", keys[i]));
}

JsonValue JsonValue::only_member() const {
  expect(Kind::Object);
  const uint32_t first = node_ + 1, end = tape_->next(node_);
  if (first == end || tape_->next(first + 1) != end) fail("expected an object of one member");
  return JsonValue(*this, first + 1, tape_->string(first), 0);
}

}  // namespace tandem::ir
