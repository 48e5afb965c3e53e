#include "machine/library/convolution_primitive.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

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

/// Where a part's images lie in the whole: so many bytes of each of their planes, the last
/// dimensions from that of the rows on.
struct Slabs {
  int64_t images, planes;
  int64_t begin, bytes, from_plane_to_plane, from_image_to_image;

  size_t all_bytes() const { return static_cast<size_t>(images * planes * bytes); }
  bool are_contiguous() const {
    return (planes == 1 || bytes == from_plane_to_plane) &&
           (images == 1 || planes * bytes == from_image_to_image);
  }
  /// f(offset in the whole, offset among the slabs)
  template <class F>
  void for_each(F f) const {
    for (int64_t i = 0; i < images; ++i)
      for (int64_t p = 0; p < planes; ++p)
        f(begin + i * from_image_to_image + p * from_plane_to_plane, (i * planes + p) * bytes);
  }
};

/// Images of a part: in the whole; in memory of the worker, where in the whole they are not
/// contiguous; and as the library wants them.
struct Images {
  const Side& side;
  const Slabs& slabs;
  char *whole, *own;
  uint8_t* inner;

  char* contiguous() const { return slabs.are_contiguous() ? whole + slabs.begin : own; }
  void bring() const {
    if (slabs.are_contiguous()) return;
    slabs.for_each([&](int64_t from, int64_t to) {
      std::memcpy(own + to, whole + from, static_cast<size_t>(slabs.bytes));
    });
  }
  void take_back() const {
    if (slabs.are_contiguous()) return;
    slabs.for_each([&](int64_t to, int64_t from) {
      std::memcpy(whole + to, own + from, static_cast<size_t>(slabs.bytes));
    });
  }
};

class Convolution final : public LibraryConvolution {
 public:
  explicit Convolution(const ConvolutionKind& kind)
      : kind_(kind), s_(kind.spec), sought_(kind.sought) {}

  /// Whether the library has fast kernels for all parts, with weights of the same channels in one
  /// layout: they are shared, or added up. Else it may have them for larger parts.
  bool make() {
    const SingleOmpThread single;
    Cut cut = cut_of(s_, sought_);
    if (make_parts(cut)) return true;
    cut.row_parts = 1;
    if (make_parts(cut)) return true;
    cut.images = s_.images, cut.image_parts = 1;
    return make_parts(cut);
  }

  void run(const ConvolutionData<void>& data) const override {
    const auto parts = static_cast<int64_t>(parts_.size());
    const int64_t weights = sought_ == Sought::Weight ? parts : channel_parts_;
    const size_t shared = static_cast<size_t>(weights) * weight_bytes_;
    const ArenaLease lease =
        borrow_arena(shared + static_cast<size_t>(num_threads()) * worker_bytes());
    Job job{data, lease.data(), lease.data() + shared};
    if (sought_ != Sought::Weight && weight_bytes_ > 0)
      each(job, channel_parts_, &Convolution::reorder_weight);
    each(job, parts, &Convolution::run_part);
    if (sought_ == Sought::Weight) each(job, channel_parts_, &Convolution::finish_weight);
    check(job.status);
    [[maybe_unused]] static const bool guarded = (close_gate_at_exit(), true);
  }

 private:
  struct Part : ConvolutionPart {
    const Kernel* kernel;
    Slabs x, y;
  };

  bool make_parts(const Cut& cut) {
    parts_.clear(), kernels_.clear();
    weight_bytes_ = x_own_bytes_ = x_bytes_ = y_own_bytes_ = y_bytes_ = scratch_bytes_ = 0;
    channel_parts_ = cut.channel_parts;
    for (const ConvolutionPart& part : parts_of(s_, sought_, cut)) {
      const Kernel* const kernel = kernel_for(part.spec);
      if (!kernel) return false;
      parts_.push_back({part, kernel, x_slabs(part), y_slabs(part)});
      make_room(parts_.back());
    }
    for (size_t i = static_cast<size_t>(channel_parts_); i < parts_.size(); ++i)
      if (parts_[i].kernel->w.inner != channels_of(i).kernel->w.inner) return false;
    return true;
  }

