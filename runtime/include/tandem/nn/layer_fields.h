// TANDEM_FIELDS for the library's own layers: the list of one is instantiated where it is asked
// for, so that the many that a program does not use cost nothing to include. (Structs inside
// functions, which users may write, cannot have templates.)
#ifndef TANDEM_NN_LAYER_FIELDS_H
#define TANDEM_NN_LAYER_FIELDS_H

#include <tandem/structure.h>

#define TANDEM_LAYER_FIELDS(Type, ...)                                            \
  static constexpr auto tandem_fields_of() { return std::type_identity<Type>(); } \
  static constexpr bool tandem_has_base_fields() { return false; }                \
  operator const ::tandem::structure::ListOf<Type>&() const;                      \
  template <class = void>                                                         \
  auto tandem_fields() {                                                          \
    return std::tie(__VA_ARGS__);                                                 \
  }                                                                               \
  template <class = void>                                                         \
  auto tandem_fields() const {                                                    \
    return std::tie(__VA_ARGS__);                                                 \
  }                                                                               \
  static constexpr std::string_view tandem_field_name(size_t i) {                 \
    return ::tandem::structure::field_name(#__VA_ARGS__, i);                      \
  }

#endif  // TANDEM_NN_LAYER_FIELDS_H
