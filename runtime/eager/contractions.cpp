// Matrix products: f32 (and halves, widened) through the library calls of codegen/exec, the other
// dtypes by plain blocked loops.
#include <algorithm>
#include <optional>

#include "ir/strides.h"
#include "machine/library/bf16_matmul.h"
#include "machine/library/matmul.h"
#include "machine/products/f64/f64_rows.h"
#include "machine/threads/thread_pool.h"
#include "runtime/eager/kernels.h"
#include "runtime/eager/loops.h"
#include "runtime/ops/matmul_precision.h"

namespace tandem::runtime::eager::kernels {
namespace {

/// A batch of matrices [b, m, n]; [m, n] is a batch of one.
struct Matrices {
  const BufferView& view;
  int64_t batch() const { return view.sizes.rank() == 3 ? int64_t{view.sizes[0]} : 1; }
  int64_t rows() const { return view.sizes[view.sizes.rank() - 2]; }
  int64_t columns() const { return view.sizes.back(); }
  machine::MatrixStrides strides() const {
    const int last = view.strides.rank() - 1;
    return {last == 2 ? int64_t{view.strides[0]} : 0, view.strides[last - 1], view.strides[last]};
  }
};

machine::MatmulSpec spec_of(const BufferView& a, const BufferView& b, const BufferView& c,
                            bool accumulate) {
  machine::MatmulSpec spec;
  spec.batch = Matrices{a}.batch();
  spec.m = Matrices{a}.rows();
  spec.k = Matrices{a}.columns();
  spec.n = Matrices{b}.columns();
  spec.a = Matrices{a}.strides();
  spec.b = Matrices{b}.strides();
  spec.c = Matrices{c}.strides();
  spec.accumulate = accumulate;
  spec.precision = of_machine(float32_matmul_precision());
  return spec;
}

/// f32 matrices; operands whose strides the library does not take are copied.
void multiply_f32(const BufferView& a, const BufferView& b, const BufferView& c, bool accumulate) {
  machine::MatmulSpec spec = spec_of(a, b, c, accumulate);
  std::optional<Packed> packed_a, packed_b;
  if (!machine::matmul_supports(spec)) {
    packed_a.emplace(a);
    packed_b.emplace(b);
    spec = spec_of(packed_a->view(), packed_b->view(), c, accumulate);
  }
  const auto data = [](const std::optional<Packed>& packed, const BufferView& view) {
    return static_cast<const float*>(packed ? packed->view().data : view.data);
  };
  machine::shared_matmul(spec)->run(data(packed_a, a), data(packed_b, b),
                                    static_cast<float*>(c.data));
}

/// bf16 matrices as the library's products have them: dense, or the transposition of dense ones.
struct DenseMatrices {
  explicit DenseMatrices(const BufferView& v) : data(v.data) {
    const int64_t rows = Matrices{v}.rows(), columns = Matrices{v}.columns();
    const machine::MatrixStrides s = Matrices{v}.strides();
    const bool one = Matrices{v}.batch() == 1 || s.batch == rows * columns;
    if (one && (s.col == 1 || columns == 1) && (s.row == columns || rows == 1)) return;
    transposed = one && (s.row == 1 || rows == 1) && (s.col == rows || columns == 1);
    if (!transposed) data = packed.emplace(v).view().data;
  }
  std::optional<Packed> packed;
  bool transposed = false;
  const void* data;
};

/// bf16 matrices, C row-major and dense.
void multiply_bf16(const BufferView& a, const BufferView& b, const BufferView& c, bool accumulate) {
  const DenseMatrices left(a), right(b);
  machine::multiply_bf16({.batch = Matrices{c}.batch(),
                          .m = Matrices{c}.rows(),
                          .n = Matrices{c}.columns(),
                          .k = Matrices{a}.columns(),
                          .transposed_a = left.transposed,
                          .transposed_b = right.transposed,
                          .accumulate = accumulate},
                         left.data, right.data, c.data);
}

/// Whether C can be written as it lies.
bool is_dense(const BufferView& c) { return c.strides == ir::contiguous_strides(c.sizes); }

/// C += A B, by one thread.
template <class T>
void add_product(const machine::products::DenseRows<T>& p) {
  if constexpr (std::is_same_v<T, double>)
    machine::products::add_f64_product(p);
  else
    machine::products::add_product(p);
}

/// Dense matrices of any other dtype, added into C.
void multiply_dense(const BufferView& a, const BufferView& b, const BufferView& c) {
  const int64_t m = Matrices{a}.rows(), k = Matrices{a}.columns(), n = Matrices{b}.columns();
  const int64_t rows = Matrices{a}.batch() * m;
  with_type<Numbers>(c.dtype, [&]<class T>(Tag<T>) {
    if constexpr (!is_half<T>) {
      const int64_t grain = std::max<int64_t>(kParallelElements / std::max<int64_t>(n * k, 1), 1);
      machine::parallel_for(rows, grain, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin, next; row < end; row = next) {
          next = std::min(end, (row / m + 1) * m);  // of one matrix
          add_product<T>({next - row, n, k, static_cast<const T*>(a.data) + row * k,
                          static_cast<const T*>(b.data) + row / m * k * n,
                          static_cast<T*>(c.data) + row * n});
        }
      });
    }
  });
}

void set_zero(const BufferView& c) {
  uint64_t zero = 0;
  copy_elements({&zero, c.dtype, c.sizes, Strides::filled(c.sizes.rank(), 0)}, c);
}

/// C = A B, or C += A B.
void multiply(const BufferView& a, const BufferView& b, const BufferView& c, bool accumulate) {
  if (ir::numel(c.sizes) == 0) return;
  if (Matrices{a}.columns() == 0) return accumulate ? void() : set_zero(c);
  if (c.dtype == DType::F32) return multiply_f32(a, b, c, accumulate);
  if (c.dtype == DType::BF16 && machine::has_bf16_products() && is_dense(c))
    return multiply_bf16(a, b, c, accumulate);
  if (ir::is_half(c.dtype)) {
    const Packed wide_a(a.sizes, DType::F32), wide_b(b.sizes, DType::F32),
        wide_c(c.sizes, DType::F32);
    copy_elements(a, wide_a.view());
    copy_elements(b, wide_b.view());
    if (accumulate) copy_elements(c, wide_c.view());
    multiply_f32(wide_a.view(), wide_b.view(), wide_c.view(), accumulate);
    return copy_elements(wide_c.view(), c);
  }
  if (!accumulate) set_zero(c);
  const Packed dense_a(a), dense_b(b);
  multiply_dense(dense_a.view(), dense_b.view(), c);
}

}  // namespace

void mm(const Args& a) { multiply(a.in[0], a.in[1], a.out, false); }
void bmm(const Args& a) { multiply(a.in[0], a.in[1], a.out, false); }
void addmm(const Args& a) {
  copy_elements(a.in[0], a.out);
  multiply(a.in[1], a.in[2], a.out, true);
}

}  // namespace tandem::runtime::eager::kernels
