#include "tools/calibrate.h"

#include <algorithm>
#include <chrono>

#include "ir/base/error.h"
#include "ir/build/builder.h"
#include "machine/cpu.h"
#include "machine/threads/thread_pool.h"
#include "runtime/backends/backends.h"
#include "tools/memory.h"

namespace tandem::tools {
namespace {

using ir::Builder;
using ir::DType;
using ir::Op;
using ir::Type;
using ir::ValueId;
using Values = std::vector<ValueId>;

/// One graph, compiled, with memory to run it on.
class Timed {
 public:
  template <class Body>
  Timed(const std::vector<Type>& types, Body body) : graph_("timed", ir::Level::Core) {
    Values inputs;
    for (const Type& type : types) {
      ir::Input input;
      input.name = "x" + std::to_string(inputs.size());
      input.strides = ir::contiguous_strides(type.sizes);
      inputs.push_back(graph_.add_input(std::move(input), type));
      add_memory(type, 0.6);
      in_.push_back(memory_.back().view().data);
    }
    ir::GraphSink sink(graph_);
    Builder builder(sink);
    ir::Output output;
    output.value = body(builder, inputs);
    const Type type = graph_.type(output.value);
    output.strides = ir::contiguous_strides(type.sizes);
    graph_.add_output(std::move(output));
    graph_.epilogue.results.push_back({});
    add_memory(type, 0);
    out_.push_back(memory_.back().view().data);
    executable_ = runtime::jit_backend()->compile(graph_);
  }

  /// Seconds of one run: the best of several groups of runs.
  double seconds() const {
    using Clock = std::chrono::steady_clock;
    const auto group = [&](int runs) {
      const auto start = Clock::now();
      for (int i = 0; i < runs; ++i) executable_->run(in_, out_);
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    int runs = 1;
    while (group(runs) < 1e-3 && runs < 100'000) runs *= 2;
    double best = group(runs);
    for (int round = 0; round < 7; ++round) best = std::min(best, group(runs));
    return best / runs;
  }

 private:
  void add_memory(const Type& type, double value) {
    memory_.emplace_back(type, ir::contiguous_strides(type.sizes));
    const ir::BufferView& view = memory_.back().view();
    const auto size = static_cast<int64_t>(ir::size_of(type.dtype));
    for (int64_t i = 0; i < int64_t{ir::numel(type.sizes)}; ++i)
      ir::store_element(static_cast<std::byte*>(view.data) + i * size, type.dtype,
                        value + 1e-3 * static_cast<double>(i % 300));
  }

  ir::Graph graph_;
  std::vector<StridedBuffer> memory_;
  std::vector<void*> in_, out_;
  std::unique_ptr<ir::Executable> executable_;
};

constexpr int64_t kInCache = 16 * 1024;          // elements: three tensors fit into a core's caches
constexpr int64_t kStreamed = 64 * 1024 * 1024;  // elements: beyond every cache

Type floats(const ir::Shape& sizes) { return {DType::F32, sizes}; }

/// Nanoseconds per element of a kernel with `op` in it.
double nanoseconds(Op op, size_t operands) {
  const std::vector<Type> types(operands, floats({kInCache}));
  const Timed timed(types, [&](Builder& b, const Values& v) { return b.emit(op, v, {}); });
  return timed.seconds() * 1e9 / kInCache;
}

bool is_timed(Op op) {
  const ir::OpInfo& info = ir::info(op);
  return info.cls == ir::OpClass::Pointwise && info.level == ir::OpLevel::Primitive &&
         info.attrs.empty() && op != Op::clone;
}

/// Whether `op` takes floats.
bool takes_floats(Op op) {
  try {
    ir::Graph graph("probe", ir::Level::Core);
    ir::GraphSink sink(graph);
    Builder builder(sink);
    Values operands;
    for (size_t i = 0; i < ir::info(op).operands.size(); ++i)
      operands.push_back(graph.add_input({}, floats({1})));
    builder.emit(op, operands, {});
    return true;
  } catch (const ir::Error&) {
    return false;
  }
}

void time_operators(codegen::CostTable& table) {
  const double copy = nanoseconds(Op::clone, 1), add = nanoseconds(Op::add, 2);
  for (size_t i = 0; i < ir::kOpCount; ++i) {
    const auto op = static_cast<Op>(i);
    if (!is_timed(op) || !takes_floats(op)) continue;
    const size_t operands = ir::info(op).operands.size();
    const double empty = operands == 1 ? copy : add;
    constexpr double kLeast = 0.01;  // one instruction on a vector
    table.element_ns[i] = std::max(nanoseconds(op, operands) - empty, kLeast);
  }
}

double flops_per_second(DType dtype, int64_t n) {
  const Type square{dtype, {n, n}};
  const Timed timed({square, square}, [](Builder& b, const Values& v) { return b.mm(v[0], v[1]); });
  return 2.0 * static_cast<double>(n * n * n) / timed.seconds();
}

/// Nanoseconds that a byte costs one core when all of them stream `elements` to as many others.
double byte_nanoseconds(int threads, int64_t elements) {
  const Timed timed({floats({elements})}, [](Builder& b, const Values& v) { return b.neg(v[0]); });
  return timed.seconds() * 1e9 * threads / (2 * 4 * static_cast<double>(elements));
}

/// Half of what a cache of `bytes` holds, as operand and result.
int64_t elements_in(double bytes) { return static_cast<int64_t>(bytes / 2) / (2 * 4); }

void time_levels(codegen::CostTable& table, int threads) {
  const auto shared = static_cast<double>(machine::last_level_cache_bytes());
  if (shared > 0) table.shared_bytes = shared;
  table.near_byte_ns = byte_nanoseconds(threads, elements_in(table.near_bytes));
  table.shared_byte_ns = byte_nanoseconds(threads, elements_in(table.shared_bytes));
  table.byte_ns = byte_nanoseconds(threads, kStreamed);
}

}  // namespace

codegen::CostTable calibrate() {
  codegen::CostTable table = codegen::shipped_costs();
  const int threads = machine::num_threads();
  time_levels(table, threads);
  machine::set_num_threads(1);
  time_operators(table);
  table.library_flops = flops_per_second(DType::F32, 512);
  table.generated_flops = flops_per_second(DType::F64, 256);
  machine::set_num_threads(threads);
  return table;
}

}  // namespace tandem::tools
