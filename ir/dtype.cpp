#include "ir/dtype.h"

namespace tandem::ir {
namespace {

struct Row {
  std::string_view name;
  uint8_t bytes;
  bool floating;
};

constexpr Row kRows[kDTypeCount] = {
    {"f64", 8, true},  {"f32", 4, true},  {"bf16", 2, true}, {"f16", 2, true}, {"i64", 8, false},
    {"i32", 4, false}, {"i16", 2, false}, {"i8", 1, false},  {"u8", 1, false}, {"bool", 1, false}};

const Row& row(DType d) { return kRows[static_cast<size_t>(d)]; }

}  // namespace

std::string_view name(DType d) { return row(d).name; }
size_t size_of(DType d) { return row(d).bytes; }
bool is_floating(DType d) { return row(d).floating; }
bool is_integer(DType d) { return !row(d).floating && d != DType::Bool; }

DType integer_of(int64_t bytes) {
  return bytes == 1 ? DType::U8 : bytes == 2 ? DType::I16 : bytes == 4 ? DType::I32 : DType::I64;
}

std::optional<DType> dtype_named(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (kRows[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (is_floating(a))
    return size_of(a) == size_of(b) ? DType::F32 : (size_of(a) > size_of(b) ? a : b);
  if (a == DType::Bool) return b;
  if (b == DType::Bool) return a;
  if (size_of(a) == size_of(b)) return DType::I16;  // i8 with u8
  return size_of(a) > size_of(b) ? a : b;
}

}  // namespace tandem::ir
