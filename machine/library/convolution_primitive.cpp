#include "machine/library/convolution_primitive.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "ir/base/error.h"
#include "machine/library/block_primitive.h"
#include "machine/library/convolution_cut.h"
#include "machine/library/convolution_kernel.h"
#include "machine/library/engine.h"
#include "machine/library/exit_gate.h"
#include "machine/memory/arena.h"
#include "machine/products/tree_sum.h"
#include "machine/threads/fork_lock.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine {
namespace {

using dnnl::memory;
using Desc = memory::desc;
using Kernel = ConvolutionKernel;
using Side = ConvolutionSide;

/// One call: what the workers share.
struct Job {
  const ConvolutionData<void>& data;
  uint8_t* weights;  // of each channel part; Sought::Weight: of each part
  uint8_t* scratch;  // of each worker
  std::atomic<int> status{dnnl_success};
};

struct Place {
  int64_t image_part, channel_part;
  int64_t image, channel;  // the first
};

class Convolution final : public LibraryConvolution {
 public:
  explicit Convolution(const ConvolutionKind& kind)
      : kind_(kind), s_(kind.spec), sought_(kind.sought), cut_(cut_of(s_, sought_)) {}

  /// Whether the library has fast kernels for all parts. A sum is cut only where its parts have one
  /// layout.
  bool make() {
    const SingleOmpThread single;
    if (!make_kernels()) return false;
    const auto adds_up = [](const auto& a, const auto& b) { return a->w.inner == b->w.inner; };
    if (sought_ != Sought::Weight ||
        (adds_up(kernels_[0][0], kernels_[1][0]) && adds_up(kernels_[0][1], kernels_[1][1])))
      return true;
    cut_.images = s_.images;
    cut_.image_parts = 1;
    return make_kernels();
  }

  void run(const ConvolutionData<void>& data) const override {
    const int64_t parts = cut_.image_parts * cut_.channel_parts;
    const int64_t weights = sought_ == Sought::Weight ? parts : cut_.channel_parts;
    const size_t shared = static_cast<size_t>(weights) * weight_bytes_;
    const ArenaLease lease =
        borrow_arena(shared + static_cast<size_t>(num_threads()) * worker_bytes());
    Job job{data, lease.data(), lease.data() + shared};
    if (sought_ != Sought::Weight && weight_bytes_ > 0)
      each(job, cut_.channel_parts, &Convolution::reorder_weight);
    each(job, parts, &Convolution::run_part);
    if (sought_ == Sought::Weight) each(job, cut_.channel_parts, &Convolution::finish_weight);
    check(job.status);
    [[maybe_unused]] static const bool guarded = (close_gate_at_exit(), true);
  }

 private:
  bool make_kernels() {
    for (const bool last_images : {false, true})
      for (const bool last_channels : {false, true}) {
        const int64_t images =
            last_images ? s_.images - (cut_.image_parts - 1) * cut_.images : cut_.images;
        const int64_t extent = cut_extent(s_, sought_);
        const int64_t channels = last_channels ? extent - (cut_.channel_parts - 1) * cut_.channels
                                               : std::min(cut_.channels, extent);
        auto& kernel = kernels_[last_images][last_channels];
        kernel = make_kernel(part_spec(s_, sought_, images, channels), kind_);
        if (!kernel) return false;
        // Parts of a sum are added up before they go where the sum is wanted.
        weight_bytes_ =
            std::max(weight_bytes_, sought_ == Sought::Weight ? in_pages(kernel->w.inner.get_size())
                                                              : kernel->w.bytes());
        x_bytes_ = std::max(x_bytes_, kernel->x.bytes());
        y_bytes_ = std::max(y_bytes_, kernel->y.bytes());
        scratch_bytes_ = std::max(scratch_bytes_, kernel->scratch());
      }
    return true;
  }

  using Step = void (Convolution::*)(Job&, int64_t unit, uint8_t* scratch) const;

  size_t worker_bytes() const { return x_bytes_ + y_bytes_ + scratch_bytes_; }

  void each(Job& job, int64_t units, Step step) const {
    parallel_for(units, 1, [&](int64_t begin, int64_t end, int worker) {
      const SingleOmpThread single;
      try {
        for (int64_t unit = begin; unit < end; ++unit)
          (this->*step)(job, unit, job.scratch + static_cast<size_t>(worker) * worker_bytes());
      } catch (const dnnl::error& e) {
        job.status = e.status;
      } catch (const std::exception&) {
        job.status = dnnl_out_of_memory;
      }
    });
  }

