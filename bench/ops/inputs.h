// What the functions of cases.cpp are given; in operators.py by the same names.
#ifndef TANDEM_BENCH_OPS_INPUTS_H
#define TANDEM_BENCH_OPS_INPUTS_H

#include "bench/ops/cases.h"

namespace bench::inputs {

namespace td = tandem;
using td::Tensor;

/// Of the matrices that most functions are given.
struct Sides {
  int64_t rows = 1024, columns = 1024;
};
inline Sides sides;
inline td::Shape matrix() { return {sides.rows, sides.columns}; }

inline Tensors square() { return {td::randn(matrix())}; }
inline Tensors positive() { return {td::rand(matrix()) + 0.1}; }
inline Tensors two() { return {td::randn(matrix()), td::randn(matrix()) + 3}; }
inline Tensors three() { return {td::randn(matrix()), td::randn(matrix()), td::randn(matrix())}; }
inline Tensors row() { return {td::randn(matrix()), td::randn({sides.columns})}; }
inline Tensors masked() {
  return {td::randn(matrix()) > 0, td::randn(matrix()), td::randn(matrix())};
}
inline Tensors factors() { return {td::randn({512, 512}), td::randn({512, 512})}; }
inline Tensors batches() { return {td::randn({32, 128, 64}), td::randn({32, 64, 128})}; }
inline Tensors layer() {
  return {td::randn({256, 1024}), td::randn({512, 1024}), td::randn({512})};
}
inline Tensors norm() {
  return {td::randn(matrix()), td::randn({sides.columns}), td::randn({sides.columns})};
}
inline Tensors images() { return {td::randn({8, 64, 56, 56})}; }
inline Tensors channels() { return {td::randn({8, 64, 56, 56}), td::randn({64}), td::randn({64})}; }
inline Tensors conv() {
  return {td::randn({8, 32, 32, 32}), td::randn({64, 32, 3, 3}), td::randn({64})};
}
inline Tensors depthwise() {
  return {td::randn({8, 64, 56, 56}), td::randn({64, 1, 3, 3}), td::randn({64})};
}
inline Tensors line() { return {td::randn({8, 64, 512}), td::randn({64, 64, 3}), td::randn({64})}; }
inline Tensors transposed() {
  return {td::randn({8, 32, 16, 16}), td::randn({32, 32, 4, 4}), td::randn({32})};
}
inline Tensors heads() {
  return {td::randn({2, 8, 128, 64}), td::randn({2, 8, 128, 64}), td::randn({2, 8, 128, 64})};
}
inline Tensors logits() {
  return {td::randn({sides.rows / 2, sides.columns}),
          td::randint(0, sides.columns, {sides.rows / 2})};
}
inline Tensors chances() { return {td::randn(matrix()), td::rand(matrix())}; }
inline Tensors table() { return {td::randn({10000, 128}), td::randint(0, 10000, {32, 128})}; }
inline Tensors rows() {
  return {td::randn(matrix()), td::randint(0, sides.rows, {sides.rows / 2})};
}
inline Tensors places() {
  return {td::randn(matrix()), td::randint(0, sides.columns, {sides.rows, sides.columns / 2})};
}
inline Tensors added() {
  return {td::randn(matrix()), td::randint(0, sides.columns, {sides.rows, sides.columns / 2}),
          td::randn({sides.rows, sides.columns / 2})};
}
inline Tensor definite_matrix(const td::Shape& sizes) {
  const Tensor x = td::randn(sizes);
  return td::matmul(x, x.mT()) + td::eye(sizes.back()) * 10;
}
inline Tensors fractions() { return {td::rand(matrix()) * 1.8 - 0.9}; }
inline Tensors fractions_up() { return {td::rand(matrix())}; }
inline Tensors weights() { return {td::rand({512, 1024})}; }
inline Tensors integers() {
  return {td::randint(0, 1000, matrix()), td::randint(0, 1000, matrix())};
}
inline Tensors digits() { return {td::randint(0, 100, {256, 1024})}; }
inline Tensors numbers() { return {td::randint(0, 1000, {100000})}; }
inline Tensors numbers_few() { return {td::randint(0, 1000, {1024})}; }
inline Tensors halves() { return {td::randn(matrix(), td::bf16), td::randn(matrix(), td::bf16)}; }
inline Tensors half() { return {td::randn(matrix(), td::bf16)}; }
inline Tensors doubles() { return {td::randn(matrix(), td::f64)}; }
inline Tensors cube() { return {td::randn({64, 128, 128})}; }
inline Tensors masks() { return {td::randn(matrix()) > 0}; }
inline Tensors sorted() { return {td::sort(td::randn({10000}), 0).values, td::randn({100000})}; }
inline Tensors tested() { return {td::randint(0, 10000, {100000}), td::randint(0, 10000, {1000})}; }
inline Tensors long_rows() { return {td::randn({1000000}), td::randn({1000000})}; }
inline Tensors short_rows() { return {td::randn({1024}), td::randn({1024})}; }
inline Tensors row_alone() { return {td::randn({1024})}; }
inline Tensors one_row() { return {td::randn({1, 1024}), td::randn({1024, 1024})}; }
inline Tensors few_rows() { return {td::randn({8, 1024}), td::randn({1024, 1024})}; }
inline Tensors half_factors() {
  return {td::randn({512, 512}, td::bf16), td::randn({512, 512}, td::bf16)};
}
inline Tensors double_factors() {
  return {td::randn({512, 512}, td::f64), td::randn({512, 512}, td::f64)};
}
inline Tensors tall() { return {td::randn({100000, 16}), td::randn({16, 16})}; }
inline Tensors small_batches() { return {td::randn({4096, 8, 8}), td::randn({4096, 8, 8})}; }
inline Tensors added_batches() {
  return {td::randn({32, 128, 128}), td::randn({32, 128, 64}), td::randn({32, 64, 128})};
}
inline Tensors joined() {
  return {td::randn({32, 64, 64}), td::randn({32, 64, 64}), td::randn({32, 64})};
}
inline Tensors little() { return {td::randn({32, 32}), td::randn({32, 32})}; }
inline Tensors points() { return {td::randn({1000, 16}), td::randn({1000, 16})}; }
inline Tensors pairs() {
  return {td::randn({128, 64}), td::randn({128, 64}), td::randn({32, 64, 64})};
}
inline Tensors definite() { return {definite_matrix({256, 256})}; }
inline Tensors many_definite() { return {definite_matrix({256, 16, 16})}; }
inline Tensors equations() { return {definite_matrix({256, 256}), td::randn({256, 64})}; }
inline Tensors generators() { return {td::randn({64, 64}) * 0.1}; }
inline Tensors conv_1x1() {
  return {td::randn({8, 64, 28, 28}), td::randn({256, 64, 1, 1}), td::randn({256})};
}
inline Tensors first_layer() {
  return {td::randn({4, 3, 112, 112}), td::randn({64, 3, 7, 7}), td::randn({64})};
}
inline Tensors conv_5x5() {
  return {td::randn({4, 32, 28, 28}), td::randn({32, 32, 5, 5}), td::randn({32})};
}
inline Tensors conv_grouped() {
  return {td::randn({8, 64, 28, 28}), td::randn({64, 16, 3, 3}), td::randn({64})};
}
inline Tensors depthwise_5x5() {
  return {td::randn({8, 64, 28, 28}), td::randn({64, 1, 5, 5}), td::randn({64})};
}
inline Tensors line_depthwise() {
  return {td::randn({8, 64, 512}), td::randn({64, 1, 7}), td::randn({64})};
}
inline Tensors line_alone() { return {td::randn({8, 64, 2048})}; }
inline Tensors volume_conv() {
  return {td::randn({2, 16, 16, 16, 16}), td::randn({32, 16, 3, 3, 3}), td::randn({32})};
}
inline Tensors volumes() { return {td::randn({4, 16, 32, 32, 32})}; }
inline Tensors columns() { return {td::randn({4, 288, 3136})}; }
inline Tensors sampled() { return {td::randn({4, 32, 56, 56}), td::rand({4, 56, 56, 2}) * 2 - 1}; }
inline Tensors bags() { return {td::randn({10000, 128}), td::randint(0, 10000, {128, 32})}; }
inline Tensors spoken() {
  return {td::log_softmax(td::randn({100, 16, 50}), 2), td::randint(1, 50, {16, 20})};
}
inline Tensors heads_flat() { return {td::randn({4, 256, 8, 64})}; }
inline Tensors indexed() {
  return {td::randn(matrix()), td::randint(0, sides.rows, {100000}),
          td::randint(0, sides.columns, {100000})};
}
inline Tensors put_pairs() {
  return {td::randn(matrix()), td::randint(0, sides.rows, {100000}),
          td::randint(0, sides.columns, {100000}), td::randn({100000})};
}
inline Tensors added_rows() {
  return {td::randn(matrix()), td::randperm(sides.rows / 2),
          td::randn({sides.rows / 2, sides.columns})};
}
inline Tensors graph() {
  return {td::randn({5000, 64}), td::randint(0, 5000, {50000, 1}), td::randn({50000, 64})};
}
inline Tensors small_two() { return {td::randn({32, 32}), td::randn({32, 32})}; }
inline Tensors small_layer() { return {td::randn({8, 32}), td::randn({32, 32}), td::randn({32})}; }
inline Tensors small_logits() { return {td::randn({8, 10}), td::randint(0, 10, {8})}; }
inline Tensors small_table() { return {td::randn({100, 16}), td::randint(0, 100, {8})}; }
inline Tensors small_conv() {
  return {td::randn({1, 4, 8, 8}), td::randn({4, 4, 3, 3}), td::randn({4})};
}
inline Tensors small_equations() { return {definite_matrix({8, 8}), td::randn({8, 2})}; }
inline Tensors small_heads() { return {td::randn({1, 2, 8, 16})}; }
inline Tensors above_one() { return {td::rand(matrix()) + 1.1}; }
inline Tensors shifts() { return {td::randint(0, 1000, matrix()), td::randint(0, 8, matrix())}; }
inline Tensors two_positive() { return {td::rand(matrix()) + 0.1, td::rand(matrix()) + 0.1}; }
inline Tensors two_masks() { return {td::randn(matrix()) > 0, td::randn(matrix()) > 0}; }
inline Tensors zeta_arguments() {
  return {td::rand({256, 1024}) + 1.5, td::rand({256, 1024}) + 0.5};
}
inline Tensors digits_line() { return {td::randint(0, 3, {100000})}; }
inline Tensors edges() { return {td::randn({100000}), td::sort(td::randn({100}), 0).values}; }
inline Tensors taken() {
  return {td::randn(matrix()), td::randint(0, 1000000, {100000}), td::randn({100000})};
}
inline Tensors space() { return {td::randn({100000, 3}), td::randn({100000, 3})}; }
inline Tensors added_layer() {
  return {td::randn({512}), td::randn({256, 1024}), td::randn({1024, 512})};
}
inline Tensors added_vector() {
  return {td::randn({sides.rows}), td::randn(matrix()), td::randn({sides.columns})};
}
inline Tensors added_outer() {
  return {td::randn(matrix()), td::randn({sides.rows}), td::randn({sides.columns})};
}
inline Tensors summed_batches() {
  return {td::randn({128, 128}), td::randn({32, 128, 64}), td::randn({32, 64, 128})};
}
inline Tensors tensors() { return {td::randn({64, 32, 16}), td::randn({32, 16, 64})}; }
inline Tensors chain() {
  return {td::randn({256, 32}), td::randn({32, 512}), td::randn({512, 64})};
}
inline Tensors little_matrix() { return {td::randn({128, 128}) * 0.1}; }
inline Tensors tall_matrix() { return {td::randn({256, 64}), td::randn({256, 8})}; }
inline Tensors short_labels() { return {td::rand({512, 100}), td::randint(0, 100, {512})}; }
inline Tensors many_labels() { return {td::randn({512, 100}), td::randint(0, 2, {512, 100})}; }
inline Tensors signs() {
  return {td::randn(matrix()), td::randn(matrix()), td::sign(td::randn(matrix()))};
}
inline Tensors sign_of_rows() {
  return {td::randn(matrix()), td::randn(matrix()), td::sign(td::randn({sides.rows}))};
}
inline Tensors chances_of_chances() {
  return {td::rand(matrix()) * 0.98 + 0.01, td::rand(matrix())};
}
inline Tensors measured() {
  return {td::randn(matrix()), td::randn(matrix()), td::rand(matrix()) + 0.1};
}
inline Tensors few_points() { return {td::randn({500, 16})}; }
inline Tensors line_transposed() {
  return {td::randn({8, 64, 256}), td::randn({64, 32, 4}), td::randn({32})};
}
inline Tensors volume_transposed() {
  return {td::randn({2, 16, 8, 8, 8}), td::randn({16, 16, 4, 4, 4}), td::randn({16})};
}
inline Tensors angles() { return {td::randn({8, 2, 3})}; }
inline Tensors half_heads() {
  return {td::randn({2, 8, 128, 64}, td::bf16), td::randn({2, 8, 128, 64}, td::bf16),
          td::randn({2, 8, 128, 64}, td::bf16)};
}
inline Tensors masked_heads() {
  return {td::randn({2, 8, 128, 64}), td::randn({2, 8, 128, 64}), td::randn({2, 8, 128, 64}),
          td::randn({128, 128})};
}
inline Tensors one_query() {
  return {td::randn({2, 8, 1, 64}), td::randn({2, 8, 1024, 64}), td::randn({2, 8, 1024, 64})};
}
inline Tensors half_rows() {
  return {td::randn(matrix()), td::randn({sides.rows / 2, sides.columns})};
}
inline Tensors table_of_halves() {
  return {td::randn(matrix(), td::bf16), td::randn({sides.columns}, td::bf16),
          td::randn({sides.columns}, td::bf16)};
}
inline Tensors small_row() { return {td::randn({32, 32}), td::randn({32})}; }

}  // namespace bench::inputs

#endif  // TANDEM_BENCH_OPS_INPUTS_H
