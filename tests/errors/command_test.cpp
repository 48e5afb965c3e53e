// Bad input to what the `tandem` command is made of: every case is an Error that says what was
// expected and what came, and nothing is written.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "ir/json/json.h"
#include "ir/text/text.h"
#include "partition/partition.h"
#include "runtime/backends/backends.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "tools/files.h"
#include "tools/graph_runner.h"
#include "tools/passes.h"

namespace tandem {
namespace {

using ir::Buffer;
using ir::DType;
using ir::Errc;
using testing::expect_error;
using tools::Tensors;

constexpr const char* kProgram = R"(graph @f traced {
  in %x: f32[4, 2] primal requires_grad
  in %i: i64[3] primal
  in %total: f32[3, 2] primal
  %rows: f32[3, 2] = index_select %x, %i {dim=0}
  add_ %total, %rows
  out %rows: result name=rows requires_grad
}
)";

Buffer indices(std::initializer_list<int64_t> list) {
  Buffer buffer(ir::Type{DType::I64, {static_cast<int64_t>(list.size())}});
  std::copy(list.begin(), list.end(), buffer.as<int64_t>());
  return buffer;
}

Tensors good_inputs() {
  return {{"x", Buffer({DType::F32, {4, 2}})},
          {"i", indices({0, 3, 1})},
          {"total", Buffer({DType::F32, {3, 2}})},
          {"tangent:rows", Buffer({DType::F32, {3, 2}})}};
}

Tensors run(const Tensors& tensors, const ir::Backend& backend, bool grad = true,
            const char* program = kProgram) {
  const auto partitioner = partition::make_partitioner("default");
  return tools::run_graph(ir::parse(program), tensors, {&backend, partitioner.get(), grad, 0});
}
Tensors run(const Tensors& tensors, bool grad = true) {
  return run(tensors, *runtime::interpreter_backend(), grad);
}

TEST(Run, ResultsThatShowAnInputAsAnotherDtype) {
  constexpr const char* kViews = R"(graph @f traced {
  in %i: i64[3] primal
  %bytes: u8[24] = view_dtype %i {dtype=u8}
  %some: u8[2] = slice %bytes {dim=0, start=8, end=17, step=8}
  out %bytes: result name=bytes
  out %some: result name=some
}
)";
  for (const auto& backend : {runtime::interpreter_backend(), runtime::jit_backend()}) {
    const Tensors results = run({{"i", indices({7, 300, 5})}}, *backend, false, kViews);
    const Buffer &bytes = results.at("bytes"), &some = results.at("some");
    ASSERT_EQ(bytes.type(), (ir::Type{DType::U8, {24}}));
    for (int k = 0; k < 24; ++k)
      EXPECT_EQ(bytes.at(k).to_int(), k == 0    ? 7
                                      : k == 8  ? 300 % 256
                                      : k == 9  ? 1
                                      : k == 16 ? 5
                                                : 0);
    EXPECT_EQ(some.at(0).to_int(), 300 % 256);
    EXPECT_EQ(some.at(1).to_int(), 5);
  }
}

TEST(Run, GoodInputsGiveAllResults) {
  const Tensors results = run(good_inputs());
  for (const char* name : {"rows", "mutated:total", "grad:x"}) EXPECT_TRUE(results.contains(name));
  EXPECT_EQ(results.size(), 3u);
}

// As eager: the result is the input, whose history does not know of the write.
TEST(Run, AWriteUnderNoGradLeavesTheGradientAlone) {
  constexpr const char* kWrite = R"(graph @f traced {
  in %x: f32[2] primal requires_grad
  %y: f32[2] = mul %x, %x
  mul_ %x, %y [no_grad]
  out %x: result name=x requires_grad
}
)";
  Buffer x({DType::F32, {2}}), tangent = x;
  x.set(0, 3.0), tangent.set(0, 5.0);
  const Tensors results =
      run({{"x", x}, {"tangent:x", tangent}}, *runtime::interpreter_backend(), true, kWrite);
  EXPECT_EQ(results.at("x").at(0).to_double(), 27);
  EXPECT_EQ(results.at("grad:x").at(0).to_double(), 5);
}