  static void check(int status) {
    if (status == dnnl_success) return;
    if (status == dnnl_out_of_memory)
      ir::fail(ir::Errc::OutOfMemory, "convolution: no memory for the library");
    TANDEM_CHECK(false, "oneDNN refused a convolution with status " + std::to_string(status));
  }

  Place place(int64_t unit) const {
    const int64_t i = unit / cut_.channel_parts, c = unit % cut_.channel_parts;
    return {i, c, i * cut_.images, c * cut_.channels};
  }

  const Kernel& kernel(const Place& at) const {
    return *kernels_[at.image_part == cut_.image_parts - 1]
                    [at.channel_part == cut_.channel_parts - 1];
  }

  // --- where a part's tensors begin

  int64_t first_in(const Place& at) const {
    if (s_.groups > 1) return at.channel * (s_.in / s_.groups);
    return sought_ == Sought::Input ? at.channel : 0;
  }
  int64_t first_out(const Place& at) const {
    if (s_.groups > 1) return at.channel * (s_.out / s_.groups);
    return sought_ == Sought::Input ? 0 : at.channel;
  }
  char* element(void* data, int64_t i) const {
    return static_cast<char*>(data) + i * (kind_.element == ConvolutionElement::Bf16 ? 2 : 4);
  }
  char* x_at(const Job& job, const Place& at) const {
    return element(job.data.x, (at.image * s_.in + first_in(at)) * product(s_.input));
  }
  char* y_at(const Job& job, const Place& at) const {
    return element(job.data.y, (at.image * s_.out + first_out(at)) * product(s_.output));
  }
  char* w_at(const Job& job, const Place& at) const {
    const int64_t in = s_.groups > 1 ? 0 : first_in(at);
    return element(job.data.w, (first_out(at) * (s_.in / s_.groups) + in) * product(s_.kernel));
  }
  char* bias_at(const Job& job, int64_t channel) const {
    return element(const_cast<void*>(job.data.bias), channel);
  }
  uint8_t* inner_weight(const Job& job, int64_t number) const {
    return job.weights + static_cast<size_t>(number) * weight_bytes_;
  }

  // --- steps

  static memory at(const Desc& desc, void* data) { return {desc, cpu_engine(), data}; }

  static void move(const Side& side, dnnl::stream& stream, void* from, const Desc& from_desc,
                   void* to, const Desc& to_desc, uint8_t* scratch) {
    const memory source = at(from_desc, from), target = at(to_desc, to);
    side.reorder->execute(stream, {{DNNL_ARG_FROM, source},
                                   {DNNL_ARG_TO, target},
                                   {DNNL_ARG_SCRATCHPAD, at(side.scratchpad, scratch)}});
  }

  /// `plain` as the library wants it: itself, or in `inner`.
  static void* wanted(const Side& side, dnnl::stream& stream, char* plain, uint8_t* inner,
                      uint8_t* scratch) {
    if (!side.reorder) return plain;
    move(side, stream, plain, side.plain, inner, side.inner, scratch);
    return inner;
  }

  void reorder_weight(Job& job, int64_t channel_part, uint8_t* scratch) const {
    const Place at = place(channel_part);
    const Kernel& k = kernel(at);
    dnnl::stream stream(cpu_engine());
    wanted(k.w, stream, w_at(job, at), inner_weight(job, channel_part),
           scratch + x_bytes_ + y_bytes_);
  }

  void run_part(Job& job, int64_t unit, uint8_t* memory_of_worker) const {
    const Place p = place(unit);
    const Kernel& k = kernel(p);
    dnnl::stream stream(cpu_engine());
    uint8_t *x_inner = memory_of_worker, *y_inner = x_inner + x_bytes_,
            *scratch = y_inner + y_bytes_;
    void *x = x_at(job, p), *y = y_at(job, p), *w = w_at(job, p);
    if (sought_ != Sought::Input)
      x = wanted(k.x, stream, x_at(job, p), x_inner, scratch);
    else if (k.x.reorder)
      x = x_inner;
    if (sought_ != Sought::Output)
      y = wanted(k.y, stream, y_at(job, p), y_inner, scratch);
    else if (k.y.reorder)
      y = y_inner;
    if (sought_ == Sought::Weight)
      w = inner_weight(job, unit);
    else if (k.w.reorder)
      w = inner_weight(job, p.channel_part);
    execute(job, p, k, stream, x, w, y, scratch);
    if (sought_ == Sought::Output && k.y.reorder)
      move(k.y, stream, y, k.y.inner, y_at(job, p), k.y.plain, scratch);
    if (sought_ == Sought::Input && k.x.reorder)
      move(k.x, stream, x, k.x.inner, x_at(job, p), k.x.plain, scratch);
    if (sought_ == Sought::Input && kind_.has_bias) add_bias(job, p);
  }

