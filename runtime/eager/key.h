// What code is kept by: bytes that are equal for equal requests.
#ifndef TANDEM_RUNTIME_EAGER_KEY_H
#define TANDEM_RUNTIME_EAGER_KEY_H

#include <bit>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "ir/attr.h"

namespace tandem::runtime::eager {

class Key {
 public:
  template <class T>
    requires std::has_unique_object_representations_v<T>
  void add(const T& plain) {
    bytes_.append(reinterpret_cast<const char*>(&plain), sizeof plain);
  }
  void add(Dim d) { add(int64_t{d}); }
  void add(double value) { add(std::bit_cast<uint64_t>(value)); }
  void add(const Number& n) {
    add(n.kind());
    n.is_float() ? add(n.to_double()) : add(n.to_int());
  }
  void add(const std::string& text) { add(text.size()), bytes_.append(text); }
  template <class T>
    requires requires(const T& list) { list.rank(); }
  void add(const T& list) {
    add(list.rank());
    for (int d = 0; d < list.rank(); ++d) add(list[d]);
  }
  template <class T, size_t N>
  void add(const ir::InlineVector<T, N>& list) {
    add(list.size());
    for (const T& item : list) add(item);
  }
  void add(std::span<const ir::AttrValue> attrs) {
    for (const ir::AttrValue& attr : attrs) {
      add(attr.index());
      std::visit([this](const auto& value) { add(value); }, attr);
    }
  }
  void add(const ir::Type& type) { add(type.dtype), add(type.sizes); }

  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace tandem::runtime::eager

#endif  // TANDEM_RUNTIME_EAGER_KEY_H
