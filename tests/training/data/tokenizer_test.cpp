// Tokenizers: by characters; by byte pairs, as tokenizers and tiktoken encode.
#include <gtest/gtest.h>
#include <tandem/data.h>
#include <tandem/tandem.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace tandem {
namespace {

using data::BpeTokenizer;
using testing::expect_error;
using testing::TemporaryFolder;
using Tokens = std::vector<int64_t>;

std::string fixture(const std::string& name) {
  return TANDEM_SOURCE_DIR "/tests/torch/data/" + name;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

BpeTokenizer small() { return BpeTokenizer::load(fixture("vocab.json"), fixture("merges.txt")); }

// --- characters

TEST(CharTokenizer, NumbersCharactersInOrder) {
  const data::CharTokenizer tokenizer("hello wörld 🙂");
  EXPECT_EQ(tokenizer.vocabulary(), " dehlorwö🙂");
  EXPECT_EQ(tokenizer.vocab_size(), 10);
  EXPECT_EQ(tokenizer.encode("dö🙂"), (Tokens{1, 8, 9}));
  EXPECT_EQ(tokenizer.decode(Tokens{9, 1}), "🙂d");
  EXPECT_EQ(data::CharTokenizer(tokenizer.vocabulary()).vocabulary(), tokenizer.vocabulary());
  EXPECT_EQ(data::CharTokenizer("").encode(""), Tokens());
  expect_error(Errc::Argument, "'x' (U+0078) at byte 1", [&] { tokenizer.encode("hx"); });
  for (const char* bad : {"\xff", "a\xc3", "\xe4\xbd", "\xed\xa0\x80", "\xc0\x80"})
    expect_error(Errc::Argument, "no UTF-8", [&] { data::CharTokenizer{bad}; });
  expect_error(Errc::Index, "item 10 of 10", [&] { tokenizer.decode(Tokens{10}); });
  expect_error(Errc::Index, "item -1", [&] { tokenizer.decode(Tokens{-1}); });
}

// --- byte pairs

TEST(BpeTokenizer, EncodesAsTokenizersAndTiktoken) {
  const auto rows = nlohmann::json::parse(contents(fixture("encoded.json")));
  ASSERT_GT(rows.size(), 150u);
  for (const BpeTokenizer& tokenizer : {small(), BpeTokenizer::load(fixture("tokenizer.json"))}) {
    EXPECT_EQ(tokenizer.vocab_size(), 700);
    for (const auto& row : rows) {
      const auto text = row["text"].get<std::string>();
      EXPECT_EQ(tokenizer.encode(text), row["tokens"].get<Tokens>()) << row["text"];
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
  }
}

TEST(BpeTokenizer, EncodesAnyBytes) {
  const BpeTokenizer tokenizer = small();
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::string bytes;
    for (size_t n = random() % 40; n > 0; --n)
      bytes += static_cast<char>(random() % 3 == 0 ? ' ' : random());
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(bytes)), bytes);
  }
}