  void execute(const Job& job, const Place& p, const Kernel& k, dnnl::stream& stream, void* x,
               void* w, void* y, uint8_t* scratch) const {
    const bool is_output = sought_ == Sought::Output, is_input = sought_ == Sought::Input,
               is_weight = sought_ == Sought::Weight;
    std::unordered_map<int, memory> args{
        {is_input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, at(k.x.inner, x)},
        {is_weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, at(k.w.inner, w)},
        {is_output ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, at(k.y.inner, y)},
        {DNNL_ARG_SCRATCHPAD, at(k.scratchpad, scratch)}};
    if (is_output && kind_.has_bias)
      args.emplace(DNNL_ARG_BIAS, at(k.bias, bias_at(job, first_out(p))));
    k.primitive.execute(stream, args);
  }

  int64_t images_of(const Place& p) const { return std::min(cut_.images, s_.images - p.image); }

  /// (Of f32: where it is rounded, the bias has to be added before.)
  void add_bias(const Job& job, const Place& p) const {
    const int64_t n = product(s_.input);
    const int64_t per_channel = s_.groups > 1 ? s_.in / s_.groups : 1;
    const int64_t channels =
        std::min(cut_.channels, cut_extent(s_, sought_) - p.channel) * per_channel;
    for (int64_t i = 0; i < images_of(p); ++i)
      for (int64_t c = 0; c < channels; ++c) {
        float* plane = reinterpret_cast<float*>(x_at(job, p)) + (i * s_.in + c) * n;
        const float bias = *reinterpret_cast<const float*>(bias_at(job, first_in(p) + c));
        for (int64_t j = 0; j < n; ++j) plane[j] += bias;
      }
  }

  /// Adds up the parts over images by a balanced tree, and brings the sum to its place.
  void finish_weight(Job& job, int64_t channel_part, uint8_t* scratch) const {
    const Place p = place(channel_part);
    const Kernel& k = kernel({cut_.image_parts - 1, channel_part, 0, 0});
    float* const first = reinterpret_cast<float*>(inner_weight(job, channel_part));
    const auto count = static_cast<int64_t>(k.w.inner.get_size() / sizeof(float));
    add_by_tree(first, count, cut_.image_parts,
                cut_.channel_parts * static_cast<int64_t>(weight_bytes_ / sizeof(float)));
    dnnl::stream stream(cpu_engine());
    char* to = w_at(job, p);
    if (k.w.reorder)
      move(k.w, stream, first, k.w.inner, to, k.w.plain, scratch + x_bytes_ + y_bytes_);
    else
      std::memcpy(to, first, static_cast<size_t>(count) * sizeof(float));
  }

  ConvolutionKind kind_;
  ConvolutionSpec s_;
  Sought sought_;
  Cut cut_;
  std::array<std::array<std::optional<Kernel>, 2>, 2> kernels_;  // [last images][last channels]
  size_t weight_bytes_ = 0, x_bytes_ = 0, y_bytes_ = 0, scratch_bytes_ = 0;
};

using Cache = std::map<ConvolutionKind, std::shared_ptr<const LibraryConvolution>>;
constexpr size_t kMostConvolutions = 512;

Cache& cache() {
  static Cache* c = new Cache;
  return *c;
}

std::shared_ptr<const LibraryConvolution> make_convolution(const ConvolutionKind& kind) {
  try {
    auto made = std::make_shared<Convolution>(kind);
    return made->make() ? made : nullptr;
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory)
      ir::fail(ir::Errc::OutOfMemory, "convolution: no memory for a library primitive");
    return nullptr;
  }
}

}  // namespace

std::shared_ptr<const LibraryConvolution> shared_convolution(const ConvolutionKind& kind) {
  std::mutex& mutex = fork_safe_mutex<Cache>();
  {
    const std::lock_guard guard(mutex);
    if (const auto found = cache().find(kind); found != cache().end()) return found->second;
  }
  auto made = make_convolution(kind);  // outside the lock: it may take milliseconds
  const std::lock_guard guard(mutex);
  if (cache().size() >= kMostConvolutions)
    std::erase_if(cache(), [](const auto& e) { return e.second.use_count() <= 1; });
  return cache().emplace(kind, std::move(made)).first->second;
}

}  // namespace tandem::machine
