// Element types, their properties and ATen's promotion between them.
#ifndef TANDEM_IR_DTYPE_H
#define TANDEM_IR_DTYPE_H

#include <tandem/ir/export.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem::ir {

enum class DType : uint8_t { F64, F32, BF16, F16, I64, I32, I16, I8, U8, Bool };
inline constexpr int kDTypeCount = 10;

/// "f64", "f32", "bf16", "f16", "i64", "i32", "i16", "i8", "u8", "bool".
TANDEM_API std::string_view name(DType dtype);
TANDEM_API std::optional<DType> dtype_named(std::string_view name);

/// Bytes of one element.
TANDEM_API size_t size_of(DType dtype);

/// What the values of a dtype are, in the order of promotion. Code with a way for each asks by a
/// switch without default, or one of the questions below, never "not floating": where another
/// category is not handled, it does not compile.
enum class Category : uint8_t { Bool, Integer, Floating };

TANDEM_API Category category(DType dtype);

inline bool is_floating(DType dtype) { return category(dtype) == Category::Floating; }
/// f16 and bf16: computed with in f32.
inline bool is_half(DType dtype) { return is_floating(dtype) && size_of(dtype) == 2; }
/// Integers, not bool.
inline bool is_integer(DType dtype) { return category(dtype) == Category::Integer; }
/// Integers and bool: computed exactly, and what indices and masks are.
TANDEM_API bool is_integral(DType dtype);
/// Whether a double stands for one element where it is computed with (a Number, an interpreter's
/// cell); else an int64_t does.
TANDEM_API bool is_held_as_double(DType dtype);
/// Has gradients (ATen: isDifferentiableType).
TANDEM_API bool is_differentiable(DType dtype);

/// The integers that stand for any elements of this size: u8, i16, i32, i64.
TANDEM_API DType integer_of(int64_t bytes);

/// What an op computes integers and bool in that it defines for floating dtypes only: f32.
TANDEM_API DType at_least_float(DType dtype);

/// ATen's promotion of two tensors' dtypes of the same category (torch.promote_types).
TANDEM_API DType promote(DType a, DType b);

}  // namespace tandem::ir

#endif  // TANDEM_IR_DTYPE_H
