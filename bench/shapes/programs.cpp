#include "bench/shapes/programs.h"

#include <tandem/tandem.h>

#include <cstring>

namespace bench {
namespace {

namespace td = tandem;
using td::Tensor;

constexpr int64_t kVocabulary = 65, kChannels = 128, kHeads = 4, kLayers = 4, kContext = 256;

struct Block {
  td::nn::LayerNorm norm1{kChannels}, norm2{kChannels};
  td::nn::Linear qkv{kChannels, 3 * kChannels}, proj{kChannels, kChannels};
  td::nn::Linear up{kChannels, 4 * kChannels}, down{4 * kChannels, kChannels};
  TANDEM_FIELDS(Block, norm1, norm2, qkv, proj, up, down)

  Tensor attention(const Tensor& x) const {
    const td::Dim batch = x.size(0), time = x.size(1);
    const auto parts = td::split(qkv(x), kChannels, 2);
    const auto heads = [&](const Tensor& t) {
      return t.view({batch, time, kHeads, kChannels / kHeads}).transpose(1, 2);
    };
    const Tensor y = td::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]),
                                                      heads(parts[2]), {}, true);
    return proj(y.transpose(1, 2).reshape({batch, time, kChannels}));
  }

  Tensor operator()(const Tensor& x) const {
    const Tensor h = x + attention(norm1(x));
    return h + down(td::gelu(up(norm2(h)), "tanh"));
  }
};

struct Gpt {
  td::nn::Embedding tokens{kVocabulary, kChannels}, positions{kContext, kChannels};
  std::vector<Block> blocks = std::vector<Block>(kLayers);
  td::nn::LayerNorm norm{kChannels};
  TANDEM_FIELDS(Gpt, tokens, positions, blocks, norm)

  Tensor operator()(const Tensor& indices) const {
    Tensor x = tokens(indices) + positions.weight.slice(0, 0, indices.size(1));
    for (const Block& block : blocks) x = block(x);
    return td::matmul(norm(x), tokens.weight.t());
  }
};

struct Mlp {
  td::nn::Linear first{784, 512}, second{512, 512}, last{512, 10};
  TANDEM_FIELDS(Mlp, first, second, last)

  Tensor operator()(const Tensor& x) const { return last(td::relu(second(td::relu(first(x))))); }
};

Tensor labels(const td::Shape& shape, int64_t classes) {
  return td::to(td::floor(td::rand(shape) * static_cast<double>(classes)), td::DType::I64);
}

uint64_t mixed(uint64_t hash, const Tensor& t) {
  const Tensor whole = t.detach().contiguous();
  const auto* words = whole.data<float>();
  for (int64_t i = 0, count = whole.numel(); i < count; ++i) {
    uint32_t word;
    std::memcpy(&word, words + i, sizeof word);
    hash = (hash ^ word) * 0x100000001b3u;
  }
  return hash;
}

/// Inputs -> logits, with the mean cross entropy as loss.
template <class Net>
class Classifier final : public ShapeProgram {
 public:
  using MakeInputs = Tensor (*)(CallShape);
  using BatchOf = Tensor (*)(const Tensor& inputs, CallShape);
  Classifier(int64_t classes, CallShape largest, MakeInputs make_inputs, BatchOf batch_of)
      : batch_of_(batch_of) {
    td::manual_seed(1);
    net_ = std::make_unique<Net>();
    all_inputs_ = make_inputs(largest);
    all_labels_ = labels({largest.batch * largest.time}, classes);
  }

  void prepare(CallShape shape) override {
    inputs_ = batch_of_(all_inputs_, shape).clone();
    labels_ = all_labels_.slice(0, 0, shape.batch * shape.time).clone();
  }

  void step() override {
    for (const Tensor& p : td::nn::parameters(*net_)) p.set_grad({});
    loss_ = loss_of_(*net_, inputs_, labels_);
    loss_.backward();
  }

  uint64_t bits() const override {
    uint64_t hash = mixed(0xcbf29ce484222325u, loss_);
    for (const Tensor& p : td::nn::parameters(*net_)) hash = mixed(hash, p.grad());
    return hash;
  }

 private:
  static Tensor loss(const Net& net, const Tensor& inputs, const Tensor& labels) {
    const Tensor logits = net(inputs);
    return td::cross_entropy(logits.view({-1, logits.size(-1)}), labels);
  }

  BatchOf batch_of_;
  std::unique_ptr<Net> net_;
  Tensor all_inputs_, all_labels_, inputs_, labels_, loss_;
  decltype(td::compile(&Classifier::loss)) loss_of_ = td::compile(&Classifier::loss);
};

constexpr CallShape kLargestText{8, kContext}, kLargestBatch{512, 1};

std::unique_ptr<ShapeProgram> nanogpt() {
  return std::make_unique<Classifier<Gpt>>(
      kVocabulary, kLargestText, [](CallShape s) { return labels({s.batch, s.time}, kVocabulary); },
      [](const Tensor& t, CallShape s) { return t.slice(0, 0, s.batch).slice(1, 0, s.time); });
}

std::unique_ptr<ShapeProgram> mlp() {
  return std::make_unique<Classifier<Mlp>>(
      10, kLargestBatch, [](CallShape s) { return td::randn({s.batch, 784}); },
      [](const Tensor& t, CallShape s) { return t.slice(0, 0, s.batch); });
}

/// Batches of 1 to 8 sequences of 32 to 256 tokens, in no order.
std::vector<CallShape> batches_and_times(int count) {
  std::vector<CallShape> shapes;
  for (int64_t i = 0; i < count; ++i)
    shapes.push_back({1 + i % kLargestText.batch, 32 + i * 89 % (kLargestText.time - 31)});
  return shapes;
}

/// Batches of 1 to 512, in no order.
std::vector<CallShape> batches(int count) {
  std::vector<CallShape> shapes;
  for (int64_t i = 0; i < count; ++i)
    shapes.push_back({1 + (127 + i * 197) % kLargestBatch.batch, 1});
  return shapes;
}

}  // namespace

const std::vector<ShapeRow>& shape_rows() {
  static const std::vector<ShapeRow> rows = {{"nanogpt", nanogpt, batches_and_times},
                                             {"mlp", mlp, batches}};
  return rows;
}

}  // namespace bench
