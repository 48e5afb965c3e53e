// Calls of public functions by name, with arguments that came as JSON: what ./dev test-torch
// drives.
#ifndef TANDEM_TESTS_OPINFO_ARGUMENTS_H
#define TANDEM_TESTS_OPINFO_ARGUMENTS_H

#include <tandem/ops/shapes.h>
#include <tandem/tandem.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::opinfo {

using Json = nlohmann::json;

/// An argument of another kind than the overload takes.
struct Mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The arguments of one call by name. Tensors are {"t": number}, numbers beyond JSON {"float":
/// "nan"}, dtypes {"dtype": "f32"}, all else is JSON.
class Arguments {
 public:
  Arguments(const Json& given, const std::vector<Tensor>& tensors)
      : given_(given), tensors_(tensors) {}

  template <class T>
  T get(const char* name) {
    if (!given_.contains(name)) throw Mismatch(std::string("no ") + name);
    return as<T>(given_.at(name));
  }
  template <class T>
  T get(const char* name, T otherwise) {
    return given_.contains(name) ? as<T>(given_.at(name)) : otherwise;
  }
  /// A field of options.
  template <class T>
  void set(const char* name, T& field) {
    if (given_.contains(name)) field = as<T>(given_.at(name));
  }

 private:
  template <class T>
  T as(const Json& value);

  const Json& given_;
  const std::vector<Tensor>& tensors_;
  std::deque<std::vector<Tensor>> lists_;  // what spans look at
};

struct Callable {
  const char* name;
  /// The parameters in order, options written out; those in [] may be left out.
  const char* parameters;
  std::vector<Tensor> (*call)(Arguments& a);
};

/// Made by generate.py of the public headers, in parts.
std::vector<Callable> callables();

/// All tensors of a result, in order.
inline void add_results(std::vector<Tensor>& all, const Tensor& t) { all.push_back(t); }
inline void add_results(std::vector<Tensor>& all, bool flag) {
  all.push_back(tensor(Number(flag)));
}
inline void add_results(std::vector<Tensor>& all, const std::vector<Tensor>& tensors) {
  for (const Tensor& t : tensors) all.push_back(t);
}
template <class T>
void add_results(std::vector<Tensor>& all, const T& structure) {
  std::apply([&](const auto&... field) { (add_results(all, field), ...); },
             const_cast<T&>(structure).tandem_fields());
}
template <class T>
std::vector<Tensor> results(const T& result) {
  std::vector<Tensor> all;
  add_results(all, result);
  return all;
}

}  // namespace tandem::opinfo

#endif  // TANDEM_TESTS_OPINFO_ARGUMENTS_H