  void make_room(const Part& p) {
    const auto own = [](const Slabs& slabs) {
      return slabs.are_contiguous() ? 0 : in_pages(slabs.all_bytes());
    };
    x_own_bytes_ = std::max(x_own_bytes_, own(p.x));
    y_own_bytes_ = std::max(y_own_bytes_, own(p.y));
    x_bytes_ = std::max(x_bytes_, p.kernel->x.bytes());
    y_bytes_ = std::max(y_bytes_, p.kernel->y.bytes());
  }

  /// The first part of the same channels.
  const Part& channels_of(size_t part) const {
    return parts_[part % static_cast<size_t>(channel_parts_)];
  }

  /// Null where the library has no fast one.
  const Kernel* kernel_for(const ConvolutionSpec& part) {
    if (const auto found = kernels_.find(part); found != kernels_.end()) return &found->second;
    auto made = make_kernel(part, kind_);
    if (!made) return nullptr;
    const Kernel& k = kernels_.emplace(part, *std::move(made)).first->second;
    // Parts of a sum are added up before they go where the sum is wanted.
    weight_bytes_ = std::max(
        weight_bytes_, sought_ == Sought::Weight ? in_pages(k.w.inner.get_size()) : k.w.bytes());
    scratch_bytes_ = std::max(scratch_bytes_, k.scratch());
    return &k;
  }

  using Step = void (Convolution::*)(Job&, int64_t unit, uint8_t* scratch) const;

  size_t image_bytes() const { return x_own_bytes_ + x_bytes_ + y_own_bytes_ + y_bytes_; }
  size_t worker_bytes() const { return image_bytes() + scratch_bytes_; }

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

  // --- where a part's tensors begin

