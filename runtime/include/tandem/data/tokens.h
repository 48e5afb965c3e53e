// Files of tokens for language models: bare numbers, one behind the other, as nanoGPT's .bin.
#ifndef TANDEM_DATA_TOKENS_H
#define TANDEM_DATA_TOKENS_H

#include <tandem/tensor.h>

#include <memory>
#include <span>
#include <string>
#include <utility>

namespace tandem::runtime {
class MappedFile;
}

namespace tandem::data {

enum class TokenType : uint8_t { U16, U32 };  // little endian

struct MappedTokensOptions {
  int64_t block_size = 1024;
  int64_t stride = 1;  // tokens between the starts of windows
  TokenType type = TokenType::U16;
};

/// A file of tokens, mapped into memory, as a data set of windows: item i is x, the tokens
/// [i * stride, i * stride + block_size), and y, those one further; i64 both. Random windows, as
/// nanoGPT draws them, come by data::random(tokens.size(), {.replacement = true, .num_samples =
/// n}). The file must not be shortened while it is used.
class TANDEM_API MappedTokens {
 public:
  using Item = std::pair<Tensor, Tensor>;

  /// Error{File} if the file cannot be mapped, is no whole number of tokens, or is shorter than one
  /// window.
  explicit MappedTokens(const std::string& path, const MappedTokensOptions& options = {});

  int64_t size() const;
  Item get(int64_t i) const;
  Item get_batch(std::span<const int64_t> indices) const;
  int64_t num_tokens() const { return num_tokens_; }
  /// Tokens [begin, begin + count): i64 [count].
  Tensor tokens(int64_t begin, int64_t count) const;

 private:
  void copy(int64_t begin, int64_t count, int64_t* to) const;

  std::shared_ptr<const runtime::MappedFile> file_;
  MappedTokensOptions options_;
  int64_t num_tokens_;
};

/// Writes such a file in one step. Error{Argument} for an integer that the type does not hold.
TANDEM_API void save_tokens(const std::string& path, std::span<const int64_t> tokens,
                            TokenType type = TokenType::U16);

}  // namespace tandem::data

#endif  // TANDEM_DATA_TOKENS_H
