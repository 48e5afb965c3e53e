// Character-level data for the nanogpt example: a text, its vocabulary, batches, and the bigram
// model it is compared with.
#ifndef TANDEM_EXAMPLES_CHAR_DATA_H
#define TANDEM_EXAMPLES_CHAR_DATA_H

#include <tandem/tandem.h>

#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace examples {

/// SplitMix64: a small generator for batch positions and sampling.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// An index drawn with the given probabilities.
  int64_t draw(const std::vector<double>& probabilities) {
    double left = uniform();
    for (size_t i = 0; i < probabilities.size(); ++i)
      if ((left -= probabilities[i]) < 0) return static_cast<int64_t>(i);
    return static_cast<int64_t>(probabilities.size()) - 1;
  }

 private:
  uint64_t state_;
};

/// A text as codes; the last tenth is held out.
class CharData {
 public:
  explicit CharData(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (text.size() < 10'000)
      throw tandem::Error(tandem::Errc::File,
                          "nanogpt: cannot read a text of at least 10 kB from " + path);
    codes_of_.fill(-1);
    for (char c : text) codes_of_[static_cast<unsigned char>(c)] = 0;
    for (int c = 0; c < 256; ++c)
      if (codes_of_[static_cast<size_t>(c)] == 0) {
        codes_of_[static_cast<size_t>(c)] = static_cast<int64_t>(characters_.size());
        characters_ += static_cast<char>(c);
      }
    for (char c : text) codes_.push_back(code(c));
  }

  int64_t vocabulary() const { return static_cast<int64_t>(characters_.size()); }
  int64_t code(char c) const { return codes_of_[static_cast<unsigned char>(c)]; }
  char character(int64_t code) const { return characters_[static_cast<size_t>(code)]; }
  std::span<const int64_t> training() const {
    return std::span(codes_).first(codes_.size() / 10 * 9);
  }
  std::span<const int64_t> held_out() const {
    return std::span(codes_).subspan(codes_.size() / 10 * 9);
  }

  /// Held-out loss, in nats per character, of a bigram model with add-one smoothing fitted to the
  /// training part.
  double bigram_loss() const {
    const auto v = static_cast<size_t>(vocabulary());
    std::vector<double> pairs(v * v, 1.0), firsts(v, static_cast<double>(v));
    const auto train = training(), test = held_out();
    for (size_t i = 0; i + 1 < train.size(); ++i) {
      pairs[static_cast<size_t>(train[i]) * v + static_cast<size_t>(train[i + 1])] += 1;
      firsts[static_cast<size_t>(train[i])] += 1;
    }
    double loss = 0;
    for (size_t i = 0; i + 1 < test.size(); ++i)
      loss -= std::log(pairs[static_cast<size_t>(test[i]) * v + static_cast<size_t>(test[i + 1])] /
                       firsts[static_cast<size_t>(test[i])]);
    return loss / static_cast<double>(test.size() - 1);
  }

 private:
  std::array<int64_t, 256> codes_of_{};
  std::string characters_;
  std::vector<int64_t> codes_;
};

/// Random windows: x [batch, context] and y, which is x one character later.
class Batches {
 public:
  Batches(std::span<const int64_t> codes, int64_t batch, int64_t context, uint64_t seed)
      : codes_(codes), batch_(batch), context_(context), random_(seed) {}

  std::pair<tandem::Tensor, tandem::Tensor> next() {
    std::vector<int64_t> x, y;
    for (int64_t b = 0; b < batch_; ++b) {
      const size_t start = random_.next() % (codes_.size() - static_cast<size_t>(context_) - 1);
      const auto window = codes_.subspan(start, static_cast<size_t>(context_) + 1);
      x.insert(x.end(), window.begin(), window.end() - 1);
      y.insert(y.end(), window.begin() + 1, window.end());
    }
    return {tandem::from_data(x, {batch_, context_}), tandem::from_data(y, {batch_, context_})};
  }

 private:
  std::span<const int64_t> codes_;
  int64_t batch_, context_;
  Random random_;
};

}  // namespace examples

#endif  // TANDEM_EXAMPLES_CHAR_DATA_H
