// The cache of object code on disk: what is found is what was stored, whatever happened to the file
// in between. TANDEM_KILLS sets how many writers are killed (200 for the long form).
#include "codegen/jit/object_cache.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/support/temporary_folder.h"
#include "tests/unit/jit/kernel_writer.h"

namespace tandem::jit {
namespace {

namespace fs = std::filesystem;

class ObjectCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder = root / "objects";
    cache = ObjectCache::in(folder);
    ASSERT_TRUE(cache);
  }

  std::string path() const { return cache->path(content); }
  std::string bytes() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void overwrite(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes;
  }

  testing::TemporaryFolder root;
  std::string folder;
  std::shared_ptr<const ObjectCache> cache;
  const std::string content = "content of an entry", object = std::string(999, 'o') + "bject";
};

TEST_F(ObjectCacheTest, FindsWhatWasStored) {
  EXPECT_FALSE(cache->find(content));
  cache->store(content, object);
  EXPECT_EQ(cache->find(content), object);
  EXPECT_FALSE(cache->find(content + "x"));
  cache->store(content, "another");
  EXPECT_EQ(cache->find(content), "another");
}

TEST_F(ObjectCacheTest, BelongsToItsOwnerAlone) {
  cache->store(content, object);
  struct stat info;
  ASSERT_EQ(::stat(folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(ObjectCacheTest, RefusesFoldersThatOthersCanWrite) {
  const std::string open = root / "open", file = root / "file";
  fs::create_directory(open);
  fs::permissions(open, fs::perms::all);
  std::ofstream{file} << "text";
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(ObjectCache::in(open));
  EXPECT_FALSE(ObjectCache::in(file));
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("no code is kept in"), std::string::npos);
}

TEST_F(ObjectCacheTest, EveryFlippedBitOfAHeaderIsNoticed) {
  cache->store(content, object);
  const std::string good = bytes();
  for (size_t bit = 0; bit < size_t{32} * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    overwrite(bad);
    EXPECT_FALSE(cache->find(content)) << "bit " << bit;
  }
  overwrite(good);
  EXPECT_EQ(cache->find(content), object);
}

TEST_F(ObjectCacheTest, FlippedBitsOfPayloadsAreNoticed) {
  cache->store(content, object);
  const std::string good = bytes();
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    const size_t bit = 32 * 8 + random() % ((good.size() - 32) * 8);
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    overwrite(bad);
    EXPECT_FALSE(cache->find(content)) << "bit " << bit;
  }
}

TEST_F(ObjectCacheTest, ShortLongAndForeignFilesAreNoticed) {
  cache->store(content, object);
  const std::string good = bytes();
  for (size_t length = 0; length < good.size(); ++length) {
    overwrite(good.substr(0, length));
    ASSERT_FALSE(cache->find(content)) << length;
  }
  overwrite(good + "x");
  EXPECT_FALSE(cache->find(content));
  const std::string other = "some other entry!!!";
  cache->store(other, object);
  fs::copy_file(cache->path(other), path(), fs::copy_options::overwrite_existing);
  EXPECT_FALSE(cache->find(content));
}

TEST_F(ObjectCacheTest, WhatIsNoFileIsNoEntry) {
  const auto expect_none = [&] {
    EXPECT_FALSE(cache->find(content));
    fs::remove_all(path());
  };
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  expect_none();  // and does not wait for a writer
  fs::create_directory(path());
  expect_none();
  fs::create_symlink("/dev/zero", path());
  expect_none();
  fs::create_symlink(path(), path());
  expect_none();
}

// A writer killed at any moment leaves the entry whole or absent.
TEST_F(ObjectCacheTest, KilledWritersLeaveNoHalfEntries) {
  const char* variable = std::getenv("TANDEM_KILLS");
  const int kills = variable ? std::atoi(variable) : 20;
  const std::string large(size_t{4} << 20, 'x');
  std::mt19937 random(2);
  int found = 0;
  for (int i = 0; i < kills; ++i) {
    const std::string entry = content + std::to_string(i);
    const pid_t child = ::fork();
    if (child == 0)
      for (;;) cache->store(entry, large);
    ::usleep(random() % 8000);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto stored = cache->find(entry);
    EXPECT_TRUE(!stored || *stored == large);
    found += stored.has_value();
    fs::remove(cache->path(entry));
  }
  std::printf("%d of %d entries were whole, the others absent\n", found, kills);
}

Kernel twice() {
  Writer w;
  const auto x = w.param(DType::F32), y = w.result(DType::F32);
  const auto i = w.loop(Loop::Kind::Vector, 37);
  w.begin(i);
  const auto v = w.load(x, {0, {{i, 1}}});
  w.store(y, {0, {{i, 1}}}, w.compute(Op::add, {v, v}, DType::F32));
  w.end(i);
  return w.k;
}

float twice_of_three(const std::string& folder) {
  const Kernel kernel = twice();
  const CompiledKernels code = compile_kernels({&kernel, 1}, native_target(), folder);
  std::vector<float> x(37, 3.0f), y(37);
  void* params[] = {x.data(), y.data()};
  codegen::KernelError error;
  EXPECT_EQ(code.functions[0](params, 0, 1, nullptr, &error), 0);
  return y[36];
}

uint64_t inode(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

TEST_F(ObjectCacheTest, KernelsComeFromTheCacheAndDamagedOnesAreCompiledAgain) {
  const std::string entry = cache->path(object_content(Form{twice()}, native_target()));
  EXPECT_EQ(twice_of_three(folder), 6);
  const uint64_t first = inode(entry);
  ASSERT_NE(first, 0u);
  EXPECT_EQ(twice_of_three(folder), 6);
  EXPECT_EQ(inode(entry), first) << "the second run wrote the entry again";
  for (int at : {3, 40, 900}) {
    std::fstream file(entry, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file.put('?');
    file.close();
    const uint64_t damaged = inode(entry);
    EXPECT_EQ(twice_of_three(folder), 6);
    EXPECT_NE(inode(entry), damaged) << "the damaged entry is still there";
  }
}

TEST(ObjectContent, TellsKernelsAndTargetsApart) {
  Kernel a = twice(), b = twice();
  b.name = "other";
  EXPECT_EQ(codegen::content(a), codegen::content(b));
  b.loops[LoopId{0}].extent = 38;
  EXPECT_NE(codegen::content(a), codegen::content(b));
  Target narrow = native_target();
  narrow.vector_bytes = 16;
  EXPECT_NE(object_content(Form{a}, narrow), object_content(Form{a}, native_target()));
}

}  // namespace
}  // namespace tandem::jit
