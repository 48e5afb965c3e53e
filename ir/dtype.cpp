#include "ir/dtype.h"

namespace tandem::ir {
namespace {

struct Row {
  std::string_view name;
  uint8_t bytes;
  Category category;
};

constexpr Row kRows[kDTypeCount] = {{"f64", 8, Category::Floating},  {"f32", 4, Category::Floating},
                                    {"bf16", 2, Category::Floating}, {"f16", 2, Category::Floating},
                                    {"i64", 8, Category::Integer},   {"i32", 4, Category::Integer},
                                    {"i16", 2, Category::Integer},   {"i8", 1, Category::Integer},
                                    {"u8", 1, Category::Integer},    {"bool", 1, Category::Bool}};

const Row& row(DType d) { return kRows[static_cast<size_t>(d)]; }

}  // namespace

std::string_view name(DType d) { return row(d).name; }
size_t size_of(DType d) { return row(d).bytes; }
Category category(DType d) { return row(d).category; }

bool is_integral(DType d) {
  switch (category(d)) {
    case Category::Bool:
    case Category::Integer:
      return true;
    case Category::Floating:
      return false;
  }
  __builtin_unreachable();
}

bool is_held_as_double(DType d) {
  switch (category(d)) {
    case Category::Bool:
    case Category::Integer:
      return false;
    case Category::Floating:
      return true;
  }
  __builtin_unreachable();
}

bool is_differentiable(DType d) {
  switch (category(d)) {
    case Category::Bool:
    case Category::Integer:
      return false;
    case Category::Floating:
      return true;
  }
  __builtin_unreachable();
}

DType integer_of(int64_t bytes) {
  return bytes == 1 ? DType::U8 : bytes == 2 ? DType::I16 : bytes == 4 ? DType::I32 : DType::I64;
}

DType at_least_float(DType dtype) { return is_integral(dtype) ? DType::F32 : dtype; }

std::optional<DType> dtype_named(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (kRows[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

/// Of two of one category.
static DType wider(DType a, DType b) {
  if (size_of(a) != size_of(b)) return size_of(a) > size_of(b) ? a : b;
  switch (category(a)) {
    case Category::Bool:
      return DType::Bool;
    case Category::Integer:
      return DType::I16;  // i8 with u8
    case Category::Floating:
      return DType::F32;  // bf16 with f16
  }
  __builtin_unreachable();
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (category(a) != category(b)) return category(a) > category(b) ? a : b;
  return wider(a, b);
}

}  // namespace tandem::ir
