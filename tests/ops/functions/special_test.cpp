// How far special functions are from the true values (tests/torch/special_functions.tsv), in units
// in the last place, eager and compiled: of f64, and of f32, which is f64 rounded once.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace tandem::testing {
namespace {

struct Function {
  std::function<Tensor(const Tensor& x, const Tensor& y)> call;
  double units;      // of f64
  double least = 0;  // a value below it counts as this: where the function has zeros
};

#define TANDEM_UNARY(call) [](const Tensor& x, const Tensor&) { return call; }

const std::map<std::string, Function>& functions() {
  static const std::map<std::string, Function> all = {
      {"lgamma", {TANDEM_UNARY(lgamma(x)), 8}},
      {"lgamma_below", {TANDEM_UNARY(lgamma(x)), 16, 1}},
      {"digamma", {TANDEM_UNARY(digamma(x)), 8, 1}},
      {"digamma_below", {TANDEM_UNARY(digamma(x)), 16, 1}},
      {"trigamma", {TANDEM_UNARY(polygamma(1, x)), 8}},
      {"trigamma_below", {TANDEM_UNARY(polygamma(1, x)), 16}},
      {"polygamma3", {TANDEM_UNARY(polygamma(3, x)), 8}},
      {"erfinv", {TANDEM_UNARY(erfinv(x)), 8}},
      {"erfcx", {TANDEM_UNARY(special::erfcx(x)), 8}},
      {"ndtri", {TANDEM_UNARY(special::ndtri(x)), 8}},
      {"ndtr", {TANDEM_UNARY(special::ndtr(x)), 256}},
      {"log_ndtr", {TANDEM_UNARY(special::log_ndtr(x)), 64}},
      {"i0", {TANDEM_UNARY(i0(x)), 8}},
      {"i0e", {TANDEM_UNARY(special::i0e(x)), 8}},
      {"i1", {TANDEM_UNARY(special::i1(x)), 16}},
      {"i1e", {TANDEM_UNARY(special::i1e(x)), 16}},
      {"zeta", {[](const Tensor& x, const Tensor& y) { return special::zeta(x, y); }, 16}},
      {"zeta_below", {[](const Tensor& x, const Tensor& y) { return special::zeta(x, y); }, 64, 1}},
      {"igamma", {[](const Tensor& x, const Tensor& y) { return igamma(x, y); }, 512}},
      {"igammac", {[](const Tensor& x, const Tensor& y) { return igammac(x, y); }, 512}},
  };
  return all;
}

struct Points {
  std::vector<double> x, y, value;
};

std::map<std::string, Points> read_points() {
  std::map<std::string, Points> all;
  std::ifstream file(TANDEM_SOURCE_DIR "/tests/torch/special_functions.tsv");
  for (std::string name, x, y, value; file >> name >> x >> y >> value;) {
    Points& points = all[name];
    points.x.push_back(std::stod(x));
    points.y.push_back(y == "-" ? 0 : std::stod(y));
    points.value.push_back(std::stod(value));
  }
  return all;
}

/// The largest error in units of `epsilon`, and where.
std::pair<double, double> worst(const Tensor& got, const Points& points, double least,
                                double epsilon) {
  std::pair<double, double> found{0, 0};
  const std::vector<double> values = got.to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (epsilon > 0x1p-30 && std::abs(points.value[i]) > 0x1p127) continue;  // of f32: infinite
    const double unit = epsilon * std::max(std::abs(points.value[i]), least);
    const double error = std::abs(values[i] - points.value[i]) / unit;
    if (!(error <= found.first)) found = {error, points.x[i]};
  }
  return found;
}

Tensor tensor_of(const std::vector<double>& values, DType dtype) {
  return from_data(values, {static_cast<int64_t>(values.size())}).to(dtype);
}

TEST(SpecialFunctions, AreNearTheTrueValues) {
  const auto all = read_points();
  ASSERT_EQ(all.size(), functions().size());
  for (const auto& [name, points] : all) {
    SCOPED_TRACE(name);
    const Function& function = functions().at(name);
    const auto compiled = compile(function.call);
    for (DType dtype : {f64, f32}) {
      const bool is_double = dtype == f64;
      const double epsilon = is_double ? 0x1p-53 : 0x1p-24;
      const double allowed = is_double ? function.units : 1.01;
      const Tensor x = tensor_of(points.x, dtype), y = tensor_of(points.y, dtype);
      if (name == "ndtr" && !is_double) continue;  // made of f32 arithmetic
      const auto eager = worst(function.call(x, y), points, function.least, epsilon);
      const auto code = worst(compiled(x, y), points, function.least, epsilon);
      EXPECT_LE(eager.first, allowed) << "eager at " << eager.second;
      EXPECT_LE(code.first, allowed) << "compiled at " << code.second;
    }
  }
}

}  // namespace
}  // namespace tandem::testing
