// Compiles the kernels of a plan: looks each up among the code that is alive, splits the others
// over modules, and compiles the modules on the pool's threads.
#include <algorithm>
#include <array>
#include <exception>
#include <mutex>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "codegen/jit/compile.h"
#include "codegen/jit/emit/emit.h"
#include "codegen/jit/llvm.h"
#include "codegen/jit/object.h"
#include "codegen/jit/object_cache.h"
#include "machine/cpu.h"
#include "machine/library/exit_gate.h"
#include "machine/threads/fork_lock.h"
#include "machine/threads/thread_pool.h"

namespace tandem::jit {
namespace {

using codegen::Kernel;
using codegen::KernelFunction;

struct Found {
  std::shared_ptr<const Code> code;
  KernelFunction function = nullptr;
};

/// What code reads from its table rather than has in it.
enum class Reads : uint8_t { Nothing, Outer, All };

/// A kernel to be compiled, and what there is for it already.
struct Wanted {
  const Kernel* kernel;
  Opened outer;
  std::optional<Opened> all{};  // only made if nothing of the outer form is alive
  Found found{};                // code that is alive
  Reads reads{};                // what `found` reads
  bool outer_like = false;      // code is alive of the same outer form, with other numbers in it
  bool all_like = false;        // the same of the form with all open
  size_t fresh = 0;             // which of the new codes it has, if nothing is `found`

  void open_all() {
    if (!all) all = jit::opened(*kernel, Openness::All);
  }
  const Opened& opened(Reads reading) const { return reading == Reads::All ? *all : outer; }
};

// The documented singleton of this folder: code in use by the forms of its kernel. Of that which
// takes all sizes it keeps what was made last alive, since calls of other shapes will want it.
class Cache {
 public:
  static Cache& get() {
    static Cache* cache = new Cache;  // never destroyed: kernels may be compiled at exit
    return *cache;
  }

  /// Fills in what there is: code with these numbers in it before code that reads some, and that
  /// before code that reads all.
  void find(Wanted& wanted, const Target& target, Sizes sizes) {
    const std::scoped_lock lock(mutex());
    each(outer_, wanted.outer.form, target,
         [&](const Entry& entry, std::shared_ptr<const Code> code) {
           const bool others =
               entry.reads == Reads::Nothing && entry.numbers != wanted.outer.numbers;
           wanted.outer_like |= others;
           if (others || (entry.reads == Reads::Outer && wanted.found.code)) return;
           wanted.found = {std::move(code), entry.function};
           wanted.reads = entry.reads;
         });
    if (wanted.found.code || sizes == Sizes::Own || (wanted.outer_like && sizes == Sizes::Known))
      return;
    wanted.open_all();
    each(all_, wanted.all->form, target, [&](const Entry& entry, std::shared_ptr<const Code> code) {
      wanted.all_like = true;
      if (entry.reads != Reads::All) return;
      wanted.found = {std::move(code), entry.function};
      wanted.reads = Reads::All;
    });
  }

  /// Notes new code of `wanted`, which reads that much.
  void add(const Wanted& wanted, Reads reads, const Target& target, const Found& found) {
    Opened all = opened(*wanted.kernel, Openness::All);
    const std::scoped_lock lock(mutex());
    const auto enter = [&](Entries& entries, const Opened& open) {
      std::erase_if(entries, [](const auto& e) { return e.second.code.expired(); });
      entries.emplace(hash(open.form),
                      Entry{open.form, open.numbers, reads, target, found.code, found.function});
    };
    if (reads != Reads::All) enter(outer_, wanted.outer);
    enter(all_, all);
    if (reads == Reads::Nothing) return;
    kept_[next_kept_++ % kKept] = found.code;
  }

 private:
  struct Entry {
    Form form;
    std::vector<uint64_t> numbers;
    Reads reads;
    Target target;
    std::weak_ptr<const Code> code;
    KernelFunction function;
  };

  using Entries = std::unordered_multimap<uint64_t, Entry>;

