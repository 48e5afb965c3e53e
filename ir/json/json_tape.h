// A JSON text as a flat array of nodes, read under limits, and strict accessors that say where they
// stand when something does not fit. Internal.
#ifndef TANDEM_IR_JSON_JSON_TAPE_H
#define TANDEM_IR_JSON_JSON_TAPE_H

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "json.h"

namespace tandem::ir {

class JsonTape {
 public:
  enum class Kind : uint8_t { Null, Bool, Integer, BigInteger, Float, String, Object, Array };

  /// Error{Parse} for what is not JSON, or above the limits on bytes and depth.
  JsonTape(std::string_view text, const JsonLimits& limits);

  Kind kind(uint32_t node) const { return nodes_[node].kind; }
  int64_t integer(uint32_t node) const { return nodes_[node].integer; }
  double floating(uint32_t node) const { return nodes_[node].floating; }
  std::string_view string(uint32_t node) const {
    const Slice slice = nodes_[node].slice;
    return std::string_view(characters_).substr(slice.begin, slice.length);
  }
  /// The node behind `node` and all it contains. The nodes of an object are key, value, key, ...
  uint32_t next(uint32_t node) const { return nodes_[node].next; }

 private:
  friend class JsonTapeBuilder;
  struct Slice {
    uint32_t begin, length;  // in characters_
  };
  struct Node {
    Kind kind;
    uint32_t next;
    union {
      int64_t integer;
      double floating;
      Slice slice;
    };
  };

  std::vector<Node> nodes_;
  std::string characters_;
};

/// One value of the document and how it was reached: a member of `parent` by key, or an element of
/// it by index. Parents must outlive their members.
class JsonValue {
 public:
  JsonValue() = default;
  explicit JsonValue(const JsonTape& tape) : tape_(&tape) {}

  bool as_bool() const;
  int64_t as_integer() const;
  /// An integer in [least, most].
  int64_t as_integer(int64_t least, int64_t most) const;
  /// A number with a '.' or an exponent, or "nan", "inf", "-inf".
  double as_float() const;
  std::string as_string(size_t max_bytes) const;
  /// The members of an object that has exactly these keys, in this order.
  std::vector<JsonValue> members(std::span<const std::string_view> keys) const;
  template <size_t N>
  std::array<JsonValue, N> members(const std::string_view (&keys)[N]) const {
    std::array<JsonValue, N> out;
    read_members(keys, out);
    return out;
  }
  /// The only member of an object, with its key.
  JsonValue only_member() const;
  std::string_view key() const { return key_; }
  size_t size() const;  // of an array
  /// Calls f(element) for each element of an array.
  template <class F>
  void for_each(F f) const {
    expect(JsonTape::Kind::Array);
    size_t index = 0;
    for (uint32_t n = node_ + 1; n < tape_->next(node_); n = tape_->next(n))
      f(JsonValue(*this, n, {}, index++));
  }

  /// Throws Error{Parse} "graphs[0].inputs[2].name: problem".
  [[noreturn]] void fail(const std::string& problem) const;
  std::string path() const;

 private:
  JsonValue(const JsonValue& parent, uint32_t node, std::string_view key, size_t index)
      : tape_(parent.tape_), parent_(&parent), node_(node), key_(key), index_(index) {}
  void expect(JsonTape::Kind kind) const;
  void read_members(std::span<const std::string_view> keys, std::span<JsonValue> out) const;

  const JsonTape* tape_ = nullptr;
  const JsonValue* parent_ = nullptr;
  uint32_t node_ = 0;
  std::string_view key_;
  size_t index_ = 0;
};

}  // namespace tandem::ir

#endif  // TANDEM_IR_JSON_JSON_TAPE_H
