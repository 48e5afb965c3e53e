#include <fmt/format.h>
#include <tandem/data/dataset.h>
#include <tandem/data/tokenizer.h>

#include "ir/base/error.h"
#include "runtime/data/bpe.h"
#include "runtime/data/split_text.h"
#include "runtime/data/utf8.h"
#include "runtime/io/files.h"

namespace tandem::data {

struct BpeTokenizer::Tables {
  Bpe bpe;
};

namespace {

/// Tokens of text without special ones. Pieces that come again are not merged again.
class Encoder {
 public:
  Encoder(const Bpe& bpe, std::vector<int64_t>& tokens) : bpe_(bpe), tokens_(tokens) {}

  void encode(std::string_view text) {
    while (!text.empty()) {
      const std::string_view piece = text.substr(0, first_piece(text));
      encode_piece(piece);
      text.remove_prefix(piece.size());
    }
  }

 private:
  struct Range {
    size_t begin, end;  // in tokens_
  };

  void encode_piece(std::string_view piece) {
    const auto [known, is_new] = known_.try_emplace(piece);
    Range& range = known->second;
    if (is_new) {
      range.begin = tokens_.size();
      append_tokens(bpe_, piece, tokens_);
      range.end = tokens_.size();
    } else {
      for (size_t i = range.begin; i < range.end; ++i) tokens_.push_back(int64_t{tokens_[i]});
    }
  }

  const Bpe& bpe_;
  std::vector<int64_t>& tokens_;
  std::unordered_map<std::string_view, Range> known_;
};

/// Finds special tokens from the left; of several at one place the longest.
class SpecialFinder {
 public:
  SpecialFinder(const Bpe& bpe, std::string_view text) : text_(text) {
    for (const auto& [special, token] : bpe.special)
      nexts_.push_back({special, token, text.find(special)});
  }

  struct Next {
    std::string_view special;
    Token token;
    size_t at;  // npos: nowhere
  };
  /// The first from `begin` on; null if there is none.
  const Next* next(size_t begin) {
    const Next* first = nullptr;
    for (Next& next : nexts_) {
      if (next.at < begin) next.at = text_.find(next.special, begin);
      const bool longer = first != nullptr && next.special.size() > first->special.size();
      if (next.at != text_.npos &&
          (first == nullptr || next.at < first->at || (next.at == first->at && longer)))
        first = &next;
    }
    return first;
  }

 private:
  std::string_view text_;
  std::vector<Next> nexts_;
};

std::string read(const std::string& path) {
  return runtime::reading("BpeTokenizer", path, [&] { return runtime::read_file(path); });
}

}  // namespace

BpeTokenizer::BpeTokenizer(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}

BpeTokenizer BpeTokenizer::load(const std::string& vocab, const std::string& merges,
                                const BpeOptions& options) {
  const std::string tokens = read(vocab), pairs = read(merges);
  return runtime::reading("BpeTokenizer", vocab + ", " + merges, [&] {
    return BpeTokenizer(
        std::make_shared<Tables>(Tables{bpe_of_files(tokens, pairs, options.special_tokens)}));
  });
}

BpeTokenizer BpeTokenizer::load(const std::string& tokenizer_json) {
  const std::string json = read(tokenizer_json);
  return runtime::reading("BpeTokenizer", tokenizer_json, [&] {
    return BpeTokenizer(std::make_shared<Tables>(Tables{bpe_of_tokenizer_json(json)}));
  });
}

int64_t BpeTokenizer::vocab_size() const { return std::ssize(tables_->bpe.bytes); }

std::vector<int64_t> BpeTokenizer::encode(std::string_view text,
                                          const EncodeOptions& options) const {
  const Bpe& bpe = tables_->bpe;
  std::vector<int64_t> tokens;
  Encoder encoder(bpe, tokens);
  SpecialFinder finder(bpe, options.special ? text : std::string_view());
  size_t begin = 0;
  while (const SpecialFinder::Next* next = finder.next(begin)) {
    encoder.encode(text.substr(begin, next->at - begin));
    tokens.push_back(next->token);
    begin = next->at + next->special.size();
  }
  encoder.encode(text.substr(begin));
  return tokens;
}

std::string BpeTokenizer::decode(std::span<const int64_t> tokens) const {
  std::string text;
  for (const int64_t token : tokens) {
    detail::check_index("BpeTokenizer: token", token, vocab_size());
    text += tables_->bpe.bytes[static_cast<size_t>(token)];
  }
  return text;
}

int64_t BpeTokenizer::token(std::string_view text) const {
  const auto found = tables_->bpe.token_of.find(std::string(text));
  if (found == tables_->bpe.token_of.end())
    ir::fail(Errc::Argument, fmt::format("BpeTokenizer: no token \"{}\"", text));
  return found->second;
}

std::string StreamDecoder::take(bool all) {
  std::string text;
  size_t at = 0;
  while (at < pending_.size()) {
    const Character character = character_at(pending_, at);
    if (character.cut && !all) break;
    text += character.valid ? pending_.substr(at, character.length) : utf8_of(0xfffd);
    at += character.length;
  }
  pending_.erase(0, at);
  return text;
}

std::string StreamDecoder::next(int64_t token) {
  pending_ += tokenizer_.decode(std::span(&token, 1));
  return take(/*all=*/false);
}

std::string StreamDecoder::finish() { return take(/*all=*/true); }

}  // namespace tandem::data
