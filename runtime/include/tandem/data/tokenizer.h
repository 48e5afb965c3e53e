// Text to tokens and back: by characters, or by byte pairs as GPT-2.
#ifndef TANDEM_DATA_TOKENIZER_H
#define TANDEM_DATA_TOKENIZER_H

#include <tandem/tensor.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::data {

/// The Unicode characters of a text, numbered in the order of their code points.
class TANDEM_API CharTokenizer {
 public:
  /// Error{Argument} for text that is not UTF-8.
  explicit CharTokenizer(std::string_view text);

  int64_t vocab_size() const { return static_cast<int64_t>(characters_.size()); }
  /// Error{Argument}, which names character and place, for one that the vocabulary has not.
  std::vector<int64_t> encode(std::string_view text) const;
  /// Error{Index} for a number that is no token.
  std::string decode(std::span<const int64_t> tokens) const;
  /// All characters in order: CharTokenizer(vocabulary()) is this tokenizer again.
  std::string vocabulary() const;

 private:
  std::vector<char32_t> characters_;
};

struct BpeOptions {
  /// Tokens that are found in the text as they are, never split or merged. Those that the
  /// vocabulary has not are put at its end.
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
};

struct EncodeOptions {
  bool special = true;  // find special tokens; else their text is text
};

/// Byte-level byte-pair encoding: the tokens of GPT-2, and of any tokenizer of that kind. Text that
/// is not UTF-8 is encoded too, and decoded to the same bytes. Copies share their tables; all
/// functions may be called from several threads.
class TANDEM_API BpeTokenizer {
 public:
  /// GPT-2's files: vocab.json, tokens and their numbers; merges.txt, pairs in order of rank.
  /// Error{File}, which names file and problem.
  static BpeTokenizer load(const std::string& vocab, const std::string& merges,
                           const BpeOptions& options = {});
  /// Hugging Face's tokenizer.json, if it is of this kind (model BPE behind ByteLevel with GPT-2's
  /// split); else Error{File} says what it has.
  static BpeTokenizer load(const std::string& tokenizer_json);

  int64_t vocab_size() const;
  std::vector<int64_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// The tokens' bytes: what was encoded. Error{Index} for a number that is no token.
  std::string decode(std::span<const int64_t> tokens) const;
  /// The number of a token, spelled as in the text (" the"). Error{Argument} if there is none.
  int64_t token(std::string_view text) const;

 private:
  struct Tables;
  explicit BpeTokenizer(std::shared_ptr<const Tables> tables);

  std::shared_ptr<const Tables> tables_;
};

/// Decodes tokens as they come, for a text that is shown while it is made: gives whole characters
/// only, and U+FFFD for bytes that are none.
class TANDEM_API StreamDecoder {
 public:
  explicit StreamDecoder(BpeTokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}
  /// The characters that this token completes; may be empty.
  std::string next(int64_t token);
  /// What is left at the end: U+FFFD if the last character was not complete.
  std::string finish();

 private:
  std::string take(bool all);

  BpeTokenizer tokenizer_;
  std::string pending_;
};

}  // namespace tandem::data

#endif  // TANDEM_DATA_TOKENIZER_H
