// What every test of bad input asks: an Error with the right code, whose text says enough.
#ifndef TANDEM_TESTS_SUPPORT_EXPECT_ERROR_H
#define TANDEM_TESTS_SUPPORT_EXPECT_ERROR_H

#include <gtest/gtest.h>

#include <string>

#include "ir/base/error.h"

namespace tandem::testing {

/// The text of the Error that `action` throws. Fails the running test unless it throws one with
/// this code.
template <class Action>
std::string error_of(const Action& action, ir::Errc code) {
  try {
    action();
  } catch (const ir::Error& e) {
    EXPECT_EQ(ir::name(e.code()), ir::name(code)) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "expected an Error";
  return "";
}

/// Fails the running test unless `action` throws an Error with this code and `part` in its text.
template <class Action>
void expect_error(ir::Errc code, const std::string& part, const Action& action) {
  const std::string text = error_of(action, code);
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nhas no: " << part;
}

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_EXPECT_ERROR_H
