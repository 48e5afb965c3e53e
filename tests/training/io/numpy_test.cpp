// NumPy's files: as NumPy writes them, and back.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <fstream>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "tests/training/io/tensor_files.h"

namespace tandem {
namespace {

using testing::expect_error;
using testing::expect_numbers;
using testing::expect_same;
using testing::fixture;
using testing::TemporaryFolder;

TEST(Npz, ThoseOfNumPy) {
  for (const char* file : {"stored.npz", "deflated.npz"}) {
    const NamedTensors tensors = load_npz(fixture(file));
    EXPECT_EQ(tensors.size(), 13u);
    for (const DType dtype : {f64, f32, bf16, f16, i64, i32, i16, i8, u8, boolean})
      expect_numbers(*find(tensors, ir::name(dtype)), dtype, {2, 3});
    expect_numbers(*find(tensors, "u16"), i32, {2, 3});
    expect_numbers(*find(tensors, "u32"), i64, {2, 3});
    expect_numbers(*find(tensors, "scalar"), f64, {});
  }
}

TEST(Npz, WhatIsWrittenReadsBack) {
  const TemporaryFolder folder;
  const NamedTensors tensors = testing::one_of_each();
  for (const bool compress : {false, true}) {
    save_npz(folder / "x", tensors, {.compress = compress});
    const NamedTensors read = load_npz(folder / "x");
    ASSERT_EQ(read.size(), tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(read[i].first, tensors[i].first);
      expect_same(read[i].second, tensors[i].second);
    }
  }
  save_npz(folder / "x", {});
  EXPECT_TRUE(load_npz(folder / "x").empty());
}

TEST(Npy, ThoseOfNumPy) {
  for (const bool mmap : {false, true}) {
    const auto load = [&](const std::string& name) {
      return load_npy(fixture(name), {.mmap = mmap});
    };
    expect_numbers(load("fortran.npy"), f32, {2, 3, 4});
    EXPECT_EQ(load("fortran.npy").strides(), (Strides{1, 2, 6}));
    expect_numbers(load("big_endian.npy"), i32, {2, 3});
    expect_numbers(load("big_unsigned.npy"), i32, {2, 3});
    expect_numbers(load("empty.npy"), f32, {0, 3});
    for (const char* version : {"version1.npy", "version2.npy", "version3.npy"})
      expect_numbers(load(version), f32, {5});
  }
}

TEST(Npy, WhatIsWrittenReadsBack) {
  const TemporaryFolder folder;
  for (const auto& [name, tensor] : testing::one_of_each()) {
    save_npy(folder / name, tensor);
    expect_same(load_npy(folder / name), tensor);
    expect_same(load_npy(folder / name, {.mmap = true}), tensor);
  }
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Byte for byte what np.save writes.
TEST(Npy, IsWrittenAsNumPyDoes) {
  const TemporaryFolder folder;
  for (const char* name : {"version1.npy", "empty.npy"}) {
    save_npy(folder / "x", load_npy(fixture(name)));
    EXPECT_EQ(contents(folder / "x"), contents(fixture(name))) << name;
  }
}

TEST(Npy, ArraysThatAreNoTensors) {
  const auto load = [](const char* name) { return [name] { load_npy(fixture(name)); }; };
  expect_error(Errc::File, "structured.npy: npy: an array of structures", load("structured.npy"));
  expect_error(Errc::File, "elements '|O'", load("object.npy"));
  expect_error(Errc::File, "elements '<c8'", load("complex.npy"));
  expect_error(Errc::File, "elements '<U2'", load("text.npy"));
  expect_error(Errc::File, "no NumPy array", load("torch.safetensors"));
  expect_error(Errc::File, "none.npy: cannot open", load("none.npy"));
}

TEST(Npy, MalformedHeaders) {
  const TemporaryFolder folder;
  const auto load = [&](const std::string& header) {
    std::string file("\x93NUMPY\x01\x00", 8);
    file += static_cast<char>(header.size());
    file += '\0';
    std::ofstream(folder / "x", std::ios::binary) << file << header << std::string(24, '\0');
    return [&] { load_npy(folder / "x"); };
  };
  const std::string descr = "'descr': '<f4', ", order = "'fortran_order': False, ",
                    shape = "'shape': (2, 3)";
  load("{" + descr + order + shape + "}")();
  load("{ " + shape + ", " + descr + order + "} \n")();
  const auto refused = [&](const char* part, const std::string& header) {
    expect_error(Errc::File, part, load(header));
  };
  refused("expected descr, fortran_order and shape", "{" + descr + order + "}");
  refused("key 'descr' twice", "{" + descr + descr + order + shape + "}");
  refused("unknown key 'more'", "{" + descr + order + shape + ", 'more': 1}");
  refused("expected the end", "{" + descr + order + shape + "} x");
  refused("expected '{'", "");
  refused("expected a size", "{" + descr + order + "'shape': (-2, 3)}");
  refused("expected True or False", "{" + descr + "'fortran_order': 0, " + shape + "}");
  refused("24 bytes of elements; expected 28", "{" + descr + order + "'shape': (7,)}");
  const std::string huge = "{" + descr + order + "'shape': (9223372036854775807, 4)}";
  EXPECT_THROW(load(huge)(), Error);
  refused("at most 16 dimensions",
          "{" + descr + order + "'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}");
}

TEST(Npz, MalformedArchives) {
  const TemporaryFolder folder;
  const std::string good = contents(fixture("deflated.npz"));
  const auto load = [&](const std::string& file) {
    std::ofstream(folder / "x", std::ios::binary) << file;
    return [&] { load_npz(folder / "x"); };
  };
  expect_error(Errc::File, "no archive", load(""));
  expect_error(Errc::File, "no archive", load(good.substr(0, good.size() / 2)));
  std::string flipped = good;
  flipped[100] ^= 0x55;
  EXPECT_THROW(load(flipped)(), Error);
  expect_error(Errc::File, "no archive", load(contents(fixture("version1.npy"))));
}

TEST(Npz, WhatCannotBeWritten) {
  const TemporaryFolder folder;
  const Tensor x = ones({1});
  expect_error(Errc::Argument, "\"x\": expected each name once",
               [&] { save_npz(folder / "x", {{"x", x}, {"x", x}}); });
  expect_error(Errc::Argument, "undefined", [&] { save_npz(folder / "x", {{"x", Tensor()}}); });
  expect_error(Errc::Argument, "undefined", [&] { save_npy(folder / "x", Tensor()); });
  expect_error(Errc::Argument, "a name of 70000 bytes",
               [&] { save_npz(folder / "x", {{std::string(70000, 'n'), x}}); });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace tandem
