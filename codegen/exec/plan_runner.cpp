// What can be decided before a call is decided in the constructor; a call resolves pointers and
// runs.
#include "codegen/exec/plan_runner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

#include "codegen/library/library.h"
#include "codegen/loops/scalar_ops.h"
#include "ir/base/error.h"
#include "machine/memory/arena.h"
#include "machine/memory/guarded.h"
#include "machine/threads/thread_pool.h"

namespace tandem::exec {

using codegen::BufferRef;
using codegen::Instr;
using codegen::Kernel;
using codegen::KernelError;
using codegen::Launch;
using codegen::MatmulCall;

namespace {

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// Whether data can make the instruction fail: an index out of range, an integer divided by zero.
bool can_fail(const Instr& i) {
  if (!i.access.indirect.empty()) return true;
  return i.kind == Instr::Kind::Compute && codegen::may_fail(i.op, i.dtype);
}

/// Where these stand in the kernel's code.
std::vector<int64_t> instructions_that_can_fail(const Kernel& kernel) {
  std::vector<int64_t> positions;
  for (size_t i = 0; i < kernel.code.size(); ++i)
    if (can_fail(kernel.code[i])) positions.push_back(static_cast<int64_t>(i));
  return positions;
}

/// Throws what `error` of a launch means to the caller.
[[noreturn]] void fail_launch(const Kernel& kernel, const Launch& launch,
                              const std::vector<int64_t>& can_fail, const KernelError& error) {
  const auto at = std::ranges::lower_bound(can_fail, error.instruction);
  const auto number = static_cast<size_t>(at - can_fail.begin());
  const std::string where = number < launch.checks.size() ? launch.checks[number] : kernel.name;
  if (error.extent <= 0) ir::fail(ir::Errc::Argument, where + ": integer division by zero");
  ir::fail(ir::Errc::Index, where + ": index out of range; expected 0 <= index < " +
                                std::to_string(error.extent) + ", got " +
                                std::to_string(error.value));
}

/// One launch: what its workers share.
struct Region {
  codegen::KernelFunction function;
  void* const* params;
  uint8_t* scratch;
  size_t scratch_bytes;                                  // for each worker
  std::mutex mutex{};                                    // of what follows
  int64_t failed = std::numeric_limits<int64_t>::max();  // the range that begins here
  KernelError error{};

  /// Of several failures the one of the first units is kept, so it does not depend on the threads.
  void record(int64_t begin, const KernelError& e) {
    const std::lock_guard guard(mutex);
    if (begin < failed) failed = begin, error = e;
  }

  static void run_range(void* context, int64_t begin, int64_t end, int worker) {
    auto& r = *static_cast<Region*>(context);
    KernelError e;
    if (r.function(r.params, begin, end, r.scratch + static_cast<size_t>(worker) * r.scratch_bytes,
                   &e) != 0)
      r.record(begin, e);
  }
};

/// What only compiling or interpreting it needs: most of what a plan is made of.
void forget_code(Kernel& kernel) { kernel = Kernel{.name = std::move(kernel.name)}; }

}  // namespace

/// Where the memory of one run lies.
struct PlanRunner::Call {
  void* const* inputs;
  void* const* outputs;
  uint8_t* arena;
  uint8_t* scratch;
  void** params;
  int threads;
  std::span<const float* const> packed;  // Memory::packed_

