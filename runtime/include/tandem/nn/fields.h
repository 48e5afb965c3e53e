// The fields of any structure as a list: what works on modules is written once, for the list.
#ifndef TANDEM_NN_FIELDS_H
#define TANDEM_NN_FIELDS_H

#include <tandem/structure.h>

#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

// TANDEM_FIELDS under other names, which one string lists: "original, 0". A field without a name
// ("") lends its own fields' names to the struct.
#define TANDEM_NAMED_FIELDS(Type, names, ...) TANDEM_LAZY_FIELDS_NAMED(Type, names, __VA_ARGS__)

namespace tandem::structure {

/// Lists what it visits.
class TANDEM_API ListFields {
 public:
  explicit ListFields(Fields& fields) : fields_(fields) {}
  void operator()(const Tensor& t, const std::string& path) { add(FieldKind::Tensor, path, &t); }
  void operator()(const Scalar& s, const std::string& path) { add(FieldKind::Scalar, path, &s); }
  void operator()(const std::string& s, const std::string& path) {
    add(FieldKind::String, path, &s);
  }
  template <Plain T>
  void operator()(const T& v, const std::string& path) {
    add(FieldKind::Number, path, &v, &typeid(T), {bits_of(v), &spell_bits<T>});
  }
  void buffer(const nn::Buffer& b, const std::string& path) { add(FieldKind::Buffer, path, &b); }
  void count(size_t n, const std::string& path) {
    add(FieldKind::Count, path, nullptr, nullptr, {n, nullptr});
  }
  template <class T>
  void module(const T& m, const std::string& path) {
    add(FieldKind::Module, path, &m, &typeid(T));
  }
  void append(const Fields& fields);

 private:
  void add(FieldKind kind, const std::string& path, const void* value,
           const std::type_info* type = nullptr, NumberBits number = {});

  Fields& fields_;
};

/// The same of a copy, after what it points to has become its own.
struct ListOwnFields : ListFields {
  using ListFields::ListFields;
  OwnShared own = OwnShared(true);
};

template <class T>
Fields fields_of(const T& value) {
  Fields fields;
  ListFields list(fields);
  for_each_leaf<true>(value, list);
  return fields;
}

}  // namespace tandem::structure

#endif  // TANDEM_NN_FIELDS_H
