#include "tests/opinfo/arguments.h"

#include <limits>

namespace tandem::opinfo {
namespace {

Number number_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_object() && value.contains("float")) {
    const auto text = value.at("float").get<std::string>();
    return text == "nan" ? std::numeric_limits<double>::quiet_NaN()
                         : (text == "inf" ? 1 : -1) * std::numeric_limits<double>::infinity();
  }
  throw Mismatch("not a number: " + value.dump());
}

std::vector<Dim> integers_of(const Json& value) {
  std::vector<Dim> out;
  if (value.is_number_integer() && !value.is_boolean()) return {Dim(value.get<int64_t>())};
  if (!value.is_array()) throw Mismatch("no integers: " + value.dump());
  for (const Json& element : value) {
    if (!element.is_number_integer()) throw Mismatch("no integer: " + element.dump());
    out.emplace_back(element.get<int64_t>());
  }
  return out;
}

Spatial spatial_of(const Json& value) {
  if (value.is_number_integer()) return Spatial(value.get<int64_t>());
  return Spatial(Shape(integers_of(value)));
}

}  // namespace

template <>
Tensor Arguments::as(const Json& value) {
  if (value.is_null()) return {};
  if (!value.is_object() || !value.contains("t")) throw Mismatch("not a tensor: " + value.dump());
  return tensors_.at(value.at("t").get<size_t>());
}
template <>
Located Arguments::as(const Json& value) {
  if (value.is_object() && value.contains("t")) return {tensors_.at(value.at("t").get<size_t>())};
  return {number_of(value)};
}
template <>
Number Arguments::as(const Json& value) {
  return number_of(value);
}
template <>
double Arguments::as(const Json& value) {
  return number_of(value).to_double();
}
template <>
int64_t Arguments::as(const Json& value) {
  if (!value.is_number_integer()) throw Mismatch("not an integer: " + value.dump());
  return value.get<int64_t>();
}
template <>
uint64_t Arguments::as(const Json& value) {
  return static_cast<uint64_t>(as<int64_t>(value));
}
template <>
int Arguments::as(const Json& value) {
  return static_cast<int>(as<int64_t>(value));
}
template <>
Dim Arguments::as(const Json& value) {
  return as<int64_t>(value);
}
template <>
bool Arguments::as(const Json& value) {
  if (!value.is_boolean()) throw Mismatch("not a bool: " + value.dump());
  return value.get<bool>();
}
template <>
std::string_view Arguments::as(const Json& value) {
  if (!value.is_string()) throw Mismatch("not text: " + value.dump());
  return value.get_ref<const std::string&>();
}
template <>
DType Arguments::as(const Json& value) {
  if (!value.is_object() || !value.contains("dtype"))
    throw Mismatch("not a dtype: " + value.dump());
  return *ir::dtype_named(value.at("dtype").get_ref<const std::string&>());
}
template <>
Shape Arguments::as(const Json& value) {
  return Shape(integers_of(value));
}
template <>
Strides Arguments::as(const Json& value) {
  return Strides(integers_of(value));
}
template <>
std::vector<Dim> Arguments::as(const Json& value) {
  if (!value.is_array()) throw Mismatch("no list: " + value.dump());
  return integers_of(value);
}
template <>
std::vector<int64_t> Arguments::as(const Json& value) {
  const std::vector<Dim> list = integers_of(value);
  return {list.begin(), list.end()};
}
template <>
DimList Arguments::as(const Json& value) {
  return value.is_null() ? DimList::every() : DimList(as<std::vector<int64_t>>(value));
}
template <>
Spatial Arguments::as(const Json& value) {
  return spatial_of(value);
}
template <>
ConvPadding Arguments::as(const Json& value) {
  if (value.is_string()) return {as<std::string_view>(value)};
  return {Shape(integers_of(value))};
}
template <>
std::vector<Tensor> Arguments::as(const Json& value) {
  if (!value.is_array()) throw Mismatch("no tensors: " + value.dump());
  std::vector<Tensor> all;
  for (const Json& element : value) all.push_back(as<Tensor>(element));
  return all;
}
template <>
std::vector<double> Arguments::as(const Json& value) {
  if (value.is_number() && !value.is_boolean()) return {as<double>(value)};
  if (!value.is_array()) throw Mismatch("no list: " + value.dump());
  std::vector<double> all;
  for (const Json& element : value) all.push_back(as<double>(element));
  return all;
}
template <>
linalg::Tolerance Arguments::as(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_object() && value.contains("t")) return {as<Tensor>(value)};
  return {as<double>(value)};
}
template <>
std::span<const Tensor> Arguments::as(const Json& value) {
  return lists_.emplace_back(as<std::vector<Tensor>>(value));
}
#define X(T)                                          \
  template <>                                         \
  std::optional<T> Arguments::as(const Json& value) { \
    if (value.is_null()) return {};                   \
    return as<T>(value);                              \
  }
X(Number)
X(double)
X(int64_t)
X(Dim)
X(bool)
X(DType)
#undef X

}  // namespace tandem::opinfo