  void* address(const BufferRef& ref) const {
    if (ref.kind == BufferRef::Kind::Arena) return arena + ref.byte_offset;
    void* const base = ref.kind == BufferRef::Kind::Input ? inputs[ref.index] : outputs[ref.index];
    return static_cast<uint8_t*>(base) + ref.byte_offset;
  }
};

PlanRunner::PlanRunner(codegen::Plan plan, PlanCode code)
    : plan_(std::move(plan)), code_(std::move(code)) {
  TANDEM_CHECK(code_.kernels.empty() || code_.kernels.size() == plan_.kernels.size(),
               "plan " + plan_.name + ": one function per kernel");
  TANDEM_CHECK(code_.numbers.empty() || code_.numbers.size() == plan_.kernels.size(),
               "plan " + plan_.name + ": one table of numbers per kernel");
  for (const codegen::Step& step : plan_.steps) std::visit([this](const auto& s) { add(s); }, step);
  TANDEM_CHECK(code_.bodies.empty() || code_.bodies.size() == plan_.bodies.size(),
               "plan " + plan_.name + ": code for each body");
  code_.bodies.resize(plan_.bodies.size());
  for (size_t i = 0; i < plan_.bodies.size(); ++i)
    bodies_.push_back(
        std::make_unique<const PlanRunner>(std::move(plan_.bodies[i]), std::move(code_.bodies[i])));
  for (const auto& body : bodies_) library_seconds_ += body->library_seconds();
  for (size_t k = 0; k < code_.kernels.size(); ++k)
    if (code_.kernels[k]) forget_code(plan_.kernels[{static_cast<uint32_t>(k)}]);
}

BufferRef PlanRunner::resolve(const BufferRef& ref) const {
  const auto index = static_cast<size_t>(ref.index);
  switch (ref.kind) {
    case BufferRef::Kind::Arena:
      TANDEM_CHECK(ref.byte_offset >= 0 && ref.byte_offset <= plan_.arena_bytes,
                   "plan " + plan_.name + ": arena offset");
      return ref;
    case BufferRef::Kind::Input:
      TANDEM_CHECK(index < plan_.inputs.size(), "plan " + plan_.name + ": input number");
      return ref;
    case BufferRef::Kind::Output:
      break;
  }
  TANDEM_CHECK(index < plan_.outputs.size(), "plan " + plan_.name + ": output number");
  const codegen::PlanOutput& out = plan_.outputs[index];
  TANDEM_CHECK(out.from_input < 0,
               "plan " + plan_.name + ": a step touches an output that is an input");
  return out.into_input < 0 ? ref
                            : resolve({BufferRef::Kind::Input, out.into_input, ref.byte_offset});
}

void PlanRunner::add(const Launch& launch) {
  const size_t k = launch.kernel.index;
  TANDEM_CHECK(k < plan_.kernels.size(), "plan " + plan_.name + ": kernel number");
  const Kernel& kernel = plan_.kernels[launch.kernel];
  TANDEM_CHECK(launch.params.size() == kernel.params.size(),
               "plan " + plan_.name + ": params of " + kernel.name);
  const size_t first_buffer = buffers_.size();
  if (code_.params.empty() || code_.params[k].empty())
    for (const BufferRef& ref : launch.params) buffers_.push_back(resolve(ref));
  else
    for (const codegen::ParamId p : code_.params[k])
      buffers_.push_back(resolve(launch.params[p.index]));
  const size_t params = buffers_.size() - first_buffer;
  steps_.push_back(RunLaunch{.function = code_.kernels.empty() ? nullptr : code_.kernels[k],
                             .launch = &launch,
                             .numbers = code_.numbers.empty() ? nullptr : code_.numbers[k].data(),
                             .params = params,
                             .first_buffer = first_buffer,
                             .can_fail = launch.checks.empty()
                                             ? std::vector<int64_t>()
                                             : instructions_that_can_fail(kernel)});
  most_params_ = std::max(most_params_, params + 1);
  kernel_scratch_ = std::max(kernel_scratch_, round_up(scratch_bytes(kernel), Memory::kLine));
}

void PlanRunner::add(const MatmulCall& c) {
  const auto start = std::chrono::steady_clock::now();
  auto matmul = machine::shared_matmul(c.spec);
  library_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  matmul_scratch_ = std::max(matmul_scratch_, matmul->scratch_bytes());
  steps_.push_back(RunMatmul{std::move(matmul), c.bias.has_value(), matmuls_++, buffers_.size()});
  for (const BufferRef& ref : {c.a, c.b, c.c}) buffers_.push_back(resolve(ref));
  if (c.bias) buffers_.push_back(resolve(*c.bias));
}

void PlanRunner::add(const codegen::ExternalCall& external) {
  auto custom = external.is_custom() ? ir::find_custom_operator(external.custom_name()) : nullptr;
  steps_.push_back(RunExternal{&external, std::move(custom), buffers_.size()});
  for (const auto& a : external.operands) buffers_.push_back(resolve(a.buffer));
  for (const auto& a : external.results) buffers_.push_back(resolve(a.buffer));
}

void PlanRunner::execute(const Call& call, const RunLaunch& step) const {
  const Launch& l = *step.launch;
  for (size_t i = 0; i < step.params; ++i)
    call.params[i] = call.address(buffers_[step.first_buffer + i]);
  call.params[step.params] = const_cast<uint64_t*>(step.numbers);

  const Kernel& kernel = plan_.kernels[l.kernel];
  if (!step.function) {
    KernelError error;
    if (interpret(kernel, call.params, 0, l.units, &error) != 0)
      fail_launch(kernel, l, step.can_fail, error);
    return;
  }
  Region region{.function = step.function,
                .params = call.params,
                .scratch = call.scratch,
                .scratch_bytes = kernel_scratch_};
  machine::parallel_for(l.units, l.grain, Region::run_range, &region, call.threads);
  if (region.failed < l.units) fail_launch(kernel, l, step.can_fail, region.error);
}

void PlanRunner::execute(const Call& call, const RunExternal& step) const {
  const codegen::ExternalCall& e = *step.call;
  if (e.is_control()) return execute_control(call, step);
  const BufferRef* next = &buffers_[step.first_buffer];
  std::vector<ir::BufferView> operands, results;
  const auto add = [&](const codegen::ExternalCall::Argument& a, std::vector<ir::BufferView>& to) {
    void* const address = call.address(*next++);
    to.push_back({a.unread ? nullptr : address, a.type.dtype, a.type.sizes, a.strides});
  };
  for (const auto& a : e.operands) add(a, operands);
  for (const auto& a : e.results) add(a, results);
  if (step.custom)
    step.custom->run(operands, e.numbers(), results);
  else
    codegen::run_library({e.op, e.attrs, operands, results, e.check});
}

void PlanRunner::execute_control(const Call& call, const RunExternal& step) const {
  std::vector<void*> addresses;
  const size_t operands = step.call->operands.size(), results = step.call->results.size();
  for (size_t i = 0; i < operands + results; ++i)
    addresses.push_back(call.address(buffers_[step.first_buffer + i]));
  const std::span all(addresses);
  run_control(*step.call, bodies_, all.first(operands), all.subspan(operands));
}

void PlanRunner::execute(const Call& call, const RunMatmul& step) const {
  const BufferRef* refs = &buffers_[step.first_buffer];
  const auto matrix = [&](int i) { return static_cast<float*>(call.address(refs[i])); };
  step.matmul->run(matrix(0), matrix(1), matrix(2), call.scratch,
                   step.has_bias ? matrix(3) : nullptr,
                   call.packed.empty() ? nullptr : call.packed[step.number]);
}

PlanRunner::Memory::Memory(const PlanRunner& runner)
    : threads_(machine::num_threads()),
      arena_bytes_(round_up(static_cast<size_t>(runner.plan_.arena_bytes), kLine)),
      scratch_bytes_(std::max(round_up(runner.matmul_scratch_, kLine),
                              runner.kernel_scratch_ * static_cast<size_t>(threads_))) {
  const size_t bytes = arena_bytes_ + scratch_bytes_ + runner.most_params_ * sizeof(void*);
  const std::vector<int64_t>& guards = runner.plan_.arena_guards;
  if (bytes > kStackBytes || !guards.empty()) lease_ = machine::borrow_arena(bytes);
  if (!guards.empty()) machine::protect_pages(lease_.data(), guards);
}

void PlanRunner::Memory::keep(const PlanRunner& runner, void* const* inputs, size_t first,
                              size_t last) {
  const auto kept_of = [&](const RunMatmul& step) -> const BufferRef* {
    const BufferRef& b = runner.buffers_[step.first_buffer + 1];
    const auto input = static_cast<size_t>(b.index);
    const bool is_kept = b.kind == BufferRef::Kind::Input && first <= input && input < last;
    return is_kept && step.matmul->packed_floats() > 0 ? &b : nullptr;
  };
  std::vector<const RunMatmul*> steps;
  std::vector<size_t> places;
  size_t bytes = 0;
  for (const RunStep& step : runner.steps_) {
    const auto* matmul = std::get_if<RunMatmul>(&step);
    if (matmul == nullptr || kept_of(*matmul) == nullptr) continue;
    steps.push_back(matmul);
    places.push_back(bytes);
    const auto floats = static_cast<size_t>(matmul->matmul->packed_floats());
    bytes += round_up(floats * sizeof(float), kLine);
  }
  if (steps.empty()) return;
  kept_ = machine::borrow_arena(bytes);
  packed_.assign(runner.matmuls_, nullptr);
  for (size_t i = 0; i < steps.size(); ++i) {
    const BufferRef& b = *kept_of(*steps[i]);
    const auto* const from = static_cast<const uint8_t*>(inputs[b.index]) + b.byte_offset;
    auto* const to = reinterpret_cast<float*>(kept_.data() + places[i]);
    steps[i]->matmul->pack(reinterpret_cast<const float*>(from), to);
    packed_[steps[i]->number] = to;
  }
}

void PlanRunner::run(void* const* inputs, void* const* outputs) const {
  Memory memory(*this);
  run_in(memory, inputs, outputs);
}

void PlanRunner::run_in(Memory& memory, void* const* inputs, void* const* outputs) const {
  uint8_t* const data = memory.lease_.data() ? memory.lease_.data() : memory.stack_.data();
  uint8_t* const scratch = data + memory.arena_bytes_;
  const Call call{inputs,
                  outputs,
                  data,
                  scratch,
                  reinterpret_cast<void**>(scratch + memory.scratch_bytes_),
                  memory.threads_,
                  memory.packed_};
  for (const RunStep& step : steps_) std::visit([&](const auto& s) { execute(call, s); }, step);
}

namespace {

template <class T>
size_t held_bytes(const std::vector<T>& items) {
  return items.capacity() * sizeof(T);
}

size_t held_bytes(const Kernel& kernel) {
  return held_bytes(kernel.params) + held_bytes(kernel.locals) + held_bytes(kernel.loops) +
         held_bytes(kernel.accumulators) + held_bytes(kernel.code);
}

size_t held_bytes(const Launch& launch) { return held_bytes(launch.params); }
size_t held_bytes(const MatmulCall&) { return 0; }
size_t held_bytes(const codegen::ExternalCall& call) {
  return held_bytes(call.operands) + held_bytes(call.results) + held_bytes(call.attrs);
}

/// What a plan is made of, but for names.
size_t held_bytes(const codegen::Plan& plan) {
  size_t bytes = held_bytes(plan.inputs) + held_bytes(plan.outputs) + held_bytes(plan.kernels) +
                 held_bytes(plan.steps);
  for (const Kernel& kernel : plan.kernels) bytes += held_bytes(kernel);
  for (const codegen::Step& step : plan.steps)
    bytes += std::visit([](const auto& s) { return held_bytes(s); }, step);
  return bytes;
}

template <class T>
size_t held_bytes(const std::vector<std::vector<T>>& lists) {
  size_t bytes = lists.capacity() * sizeof(std::vector<T>);
  for (const auto& list : lists) bytes += list.capacity() * sizeof(T);
  return bytes;
}

}  // namespace

int64_t PlanRunner::held_bytes_of_bodies() const {
  int64_t bytes = 0;
  for (const auto& body : bodies_) bytes += body->held_bytes();
  return bytes;
}

int64_t PlanRunner::held_bytes() const {
  return static_cast<int64_t>(exec::held_bytes(plan_) + exec::held_bytes(steps_) +
                              exec::held_bytes(buffers_) + exec::held_bytes(code_.kernels) +
                              exec::held_bytes(code_.numbers) + exec::held_bytes(code_.params)) +
         held_bytes_of_bodies();
}

namespace {

class PlanExecutable final : public ir::Executable {
 public:
  PlanExecutable(codegen::Plan plan, PlanCode code, CompileFigures figures)
      : runner_(std::move(plan), std::move(code)), figures_(figures) {}

