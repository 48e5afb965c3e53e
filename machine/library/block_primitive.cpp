// Creation costs 0.1 to 4 ms, so primitives are cached by shape. A primitive keeps a few execution
// contexts (memory objects, stream, scratchpad), because those may not be shared between threads
// and are slow to make.
#include "machine/library/block_primitive.h"

#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>
#include <vector>

#include "ir/base/error.h"
#include "machine/library/engine.h"
#include "machine/library/matmul_blocks.h"
#include "machine/threads/fork_lock.h"

namespace tandem::machine {
namespace {

using Dims = dnnl::memory::dims;

/// All that tells two primitives of f32 apart.
struct Key {
  int64_t batch, m, n, k;
  bool transposed_b, accumulate;
  auto operator<=>(const Key&) const = default;
};

dnnl::memory::desc dense_desc(int64_t batch, int64_t rows, int64_t cols, bool transposed) {
  const Dims strides = transposed ? Dims{rows * cols, 1, rows} : Dims{rows * cols, cols, 1};
  return {{batch, rows, cols}, dnnl::memory::data_type::f32, strides};
}

dnnl::primitive_attr attributes(bool accumulate) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attr.set_post_ops(sum);
  }
  return attr;
}

dnnl::matmul::primitive_desc describe(const Key& key) {
  const dnnl::matmul::desc desc(dense_desc(key.batch, key.m, key.k, false),
                                dense_desc(key.batch, key.k, key.n, key.transposed_b),
                                dense_desc(key.batch, key.m, key.n, false));
  return dnnl::matmul::primitive_desc(desc, attributes(key.accumulate), cpu_engine());
}

/// Rows and columns of a block of matrices that have `of_rows` and `of_cols`.
dnnl::memory::desc bf16_desc(int64_t batch, int64_t rows, int64_t cols, int64_t of_rows,
                             int64_t of_cols, bool transposed) {
  const Dims strides =
      transposed ? Dims{of_rows * of_cols, 1, of_rows} : Dims{of_rows * of_cols, of_cols, 1};
  return {{batch, rows, cols}, dnnl::memory::data_type::bf16, strides};
}

dnnl::matmul::primitive_desc describe(const Bf16Block& block) {
  const DenseProduct &x = block.part, &of = block.whole;
  const dnnl::matmul::desc desc(bf16_desc(x.batch, x.m, x.k, of.m, of.k, of.transposed_a),
                                bf16_desc(x.batch, x.k, x.n, of.k, of.n, of.transposed_b),
                                bf16_desc(x.batch, x.m, x.n, of.m, of.n, false));
  return dnnl::matmul::primitive_desc(desc, attributes(of.accumulate), cpu_engine());
}

/// Where the library has no blocked kernel for f32 it falls back to slower ones than dnnl_sgemm;
/// for bf16 there is nothing else.
bool serves(const Key& /*key*/, const dnnl::matmul::primitive_desc& pd) {
  return std::strncmp(pd.impl_info_str(), "brg", 3) == 0;
}
bool serves(const Bf16Block& /*block*/, const dnnl::matmul::primitive_desc& /*pd*/) { return true; }

/// What one thread needs to execute.
struct Context {
  dnnl::stream stream{cpu_engine()};
  dnnl::memory a, b, c, scratchpad;

  explicit Context(const dnnl::matmul::primitive_desc& pd)
      : a(pd.src_desc(), cpu_engine(), nullptr),
        b(pd.weights_desc(), cpu_engine(), nullptr),
        c(pd.dst_desc(), cpu_engine(), nullptr),
        scratchpad(pd.scratchpad_desc(), cpu_engine()) {}
};

class MatmulPrimitive final : public BlockPrimitive {
 public:
  explicit MatmulPrimitive(const dnnl::matmul::primitive_desc& pd) : pd_(pd), primitive_(pd) {}

  int run(const void* a, const void* b, void* c) const noexcept override {
    try {
      std::unique_ptr<Context> x = take_context();
      execute(*x, const_cast<void*>(a), const_cast<void*>(b), c);
      give_back(std::move(x));
      return dnnl_success;
    } catch (const dnnl::error& e) {
      return e.status;
    } catch (const std::exception&) {
      return dnnl_out_of_memory;
    }
  }

 private:
  std::unique_ptr<Context> take_context() const {
    {
      const std::lock_guard guard(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Context> x = std::move(idle_.back());
        idle_.pop_back();
        return x;
      }
    }
    return std::make_unique<Context>(pd_);
  }

  /// Without memory it is dropped: the product is there, and must not be called failed.
  void give_back(std::unique_ptr<Context> x) const noexcept {
    const std::lock_guard guard(mutex_);
    try {
      idle_.push_back(std::move(x));
    } catch (const std::bad_alloc&) {
    }
  }

  void execute(Context& x, void* a, void* b, void* c) const {
    x.a.set_data_handle(a);
    x.b.set_data_handle(b);
    x.c.set_data_handle(c);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, x.a.get()},
                                    {DNNL_ARG_WEIGHTS, x.b.get()},
                                    {DNNL_ARG_DST, x.c.get()},
                                    {DNNL_ARG_SCRATCHPAD, x.scratchpad.get()}};
    dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), x.stream.get(), 4, args),
                            "matmul");
  }

  dnnl::matmul::primitive_desc pd_;
  dnnl::matmul primitive_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Context>> idle_;  // as many as threads have run it at once
};

template <class K>
std::shared_ptr<BlockPrimitive> make_primitive(const K& key) {
  const SingleOmpThread single;
  try {
    const auto pd = describe(key);
    if (!serves(key, pd)) return nullptr;
    return std::make_shared<MatmulPrimitive>(pd);
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory)
      ir::fail(ir::Errc::OutOfMemory, "matmul: no memory for a library primitive");
    return nullptr;
  }
}

// Beside those in use. Each takes about 100 KB.
constexpr size_t kMostPrimitives = 128;

template <class K>
using Cache = std::map<K, std::shared_ptr<BlockPrimitive>>;

template <class K>
Cache<K>& cache() {
  static auto* c = new Cache<K>;
  return *c;
}

template <class K>
std::shared_ptr<BlockPrimitive> shared_primitive(const K& key) {
  std::mutex& mutex = fork_safe_mutex<Cache<K>>();
  {
    const std::lock_guard guard(mutex);
    if (const auto found = cache<K>().find(key); found != cache<K>().end()) return found->second;
  }
  std::shared_ptr<BlockPrimitive> made =
      make_primitive(key);  // outside the lock: it may take milliseconds
  const std::lock_guard guard(mutex);
  if (cache<K>().size() >= kMostPrimitives)
    std::erase_if(cache<K>(), [](const auto& e) { return e.second.use_count() <= 1; });
  return cache<K>().emplace(key, std::move(made)).first->second;
}

}  // namespace

std::shared_ptr<BlockPrimitive> block_primitive(const MatmulSpec& s, int64_t batch, int64_t m) {
  return shared_primitive(
      Key{batch, m, s.n, s.k, blas_layout(s.b, s.k, s.n)->transposed, s.accumulate});
}

std::shared_ptr<BlockPrimitive> block_primitive(const Bf16Block& block) {
  auto primitive = shared_primitive(block);
  TANDEM_CHECK(primitive != nullptr, "oneDNN has no bf16 matmul");
  return primitive;
}

}  // namespace tandem::machine
