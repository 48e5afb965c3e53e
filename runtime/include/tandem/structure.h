// Structures of tensors: what compile() takes as arguments and gives back. Tensors, Scalars,
// numbers, strings, and tuple, pair, array, vector, optional, map, shared_ptr and structs of these.
// A struct lists its fields once:
//
//   struct Net {
//     td::nn::Linear in{784, 512}, out{512, 10};
//     TANDEM_FIELDS(Net, in, out)
//   };
//
// A struct with a base that lists fields names it: TANDEM_FIELDS_AND_BASE(Derived, Base, more).
// The fields' names become the names of graph inputs ("n.in.weight") and of saved parameters.
#ifndef TANDEM_STRUCTURE_H
#define TANDEM_STRUCTURE_H

#include <tandem/tensor.h>

#include <array>
#include <bit>
#include <concepts>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

// `prefix` stands before each list, `tie` makes it, `names` is what the fields are called.
#define TANDEM_FIELDS_NAMED(Type, prefix, tie, names, ...)         \
  static ::std::type_identity<Type> tandem_fields_of();            \
  static constexpr bool tandem_has_base_fields() { return false; } \
  operator const ::tandem::structure::ListOf<Type>&() const;       \
  prefix auto tandem_fields() { return tie(__VA_ARGS__); }         \
  prefix auto tandem_fields() const { return tie(__VA_ARGS__); }   \
  static constexpr std::string_view tandem_field_name(size_t i) {  \
    return ::tandem::structure::field_name(names, i);              \
  }

#define TANDEM_FIELDS(Type, ...) TANDEM_FIELDS_NAMED(Type, , ::std::tie, #__VA_ARGS__, __VA_ARGS__)

// For the library's own structs: a list is instantiated where it is asked for, so that the many
// that a program does not use cost nothing to include. (Structs inside functions, which users may
// write, cannot have templates.)
#define TANDEM_LAZY_FIELDS(Type, ...) TANDEM_LAZY_FIELDS_NAMED(Type, #__VA_ARGS__, __VA_ARGS__)
#define TANDEM_LAZY_FIELDS_NAMED(Type, names, ...)                                         \
  TANDEM_FIELDS_NAMED(Type, template <class Tie = ::tandem::structure::Tie>, Tie(), names, \
                      __VA_ARGS__)

