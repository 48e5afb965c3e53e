// Writing files: through links, into what is no regular file, with the mode of what was there; and
// what fails leaves everything as it was.
#include "tools/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <tandem/tandem.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "ir/base/file_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;

class WrittenFiles : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder / name).string(); }
  std::string contents(const std::string& name) const { return tools::read_file(path(name)); }
  static mode_t mode(const std::string& path) {
    struct stat info;
    return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
  }

  testing::TemporaryFolder own;
  const fs::path folder = own.path();
};

TEST_F(WrittenFiles, AreReplacedInOneStep) {
  tools::write_file(path("out"), "old");
  std::ifstream reader(path("out"));
  tools::write_file(path("out"), "new");
  std::string seen;
  reader >> seen;
  EXPECT_EQ(seen, "old");  // whoever reads has the old file
  EXPECT_EQ(contents("out"), "new");
  EXPECT_EQ(files(), 1u);
}

TEST_F(WrittenFiles, KeepTheirMode) {
  for (const mode_t kept : {0600u, 0640u, 0664u, 0755u, 0200u}) {
    tools::write_file(path("out"), "old");
    ASSERT_EQ(::chmod(path("out").c_str(), kept), 0);
    tools::write_file(path("out"), "new");
    EXPECT_EQ(mode(path("out")), kept);
  }
  const mode_t mask = ::umask(027);
  tools::write_file(path("fresh"), "new");
  ::umask(mask);
  EXPECT_EQ(mode(path("fresh")), 0640u);
}

TEST_F(WrittenFiles, BehindLinks) {
  fs::create_directory(folder / "there");
  tools::write_file(path("there/file"), "old");
  ::chmod(path("there/file").c_str(), 0600);
  fs::create_symlink("there/file", folder / "relative");
  fs::create_symlink("relative", folder / "twice");
  fs::create_symlink(folder / "there" / "fresh", folder / "dangling");
  fs::create_directory_symlink("there", folder / "in");
  tools::write_file(path("relative"), "1");
  EXPECT_EQ(contents("there/file"), "1");
  tools::write_file(path("twice"), "2");
  EXPECT_EQ(contents("there/file"), "2");
  tools::write_file(path("in/file"), "3");
  EXPECT_EQ(contents("there/file"), "3");
  EXPECT_EQ(mode(path("there/file")), 0600u);
  tools::write_file(path("dangling"), "4");
  EXPECT_EQ(contents("there/fresh"), "4");
  for (const char* link : {"relative", "twice", "dangling", "in"})
    EXPECT_TRUE(fs::is_symlink(folder / link)) << link;
  EXPECT_EQ(files(), 5u);
}

TEST_F(WrittenFiles, PipesAndDevicesAreWrittenThemselves) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = tools::read_file(path("pipe")); });
  tools::write_file(path("pipe"), "text");
  reader.join();
  EXPECT_EQ(read, "text");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  fs::create_symlink("/dev/null", folder / "link");
  for (const std::string& device : {std::string("/dev/null"), path("link")})
    tools::write_file(device, "text");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  expect_error(Errc::File, "cannot write /dev/full",
               [] { tools::write_file("/dev/full", "text"); });
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

/// Bytes that are written to a descriptor go where its others do, after what it wrote.
TEST_F(WrittenFiles, OpenDescriptorsAreWrittenThemselves) {
  const int file = ::open(path("out").c_str(), O_WRONLY | O_CREAT, 0600);
  const std::string itself = "/proc/self/fd/" + std::to_string(file);
  fs::create_symlink(itself, folder / "link");
  tools::write_file(itself, "one ");
  tools::write_file(path("link"), "two ");
  tools::write_file("/dev/fd/" + std::to_string(file), "three");
  ::close(file);
  EXPECT_EQ(contents("out"), "one two three");
  EXPECT_EQ(files(), 2u);
}

TEST_F(WrittenFiles, WhatFailsLeavesNothing) {
  expect_error(Errc::File, "cannot write", [&] { tools::write_file(path("no/such"), "text"); });
  expect_error(Errc::File, "cannot write", [&] { tools::write_file(folder.string(), "text"); });
  fs::create_symlink("loop", folder / "loop");
  expect_error(Errc::File, "cannot write", [&] { tools::write_file(path("loop"), "text"); });
  fs::remove(folder / "loop");
  EXPECT_EQ(files(), 0u);
  tools::write_file(path("out"), "old");
  {
    ir::FileWriter file(path("out"));
    file.write("new");  // and no commit
  }
  EXPECT_EQ(contents("out"), "old");
  EXPECT_EQ(files(), 1u);
}

