// The JSON form: round trips, strictness, limits.
#include "ir/json/json.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/base/error.h"
#include "ir/text/text.h"
#include "tests/unit/ir/samples.h"

namespace tandem::ir {
namespace {

/// The message of the Error that from_json throws; "" if it throws none.
std::string json_error(std::string_view text, const JsonLimits& limits = {}) {
  try {
    from_json(text, limits);
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == Errc::Parse || error.code() == Errc::Graph) << error.what();
    return error.what();
  }
  return "";
}

Graph chain(int equations) {
  Graph g("chain", Level::Functional);
  const Type type{DType::F32, {2}};
  ValueId v = g.add_input({.name = "x", .strides = {1}}, type);
  for (int i = 0; i < equations; ++i) v = g.result(g.append(Op::neg, {{v}}, {}, {{type}}));
  g.add_output({.value = v, .strides = {1}});
  return g;
}

TEST(Json, SamplesRoundTrip) {
  std::vector<Graph> all;
  for (const char* sample : samples::kAll) all.push_back(parse(sample));
  const std::string text = to_json(all);
  EXPECT_EQ(from_json(text), all);
  EXPECT_EQ(to_json(from_json(text)), text);
}

TEST(Json, NamesAndLocationsRoundTrip) {
  Graph g = chain(3);
  g.name = "n\"a\\m\ne\x01 \xc3\xa9";
  g.set_hint(g.result(g.equation_id(1)), "hint \xe2\x82\xac");
  for (int i : {0, 2})
    g.set_location(g.equation_id(i), g.add_location({"a b.cpp", static_cast<uint32_t>(i + 7)}));
  const Graph back = from_json(to_json(g))[0];
  EXPECT_EQ(back, g);
  EXPECT_EQ(print(back, {.locations = true}), print(g, {.locations = true}));
}

TEST(Json, BytesThatAreNotUtf8AreReplaced) {
  Graph g = chain(0);
  g.name = "\xff";
  EXPECT_EQ(from_json(to_json(g))[0].name, "\xef\xbf\xbd");
}

TEST(Json, AFloatAttributeMayBeNan) {
  Graph g = chain(0);
  g.append(Op::elu, {{ValueId{0}}}, {std::nan("")}, {{{DType::F32, {2}}}});
  EXPECT_NE(to_json(g).find("\"alpha\":\"nan\""), std::string::npos);
  EXPECT_EQ(from_json(to_json(g))[0], g);
}

/// A small document with the text `from` replaced by `to` once.
std::string changed(std::string_view from, std::string_view to) {
  static const std::string text = to_json(parse(R"(graph @g functional {
    in %x: f32[2] primal
    in %y: f32[2] primal strides=[2] alias_of=%x+3
    %sum: f32[2] = add %x, %y [no_grad]
    %elu: f32[2] = elu %sum {alpha=0.5}
    %full: f32[1] = full {sizes=[1], dtype=f32, value=2}
    out %elu: mutated of %x
    epilogue { write output 0 to %x bumps=1 result view of %x [select {dim=0, index=1}] }
  })"));
  std::string out = text;
  const size_t at = out.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  return at == std::string::npos ? out : out.replace(at, from.size(), to);
}

TEST(Json, MalformedDocumentsSayWhatAndWhere) {
  struct Case {
    const char *from, *to, *message;
  };
  const Case cases[] = {
      {"tandem.graph/1", "tandem.graph/2", "schema: unknown schema"},
      {"{\"schema\"", "[\"schema\"", "1:10: not JSON"},
      {"{\"schema\"", "{\"more\":1,\"schema\"", "json: unknown key \"more\""},
      {"\"name\":\"g\",", "", "graphs[0]: key \"name\" is missing"},
      {"\"name\":\"g\",", "\"name\":\"g\",\"name\":\"h\",", "key \"name\" is given twice"},
      {"\"functional\"", "\"Functional\"", "graphs[0].level: unknown level \"Functional\""},
      {"\"id\":0", "\"id\":-1", "graphs[0].inputs[0].id: number outside its range"},
      {"\"id\":0", "\"id\":0.0", "wrong type; expected an integer, got a float"},
      {"\"id\":0", "\"id\":0e0", "wrong type; expected an integer, got a float"},
      {"\"id\":0", "\"id\":99999999999999999999", "got an integer outside 64 bits"},
      {"\"id\":0", "\"id\":9223372036854775808", "got an integer outside 64 bits"},
      {"\"id\":0", "\"id\":\"0\"", "wrong type; expected an integer, got a string"},
      {"\"id\":1", "\"id\":5", "operands[1]: value 1 is not defined before"},
      {"\"id\":2", "\"id\":3", "equations[0].results[0].id: id 3 is not the next one; expected 2"},
      {"\"requires_grad\":false", "\"requires_grad\":0", "expected a boolean, got an integer"},
      {"\"requires_grad\":false", "\"requires_grad\":null", "expected a boolean, got null"},
      {"\"alias_of\":{\"input\":-1,\"offset\":0,\"detached\":false}", "\"alias_of\":null",
       "expected an object"},
      {"\"alias_of\":{\"input\":-1,\"offset\":0,\"detached\":false}",
       "\"alias_of\":{\"input\":-1,\"offset\":1,\"detached\":false}", "an offset without an input"},
      {"\"alias_of\":{\"input\":0,", "\"alias_of\":{\"input\":2,", "which does not exist"},
      {"\"op\":\"add\"", "\"op\":\"plus\"", "equations[0].op: unknown op \"plus\""},
      {"\"op\":\"add\"", "\"op\":\"mm\"", "equations[0].attrs: key \"algorithm\" is missing"},
      {"\"op\":\"add\"", "\"op\":\"eq\"", "equations[0]: eq: wrong type of the result"},
      {"\"operands\":[0,1]", "\"operands\":[0,2]", "operands[1]: value 2 is not defined before"},
      {"\"operands\":[0,1]", "\"operands\":[0]", "wrong number of operands; expected 2, got 1"},
      {"[\"no_grad\"]", "[\"no_grad\",\"no_grad\"]", "flags[1]: unknown or repeated flag"},
      {"[\"no_grad\"]", "[\"grad\"]", "flags[0]: unknown or repeated flag"},
      {"[\"no_grad\"]", "[\"backward\"]", "no backward half"},
      {"[\"no_grad\"]", "[\"in_place\"]", "an in-place equation has no results"},
      {"\"alpha\":0.5", "\"alpha\":1", "attrs.alpha: wrong type; expected a float, got an integer"},
      {"\"alpha\":0.5", "\"alpha\":\"NaN\"", "attrs.alpha: not a number"},
      {"\"alpha\":0.5", "\"alpha\":1e400", "not JSON"},
      {"\"alpha\":0.5", "\"alpha\":nan", "not JSON"},
      {"\"alpha\":0.5", "\"alpha\":0.5,", "not JSON"},
      {"\"alpha\":0.5", "\"alpha\":0.5 // comment\n", "not JSON"},
      {"\"alpha\":0.5", "\"alpha\":0.5,\"beta\":0.5", "unknown key \"beta\""},
      {"{\"int\":2}", "2", "attrs.value: wrong type; expected an object, got an integer"},
      {"{\"int\":2}", "{\"int\":2.0}", "attrs.value.int: wrong type; expected an integer"},
      {"{\"int\":2}", "{\"float\":2}", "attrs.value.float: wrong type; expected a float"},
      {"{\"int\":2}", "{\"long\":2}", "attrs.value: unknown key \"long\""},
      {"{\"int\":2}", "{}", "expected an object of one member"},
      {"{\"int\":2}", "{\"int\":2,\"int\":2}", "expected an object of one member"},
      {"\"sizes\":[1]", "\"sizes\":[-1]", "negative"},
      {"\"sizes\":[1]", "\"sizes\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "too many dimensions"},
      {"\"sizes\":[1]", "\"sizes\":[\"n\"]", "sizes[0]: wrong type; expected an integer"},
      {"\"dtype\":\"f32\"", "\"dtype\":\"float\"", "unknown element type \"float\""},
      {"\"dtype\":\"f32\"", "\"dtype\":\"token\"", "a token has no sizes"},
      {"\"location\":-1", "\"location\":0", "location: number outside its range"},
      {"\"role\":\"mutated\"", "\"role\":\"saved\"", "role saved is not one of this level"},
      {"\"op\":\"select\"", "\"op\":\"neg\"", "chain[0].op: not a view"},
      {"\"index\":1", "\"index\":2", "index out of range"},
      {"\"kind\":\"view_of_input\"", "\"kind\":\"view\"", "unknown kind \"view\""},
      {"\"rng_draws\":0", "\"rng_draws\":-1", "negative rng_draws"},
  };
  for (const Case& c : cases) {
    const std::string message = json_error(changed(c.from, c.to));
    EXPECT_NE(message.find(c.message), std::string::npos)
        << c.from << " -> " << c.to << "\ngot: " << message;
  }
  EXPECT_EQ(json_error(changed("tandem", "tandem")), "");
}

TEST(Json, LimitsAreKept) {
  const std::string text = to_json(chain(10));
  EXPECT_EQ(json_error(text, {.max_bytes = text.size()}), "");
  EXPECT_NE(json_error(text, {.max_bytes = text.size() - 1}).find("too long"), std::string::npos);
  EXPECT_EQ(json_error(text, {.max_equations = 10}), "");
  EXPECT_NE(json_error(text, {.max_equations = 9}).find("too many"), std::string::npos);
  EXPECT_EQ(json_error(text, {.max_name_bytes = 5}), "");
  EXPECT_NE(json_error(text, {.max_name_bytes = 4}).find("too long"), std::string::npos);
  EXPECT_EQ(json_error(text, {.max_depth = 8}), "");
  EXPECT_NE(json_error(text, {.max_depth = 7}).find("nested too deeply"), std::string::npos);
  EXPECT_NE(json_error(std::string(1'000'000, '[')).find("nested too deeply"), std::string::npos);
}

TEST(Json, EquationsOfSubgraphsCount) {
  const std::string text = to_json(parse(samples::kSubgraphs));
  EXPECT_EQ(json_error(text, {.max_equations = 8}), "");
  EXPECT_NE(json_error(text, {.max_equations = 7}), "");
}

TEST(Json, EveryTruncationIsAnError) {
  const std::string text = changed("tandem", "tandem");
  for (size_t length = 0; length + 1 < text.size(); ++length)
    EXPECT_NE(json_error(std::string_view(text).substr(0, length)), "") << length;
}

TEST(Json, EveryChangedByteIsReadOrRefused) {
  std::string text = changed("tandem", "tandem");
  for (char& c : text)
    for (const char other : {'\0', '9', '-', '}', '"'}) {
      const char before = std::exchange(c, other);
      json_error(text);  // must not crash, nor throw anything but Error
      c = before;
    }
}

TEST(Json, AMillionEquationsInSeconds) {
  const Graph g = chain(1'000'000);
  EXPECT_EQ(from_json(to_json(g), {.max_bytes = size_t{256} << 20})[0], g);
}

}  // namespace
}  // namespace tandem::ir
