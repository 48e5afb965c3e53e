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

constexpr size_t kLine = 128;  // scratch of two threads shares no pair of cache lines
constexpr size_t kStackBytes = size_t{4} << 10;  // calls that need no more borrow no arena

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// Whether data can make the instruction fail: an index out of range, an integer divided by zero.
bool can_fail(const Instr& i) {
  if (!i.access.indirect.empty()) return true;
  return i.kind == Instr::Kind::Compute && ir::is_integral(i.dtype) &&
         ir::info(i.op).effect == ir::Effect::MayFail;
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
  kernel_scratch_ = std::max(kernel_scratch_, round_up(scratch_bytes(kernel), kLine));
}

void PlanRunner::add(const MatmulCall& c) {
  const auto start = std::chrono::steady_clock::now();
  auto matmul = machine::shared_matmul(c.spec);
  library_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  matmul_scratch_ = std::max(matmul_scratch_, matmul->scratch_bytes());
  steps_.push_back(RunMatmul{std::move(matmul), c.bias.has_value(), buffers_.size()});
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
  const BufferRef* next = &buffers_[step.first_buffer];
  std::vector<ir::BufferView> operands, results;
  const auto add = [&](const codegen::ExternalCall::Argument& a, std::vector<ir::BufferView>& to) {
    to.push_back({call.address(*next++), a.type.dtype, a.type.sizes, a.strides});
  };
  for (const auto& a : e.operands) add(a, operands);
  for (const auto& a : e.results) add(a, results);
  if (step.custom)
    step.custom->run(operands, e.numbers(), results);
  else
    codegen::run_library({e.op, e.attrs, operands, results, e.check});
}

void PlanRunner::execute(const Call& call, const RunMatmul& step) const {
  const BufferRef* refs = &buffers_[step.first_buffer];
  const auto matrix = [&](int i) { return static_cast<float*>(call.address(refs[i])); };
  step.matmul->run(matrix(0), matrix(1), matrix(2), call.scratch,
                   step.has_bias ? matrix(3) : nullptr);
}

void PlanRunner::run(void* const* inputs, void* const* outputs) const {
  const int threads = machine::num_threads();
  const size_t arena_bytes = round_up(static_cast<size_t>(plan_.arena_bytes), kLine);
  const size_t scratch_bytes =
      std::max(round_up(matmul_scratch_, kLine), kernel_scratch_ * static_cast<size_t>(threads));
  const size_t bytes = arena_bytes + scratch_bytes + most_params_ * sizeof(void*);

  alignas(kLine) std::array<uint8_t, kStackBytes> stack;
  const bool on_stack = bytes <= kStackBytes && plan_.arena_guards.empty();
  const machine::ArenaLease lease = on_stack ? machine::ArenaLease() : machine::borrow_arena(bytes);
  if (!plan_.arena_guards.empty()) machine::protect_pages(lease.data(), plan_.arena_guards);
  uint8_t* const memory = lease.data() ? lease.data() : stack.data();
  const Call call{inputs,
                  outputs,
                  memory,
                  memory + arena_bytes,
                  reinterpret_cast<void**>(memory + arena_bytes + scratch_bytes),
                  threads};
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

int64_t PlanRunner::held_bytes() const {
  return static_cast<int64_t>(exec::held_bytes(plan_) + exec::held_bytes(steps_) +
                              exec::held_bytes(buffers_) + exec::held_bytes(code_.kernels) +
                              exec::held_bytes(code_.numbers) + exec::held_bytes(code_.params));
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