TEST(Run, TensorsThatDoNotFit) {
  Tensors missing = good_inputs(), unknown = missing, shape = missing, dtype = missing,
          tangent = missing, no_tangent = missing;
  missing.erase("x");
  expect_error(Errc::Argument, "no tensor for input x; expected f32[4, 2]", [&] { run(missing); });
  unknown["y"] = indices({1});
  expect_error(Errc::Argument, "tensor y is no input", [&] { run(unknown); });
  shape["x"] = Buffer({DType::F32, {2, 4}});
  expect_error(Errc::Shape, "input x: expected f32[4, 2], got f32[2, 4]", [&] { run(shape); });
  dtype["x"] = Buffer({DType::F64, {4, 2}});
  expect_error(Errc::DType, "input x: expected f32[4, 2], got f64[4, 2]", [&] { run(dtype); });
  tangent["tangent:rows"] = Buffer({DType::F32, {2}});
  expect_error(Errc::Shape, "tangent:rows: expected f32[3, 2], got f32[2]", [&] { run(tangent); });
  no_tangent.erase("tangent:rows");
  expect_error(Errc::Argument, "no tensor tangent:rows", [&] { run(no_tangent); });
}

TEST(Run, AnIndexOutsideIsAnErrorOfEveryBackend) {
  for (const auto& backend : {runtime::interpreter_backend(), runtime::jit_backend()})
    for (int64_t bad : {-1, 4}) {
      Tensors inputs = good_inputs();
      inputs["i"] = indices({0, bad, 1});
      expect_error(Errc::Index, std::to_string(bad), [&] { run(inputs, *backend, false); });
    }
}

TEST(Run, OnlyTracedGraphs) {
  ir::Graph graph = tools::run_passes(ir::parse(kProgram), {"functionalize"}).graphs[0];
  const auto partitioner = partition::make_partitioner("default");
  const auto backend = runtime::interpreter_backend();
  expect_error(Errc::Argument, "level traced, got functional", [&] {
    tools::run_graph(graph, good_inputs(), {backend.get(), partitioner.get(), false, 0});
  });
}

TEST(Opt, PassesThatDoNotFit) {
  const auto passes = [](const std::vector<std::string>& names) {
    return [=] { tools::run_passes(ir::parse(kProgram), names); };
  };
  expect_error(Errc::Argument, "unknown pass magic; expected one of", passes({"magic"}));
  expect_error(Errc::Argument, "expected a graph of level functional, got traced",
               passes({"joint"}));
  expect_error(Errc::Argument, "plan makes text; expected it as the last pass",
               passes({"functionalize", "joint", "decompose", "plan", "cse"}));
  expect_error(Errc::Argument, "pass plan: expected a graph of level core to backward, got traced",
               passes({"plan"}));
  expect_error(Errc::Argument, "pass partition: expected a graph of level core, got forward",
               passes({"functionalize", "joint", "decompose", "partition=default", "cse",
                       "partition=default"}));
  expect_error(Errc::Argument, "default",
               passes({"functionalize", "joint", "decompose", "partition=magic"}));
}

// --- files