  void run(std::span<void* const> inputs, std::span<void* const> outputs) const override {
    const codegen::Plan& plan = runner_.plan();
    TANDEM_CHECK(inputs.size() == plan.inputs.size() && outputs.size() == plan.outputs.size(),
                 "plan " + plan.name + ": number of buffers");
    runner_.run(inputs.data(), outputs.data());
  }

  int output_from_input(int output) const override {
    return runner_.plan().outputs[static_cast<size_t>(output)].from_input;
  }

  int output_into_input(int output) const override {
    return runner_.plan().outputs[static_cast<size_t>(output)].into_input;
  }

  ir::ExecutableReport report() const override {
    const codegen::PlanReport& r = runner_.plan().report;
    return {.kernels = r.kernels,
            .distinct_kernels = r.distinct_kernels,
            .library_calls = r.library_calls,
            .generated_contractions = r.generated_contractions,
            .new_kernels = figures_.new_kernels,
            .arena_bytes = r.arena_bytes,
            .held_bytes = runner_.held_bytes(),
            .lower_seconds = figures_.lower_seconds,
            .codegen_seconds = figures_.codegen_seconds,
            .library_seconds = runner_.library_seconds()};
  }

 private:
  PlanRunner runner_;
  CompileFigures figures_;
};

}  // namespace

std::unique_ptr<ir::Executable> make_executable(codegen::Plan plan, PlanCode code,
                                                CompileFigures figures) {
  return std::make_unique<PlanExecutable>(std::move(plan), std::move(code), figures);
}

}  // namespace tandem::exec
