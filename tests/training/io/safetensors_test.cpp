// Safetensors: as PyTorch writes them, mapped, sharded, with metadata.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <filesystem>
#include <fstream>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "tests/training/io/tensor_files.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using testing::expect_numbers;
using testing::expect_same;
using testing::fixture;
using testing::TemporaryFolder;

void expect_all_of_torch(const NamedTensors& tensors) {
  EXPECT_EQ(tensors.size(), 12u);
  for (const DType dtype : {f64, f32, bf16, f16, i64, i32, i16, i8, u8, boolean}) {
    const Tensor* tensor = find(tensors, ir::name(dtype));
    ASSERT_NE(tensor, nullptr) << ir::name(dtype);
    expect_numbers(*tensor, dtype, {2, 3});
  }
  EXPECT_EQ(find(tensors, "scalar")->dim(), 0);
  EXPECT_EQ(find(tensors, "empty")->sizes(), (Shape{0, 3}));
}

TEST(Safetensors, ThoseOfPyTorchReadOrMapped) {
  for (const bool mmap : {false, true})
    for (const char* path :
         {"torch.safetensors", "sharded", "sharded/model.safetensors.index.json"})
      expect_all_of_torch(load_safetensors(fixture(path), {.mmap = mmap}));
  const Metadata metadata = safetensors_metadata(fixture("torch.safetensors"));
  EXPECT_EQ(metadata, (Metadata{{"format", "pt"}, {"note", "é"}}));
}

TEST(Safetensors, WhatIsWrittenReadsBack) {
  const TemporaryFolder folder;
  const NamedTensors tensors = testing::one_of_each();
  save_safetensors(folder / "x", tensors, {{"step", "7"}});
  EXPECT_EQ(safetensors_metadata(folder / "x"), (Metadata{{"step", "7"}}));
  for (const bool mmap : {false, true}) {
    const NamedTensors read = load_safetensors(folder / "x", {.mmap = mmap});
    ASSERT_EQ(read.size(), tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i)
      expect_same(*find(read, tensors[i].first), tensors[i].second);
  }
}

/// Training writes mapped weights; the file keeps its own, and a save to it harms nobody.
TEST(Safetensors, MappedTensorsAreOnesOwn) {
  const TemporaryFolder folder;
  const Tensor weight = arange(8).to(f32);
  save_safetensors(folder / "x", {{"weight", weight}, {"bias", ones({4})}});
  const NamedTensors mapped = load_safetensors(folder / "x", {.mmap = true});
  const Tensor w = *find(mapped, "weight");
  EXPECT_FALSE(w.shares_storage(*find(mapped, "bias")));
  w.requires_grad_();
  (w * w).sum().backward();
  {
    const NoGrad no_grad;
    w.sub_(w.grad() * 0.5);
  }
  EXPECT_EQ(w.to_vector<double>(), std::vector<double>(8, 0.0));
  expect_same(*find(load_safetensors(folder / "x"), "weight"), weight);
  save_safetensors(folder / "x", mapped);
  EXPECT_EQ(find(load_safetensors(folder / "x", {.mmap = true}), "weight")->to_vector<double>(),
            std::vector<double>(8, 0.0));
}

TEST(Safetensors, MappedTensorsInACompiledFunction) {
  const TemporaryFolder folder;
  save_safetensors(folder / "x", {{"odd", ones({3}).to(u8)}, {"w", arange(6).to(f32)}});
  const Tensor w = *find(load_safetensors(folder / "x", {.mmap = true}), "w");  // at byte 3
  const auto fn = compile([](const Tensor& x) { return x.mul_(2.0) + 1.0; });
  EXPECT_EQ(fn(w).to_vector<double>(), (std::vector<double>{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(w.to_vector<double>(), (std::vector<double>{0, 2, 4, 6, 8, 10}));
}

TEST(Safetensors, BoolsAreZeroOrOne) {
  const TemporaryFolder folder;
  save_safetensors(folder / "x", {{"b", ones({4}).to(boolean)}});
  std::fstream file(folder / "x", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-2, std::ios::end);
  file.put('\x07');
  file.close();
  for (const bool mmap : {false, true}) {
    const Tensor b = *find(load_safetensors(folder / "x", {.mmap = mmap}), "b");
    EXPECT_EQ(b.to(i64).sum().item<int64_t>(), 4);
  }
}

// --- sets of files

size_t files_in(const TemporaryFolder& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder.path()), {}));
}