/// `limit`: as if the disk were full.
TEST_F(WrittenFiles, AFullDiskLeavesTheOldFile) {
  tools::write_file(path("out"), "old");
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit{1000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const auto write = [&] { tools::write_file(path("out"), std::string(2000, 'x')); };
  expect_error(Errc::File, "cannot write", write);
  const auto save = [&] { save_safetensors(path("out"), {{"x", zeros({1000})}}); };
  expect_error(Errc::File, "cannot write", save);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(contents("out"), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(WrittenFiles, TensorsAreSavedInTheSameWay) {
  const NamedTensors tensors = {{"x", arange(4)}};
  save_safetensors(path("there"), tensors);
  ::chmod(path("there").c_str(), 0600);
  fs::create_symlink("there", folder / "link");
  save_safetensors(path("link"), tensors);
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(mode(path("there")), 0600u);
  EXPECT_EQ(find(load_safetensors(path("link")), "x")->to_vector<int64_t>(),
            (std::vector<int64_t>{0, 1, 2, 3}));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = tools::read_file(path("pipe")); });
  save_safetensors(path("pipe"), tensors);
  reader.join();
  EXPECT_EQ(read, contents("there"));
}

// --- what cannot be saved or loaded

/// A tensor that outlives its trace.
Tensor leaked(DType dtype = f32) {
  Tensor out;
  compile([&](const Tensor& x) {
    out = x + x;
    return out * 2;
  })(zeros({2}, dtype));
  return out;
}

TEST_F(WrittenFiles, TensorsThatCannotBeSaved) {
  const Tensor x = zeros({2});
  struct Case {
    NamedTensors tensors;
    Errc code;
    const char* part;
  };
  const Case cases[] = {
      {{{"x", x}, {"none", Tensor()}}, Errc::Argument, "\"none\" is undefined"},
      {{{"x", x}, {"gone", leaked()}}, Errc::Trace, "\"gone\": a traced tensor"},
      {{{"x\xff", x}}, Errc::Argument, "\"x\\xff\": expected a name in UTF-8"},
      {{{"\xed\xa0\x80", x}}, Errc::Argument, "expected a name in UTF-8"},
      {{{"\xc0\x80", x}}, Errc::Argument, "expected a name in UTF-8"},
      {{{"x", x}, {"y", x}, {"x", x}}, Errc::Argument, "\"x\": expected each name once"},
      {{{"__metadata__", x}}, Errc::Argument, "reserved"},
      {{{std::string(size_t{17} << 20, 'n'), x}}, Errc::Argument, "header of"},
  };
  for (const Case& c : cases) {
    expect_error(c.code, c.part, [&] { save_safetensors(path("out"), c.tensors); });
    EXPECT_EQ(files(), 0u) << c.part;
  }
  const NamedTensors odd = {{"", x}, {"é\n\"\\", x}, {std::string("a\0b", 3), x}};
  save_safetensors(path("out"), odd);
  EXPECT_EQ(load_safetensors(path("out")).size(), odd.size());
}

TEST_F(WrittenFiles, TensorsThatCannotBeLoadedInto) {
  const Tensor first = zeros({2}), values = full({2}, 7);
  float memory[2] = {0, 0};
  const Tensor locked = from_blob(memory, {2}, {1}, f32, {}, true), wide = zeros({1}).expand({2});
  const auto load = [&](const Tensor& second, const Tensor& value) {
    return [&, second, value] {
      nn::load_state_dict(std::map<std::string, Tensor>{{"a", first}, {"b", second}},
                          {{"a", values}, {"b", value}});
    };
  };
  expect_error(Errc::Argument, "unexpected \"b\"", load(Tensor(), values));
  expect_error(Errc::Trace, "\"b\": a traced tensor", load(leaked(), values));
  expect_error(Errc::Mutation, "read-only", load(locked, values));
  expect_error(Errc::Mutation, "share memory", load(wide, values));
  expect_error(Errc::Argument, "\"b\": expected [2], got an undefined tensor",
               load(zeros({2}), Tensor()));
  expect_error(Errc::Trace, "\"b\": a traced tensor", load(zeros({2}), leaked()));
  EXPECT_EQ(first.to_vector<float>(), std::vector<float>(2, 0));
  EXPECT_EQ(first.version(), 0u);
}

TEST_F(WrittenFiles, WhatIsNoRegularFileIsNotLoaded) {
  expect_error(Errc::File, "", [&] { load_safetensors(folder.string()); });
  expect_error(Errc::File, "", [&] { load_safetensors("/dev/null"); });
}

}  // namespace
}  // namespace tandem
