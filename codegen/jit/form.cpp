#include "codegen/jit/form.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "codegen/hasher.h"
#include "codegen/jit/emit/ranges.h"
#include "codegen/jit/open_sizes.h"
#include "codegen/loops/scalar_ops.h"

namespace tandem::jit {
namespace {

using codegen::Instr;
using codegen::Kernel;
using ir::Number;
using Constants = codegen::ScalarOp::Constants;

/// What open numbers are in the kernel of a form: outside of [-1, 1], since nothing is known of
/// them.
constexpr int kOpenNumber = 2;

/// Or minus one.
bool is_power_of_two(const Number& n) {
  int exponent;
  if (n.is_float()) return std::abs(std::frexp(n.to_double(), &exponent)) == 0.5;
  const auto bits = static_cast<uint64_t>(n.to_int());
  return std::has_single_bit(n.to_int() < 0 ? -bits : bits);
}

bool is_zero(const Number& n) { return n.to_double() == 0; }

/// Whether code that does not know the number `n` of argument `arg` is as good. Divisions by powers
/// of two are products, products of integers with them shifts; a choice of 0 is a mask.
bool is_as_good_without(const Instr& user, size_t arg, const Number& n) {
  if (user.kind == Instr::Kind::Store) return !is_zero(n);
  if (user.kind != Instr::Kind::Compute) return false;
  switch (codegen::scalar_op(user.op).constants) {
    case Constants::Known:
      return false;
    case Constants::Open:
      return true;
    case Constants::Factor:
      return ir::is_floating(user.dtype) || !(is_zero(n) || is_power_of_two(n));
    case Constants::Divisor:
      return arg == 0 || !is_power_of_two(n);
    case Constants::Choice:
      return !is_zero(n);
  }
  return false;
}

/// By instruction: whether it is a constant that can be open. One that says in which range a result
/// lies cannot.
std::vector<bool> openable(const Kernel& kernel) {
  const std::vector<bool> unit = within_unit(kernel);
  std::vector<bool> open(kernel.code.size());
  for (size_t at = 0; at < kernel.code.size(); ++at) {
    const Instr& i = kernel.code[at];
    open[at] = i.kind == Instr::Kind::Constant && i.dtype != ir::DType::Bool;
    for (size_t a = 0; a < i.args.size(); ++a) {
      const uint32_t from = i.args[a].index;
      if (!open[from]) continue;
      const Number n = ir::rounded_to(kernel.code[from].dtype, kernel.code[from].number);
      open[from] = !unit[at] && is_as_good_without(i, a, n);
    }
    for (const auto& index : i.access.indirect) open[index.value.index] = false;
  }
  return open;
}

/// The number as it is in a register of `dtype` (emit/emit_compute.h), in the lowest bytes.
uint64_t register_bits(ir::DType dtype, const Number& number) {
  const Number n = ir::rounded_to(dtype, number);
  if (dtype == ir::DType::F64) return std::bit_cast<uint64_t>(n.to_double());
  if (ir::is_floating(dtype)) return std::bit_cast<uint32_t>(static_cast<float>(n.to_double()));
  return static_cast<uint64_t>(n.to_int());
}

}  // namespace

bool is_multiple(int64_t size, int64_t power) {
  return is_open_size(size) ? (int64_t{1} << OpenSize::decoded(size).shift) % power == 0
                            : size % power == 0;
}

Opened opened(const Kernel& kernel, Openness openness) {
  Opened out{{kernel}, {}};
  const std::vector<bool> open = openable(kernel);
  for (size_t at = 0; at < open.size(); ++at) {
    if (!open[at]) continue;
    Instr& constant = out.form.kernel.code[at];
    out.form.open.push_back({static_cast<uint32_t>(at)});
    out.numbers.push_back(register_bits(constant.dtype, constant.number));
    constant.number = kOpenNumber;
  }
  open_sizes(out, openness);
  return out;
}

uint64_t hash(const Form& form) {
  codegen::Hasher hasher{codegen::hash(form.kernel)};
  for (codegen::InstrId at : form.open) hasher.word(at.index);
  for (int64_t extent : form.extents) hasher.word(extent);
  return hasher.state;
}

std::string content(const Form& form) {
  std::string open;
  for (codegen::InstrId at : form.open) open += std::to_string(at.index) + ",";
  open += ";" + std::to_string(form.sizes) + ";";
  for (int64_t extent : form.extents) open += std::to_string(extent) + ",";
  return open + ";" + codegen::content(form.kernel);
}

}  // namespace tandem::jit