TEST(Sharded, EachFileHoldsAtMostSoMuch) {
  const TemporaryFolder folder;
  NamedTensors tensors;
  for (int i = 0; i < 7; ++i)
    tensors.emplace_back("layer." + std::to_string(i), full({10}, i));  // 40 bytes each
  tensors.emplace_back("large", zeros({100}));
  save_sharded(folder.path().string(), tensors, {.max_shard_bytes = 100});
  EXPECT_EQ(files_in(folder), 6u);  // 2 + 2 + 2 + 1, the large one, the index
  EXPECT_TRUE(fs::exists(folder / "model-00005-of-00005.safetensors"));
  const NamedTensors read = load_safetensors(folder.path().string());
  ASSERT_EQ(read.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(read[i].first, tensors[i].first);
    expect_same(read[i].second, tensors[i].second);
  }
}

TEST(Sharded, AnotherSetTakesThePlaceOfTheLast) {
  const TemporaryFolder folder;
  const NamedTensors tensors = {{"a", ones({10})}, {"b", ones({10})}};
  const std::string path = folder.path().string();
  std::ofstream(folder / "notes.txt") << "kept";
  save_sharded(path, tensors, {.max_shard_bytes = 1});
  EXPECT_EQ(files_in(folder), 4u);
  save_sharded(path, tensors);
  EXPECT_EQ(files_in(folder), 2u);
  EXPECT_EQ(load_safetensors(path).size(), 2u);
  save_sharded(path, tensors, {.max_shard_bytes = 1});
  EXPECT_EQ(files_in(folder), 4u);
  EXPECT_EQ(load_safetensors(path).size(), 2u);
}

TEST(Sharded, FoldersWithoutAnIndex) {
  const TemporaryFolder folder;
  const std::string path = folder.path().string();
  expect_error(Errc::File, "has no file *.safetensors", [&] { load_safetensors(path); });
  save_safetensors(folder / "b.safetensors", {{"b", ones({1})}});
  save_safetensors(folder / "a.safetensors", {{"a", ones({1})}});
  EXPECT_EQ(load_safetensors(path).size(), 2u);
  save_safetensors(folder / "c.safetensors", {{"a", ones({1})}});
  expect_error(Errc::File, "\"a\" is in another file", [&] { load_safetensors(path); });
  save_safetensors(folder / "model.safetensors", {{"m", ones({1})}});
  EXPECT_EQ(load_safetensors(path)[0].first, "m");
}

TEST(Sharded, IndexesThatLie) {
  const TemporaryFolder folder;
  const std::string index = folder / "model.safetensors.index.json";
  save_safetensors(folder / "one.safetensors", {{"a", ones({1})}, {"more", ones({1})}});
  const auto load = [&](const std::string& text) {
    std::ofstream(index) << text;
    return [&] { load_safetensors(folder.path().string()); };
  };
  expect_error(Errc::File, "is not JSON", load("{"));
  expect_error(Errc::File, "weight_map", load("{}"));
  expect_error(Errc::File, "expected a file's name", load(R"({"weight_map": {"a": 1}})"));
  for (const char* name : {"../one.safetensors", "/etc/passwd", "", ".."})
    expect_error(Errc::File, "is no name of a file",
                 load(R"({"weight_map": {"a": ")" + std::string(name) + "\"}}"));
  expect_error(Errc::File, "two.safetensors: cannot open",
               load(R"({"weight_map": {"a": "two.safetensors"}})"));
  expect_error(Errc::File, "\"b\" is not in one.safetensors",
               load(R"({"weight_map": {"a": "one.safetensors", "b": "one.safetensors"}})"));
  load(R"({"weight_map": {"a": "one.safetensors"}})");
  EXPECT_EQ(load_safetensors(index).size(), 1u);
}

TEST(Safetensors, ErrorsNameTheFile) {
  const TemporaryFolder folder;
  std::ofstream(folder / "bad") << "12345678";
  for (const bool mmap : {false, true}) {
    const auto load = [&](const std::string& path) {
      return [&, path] { load_safetensors(path, {.mmap = mmap}); };
    };
    expect_error(Errc::File, folder / "bad", load(folder / "bad"));
    expect_error(Errc::File, "none: cannot open: No such file", load(folder / "none"));
    expect_error(Errc::File, "/dev/null: expected a regular file", load("/dev/null"));
  }
  const NamedTensors x = {{"x", ones({2})}};
  expect_error(Errc::Argument, "max_shard_bytes is 0",
               [&] { save_sharded(folder / "out", x, {.max_shard_bytes = 0}); });
  expect_error(Errc::Argument, "\"none\" is undefined",
               [&] { save_sharded(folder / "out", {{"none", Tensor()}}); });
  EXPECT_FALSE(fs::exists(folder / "out"));
  expect_error(Errc::File, "bad", [&] { save_sharded(folder / "bad", x); });
}

}  // namespace
}  // namespace tandem