  /// Calls visit(entry, code) for code of the form that is alive.
  template <class F>
  static void each(const Entries& entries, const Form& form, const Target& target, F visit) {
    const auto [first, last] = entries.equal_range(hash(form));
    for (auto e = first; e != last; ++e) {
      if (e->second.target != target || e->second.form != form) continue;
      if (auto code = e->second.code.lock()) visit(e->second, std::move(code));
    }
  }

  static std::mutex& mutex() { return machine::fork_safe_mutex<Cache>(); }

  static constexpr size_t kKept = 512;  // a few KB each

  Entries outer_, all_;  // by the one form and by the other, which may be another kernel's first
  std::array<std::shared_ptr<const Code>, kKept> kept_;
  size_t next_kept_ = 0;
};

std::string name_of(size_t kernel) { return "kernel." + std::to_string(kernel); }

/// The object of one module: these kernels, in this order.
std::string object_of(std::span<const Form* const> kernels, const Target& target) {
  llvm::LLVMContext context;
  llvm::Module module("kernels", context);
  for (size_t i = 0; i < kernels.size(); ++i) {
    codegen::verify(kernels[i]->kernel);
    emit_kernel(module, *kernels[i], target, name_of(i));
  }
  return compile_object(module, target);
}

std::vector<Found> load(const std::string& object, std::span<const Form* const> kernels) {
  std::vector<std::string> names;
  for (size_t i = 0; i < kernels.size(); ++i) names.push_back(name_of(i));
  const auto code = std::make_shared<const Code>(Code::load(object, names));
  std::vector<Found> found;
  for (size_t i = 0; i < kernels.size(); ++i)
    found.push_back({code, reinterpret_cast<KernelFunction>(code->entry(i))});
  return found;
}

std::vector<Found> compile_module(std::span<const Form* const> kernels, const Target& target) {
  return load(object_of(kernels, target), kernels);
}

/// Each kernel from the cache, or compiled and put there: a module of its own, so that another
/// program that shares some of the kernels finds those.
std::vector<Found> compile_cached(std::span<const Form* const> kernels, const Target& target,
                                  const ObjectCache& cache) {
  std::vector<Found> found;
  for (const Form* kernel : kernels) {
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
std::vector<std::vector<size_t>> deal_out(std::span<const Form* const> kernels, size_t count) {
  const auto cost = [&](size_t k) { return code_length(kernels[k]->kernel); };
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

/// A few for each thread, which take them as they come: how long LLVM takes for one is known only
/// within a factor of two or three. (A module costs a third of a millisecond beside its kernels.)
size_t most_modules() {
  constexpr size_t kForEach = 4;
  const auto threads = static_cast<size_t>(machine::num_threads());
  return threads == 1 ? 1 : kForEach * threads;
}

std::vector<Found> compile_all(std::span<const Form* const> kernels, const Target& target,
                               const ObjectCache* cache) {
  const auto modules = deal_out(kernels, std::min(kernels.size(), most_modules()));
  std::vector<Found> found(kernels.size());
  std::vector<std::exception_ptr> errors(modules.size());
  machine::parallel_tasks(static_cast<int64_t>(modules.size()), [&](int64_t task) {
    const auto m = static_cast<size_t>(task);
    const machine::InLibrary llvm;
    try {
      std::vector<const Form*> mine;
      for (size_t k : modules[m]) mine.push_back(kernels[k]);
      const auto compiled =
          cache ? compile_cached(mine, target, *cache) : compile_module(mine, target);
      for (size_t i = 0; i < mine.size(); ++i) found[modules[m][i]] = compiled[i];
    } catch (...) {
      errors[m] = std::current_exception();
    }
  });
  [[maybe_unused]] static const bool guarded = (machine::close_gate_at_exit(), true);
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  return found;
}

/// A new code: for all kernels of a form if two of them are wanted, or one and another is alive.
struct Fresh {
  const Wanted* first;
  Reads reads;

  const Opened& opened() const { return first->opened(reads); }
};

/// How much new code for `w` is to read, of that what it needs to serve what was wanted before.
Reads least_open(const Wanted& w, Sizes sizes) {
  if (sizes == Sizes::Open) return w.all->form == w.outer.form ? Reads::Outer : Reads::All;
  return w.outer_like ? Reads::Outer : w.all_like ? Reads::All : Reads::Nothing;
}

/// The codes that are to be made, and which of them each kernel without one will have.
std::vector<Fresh> choose_fresh(std::span<Wanted> all, Sizes sizes) {
  std::vector<Fresh> fresh;
  std::unordered_multimap<uint64_t, size_t> known;
  for (Wanted& w : all) {
    if (w.found.code) continue;
    const Reads least = least_open(w, sizes);
    const Opened& open = w.opened(least);
    const uint64_t key = hash(open.form);
    const auto [first, last] = known.equal_range(key);
    const auto same = std::find_if(first, last, [&](const auto& k) {
      const Fresh& f = fresh[k.second];
      return (f.reads == Reads::All) == (least == Reads::All) && f.opened().form == open.form;
    });
    w.fresh = same == last ? fresh.size() : same->second;
    if (same == last) {
      known.emplace(key, fresh.size());
      fresh.push_back({&w, least});
    } else if (Fresh& f = fresh[w.fresh];
               f.reads == Reads::Nothing && f.opened().numbers != open.numbers) {
      f.reads = Reads::Outer;
    }
  }
  return fresh;
}

/// Compiles and remembers them.
std::vector<Found> compile_fresh(std::span<const Fresh> fresh, const Target& target,
                                 const std::string& cache_dir) {
  if (fresh.empty()) return {};
  std::vector<Form> forms;
  std::vector<const Form*> pointers;
  for (const Fresh& f : fresh)
    forms.push_back(f.reads == Reads::Nothing ? Form{*f.first->kernel} : f.opened().form);
  for (const Form& form : forms) pointers.push_back(&form);
  const auto cache = ObjectCache::in(cache_dir);
  std::vector<Found> compiled = compile_all(pointers, target, cache.get());
  for (size_t i = 0; i < fresh.size(); ++i)
    Cache::get().add(*fresh[i].first, fresh[i].reads, target, compiled[i]);
  return compiled;
}

}  // namespace

std::vector<void*> arguments(std::span<void* const> params,
                             std::span<const codegen::ParamId> places,
                             std::span<const uint64_t> numbers) {
  std::vector<void*> all;
  for (const codegen::ParamId p : places) all.push_back(params[p.index]);
  if (places.empty()) all.assign(params.begin(), params.end());
  all.push_back(const_cast<uint64_t*>(numbers.data()));
  return all;
}

const Target& native_target() {
  static const auto* const target = new Target{machine::feature_string(machine::cpu_features()),
                                               machine::cpu_features().vector_bytes};
  return *target;
}

CompiledKernels compile_kernels(std::span<const Kernel> kernels, const Target& target,
                                const std::string& cache_dir, Sizes sizes) {
  std::vector<Wanted> all;
  for (const Kernel& kernel : kernels) {
    all.push_back({&kernel, opened(kernel, Openness::Outer)});
    Cache::get().find(all.back(), target, sizes);
  }
  const std::vector<Fresh> fresh = choose_fresh(all, sizes);
  const std::vector<Found> compiled = compile_fresh(fresh, target, cache_dir);

  CompiledKernels result;
  auto owners = std::make_shared<std::vector<std::shared_ptr<const Code>>>();
  for (Wanted& w : all) {
    const bool alive = w.found.code != nullptr;
    const Found& found = alive ? w.found : compiled[w.fresh];
    const Reads reads = alive ? w.reads : fresh[w.fresh].reads;
    result.functions.push_back(found.function);
    if (reads == Reads::Nothing) {
      result.numbers.emplace_back();
      result.params.emplace_back();
    } else {
      result.numbers.push_back(w.opened(reads).numbers);
      result.params.push_back(w.opened(reads).params);
    }
    owners->push_back(found.code);
    result.fresh += !alive;
    result.general += reads == Reads::All;
  }
  result.owner = owners;
  return result;
}

}  // namespace tandem::jit
