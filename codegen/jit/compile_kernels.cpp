// Compiles the kernels of a plan: looks each up among the code that is alive, splits the others
// over modules, and compiles the modules on the pool's threads.
#include <algorithm>
#include <exception>
#include <mutex>
#include <numeric>
#include <unordered_map>

#include "codegen/exec/cpu.h"
#include "codegen/exec/exit_gate.h"
#include "codegen/exec/fork_lock.h"
#include "codegen/exec/thread_pool.h"
#include "codegen/jit/compile.h"
#include "codegen/jit/emit.h"
#include "codegen/jit/llvm.h"
#include "codegen/jit/object.h"
#include "codegen/jit/object_cache.h"

namespace tandem::jit {
namespace {

using codegen::Kernel;
using codegen::KernelFunction;

struct Found {
  std::shared_ptr<const Code> code;
  KernelFunction function = nullptr;
};

// The documented singleton of this folder: code in use by its kernel. It holds no code alive.
class Cache {
 public:
  static Cache& get() {
    static Cache* cache = new Cache;  // never destroyed: kernels may be compiled at exit
    return *cache;
  }

  Found find(const Kernel& kernel, const Target& target) {
    const std::scoped_lock lock(mutex());
    const auto [first, last] = entries_.equal_range(codegen::hash(kernel));
    for (auto e = first; e != last; ++e)
      if (e->second.target == target && e->second.kernel == kernel)
        if (auto code = e->second.code.lock()) return {std::move(code), e->second.function};
    return {};
  }

  void add(const Kernel& kernel, const Target& target, const Found& found) {
    const std::scoped_lock lock(mutex());
    std::erase_if(entries_, [](const auto& e) { return e.second.code.expired(); });
    entries_.emplace(codegen::hash(kernel), Entry{kernel, target, found.code, found.function});
  }

 private:
  struct Entry {
    Kernel kernel;
    Target target;
    std::weak_ptr<const Code> code;
    KernelFunction function;
  };

  static std::mutex& mutex() { return exec::fork_safe_mutex<Cache>(); }

  std::unordered_multimap<uint64_t, Entry> entries_;
};

std::string name_of(size_t kernel) { return "kernel." + std::to_string(kernel); }

/// The object of one module: these kernels, in this order.
std::string object_of(std::span<const Kernel* const> kernels, const Target& target) {
  llvm::LLVMContext context;
  llvm::Module module("kernels", context);
  for (size_t i = 0; i < kernels.size(); ++i) {
    codegen::verify(*kernels[i]);
    emit_kernel(module, *kernels[i], target, name_of(i));
  }
  return compile_object(module, target);
}

std::vector<Found> load(const std::string& object, std::span<const Kernel* const> kernels) {
  std::vector<std::string> names;
  for (size_t i = 0; i < kernels.size(); ++i) names.push_back(name_of(i));
  const auto code = std::make_shared<const Code>(Code::load(object, names));
  std::vector<Found> found;
  for (size_t i = 0; i < kernels.size(); ++i)
    found.push_back({code, reinterpret_cast<KernelFunction>(code->entry(i))});
  return found;
}

std::vector<Found> compile_module(std::span<const Kernel* const> kernels, const Target& target) {
  return load(object_of(kernels, target), kernels);
}

/// Each kernel from the cache, or compiled and put there: a module of its own, so that another
/// program that shares some of the kernels finds those.
std::vector<Found> compile_cached(std::span<const Kernel* const> kernels, const Target& target,
                                  const ObjectCache& cache) {
  std::vector<Found> found;
  for (const Kernel* kernel : kernels) {
    const std::string content = object_content(*kernel, target);
    std::optional<std::string> object = cache.find(content);
    if (!object) {
      object = object_of({&kernel, 1}, target);
      cache.store(content, *object);
    }
    found.push_back(load(*object, {&kernel, 1})[0]);
  }
  return found;
}

/// The kernels of each of `count` modules, as positions: the longest first, each to the module with
/// the least so far, so that threads get about as much to do.
std::vector<std::vector<size_t>> deal_out(std::span<const Kernel* const> kernels, size_t count) {
  const auto cost = [&](size_t k) { return code_length(*kernels[k]); };
  std::vector<size_t> order(kernels.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return cost(a) > cost(b); });
  std::vector<std::vector<size_t>> modules(count);
  std::vector<size_t> total(count);
  for (size_t k : order) {
    const auto least = static_cast<size_t>(std::ranges::min_element(total) - total.begin());
    modules[least].push_back(k);
    total[least] += cost(k);
  }
  return modules;
}

std::vector<Found> compile_all(std::span<const Kernel* const> kernels, const Target& target,
                               const ObjectCache* cache) {
  const auto threads = static_cast<size_t>(exec::num_threads());
  const auto modules = deal_out(kernels, std::min(kernels.size(), threads));
  std::vector<Found> found(kernels.size());
  std::vector<std::exception_ptr> errors(modules.size());
  exec::parallel_for(static_cast<int64_t>(modules.size()), 1, [&](int64_t begin, int64_t end, int) {
    const exec::InLibrary llvm;
    for (auto m = static_cast<size_t>(begin); m < static_cast<size_t>(end); ++m) try {
        std::vector<const Kernel*> mine;
        for (size_t k : modules[m]) mine.push_back(kernels[k]);
        const auto compiled =
            cache ? compile_cached(mine, target, *cache) : compile_module(mine, target);
        for (size_t i = 0; i < mine.size(); ++i) found[modules[m][i]] = compiled[i];
      } catch (...) {
        errors[m] = std::current_exception();
      }
  });
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  return found;
}

/// Where a kernel's code comes from: alive already, or the i-th to be compiled.
struct Source {
  Found alive;
  size_t fresh = 0;
};

}  // namespace

const Target& native_target() {
  static const auto* const target =
      new Target{exec::feature_string(exec::cpu_features()), exec::cpu_features().vector_bytes};
  return *target;
}

CompiledKernels compile_kernels(std::span<const Kernel> kernels, const Target& target,
                                const std::string& cache_dir) {
  std::vector<Source> sources;
  std::vector<const Kernel*> fresh;
  for (const Kernel& kernel : kernels) {
    Source source{Cache::get().find(kernel, target), fresh.size()};
    if (!source.alive.code) {
      const auto same = std::find_if(fresh.begin(), fresh.end(),
                                     [&](const Kernel* other) { return *other == kernel; });
      source.fresh = static_cast<size_t>(same - fresh.begin());
      if (same == fresh.end()) fresh.push_back(&kernel);
    }
    sources.push_back(std::move(source));
  }
  const auto cache = fresh.empty() ? nullptr : ObjectCache::in(cache_dir);
  const std::vector<Found> compiled = compile_all(fresh, target, cache.get());
  for (size_t i = 0; i < fresh.size(); ++i) Cache::get().add(*fresh[i], target, compiled[i]);

  CompiledKernels result;
  auto owners = std::make_shared<std::vector<std::shared_ptr<const Code>>>();
  for (const Source& source : sources) {
    const Found& found = source.alive.code ? source.alive : compiled[source.fresh];
    result.functions.push_back(found.function);
    owners->push_back(found.code);
  }
  result.owner = owners;
  return result;
}

}  // namespace tandem::jit
