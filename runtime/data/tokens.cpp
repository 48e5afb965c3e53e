#include <fmt/format.h>
#include <tandem/data/dataset.h>
#include <tandem/data/tokens.h>

#include <limits>

#include "ir/base/error.h"
#include "ir/base/file_writer.h"
#include "runtime/io/files.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::data {
namespace {

size_t size_of(TokenType type) { return type == TokenType::U16 ? 2 : 4; }

int64_t* elements(const Tensor& tensor) { return static_cast<int64_t*>(tensor.impl()->data()); }

void check_options(const MappedTokensOptions& options) {
  if (options.block_size < 1 || options.stride < 1)
    ir::fail(Errc::Argument,
             fmt::format("MappedTokens: block_size {} and stride {}; expected at least 1",
                         options.block_size, options.stride));
}

template <class Token>
void widen(std::string_view bytes, int64_t count, int64_t* to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = runtime::number_at<Token>(bytes, static_cast<size_t>(i) * sizeof(Token));
}

template <class Token>
std::string narrowed(std::span<const int64_t> tokens) {
  std::string bytes(tokens.size() * sizeof(Token), '\0');
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] > std::numeric_limits<Token>::max())
      ir::fail(Errc::Argument, fmt::format("save_tokens: token {} is {}; expected at most {}", i,
                                           tokens[i], std::numeric_limits<Token>::max()));
    const auto token = static_cast<Token>(tokens[i]);
    std::memcpy(bytes.data() + i * sizeof token, &token, sizeof token);
  }
  return bytes;
}

}  // namespace

MappedTokens::MappedTokens(const std::string& path, const MappedTokensOptions& options)
    : options_(options) {
  check_options(options);
  runtime::reading("MappedTokens", path, [&] {
    file_ = runtime::MappedFile::open(path, runtime::MappedFile::Access::ReadOnly);
    const size_t bytes = file_->bytes().size(), size = size_of(options.type);
    if (bytes % size != 0)
      ir::fail(Errc::File, fmt::format("{} bytes; expected tokens of {} each", bytes, size));
    num_tokens_ = static_cast<int64_t>(bytes / size);
    if (num_tokens_ <= options.block_size)
      ir::fail(Errc::File, fmt::format("{} tokens; expected more than the block_size of {}",
                                       num_tokens_, options.block_size));
  });
}

int64_t MappedTokens::size() const {
  return (num_tokens_ - options_.block_size - 1) / options_.stride + 1;
}

void MappedTokens::copy(int64_t begin, int64_t count, int64_t* to) const {
  const std::string_view bytes =
      file_->bytes().substr(static_cast<size_t>(begin) * size_of(options_.type));
  if (options_.type == TokenType::U16)
    widen<uint16_t>(bytes, count, to);
  else
    widen<uint32_t>(bytes, count, to);
}

MappedTokens::Item MappedTokens::get(int64_t i) const {
  detail::check_index("MappedTokens", i, size());
  return {tokens(i * options_.stride, options_.block_size),
          tokens(i * options_.stride + 1, options_.block_size)};
}

MappedTokens::Item MappedTokens::get_batch(std::span<const int64_t> indices) const {
  const int64_t block = options_.block_size;
  for (const int64_t i : indices) detail::check_index("MappedTokens", i, size());
  const Shape sizes{static_cast<int64_t>(indices.size()), block};
  Item batch{runtime::empty_tensor(sizes, i64), runtime::empty_tensor(sizes, i64)};
  int64_t *x = elements(batch.first), *y = elements(batch.second);
  for (const int64_t i : indices) {
    copy(i * options_.stride, block, x);
    copy(i * options_.stride + 1, block, y);
    x += block;
    y += block;
  }
  return batch;
}

Tensor MappedTokens::tokens(int64_t begin, int64_t count) const {
  if (begin < 0 || count < 0 || begin > num_tokens_ || count > num_tokens_ - begin)
    ir::fail(Errc::Index, fmt::format("MappedTokens: tokens [{}, {} + {}) of {}", begin, begin,
                                      count, num_tokens_));
  Tensor out = runtime::empty_tensor({count}, i64);
  if (count > 0) copy(begin, count, elements(out));
  return out;
}

void save_tokens(const std::string& path, std::span<const int64_t> tokens, TokenType type) {
  const std::string bytes =
      type == TokenType::U16 ? narrowed<uint16_t>(tokens) : narrowed<uint32_t>(tokens);
  ir::FileWriter file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace tandem::data
