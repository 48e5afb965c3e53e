#include "runtime/ops/matmul_precision.h"

#include <atomic>
#include <utility>

namespace tandem {
namespace {

constexpr int kNone = -1;
std::atomic<MatmulPrecision> g_of_process = MatmulPrecision::Highest;
constinit thread_local int t_of_scope = kNone;

}  // namespace

void set_float32_matmul_precision(MatmulPrecision precision) { g_of_process = precision; }

MatmulPrecision float32_matmul_precision() {
  return t_of_scope == kNone ? g_of_process.load() : static_cast<MatmulPrecision>(t_of_scope);
}

MatmulPrecisionScope::MatmulPrecisionScope(MatmulPrecision precision)
    : previous_(std::exchange(t_of_scope, static_cast<int>(precision))) {}
MatmulPrecisionScope::~MatmulPrecisionScope() { t_of_scope = previous_; }

namespace runtime {

machine::MatmulPrecision of_machine(MatmulPrecision precision) {
  static_assert(static_cast<int>(MatmulPrecision::Medium) ==
                static_cast<int>(machine::MatmulPrecision::Medium));
  return static_cast<machine::MatmulPrecision>(precision);
}

std::string_view name(MatmulPrecision precision) {
  constexpr std::string_view kNames[] = {"highest", "high", "medium"};
  return kNames[static_cast<size_t>(precision)];
}

}  // namespace runtime
}  // namespace tandem
