// The files of tests/torch/tensor_files.py.
#ifndef TANDEM_TESTS_TRAINING_IO_TENSOR_FILES_H
#define TANDEM_TESTS_TRAINING_IO_TENSOR_FILES_H

#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <string>
#include <vector>

namespace tandem::testing {

inline std::string fixture(const std::string& name) {
  return std::string(TANDEM_SOURCE_DIR "/tests/torch/files/") + name;
}

/// Checks that the elements are 0, 1, 2, ... (of bool: odd numbers are true).
inline void expect_numbers(const Tensor& tensor, DType dtype, const Shape& sizes) {
  EXPECT_EQ(ir::name(tensor.dtype()), ir::name(dtype));
  EXPECT_EQ(tensor.sizes(), sizes);
  const std::vector<double> values = tensor.to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], static_cast<double>(dtype == boolean ? i % 2 : i)) << ir::name(dtype);
}

/// The same elements, dtype and sizes.
inline void expect_same(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(ir::name(a.dtype()), ir::name(b.dtype()));
  ASSERT_EQ(a.sizes(), b.sizes());
  EXPECT_EQ(a.to_vector<double>(), b.to_vector<double>());
}

/// One of each dtype, and tensors of odd shapes and strides.
inline NamedTensors one_of_each() {
  NamedTensors tensors;
  for (const DType dtype : {f64, f32, bf16, f16, i64, i32, i16, i8, u8, boolean})
    tensors.emplace_back(std::string(ir::name(dtype)), arange(6).reshape({2, 3}).to(dtype));
  tensors.emplace_back("scalar", full({}, 2.5, f64));
  tensors.emplace_back("empty", zeros({0, 3}));
  tensors.emplace_back("transposed", arange(12).reshape({3, 4}).t());
  tensors.emplace_back("expanded", ones({1, 3}).expand({2, 3}));
  return tensors;
}

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_TRAINING_IO_TENSOR_FILES_H
