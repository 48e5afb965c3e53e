// A training run that may be stopped and goes on where it was: what resume_test.sh starts in
// processes of their own. Arguments: FOLDER MODEL STOP, where MODEL is mlp, conv or text, with
// "-compiled" behind it or not, and STOP the step before which the process kills itself (-1:
// never).
#include <signal.h>
#include <tandem/data.h>
#include <tandem/tandem.h>
#include <tandem/train.h>

#include <cstdio>
#include <string>
#include <vector>

namespace td = tandem;
using td::Tensor;

namespace {

constexpr int64_t kSteps = 200, kCheckpointAt = 100;

struct Mlp {
  td::nn::Linear in{8, 32}, out{32, 4};
  TANDEM_FIELDS(Mlp, in, out)
  Tensor operator()(const Tensor& x) const { return out(td::dropout(td::relu(in(x)), 0.3, true)); }
};

struct Conv {
  Tensor kernel = (td::randn({6, 1, 3, 3}) * 0.3).detach().requires_grad_();
  td::nn::Linear out{6 * 36, 4};
  TANDEM_FIELDS(Conv, kernel, out)
  Tensor operator()(const Tensor& x) const {
    const Tensor h = td::gelu(td::conv2d(x, kernel));
    return out(td::dropout(h.reshape({-1, 6 * 36}), 0.2, true));
  }
};

struct Text {
  td::nn::Embedding tokens{16, 24};
  td::nn::Linear qkv{24, 72}, out{24, 16};
  TANDEM_FIELDS(Text, tokens, qkv, out)
  Tensor operator()(const Tensor& x) const {
    const Tensor h = td::dropout(tokens(x), 0.1, true);
    const auto parts = td::split(qkv(h), 24, 2);
    return out(h + td::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, true));
  }
};

template <class Net>
Tensor loss_of(const Net& net, const Tensor& x, const Tensor& y) {
  const Tensor logits = net(x);
  return td::cross_entropy(logits.view({-1, logits.size(-1)}), y.view({-1}));
}

struct Data {
  Tensor x, y;
};

Data data_of(const std::string& model) {
  td::manual_seed(11);
  if (model == "mlp") return {td::randn({230, 8}), td::randint(0, 4, {230})};
  if (model == "conv") return {td::randn({150, 1, 8, 8}), td::randint(0, 4, {150})};
  return {td::randint(0, 16, {90, 12}), td::randint(0, 16, {90, 12})};
}

template <class Net, class Loss, class Optimizer>
void train(Net& net, const Loss& loss, Optimizer& optimizer, const Data& data,
           const std::string& folder, int64_t stop) {
  td::optim::CosineAnnealingLR scheduler(optimizer, {.t_max = kSteps});
  td::data::DataLoader loader(td::data::TensorDataset(data.x, data.y),
                              {.batch_size = 16, .shuffle = true, .num_workers = 2, .seed = 5});
  int64_t step = 0;
  td::train::Checkpoint checkpoint;
  checkpoint.add("model", net), checkpoint.add("optimizer", optimizer);
  checkpoint.add("scheduler", scheduler), checkpoint.add("loader", loader);
  checkpoint.add("step", step);
  checkpoint.load_latest(folder + "/checkpoints");
  td::train::JsonLinesLog log(folder + "/log.jsonl", {.resume_at = step});
  while (step < kSteps)
    for (auto& [x, y] : loader) {
      if (step == stop) ::raise(SIGKILL);
      const Tensor value = loss(net, x, y);
      value.backward();
      optimizer.step();
      optimizer.zero_grad();
      scheduler.step();
      log.write(step++, {{"loss", value.item()}, {"first", x.flatten().select(0, 0).item()}});
      if (step == kCheckpointAt) checkpoint.save_step(folder + "/checkpoints", step);
      if (step == kSteps) break;
    }
  checkpoint.save(folder + "/end.safetensors");
}

template <class Net, class Optimizer>
void run(const std::string& model, bool compiled, const std::string& folder, int64_t stop) {
  const Data data = data_of(model);
  td::manual_seed(7);
  Net net;
  Optimizer optimizer(td::nn::parameters(net), {.lr = 0.02});
  if (compiled)
    train(net, td::compile(&loss_of<Net>), optimizer, data, folder, stop);
  else
    train(net, &loss_of<Net>, optimizer, data, folder, stop);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string folder = argv[1], name = argv[2], model = name.substr(0, name.find('-'));
  const bool compiled = name != model;
  const int64_t stop = std::stoll(argv[3]);
  try {
    if (model == "mlp")
      run<Mlp, td::optim::SGD>(model, compiled, folder, stop);
    else if (model == "conv")
      run<Conv, td::optim::AdamW>(model, compiled, folder, stop);
    else
      run<Text, td::optim::Adam>(model, compiled, folder, stop);
  } catch (const td::Error& e) {
    std::fprintf(stderr, "resume_run: %s\n", e.what());
    return 1;
  }
  return 0;
}