class Files : public ::testing::Test {
 protected:
  std::string path(const char* name) const { return folder_ / name; }
  std::string write(const char* name, std::string_view text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

 private:
  testing::TemporaryFolder folder_;
};

TEST_F(Files, BadText) {
  expect_error(Errc::File, "cannot open", [&] { tools::read_graph(path("none.ir")); });
  const std::string unknown = write("op.ir", "graph @f traced {\n  %a: f32[] = magic\n}\n");
  expect_error(Errc::Parse, "magic", [&] { tools::read_graph(unknown); });
  const std::string shape =
      write("shape.ir", "graph @f traced {\n  in %x: f32[2] primal\n  %a: f32[3] = exp %x\n}\n");
  expect_error(Errc::Parse, "f32[2]", [&] { tools::read_graph(shape); });
}

TEST_F(Files, StridesThatOverflow) {
  for (const char* strides :
       {"1152921504606846976", "4611686018427387904", "9223372036854775807"}) {
    const std::string text = std::string("graph @f traced {\n  in %x: f32[17] primal strides=[") +
                             strides + "]\n  out %x: result\n}\n";
    expect_error(Errc::Parse, "2:25: strides", [&] { tools::read_graph(write("s.ir", text)); });
  }
  ir::Graph graph = ir::parse("graph @f traced {\n  in %x: f32[17] primal\n}\n");
  graph.inputs()[0].strides = {int64_t{1} << 60};
  const std::string json = write("s.json", ir::to_json(graph));
  expect_error(Errc::Parse, "graphs[0].inputs[0].strides: strides",
               [&] { tools::read_graph(json); });
}

TEST_F(Files, AnUnknownOperatorInJson) {
  std::string json = ir::to_json(ir::parse(kProgram));
  const std::string op = "\"index_select\"";
  json.replace(json.find(op), op.size(), "\"index_choose\"");
  const std::string bad = write("op.json", json);
  expect_error(Errc::Parse, "unknown op \"index_choose\"", [&] { tools::read_graph(bad); });
}

TEST_F(Files, EveryTruncationOfAJsonGraphIsAnError) {
  const std::string json = ir::to_json(ir::parse(kProgram));
  ASSERT_EQ(tools::read_graph(write("good.json", json)), ir::parse(kProgram));
  for (size_t size = 0; size < json.size(); size += 7) {
    const std::string bad = write("bad.json", std::string_view(json).substr(0, size));
    expect_error(Errc::Parse, "", [&] { tools::read_graph(bad); });
  }
}

TEST_F(Files, EveryTruncationOfASafetensorsFileIsAnError) {
  const std::string bytes = tools::to_safetensors(good_inputs());
  ASSERT_EQ(tools::tensors_of(bytes).size(), good_inputs().size());
  for (size_t size = 0; size < bytes.size(); ++size)
    expect_error(Errc::File, "safetensors: ", [&] {
      tools::tensors_of(std::string_view(bytes).substr(0, size));
    });
  expect_error(Errc::File, "bytes of data", [&] { tools::tensors_of(bytes + "x"); });
}

/// A file of this header and `data` bytes of zeros.
std::string safetensors(const std::string& header, size_t data) {
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + std::string(data, '\0');
}

TEST_F(Files, MalformedSafetensors) {
  struct Case {
    const char* header;
    size_t data;
    const char* message;
  };
  const Case cases[] = {
      {"{]", 0, "header is not JSON"},
      {"[]", 0, "expected an object"},
      {R"({"a":1})", 0, "a: expected dtype, shape and data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":0}})", 4, "unknown key"},
      {R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4, "unknown dtype \"F33\""},
      {R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4, "expected a list, got 1"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "an unsigned integer"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "expected two integers"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "expected 8 for f32[2]"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "no holes, no overlaps"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "no holes, no overlaps"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4, "no holes, no overlaps"},
      {R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
       R"("a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
       1, "duplicate key \"a\""},
      {R"({"__metadata__":{"a":1}})", 0, "expected strings"},
  };
  for (const Case& c : cases)
    expect_error(Errc::File, c.message, [&] { tools::tensors_of(safetensors(c.header, c.data)); });
}

TEST_F(Files, SafetensorsThatCouldNotBeReadAgain) {
  const Tensors bad[] = {{{"\xff", Buffer()}}, {{"__metadata__", Buffer()}}};
  for (const Tensors& tensors : bad)
    expect_error(Errc::Argument, "safetensors: ", [&] { tools::to_safetensors(tensors); });
}

}  // namespace
}  // namespace tandem