// Those of `Base` first.
#define TANDEM_FIELDS_AND_BASE(Type, Base, ...)                                                 \
  static ::std::type_identity<Type> tandem_fields_of();                                         \
  static constexpr bool tandem_has_base_fields() { return true; }                               \
  operator const ::tandem::structure::ListOf<Type>&() const;                                    \
  auto tandem_fields() { return std::tuple_cat(Base::tandem_fields(), std::tie(__VA_ARGS__)); } \
  auto tandem_fields() const {                                                                  \
    return std::tuple_cat(Base::tandem_fields(), std::tie(__VA_ARGS__));                        \
  }                                                                                             \
  static constexpr std::string_view tandem_field_name(size_t i) {                               \
    constexpr size_t kOfBase =                                                                  \
        std::tuple_size_v<decltype(std::declval<const Base&>().tandem_fields())>;               \
    return i < kOfBase ? Base::tandem_field_name(i)                                             \
                       : ::tandem::structure::field_name(#__VA_ARGS__, i - kOfBase);            \
  }

namespace tandem {

class Scalar;

namespace nn {
/// A tensor field of a module that is state and no parameter, as the running mean of a batch norm:
/// saved and moved with the module, never trained. Assigned and used as any tensor.
struct Buffer : Tensor {
  Buffer() = default;
  Buffer(Tensor t) : Tensor(std::move(t)) {}  // NOLINT(google-explicit-constructor)
};
}  // namespace nn

namespace structure {

/// std::tie, as what a template depends on.
struct Tie {
  template <class... F>
  constexpr std::tuple<F&...> operator()(F&... fields) const {
    return {fields...};
  }
};

struct AnyList {};
template <class Type>
struct ListOf : AnyList {};

template <class T>
concept HasFields = requires(T& t) {
  t.tandem_fields();
  T::tandem_field_name(0);
};

/// T, or the base whose TANDEM_FIELDS line T has.
template <class T>
using FieldsOf = typename decltype(T::tandem_fields_of())::type;

/// True if a base of T has a TANDEM_FIELDS line as T has. Each line declares a conversion to a
/// ListOf its own, which those of derived structs do not hide: of several none is the best.
template <class T>
concept HasBaseWithFields = !std::is_convertible_v<const T&, const AnyList&>;
template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

template <class T, template <class...> class Template>
inline constexpr bool is_instance = false;
template <class... A, template <class...> class Template>
inline constexpr bool is_instance<Template<A...>, Template> = true;
template <class T>
inline constexpr bool is_array = false;
template <class T, size_t N>
inline constexpr bool is_array<std::array<T, N>> = true;

template <class T>
concept TupleLike = is_instance<T, std::tuple> || is_instance<T, std::pair>;
template <class T>
concept Sequence = is_instance<T, std::vector> || is_array<T>;

/// The i-th name in "a, b, c".
constexpr std::string_view field_name(std::string_view names, size_t i) {
  while (i-- > 0) names.remove_prefix(names.find(',') + 1);
  names = names.substr(0, names.find(','));
  while (names.starts_with(' ')) names.remove_prefix(1);
  while (names.ends_with(' ')) names.remove_suffix(1);
  return names;
}

/// A part without a name of its own (the list of a Sequential) is called as the whole.
inline std::string join(const std::string& prefix, std::string_view name) {
  if (name.empty()) return prefix;
  return prefix.empty() ? std::string(name) : prefix + "." + std::string(name);
}

template <class T>
inline constexpr bool unsupported = false;

/// What is visited, not looked into.
template <class T>
concept Leaf = std::is_same_v<T, Tensor> || std::is_same_v<T, nn::Buffer> ||
               std::is_same_v<T, Scalar> || Plain<T> || std::is_same_v<T, std::string>;

/// What guards compare of a number.
template <Plain T>
uint64_t bits_of(const T& value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value) < sizeof(bits) ? sizeof(value) : sizeof(bits));
  return bits;
}

/// The number that has these bits.
template <Plain T>
std::string spell_bits(uint64_t bits) {
  T value{};
  std::memcpy(&value, &bits, sizeof(value) < sizeof(bits) ? sizeof(value) : sizeof(bits));
  if constexpr (std::is_enum_v<T>)
    return std::to_string(static_cast<std::underlying_type_t<T>>(value));
  else
    return std::to_string(value);
}

/// A number whose type the visitor does not see.
struct NumberBits {
  uint64_t bits;
  std::string (*spell)(uint64_t);  // null: bits that are no number
};

enum class FieldKind : uint8_t { Tensor, Buffer, Scalar, Number, String, Count, Module };

/// A part of a structure whose type the visitor does not see. Of a Module its own entry comes
/// before those of its fields.
struct Field {
  FieldKind kind;
  std::string path = {};
  void* value = nullptr;                 // null: a Count
  const std::type_info* type = nullptr;  // of a Number or Module
  NumberBits number = {};                // of a Number or Count
};
using Fields = std::vector<Field>;

/// What holds a structure of a type that only it knows, as nn::AnyModule: `tandem_list(out, path)`
/// appends its fields (with paths if `path` is not null), `tandem_own(own)` hands what it holds to
/// an OwnShared, `tandem_type()` says what it holds.
template <class T>
concept Erased = requires(const T& value, Fields& out, const std::string* path) {
  value.tandem_list(out, path);
  { value.tandem_type() } -> std::convertible_to<const std::type_info&>;
};

/// Gives a copy of a structure copies of what its shared_ptrs point to, so that it can be changed
/// alone. Visitors that change copies have one as a member `own`.
class TANDEM_API OwnShared {
 public:
  /// `ties`: what several pointers share stays shared.
  explicit OwnShared(bool ties = false) : ties_(ties) {}

  template <class T>
  void operator()(std::shared_ptr<T>& pointer) {
    if (!pointer) return;
    if (!ties_) {
      pointer = std::make_shared<T>(*pointer);
      return;
    }
    std::shared_ptr<void> copy = copy_of(pointer.get());
    if (!copy) note_copy(pointer.get(), copy = std::make_shared<T>(*pointer));
    pointer = std::static_pointer_cast<T>(copy);
  }
  template <Erased T>
  void operator()(T& value) {
    value.tandem_own(*this);
  }

 private:
  /// What was noted as this one's copy, or the copy itself; null: there is none.
  std::shared_ptr<void> copy_of(const void* shared) const;
  void note_copy(const void* shared, const std::shared_ptr<void>& copy);

  bool ties_;
  std::shared_ptr<void> copies_;  // by what they are of: few programs share, so few have any
};

/// A visitor that does nothing but to own what is shared.
struct OwnAll {
  OwnShared& own;
  template <class T>
  void operator()(const T&, const std::string&) {}
  void count(size_t, const std::string&) {}
};

/// A buffer is a tensor to who does not tell them apart.
template <class T, class Visitor>
void visit_leaf(T& value, Visitor& visit, const std::string& path) {
  if constexpr (!std::is_same_v<std::remove_const_t<T>, nn::Buffer>)
    visit(value, path);
  else if constexpr (requires { visit.buffer(value, path); })
    visit.buffer(value, path);
  else
    visit(static_cast<std::conditional_t<std::is_const_v<T>, const Tensor&, Tensor&>>(value), path);
}

/// Calls `visit(leaf, path)` for every leaf in order: Tensor, Scalar, numbers, strings. `path` is
/// built only if `Named`. Containers whose size is part of the structure report it through
/// visit.count(n), structs themselves through visit.module(value), where the visitor has that.
template <bool Named, class T, class Visitor>
void for_each_leaf(T& value, Visitor& visit, const std::string& path = {});

/// The leaves of `item`, the part `name()` of what lies at `path`.
template <bool Named, class T, class Visitor, class Name>
void for_part(T& item, Visitor& visit, const std::string& path, Name name) {
  if constexpr (Named)
    for_each_leaf<true>(item, visit, join(path, name()));
  else
    for_each_leaf<false>(item, visit, path);
}

template <bool Named, class T, class Visitor>
void for_items(T& items, Visitor& visit, const std::string& path) {
  visit.count(items.size(), path);
  size_t i = 0;
  for (auto& item : items) {
    for_part<Named>(item, visit, path, [&] { return std::to_string(i); });
    ++i;
  }
}

template <bool Named, class T, class Visitor>
void for_entries(T& map, Visitor& visit, const std::string& path) {
  visit.count(map.size(), path);
  for (auto& [key, item] : map) {
    visit(key, path);
    if constexpr (std::is_same_v<typename T::key_type, std::string>)
      for_part<Named>(item, visit, path, [&] { return key; });
    else
      for_part<Named>(item, visit, path, [&] { return std::to_string(key); });
  }
}

/// `name_of(i)` is the i-th item's.
template <bool Named, class Tuple, class Visitor, class NameOf>
void for_fields(Tuple&& items, Visitor& visit, const std::string& path, NameOf name_of) {
  std::apply(
      [&](auto&... item) {
        size_t i = 0;
        ((for_part<Named>(item, visit, path, [&] { return name_of(i); }), ++i), ...);
      },
      items);
}

template <bool Const, class Visitor>
void visit_field(const Field& field, Visitor& visit) {
  const auto as = [&]<class T>(std::type_identity<T>) -> auto& {
    return *static_cast<std::conditional_t<Const, const T, T>*>(field.value);
  };
  switch (field.kind) {
    case FieldKind::Tensor:
      return visit(as(std::type_identity<Tensor>()), field.path);
    case FieldKind::Buffer:
      return visit_leaf(as(std::type_identity<nn::Buffer>()), visit, field.path);
    case FieldKind::Scalar:
      return visit(as(std::type_identity<Scalar>()), field.path);
    case FieldKind::Number:
      return visit(field.number, field.path);
    case FieldKind::String:
      return visit(as(std::type_identity<std::string>()), field.path);
    case FieldKind::Count:
      return visit.count(field.number.bits, field.path);
    case FieldKind::Module:
      return;
  }
}

/// The type that is held counts as a number: guards compare it.
template <bool Named, class T, class Visitor>
void for_erased(T& value, Visitor& visit, const std::string& path) {
  Fields fields;
  value.tandem_list(fields, Named ? &path : nullptr);
  if constexpr (requires { visit.append(fields); }) {
    visit.append(fields);
  } else {
    visit(NumberBits{value.tandem_type().hash_code(), nullptr}, path);
    for (const Field& field : fields) visit_field<std::is_const_v<T>>(field, visit);
  }
}

template <bool Named, class T, class Visitor>
void for_pointee(T& pointer, Visitor& visit, const std::string& path) {
  using Pointee = typename T::element_type;
  static_assert(
      !std::is_const_v<Pointee> && (!std::is_polymorphic_v<Pointee> || std::is_final_v<Pointee>),
      "TANDEM_FIELDS: a shared_ptr to const, or to a base of what it points to, whose "
      "fields cannot be seen; hold layers of several types as nn::AnyModule");
  visit.count(pointer != nullptr, path);
  if (!pointer) return;
  if constexpr (std::is_const_v<T>)
    for_each_leaf<Named>(std::as_const(*pointer), visit, path);
  else
    for_each_leaf<Named>(*pointer, visit, path);
}

template <class T>
constexpr bool lists_all_fields() {
  static_assert(std::is_same_v<FieldsOf<T>, T> || sizeof(FieldsOf<T>) == sizeof(T),
                "TANDEM_FIELDS: the struct has fields of its own beside those of its base, which "
                "alone lists them; expected a line TANDEM_FIELDS_AND_BASE(Type, Base, field, ...)");
  static_assert(!HasBaseWithFields<FieldsOf<T>> || T::tandem_has_base_fields(),
                "TANDEM_FIELDS: the struct has a base that lists fields too, which this line "
                "hides; expected TANDEM_FIELDS_AND_BASE(Type, Base, field, ...)");
  return true;
}

template <bool Named, class T, class Visitor>
void for_each_leaf(T& value, Visitor& visit, const std::string& path) {
  using V = std::remove_const_t<T>;
  if constexpr (Leaf<V>) {
    visit_leaf(value, visit, path);
  } else if constexpr (is_instance<V, std::optional>) {
    visit.count(value.has_value(), path);
    if (value) for_each_leaf<Named>(*value, visit, path);
  } else if constexpr (Sequence<V>) {
    for_items<Named>(value, visit, path);
  } else if constexpr (is_instance<V, std::map>) {
    for_entries<Named>(value, visit, path);
  } else if constexpr (TupleLike<V>) {
    for_fields<Named>(value, visit, path, [](size_t i) { return std::to_string(i); });
  } else if constexpr (is_instance<V, std::shared_ptr> || Erased<V>) {
    if constexpr (!std::is_const_v<T> && requires { visit.own(value); }) visit.own(value);
    if constexpr (Erased<V>)
      for_erased<Named>(value, visit, path);
    else
      for_pointee<Named>(value, visit, path);
  } else if constexpr (HasFields<V>) {
    static_assert(lists_all_fields<V>());
    if constexpr (requires { visit.module(value, path); }) visit.module(value, path);
    for_fields<Named>(value.tandem_fields(), visit, path, V::tandem_field_name);
  } else if constexpr (std::is_pointer_v<V>) {
    static_assert(unsupported<V>,
                  "compile: a pointer cannot be an argument or result, because what it points to "
                  "cannot be guarded; pass "
                  "the value, a Tensor, or a struct with TANDEM_FIELDS");
  } else {
    static_assert(unsupported<V>,
                  "compile: this type cannot be an argument or result, because Tandem cannot see "
                  "its tensors; give the struct a "
                  "TANDEM_FIELDS(Type, field, ...) line, and pass owning values instead of spans "
                  "and string_views");
  }
}

}  // namespace structure
}  // namespace tandem

#endif  // TANDEM_STRUCTURE_H