  int64_t first_in(const ConvolutionPart& p) const {
    if (s_.groups > 1) return p.channel * (s_.in / s_.groups);
    return sought_ == Sought::Input ? p.channel : 0;
  }
  int64_t first_out(const ConvolutionPart& p) const {
    if (s_.groups > 1) return p.channel * (s_.out / s_.groups);
    return sought_ == Sought::Input ? 0 : p.channel;
  }
  int64_t element_size() const { return kind_.element == ConvolutionElement::Bf16 ? 2 : 4; }
  char* element(void* data, int64_t i) const {
    return static_cast<char*>(data) + i * element_size();
  }
  /// Of images of `all` channels of `sizes`: `channels` of them from `first` on, and of each `part`
  /// from a row on.
  Slabs slabs(const ConvolutionPart& p, int64_t all, const Extents& sizes, int64_t first,
              int64_t channels, int64_t row, const Extents& part) const {
    const size_t d = row_dim(s_, sought_);
    const int64_t planes =
        std::accumulate(sizes.begin(), sizes.begin() + d, int64_t{1}, std::multiplies<>());
    const int64_t plane = product(sizes) / planes * element_size();
    return {p.spec.images,
            channels * planes,
            (p.image * all + first) * planes * plane + row * plane / sizes[d],
            product(part) / planes * element_size(),
            plane,
            all * planes * plane};
  }
  Slabs x_slabs(const ConvolutionPart& p) const {
    return slabs(p, s_.in, s_.input, first_in(p), p.spec.in, p.x_row, p.spec.input);
  }
  Slabs y_slabs(const ConvolutionPart& p) const {
    return slabs(p, s_.out, s_.output, first_out(p), p.spec.out, p.y_row, p.spec.output);
  }
  char* w_at(const Job& job, const Part& p) const {
    const int64_t in = s_.groups > 1 ? 0 : first_in(p);
    return element(job.data.w, (first_out(p) * (s_.in / s_.groups) + in) * product(s_.kernel));
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

  void reorder_weight(Job& job, int64_t channel_part, uint8_t* memory_of_worker) const {
    const Part& p = parts_[static_cast<size_t>(channel_part)];
    dnnl::stream stream(cpu_engine());
    wanted(p.kernel->w, stream, w_at(job, p), inner_weight(job, channel_part),
           memory_of_worker + image_bytes());
  }

  void run_part(Job& job, int64_t unit, uint8_t* memory_of_worker) const {
    const Part& p = parts_[static_cast<size_t>(unit)];
    const Kernel& k = *p.kernel;
    dnnl::stream stream(cpu_engine());
    uint8_t *x_memory = memory_of_worker, *y_memory = x_memory + x_own_bytes_ + x_bytes_,
            *scratch = memory_of_worker + image_bytes();
    const auto images = [](const Side& side, const Slabs& slabs, void* whole, uint8_t* memory,
                           size_t own_bytes) {
      return Images{side, slabs, static_cast<char*>(whole), reinterpret_cast<char*>(memory),
                    memory + own_bytes};
    };
    const Images x = images(k.x, p.x, job.data.x, x_memory, x_own_bytes_),
                 y = images(k.y, p.y, job.data.y, y_memory, y_own_bytes_);
    void* w = w_at(job, p);
    if (sought_ == Sought::Weight)
      w = inner_weight(job, unit);
    else if (k.w.reorder)
      w = inner_weight(job, unit % channel_parts_);
    void* const x_wanted = sought_ == Sought::Input ? room(x) : read(x, stream, scratch);
    void* const y_wanted = sought_ == Sought::Output ? room(y) : read(y, stream, scratch);
    execute(job, p, stream, x_wanted, w, y_wanted, scratch);
    if (sought_ == Sought::Output) write(y, stream, scratch);
    if (sought_ == Sought::Input) write(x, stream, scratch);
    if (sought_ == Sought::Input && kind_.has_bias) add_bias(job, p);
  }

  static void* read(const Images& i, dnnl::stream& stream, uint8_t* scratch) {
    i.bring();
    return wanted(i.side, stream, i.contiguous(), i.inner, scratch);
  }
  /// Where the library writes.
  static void* room(const Images& i) {
    if (i.side.reorder) return i.inner;
    return i.contiguous();
  }
  static void write(const Images& i, dnnl::stream& stream, uint8_t* scratch) {
    if (i.side.reorder)
      move(i.side, stream, i.inner, i.side.inner, i.contiguous(), i.side.plain, scratch);
    i.take_back();
  }

  void execute(const Job& job, const Part& p, dnnl::stream& stream, void* x, void* w, void* y,
               uint8_t* scratch) const {
    const Kernel& k = *p.kernel;
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

  /// (Of f32: where it is rounded, the bias has to be added before.)
  void add_bias(const Job& job, const Part& p) const {
    const int64_t n = p.x.bytes / element_size(), planes_of_channel = p.x.planes / p.spec.in;
    p.x.for_each([&](int64_t at, int64_t slab) {
      const int64_t channel = slab / p.x.bytes % p.x.planes / planes_of_channel;
      auto* const plane = reinterpret_cast<float*>(static_cast<char*>(job.data.x) + at);
      const float bias = *reinterpret_cast<const float*>(bias_at(job, first_in(p) + channel));
      for (int64_t j = 0; j < n; ++j) plane[j] += bias;
    });
  }

  /// Adds up the parts of the same channels by a balanced tree, and brings the sum to its place.
  void finish_weight(Job& job, int64_t channel_part, uint8_t* memory_of_worker) const {
    const Part& p = parts_[static_cast<size_t>(channel_part)];
    const ConvolutionSide& weight = p.kernel->w;
    float* const first = reinterpret_cast<float*>(inner_weight(job, channel_part));
    const auto count = static_cast<int64_t>(weight.inner.get_size() / sizeof(float));
    add_by_tree(first, count, static_cast<int64_t>(parts_.size()) / channel_parts_,
                channel_parts_ * static_cast<int64_t>(weight_bytes_ / sizeof(float)));
    dnnl::stream stream(cpu_engine());
    char* to = w_at(job, p);
    if (weight.reorder)
      move(weight, stream, first, weight.inner, to, weight.plain, memory_of_worker + image_bytes());
    else
      std::memcpy(to, first, static_cast<size_t>(count) * sizeof(float));
  }

  ConvolutionKind kind_;
  ConvolutionSpec s_;
  Sought sought_;
  std::vector<Part> parts_;  // of other channels one after the other
  int64_t channel_parts_ = 1;
  std::map<ConvolutionSpec, Kernel> kernels_;  // of parts
  size_t weight_bytes_ = 0, scratch_bytes_ = 0;
  size_t x_own_bytes_ = 0, x_bytes_ = 0, y_own_bytes_ = 0, y_bytes_ = 0;  // of a worker
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