TEST(BpeTokenizer, LongPiecesTakeNoQuadraticTime) {
  const BpeTokenizer tokenizer = small();
  for (const char* part : {"a", "th", " ", "🙂"}) {
    std::string text;
    for (int i = 0; i < 200000; ++i) text += part;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(BpeTokenizer, SpecialTokensAreFoundInText) {
  const BpeTokenizer tokenizer = BpeTokenizer::load(fixture("vocab.json"), fixture("merges.txt"),
                                                    {{"<|endoftext|>", "<|end", "<|end|>"}});
  EXPECT_EQ(tokenizer.vocab_size(), 702);
  EXPECT_EQ(tokenizer.token("<|end"), 700);
  EXPECT_EQ(tokenizer.token("<|end|>"), 701);
  EXPECT_EQ(tokenizer.encode("<|end|><|endoftext|><|end<|"),
            (Tokens{701, 0, 700, tokenizer.token("<|")}));
  const Tokens plain = tokenizer.encode("<|end|>", {.special = false});
  EXPECT_GT(plain.size(), 1u);
  EXPECT_EQ(tokenizer.decode(plain), "<|end|>");
  EXPECT_EQ(tokenizer.token(" the"), tokenizer.encode(" the")[0]);
  expect_error(Errc::Argument, "no token \"xyzzy\"", [&] { tokenizer.token("xyzzy"); });
  for (const int64_t none : {-1, 702})
    expect_error(Errc::Index, "of 702", [&] { tokenizer.decode(Tokens{none}); });
}

TEST(StreamDecoder, GivesWholeCharacters) {
  const BpeTokenizer tokenizer = small();
  const std::string text = "naïve 🙂👩‍👧 日本 end";
  data::StreamDecoder decoder(tokenizer);
  std::string all;
  for (const int64_t token : tokenizer.encode(text)) {
    const std::string part = decoder.next(token);
    EXPECT_NO_THROW(data::CharTokenizer{part});  // is UTF-8
    all += part;
  }
  EXPECT_EQ(all + decoder.finish(), text);
  const Tokens bytes = tokenizer.encode("\xf0\x9f\x99");  // the start of a character
  for (const int64_t token : bytes) EXPECT_EQ(decoder.next(token), "");
  EXPECT_EQ(decoder.finish(), "\ufffd");
  EXPECT_EQ(decoder.finish(), "");
  std::string broken;
  for (const int64_t token : tokenizer.encode("\xf0\x9f"
                                              "a\xff"
                                              "b"))
    broken += decoder.next(token);
  EXPECT_EQ(broken,
            "\ufffd"
            "a\ufffd"
            "b");
}

TEST(BpeTokenizer, RefusesMalformedFiles) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& vocab, const std::string& merges, const char* part) {
    std::ofstream(folder / "vocab.json") << vocab;
    std::ofstream(folder / "merges.txt") << merges;
    expect_error(Errc::File, part,
                 [&] { BpeTokenizer::load(folder / "vocab.json", folder / "merges.txt", {{}}); });
  };
  const std::string good = R"({"a": 0, "b": 1, "ab": 2})";
  refused("[]", "", "expected an object");
  refused("{", "", "not JSON");
  refused(R"({"a": "x"})", "", "expected an integer");
  refused(R"({"a": -1})", "", "token \"a\": number -1");
  refused(R"({"a": 99999999999})", "", "number 99999999999");
  refused(R"({"a": 0, "b": 0})", "", "two tokens have the number 0");
  refused(R"({"a": 0, "a": 1})", "", "token \"a\" twice");
  refused(R"({"a": 9999999})", "", "1 tokens with numbers up to 9999999");
  refused(good, "#version: 0.2\na\n", "line 2: a merge \"a\"; expected two tokens");
  refused(good, "a b c\n", "expected two tokens");
  refused(good, "a c\n", "line 1: a merge has \"c\", which the vocabulary has not");
  refused(good, "b a\n", "a merge has \"ba\"");
  refused(good, "a b\na b\n", "line 2: merge \"a b\" twice");
  std::ofstream(folder / "vocab.json") << good;
  std::ofstream(folder / "merges.txt") << "a b\r\n";
  const auto tokenizer = BpeTokenizer::load(folder / "vocab.json", folder / "merges.txt", {{}});
  EXPECT_EQ(tokenizer.encode("abaab"), (Tokens{2, 0, 2}));
  expect_error(Errc::Argument, "no token for the byte 0x63", [&] { tokenizer.encode("abc"); });
  expect_error(Errc::File, "cannot open", [&] { BpeTokenizer::load(folder / "none.json"); });
}

TEST(BpeTokenizer, SaysWhatAnotherKindHas) {
  const TemporaryFolder folder;
  const auto good = nlohmann::json::parse(contents(fixture("tokenizer.json")));
  const auto refused = [&](const char* pointer, const nlohmann::json& value, const char* part) {
    auto changed = good;
    changed[nlohmann::json::json_pointer(pointer)] = value;
    std::ofstream(folder / "tokenizer.json") << changed.dump();
    expect_error(Errc::File, part, [&] { BpeTokenizer::load(folder / "tokenizer.json"); });
  };
  refused("/model/type", "WordPiece", "model WordPiece; expected BPE");
  refused("/pre_tokenizer/type", "Sequence", "pre_tokenizer Sequence; expected ByteLevel");
  refused("/pre_tokenizer", nullptr, "pre_tokenizer null; expected ByteLevel");
  refused("/pre_tokenizer/add_prefix_space", true, "pre_tokenizer add_prefix_space");
  refused("/pre_tokenizer/use_regex", false, "expected use_regex");
  refused("/normalizer", {{"type", "NFC"}}, "normalizer NFC; expected none");
  refused("/model/byte_fallback", true, "model byte_fallback");
  refused("/model/unk_token", "<unk>", "model unk_token");
  refused("/model/merges", {{"a"}}, "expected two tokens");
  refused("/model/merges", 3, "expected an array");
  refused("/added_tokens/0/id", 5, "special token \"<|endoftext|>\": number 5");
  refused("/model", 3, "JSON: expected an object");
}

}  // namespace
}  // namespace tandem
