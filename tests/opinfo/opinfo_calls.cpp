// opinfo_calls --list: the callables as JSON. opinfo_calls IN OUT: runs the calls of the file IN,
// eagerly and compiled, and writes their results and gradients to OUT (compare.py says what is in
// them).
#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iostream>
#include <span>

#include "tests/opinfo/arguments.h"

namespace tandem::opinfo {
namespace {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

double element_of(const Json& value) {
  if (!value.is_string()) return value.get<double>();
  const auto text = value.get<std::string>();
  return text == "nan" ? NAN : text == "inf" ? INFINITY : -INFINITY;
}

Tensor tensor_of(const Json& spec) {
  const DType dtype = *ir::dtype_named(spec.at("dtype").get<std::string>());
  std::vector<Number> values;
  for (const Json& v : spec.at("data"))
    values.emplace_back(ir::is_floating(dtype) ? Number(element_of(v)) : Number(v.get<int64_t>()));
  std::vector<Dim> sizes;
  for (const Json& n : spec.at("sizes")) sizes.emplace_back(n.get<int64_t>());
  const Tensor t = from_numbers(values, Shape(sizes), dtype);
  return spec.value("gap", false) ? stack({t, t}, -1).select(-1, 1) : t;
}

Json spec_of(const Tensor& t) {
  if (!t.defined()) return nullptr;
  Json data = Json::array();
  if (ir::is_floating(t.dtype()))
    for (const double v : t.to_vector<double>())
      data.push_back(std::isnan(v)   ? Json("nan")
                     : std::isinf(v) ? Json(v > 0 ? "inf" : "-inf")
                                     : Json(v));
  else
    for (const int64_t v : t.to_vector<int64_t>()) data.push_back(v);
  Json sizes = Json::array();
  for (const Dim n : t.sizes()) sizes.push_back(int64_t{n});
  return {{"dtype", ir::name(t.dtype())}, {"sizes", sizes}, {"data", data}};
}

Json specs_of(const Tensors& tensors) {
  Json all = Json::array();
  for (const Tensor& t : tensors) all.push_back(spec_of(t));
  return all;
}

/// The sum of all floating results (of the first `most`), each element times 1 to 7 over 7;
/// `signs`: of magnitudes.
Tensor weighted_sum(const Tensors& results, bool signs, size_t most) {
  Tensor sum;
  for (const Tensor& result : std::span(results).first(std::min(most, results.size()))) {
    if (!result.requires_grad() || result.numel() == 0) continue;
    const Tensor t = signs ? abs(result) : result;
    const Tensor weights =
        (remainder(arange(int64_t{t.numel()}), 7) + 1).to(t.dtype()).view(t.sizes()) / 7;
    const Tensor part = (t * weights).sum();
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

/// Results, gradients and gradients of the sum of their squares.
Json evaluated(const Function& function, const Json& call, const Tensors& given, bool twice) {
  Tensors tensors, wanted;
  for (size_t i = 0; i < given.size(); ++i) {
    const bool differentiates = call.at("tensors")[i].value("grad", false);
    tensors.push_back(differentiates ? given[i].detach().requires_grad_() : given[i].detach());
    if (differentiates) wanted.push_back(tensors.back());
  }
  const Tensors results = function(tensors);
  Json out = {{"results", specs_of(results)}, {"grads", nullptr}, {"seconds", nullptr}};
  const Tensor sum =
      weighted_sum(results, call.value("signs", false), call.value("summed", results.size()));
  if (wanted.empty() || !sum.defined()) return out;
  const Tensors first = grad({sum}, wanted, {.create_graph = twice, .allow_unused = true});
  out["grads"] = specs_of(first);
  if (!twice) return out;
  Tensor squares;
  for (const Tensor& g : first)
    if (g.defined() && g.requires_grad())
      squares = squares.defined() ? squares + (g * g).sum() : (g * g).sum();
  if (squares.defined()) out["seconds"] = specs_of(grad({squares}, wanted, {.allow_unused = true}));
  return out;
}

/// Of the overloads in turn the first that takes the arguments.
Json run(const Json& call, const std::vector<Callable>& all) {
  Tensors tensors;
  for (const Json& spec : call.at("tensors")) tensors.push_back(tensor_of(spec));
  std::string mismatch = "no overload";
  for (const Json& overload : call.at("overloads")) {
    const Callable& callable = all[overload.at("number").get<size_t>()];
    const Json& arguments = overload.at("arguments");
    const Function function = [&](const Tensors& in) {
      Arguments a(arguments, in);
      return callable.call(a);
    };
    Json out;
    try {
      manual_seed(1);
      out["eager"] = evaluated(function, call, tensors, call.value("twice", false));
    } catch (const Mismatch& e) {
      mismatch = e.what();
      continue;
    } catch (const ir::Error& e) {
      return {{"error", e.what()}, {"code", ir::name(e.code())}};
    }
    if (!call.value("compiled", false)) return out;
    try {
      const auto compiled = compile(function);
      out["compiled"] =
          evaluated([&](const Tensors& in) { return compiled(in); }, call, tensors, false);
    } catch (const ir::Error& e) {
      out["compiled"] = {{"error", e.what()}, {"code", ir::name(e.code())}};
    }
    return out;
  }
  return {{"mismatch", mismatch}};
}

int list() {
  Json all = Json::array();
  for (const Callable& c : callables()) all.push_back({c.name, c.parameters});
  std::cout << all << "\n";
  return 0;
}

int run_file(const char* from, const char* to) {
  const std::vector<Callable> all = callables();
  std::ifstream in(from);
  std::ofstream out(to);
  for (std::string line; std::getline(in, line);) {
    Json result;
    try {
      result = run(Json::parse(line), all);
    } catch (const ir::Error& e) {  // there are no such tensors
      result = {{"error", e.what()}, {"code", ir::name(e.code())}};
    } catch (const std::exception& e) {
      result = {{"failed", e.what()}};
    }
    out << result.dump() << std::endl;
  }
  return out ? 0 : 1;
}

}  // namespace
}  // namespace tandem::opinfo

int main(int count, char** arguments) {
  if (count == 2 && std::string(arguments[1]) == "--list") return tandem::opinfo::list();
  return count == 3 ? tandem::opinfo::run_file(arguments[1], arguments[2]) : 2;
}
