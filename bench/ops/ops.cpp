// tandem-ops: the worker of `./dev bench ops`. For each line `NAME eager|compiled forward|backward
// COUNT` of its input it prints the milliseconds of COUNT calls, each on a line; "backward" is
// forward and gradients. Its arguments, if not left out: the dtype that inputs of f32 are given,
// and the sides of the matrices that most functions are given, 1024x1024.
// `--list` prints the names, and whether each has gradients and can be compiled. The first call of
// a case in a mode compiles.
#include <cinttypes>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "bench/clock.h"
#include "bench/ops/cases.h"
#include "bench/ops/inputs.h"

namespace td = tandem;
using bench::OpCase;
using bench::Tensors;
using td::Tensor;

namespace {

using Function = std::function<Tensor(const Tensors&)>;

struct Prepared {
  Tensors inputs, leaves;
  Tensor weight;  // of the result, for gradients
  Function eager, compiled;
};

Prepared prepare(const OpCase& op, td::DType dtype) {
  td::manual_seed(1);
  Prepared p{.inputs = op.inputs(), .eager = op.call, .compiled = td::compile(Function(op.call))};
  if (dtype != td::f32)
    for (Tensor& t : p.inputs)
      if (t.dtype() == td::f32) t = t.to(dtype);
  if (!op.differentiates) return p;
  const Tensor result = p.eager(p.inputs);
  p.weight = td::randn(result.sizes(), result.dtype());
  for (const Tensor& t : p.inputs)
    if (tandem::ir::is_floating(t.dtype())) p.leaves.push_back(t.detach().requires_grad_());
  return p;
}

/// The inputs with leaves in the place of what is differentiated.
Tensors with_leaves(const Prepared& p) {
  Tensors inputs = p.inputs;
  size_t next = 0;
  for (Tensor& t : inputs)
    if (tandem::ir::is_floating(t.dtype())) t = p.leaves[next++];
  return inputs;
}

void time(const Prepared& p, bool is_compiled, bool backward, int count) {
  if (backward && p.leaves.empty())
    throw td::Error(td::Errc::Argument, "tandem-ops: a case without gradients");
  const Function& call = is_compiled ? p.compiled : p.eager;
  const Tensors inputs = backward ? with_leaves(p) : p.inputs;
  for (int i = 0; i < count; ++i) {
    const double seconds = bench::seconds_of([&] {
      const Tensor y = call(inputs);
      if (backward) td::grad({y}, p.leaves, {.grad_outputs = {p.weight}, .allow_unused = true});
    });
    std::printf("%.6f\n", seconds * 1e3);
  }
  std::fflush(stdout);
}

int list() {
  for (const OpCase& op : bench::op_cases())
    std::printf("%s %d %d\n", op.name.c_str(), op.differentiates, op.compiles);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, td::DType> dtypes = {
      {"f32", td::f32}, {"f64", td::f64}, {"bf16", td::bf16}, {"f16", td::f16}};
  const std::string argument = argc > 1 ? argv[1] : "f32";
  if (argument == "--list") return list();
  if (!dtypes.contains(argument)) {
    std::fprintf(stderr, "tandem-ops: expected f32, f64, bf16, f16 or --list, got %s\n",
                 argument.c_str());
    return 2;
  }
  const td::DType dtype = dtypes.at(argument);
  bench::inputs::Sides& sides = bench::inputs::sides;
  if (argc > 2 && std::sscanf(argv[2], "%" SCNd64 "x%" SCNd64, &sides.rows, &sides.columns) != 2)
    return 1;
  std::map<std::string, Prepared> cases;
  std::string name, how, direction;
  int count = 0;
  while (std::cin >> name >> how >> direction >> count) {
    try {
      if (!cases.contains(name)) {
        cases.clear();  // one at a time: memory as the other worker's
        for (const OpCase& op : bench::op_cases())
          if (op.name == name) cases.emplace(name, prepare(op, dtype));
      }
      time(cases.at(name), how == "compiled", direction == "backward", count);
    } catch (const td::Error&) {  // of this dtype, or gradients, there is none
      std::printf("nan\n");
      std::fflush(stdout);
    }
  }
}
