#include "tests/oom/cases.h"

#include "machine/threads/thread_pool.h"

namespace tandem::testing {
namespace {

Tensor loss_of(const Tensor& x, const Tensor& y, const Tensor& weight, const Tensor& bias) {
  const Tensor out = matmul(sin(x), weight.t()) + bias;
  const auto [values, indices] = max(out, 1, true);
  return tandem::mean(square(gelu(out - values) - y));
}

/// Writes inputs, one of them through views, in layouts that kernels do and do not write directly;
/// draws; gives back a view of an input.
Tensor updated(const Tensor& mean, const Tensor& x, const Tensor& large) {
  mean.mul_(0.5).add_(tandem::mean(x, {0}).slice(0, 0, 4));
  x.t().slice(0, 0, 2).add_(dropout(x.t().slice(0, 2, 4), 0.5));
  large.slice(0, 0, 100).fill_(3.0);
  return mean.slice(0, 1, 3);
}

/// Writes an input and gives back what allocates as it is handed out.
std::vector<Tensor> updated_with_parts(const Tensor& mean, const Tensor& x) {
  mean.mul_(0.5).add_(tandem::mean(x, {0}).slice(0, 0, 4));
  return {mean * 2.0, x.t(), sum(x, {0})};
}

void nothing(World&) {}

Tensor eager_loss(World& w) { return loss_of(w.x, w.y, w.weight, w.bias); }

std::function<Tensor(World&)> compiled_loss() {
  return [f = compile(&loss_of)](World& w) { return f(w.x, w.y, w.weight, w.bias); };
}

std::function<void(World&)> compiled_update() {
  return [f = compile(&updated)](World& w) {
    const NoGrad no_grad;
    w.out = f(w.mean, w.x, w.large);
  };
}

void train(World& w) {
  w.out = w.loss(w);
  w.out.backward();
}

void forget_gradients(World& w) { w.optimizer->zero_grad(); }

void prepare_eager(World& w) { w.loss = eager_loss; }
void prepare_cold(World& w) { w.loss = compiled_loss(); }
void prepare_warm(World& w) {
  prepare_cold(w);
  train(w);
  forget_gradients(w);
}

void prepare_gradients(World& w) {
  w.loss = eager_loss;
  train(w);
}
void optimize(World& w) { w.optimizer->step(); }
void prepare_optimized(World& w) {
  prepare_gradients(w);
  optimize(w);
}

void prepare_update(World& w) { w.update = compiled_update(); }
void update(World& w) { w.update(w); }
void prepare_updated(World& w) {
  prepare_update(w);
  update(w);
}
void prepare_parts(World& w) {
  w.update = [f = compile(&updated_with_parts)](World& world) {
    const NoGrad no_grad;
    world.out = f(world.mean, world.x)[0];
  };
}
void prepare_parts_warm(World& w) {
  prepare_parts(w);
  update(w);
}

/// Writes to what has a history, eagerly and compiled; the rest shows what history they left.
void prepare_hidden(World& w) { w.hidden = matmul(w.x, w.weight.t()); }
void write_hidden(World& w) { w.hidden.sigmoid_(); }
void write_part_of_hidden(World& w) { w.hidden.slice(1, 0, 2).mul_(w.bias.slice(0, 2, 4) + 2.0); }
void differentiate_hidden(World& w) { square(w.hidden).sum().backward(); }

Tensor written(const Tensor& h, const Tensor& bias) {
  h.mul_(2.0);
  h.select(1, 1).add_(bias.select(0, 0));
  h.t_();
  return h.slice(1, 0, 4) * 3.0;
}
void prepare_written(World& w) {
  prepare_hidden(w);
  w.update = [f = compile(&written)](World& world) { world.out = f(world.hidden, world.bias); };
}
void differentiate_written(World& w) { (w.hidden.sum() + square(w.out).sum()).backward(); }
void prepare_written_warm(World& w) {
  prepare_written(w);
  update(w);
  differentiate_written(w);
  forget_gradients(w);
  prepare_hidden(w);
}

void write_eagerly(World& w) {
  const NoGrad no_grad;
  w.large.slice(0, 1, 40000).copy_(w.large.slice(0, 0, 39999) + 2.0);
}
void draw(World& w) { w.out = randn({1000}); }
void take_mapped_memory(World& w) { w.out = zeros({600000}); }
void draw_in_place(World& w) { w.mean.normal_(1.0, 2.0); }

void multiply(World& w) { w.out = matmul(w.square, w.square); }
void rearrange(World& w) { w.hidden.t_(); }

/// The first parallel region, whose pool starts its threads.
void prepare_threads(World&) {
  set_num_threads(2);
  machine::assume_processors(2);
}
void work_in_parallel(World& w) { w.out = w.large * 2.0 + 1.0; }
void prepare_cold_on_workers(World& w) {
  prepare_threads(w);
  prepare_cold(w);
}

/// A long tape, and a long chain of views, in `out`'s history: what destroys them has no memory.
void prepare_chains(World& w) {
  Tensor history = w.weight * 1.0, view = w.x;
  for (int i = 0; i < 20000; ++i) history = history * 1.0;
  for (int i = 0; i < 20000; ++i) view = view.t();
  w.out = history.sum() + view.detach().sum();
  w.update = [history, view](World& world) { world.out = history + view.sum(); };
}
void destroy_chains(World& w) {
  w.update = nullptr;
  w.out = Tensor();
}

}  // namespace

std::span<const Case> cases() {
  static constexpr Case kCases[] = {
      {"eager", prepare_eager, train},
      {"eager writes", nothing, write_eagerly},
      {"eager writes with history", prepare_hidden, write_hidden, differentiate_hidden},
      {"eager writes of a part", prepare_hidden, write_part_of_hidden, differentiate_hidden},
      {"rearranged", prepare_hidden, rearrange, differentiate_hidden},
      {"draws", nothing, draw},
      {"draws in place", nothing, draw_in_place},
      {"mapped memory", nothing, take_mapped_memory},
      {"library product", nothing, multiply},
      {"start of threads", prepare_threads, work_in_parallel},
      {"compiled", prepare_cold, train},
      {"compiled, warm", prepare_warm, train},
      {"optimizer", prepare_gradients, optimize},
      {"optimizer, warm", prepare_optimized, optimize},
      {"writes", prepare_update, update},
      {"writes, warm", prepare_updated, update},
      {"writes and a list", prepare_parts, update},
      {"writes and a list, warm", prepare_parts_warm, update},
      {"writes with history", prepare_written, update, differentiate_written},
      {"writes with history, warm", prepare_written_warm, update, differentiate_written},
      {"destruction", prepare_chains, destroy_chains, nothing, false},
      {"compiled on workers", prepare_cold_on_workers, train, nothing, true, true},
  };
  return kCases;
}

namespace {

std::string bytes_of(const Tensor& t) {
  if (!t.defined()) return "none";
  const Tensor dense = t.detach().contiguous();
  return {reinterpret_cast<const char*>(dense.data<float>()),
          static_cast<size_t>(int64_t{dense.numel()}) * sizeof(float)};
}

}  // namespace

void seed() { manual_seed(7); }

std::string kept(const World& w) {
  std::string all;
  for (const Tensor& t :
       {w.weight, w.bias, w.x, w.y, w.mean, w.large, w.square, w.hidden, randn({2})})
    all += bytes_of(t);
  return all;
}

std::vector<std::string> gradients(const World& w) {
  return {bytes_of(w.weight.grad()), bytes_of(w.bias.grad())};
}

std::string result(const World& w) { return bytes_of(w.out); }

}  // namespace tandem::testing
