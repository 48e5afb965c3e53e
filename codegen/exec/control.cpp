#include "codegen/exec/control.h"

#include <algorithm>
#include <cstring>

#include "codegen/exec/plan_runner.h"

namespace tandem::exec {

using codegen::ExternalCall;
using ir::Attr;

namespace {

using Addresses = std::vector<void*>;

size_t bytes_of(const ir::Type& type) {
  return static_cast<size_t>(int64_t{ir::size_in_bytes(type)});
}

void copy(const void* from, void* to, size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

/// A body, with the memory that it works in until the loop ends.
class Body {
 public:
  Body(const ExternalCall& call, const Bodies& bodies, Attr attr)
      : runner_(*bodies[call.attr<ir::SubgraphId>(attr).index]), memory_(runner_) {}

  /// Inputs [first, last) stay as they are until the loop ends.
  void keep(const Addresses& inputs, size_t first, size_t last) {
    memory_.keep(runner_, inputs.data(), first, last);
  }

  /// An output that is an input is copied: here each has a place of its own.
  void run(const Addresses& inputs, const Addresses& outputs) {
    runner_.run_in(memory_, inputs.data(), outputs.data());
    const codegen::Plan& plan = runner_.plan();
    for (size_t o = 0; o < outputs.size(); ++o)
      if (const int from = plan.outputs[o].from_input; from >= 0)
        copy(inputs[static_cast<size_t>(from)], outputs[o], bytes_of(plan.outputs[o].type));
  }

 private:
  const PlanRunner& runner_;
  PlanRunner::Memory memory_;
};

Addresses listed(std::span<void* const> addresses) { return {addresses.begin(), addresses.end()}; }

bool is_true(const void* predicate) { return *static_cast<const uint8_t*>(predicate) != 0; }

void run_cond(const ExternalCall& call, const Bodies& bodies, std::span<void* const> operands,
              std::span<void* const> results) {
  Body taken(call, bodies, is_true(operands[0]) ? Attr::then : Attr::otherwise);
  taken.run(listed(operands.subspan(1)), listed(results));
}

void run_while(const ExternalCall& call, const Bodies& bodies, std::span<void* const> operands,
               std::span<void* const> results) {
  const auto carries = static_cast<size_t>(call.attr<int64_t>(Attr::carries));
  Body condition(call, bodies, Attr::condition), body(call, bodies, Attr::body);
  const Addresses places[2] = {listed(results.first(carries)),
                               listed(results.subspan(carries, carries))};
  const Addresses says = {results.back()};
  Addresses inputs = listed(operands);
  body.keep(inputs, carries, inputs.size());
  size_t turn = 0;
  for (condition.run(inputs, says); is_true(says[0]); condition.run(inputs, says)) {
    body.run(inputs, places[turn]);
    std::ranges::copy(places[turn], inputs.begin());
    turn ^= 1;
  }
  for (size_t i = 0; i < carries; ++i)
    if (inputs[i] != results[i]) copy(inputs[i], results[i], bytes_of(call.results[i].type));
}

/// Slices along dimension 0 of an operand or result.
struct Slices {
  uint8_t* first;
  size_t bytes;  // of one
  void* at(size_t i) const { return first + i * bytes; }
};

std::vector<Slices> slices_of(std::span<const ExternalCall::Argument> arguments,
                              std::span<void* const> addresses, size_t length) {
  std::vector<Slices> all;
  for (size_t i = 0; i < arguments.size(); ++i)
    all.push_back({static_cast<uint8_t*>(addresses[i]), bytes_of(arguments[i].type) / length});
  return all;
}

/// The last step writes the results.
void run_scan(const ExternalCall& call, const Bodies& bodies, std::span<void* const> operands,
              std::span<void* const> results) {
  const auto length = static_cast<size_t>(int64_t{call.attr<ir::Dim>(Attr::length)});
  const auto carries = static_cast<size_t>(call.attr<int64_t>(Attr::carries));
  const size_t whole = carries + static_cast<size_t>(call.attr<int64_t>(Attr::constants));
  const size_t stacked = results.size() - 2 * carries;
  if (length == 0) {
    for (size_t i = 0; i < carries; ++i)
      copy(operands[i], results[i], bytes_of(call.results[i].type));
    return;
  }
  const std::span types(call.operands), given(call.results);
  const std::vector<Slices> xs = slices_of(types.subspan(whole), operands.subspan(whole), length),
                            ys = slices_of(given.subspan(carries, stacked),
                                           results.subspan(carries, stacked), length);
  const Addresses places[2] = {listed(results.first(carries)),
                               listed(results.subspan(carries + stacked))};
  const bool reverse = call.attr<bool>(Attr::reverse);
  Body body(call, bodies, Attr::body);
  Addresses inputs = listed(operands), outputs(carries + stacked);
  body.keep(inputs, carries, whole);
  for (size_t step = 0; step < length; ++step) {
    const size_t at = reverse ? length - 1 - step : step;
    for (size_t i = 0; i < xs.size(); ++i) inputs[whole + i] = xs[i].at(at);
    std::ranges::copy(places[(length - 1 - step) % 2], outputs.begin());
    for (size_t i = 0; i < ys.size(); ++i) outputs[carries + i] = ys[i].at(at);
    body.run(inputs, outputs);
    std::copy_n(outputs.begin(), carries, inputs.begin());
  }
}

}  // namespace

void run_control(const ExternalCall& call, const Bodies& bodies, std::span<void* const> operands,
                 std::span<void* const> results) {
  const auto run = call.op == ir::Op::cond         ? run_cond
                   : call.op == ir::Op::while_loop ? run_while
                                                   : run_scan;
  run(call, bodies, operands, results);
}

}  // namespace tandem::exec
