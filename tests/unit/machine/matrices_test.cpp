// Factors and solutions of matrices without elements, which may have no memory: at its address,
// null, nothing is read or written, nor is anything reached from it (as the sanitizers see).
#include "machine/linalg/matrices.h"

#include <gtest/gtest.h>

#include <vector>

#include "ir/buffer.h"

namespace tandem::machine {
namespace {

using ir::BufferView;
using ir::DType;
using ir::Shape;

struct Operand {
  Shape sizes;
  DType dtype;
};

/// Operands of one call: ones, which pivots may be too, at no address where there are none.
class Operands {
 public:
  explicit Operands(const std::vector<Operand>& operands) {
    memory_.reserve(operands.size());
    for (const auto& [sizes, dtype] : operands) {
      ir::Buffer& buffer = memory_.emplace_back(ir::Type{dtype, sizes});
      for (int64_t i = 0; i < buffer.numel(); ++i) buffer.set(i, 1);
      views_.push_back(buffer.view());
      if (buffer.numel() == 0) views_.back().data = nullptr;
    }
  }
  std::span<const BufferView> views() const { return views_; }

 private:
  std::vector<ir::Buffer> memory_;
  std::vector<BufferView> views_;
};

void run(std::string_view op, const std::vector<Operand>& in, const std::vector<int64_t>& numbers,
         const std::vector<Operand>& out) {
  SCOPED_TRACE(op);
  const Operands inputs(in), outputs(out);
  EXPECT_NO_THROW(matrix_function(op)({inputs.views(), numbers, outputs.views(), op}));
}

class EmptyMatrices : public ::testing::TestWithParam<DType> {};

TEST_P(EmptyMatrices, OfAnySides) {
  const DType t = GetParam();
  const auto i32 = DType::I32, i64 = DType::I64;
  for (const auto& [m, n] : {std::pair{0, 0}, {0, 3}, {3, 0}}) {
    SCOPED_TRACE(testing::Message() << m << " x " << n);
    const Shape sides{2, m, n};
    run("lu_factor", {{sides, t}}, {0}, {{sides, t}, {{2, 0}, i32}, {{2}, i32}});
    run("lu_permutation", {{{2, 0}, i32}}, {m}, {{{2, m}, i64}});
    for (const int64_t full : {0, 1}) {
      const int64_t q = full != 0 ? m : 0, right = full != 0 ? n : 0;
      run("qr", {{sides, t}}, {full}, {{{2, m, q}, t}, {{2, q, n}, t}});
      run("svd", {{sides, t}}, {full}, {{{2, m, q}, t}, {{2, 0}, t}, {{2, right, n}, t}});
    }
    run("geqrf", {{sides, t}}, {}, {{sides, t}, {{2, 0}, t}});
  }
}

TEST_P(EmptyMatrices, OfEqualSides) {
  const DType t = GetParam();
  const auto i32 = DType::I32;
  const Operand square{{2, 0, 0}, t};
  run("cholesky", {square}, {1}, {square, {{2}, i32}});
  run("lu_factor", {square}, {1}, {square, {{2, 0}, i32}, {{2}, i32}});
  run("eigh", {square}, {}, {{{2, 0}, t}, square});
  run("matrix_exp", {square}, {}, {square});
}

TEST_P(EmptyMatrices, Solutions) {
  const DType t = GetParam();
  for (const auto& [n, columns] : {std::pair{0, 0}, {0, 3}, {3, 0}})
    for (const int64_t flag : {0, 1}) {
      SCOPED_TRACE(testing::Message() << n << " equations, " << columns << " right sides");
      const Operand a{{2, n, n}, t}, b{{2, n, columns}, t};
      run("triangular_solve", {a, b}, {flag, 0}, {b});
      run("lu_solve", {a, a, {{2, n}, DType::I32}, b}, {flag}, {b});
    }
}

INSTANTIATE_TEST_SUITE_P(Floats, EmptyMatrices, ::testing::Values(DType::F32, DType::F64));

}  // namespace
}  // namespace tandem::machine
