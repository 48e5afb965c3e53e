// Tables of functions that a compiled form must not be told from: each row is a test of its own,
// run by check_compiled in all settings of leaf and grad mode, through the JIT.
#ifndef TANDEM_TESTS_E2E_CONTRACT_H
#define TANDEM_TESTS_E2E_CONTRACT_H

#include <gtest/gtest.h>

#include "tests/support/check_compiled.h"

namespace tandem::testing {

struct Row {
  const char* name;
  MakeInputs inputs;
  Program function;
};

inline std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }

class Contract : public ::testing::TestWithParam<Row> {};

inline std::string name_of(const ::testing::TestParamInfo<Row>& info) { return info.param.name; }

/// Tensors of their own memory.
inline MakeInputs tensors(const std::vector<Shape>& sizes, DType dtype = f32) {
  return [=](Source& source) {
    Tensors t;
    for (size_t i = 0; i < sizes.size(); ++i) t.push_back(source.noise(sizes[i], i + 1, dtype));
    return t;
  };
}

/// What `views` shows of one tensor of these sizes.
inline MakeInputs views_of(const Shape& sizes, const std::function<Tensors(const Tensor&)>& views) {
  return [=](Source& source) { return views(source.noise(sizes, 1)); };
}

}  // namespace tandem::testing

/// Makes each row of `rows` a test suite/suiteRows.IsAsEager/NAME.
#define TANDEM_CONTRACT(suite, rows)                                                         \
  class suite##Rows : public Contract {};                                                    \
  TEST_P(suite##Rows, IsAsEager) { check_compiled(GetParam().function, GetParam().inputs); } \
  INSTANTIATE_TEST_SUITE_P(suite, suite##Rows, ::testing::ValuesIn(rows), name_of)

#endif  // TANDEM_TESTS_E2E_CONTRACT_H
