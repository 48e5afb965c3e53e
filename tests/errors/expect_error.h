// What every test of bad input asks: an Error with the right code, whose text says enough.
#ifndef TANDEM_TESTS_ERRORS_EXPECT_ERROR_H
#define TANDEM_TESTS_ERRORS_EXPECT_ERROR_H

#include <gtest/gtest.h>

#include <string>

#include "ir/error.h"

namespace tandem::testing {

/// Fails the running test unless `action` throws an Error with this code and `part` in its text.
template <class Action>
void expect_error(ir::Errc code, const std::string& part, const Action& action) {
  try {
    action();
    ADD_FAILURE() << "expected an Error with: " << part;
  } catch (const ir::Error& e) {
    EXPECT_EQ(ir::name(e.code()), ir::name(code)) << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos)
        << e.what() << "\nhas no: " << part;
  }
}

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_ERRORS_EXPECT_ERROR_H
