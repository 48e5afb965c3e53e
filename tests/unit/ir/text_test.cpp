// The text form: round trips, spelling, malformed texts.
#include "ir/text/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/base/error.h"
#include "ir/verify/verify.h"
#include "tests/unit/ir/samples.h"

namespace tandem::ir {
namespace {

/// The message of the Error that parse throws; "" if it throws none.
std::string parse_error(std::string_view text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::Parse) << error.what();
    return error.what();
  }
  return "";
}

TEST(Text, SamplesPrintAsTheyAreWritten) {
  for (const char* sample : samples::kAll) EXPECT_EQ(print(parse(sample)), sample);
}

TEST(Text, SamplesRoundTrip) {
  for (const char* sample : samples::kAll) {
    const Graph graph = parse(sample);
    verify(graph);
    EXPECT_EQ(parse(print(graph)), graph) << sample;
  }
}

Graph graph_with_hints(std::initializer_list<const char*> hints) {
  Graph g("g", Level::Functional);
  const Type type{DType::F32, {2}};
  ValueId v = g.add_input({.name = "x", .strides = {1}}, type);
  for (const char* hint : hints) {
    v = g.result(g.append(Op::neg, {{v}}, {}, {{type}}));
    g.set_hint(v, hint);
  }
  g.add_output({.value = v, .strides = {1}});
  return g;
}

TEST(Text, NamesOfEveryKindRoundTrip) {
  const Graph g = graph_with_hints({"x", "x", "", "x.1", "x.1", "x.y", "x.", "7", "with space",
                                    "quote\"", "back\\slash", "line\nbreak", "\x01\x7f", "\xc3\xa9",
                                    "graph", "in", "token", "true", "with space"});
  EXPECT_EQ(parse(print(g)), g) << print(g);
  EXPECT_EQ(print(parse(print(g))), print(g));
}

TEST(Text, AnInputHasNoHintButItsName) {
  Graph g("g", Level::Functional);
  const ValueId x = g.add_input({.name = "0", .strides = {}}, Type{DType::F32, {}});
  g.set_hint(x, "other");
  EXPECT_EQ(g.hint(x), "");
  EXPECT_EQ(parse(print(g)), g) << print(g);
}

TEST(Text, FloatsAreExactAndLookLikeFloats) {
  const std::pair<double, const char*> cases[] = {
      {0.5, "0.5"},
      {1.0, "1.0"},
      {1e-5, "1e-05"},
      {1e100, "1e+100"},
      {-0.0, "-0.0"},
      {0.1, "0.1"},
      {5e-324, "5e-324"},
      {std::numeric_limits<double>::max(), "1.7976931348623157e+308"},
      {std::numeric_limits<double>::infinity(), "inf"},
      {-std::numeric_limits<double>::infinity(), "-inf"},
      {-std::nan(""), "nan"}};
  for (const auto& [value, text] : cases) {
    Graph g("g", Level::Functional);
    g.append(Op::full, {}, {std::vector<Dim>{}, DType::F64, Number(value)}, {{{DType::F64, {}}}});
    EXPECT_NE(print(g).find(std::string("value=") + text + "}"), std::string::npos) << print(g);
    EXPECT_EQ(parse(print(g)), g);
  }
}

TEST(Text, AFloatAttributeMayBeNan) {
  Graph g("g", Level::Functional);
  const Type type{DType::F32, {2}};
  const ValueId x = g.add_input({.name = "x", .strides = {1}}, type);
  g.append(Op::elu, {{x}}, {std::nan("")}, {{type}});
  EXPECT_EQ(parse(print(g)), g);
}

TEST(Text, CommentsBlanksAndOrderOfAttributesAreFree) {
  const Graph g = parse(
      "; a comment\ngraph\n@g functional{in %x:f32[2]primal ;x\n"
      "%y:f32[]=sum %x{keepdim=false,order=[],dims=[0]}out %y:result}");
  EXPECT_EQ(print(g), R"(graph @g functional {
  in %x: f32[2] primal
  %y: f32[] = sum %x {dims=[0], keepdim=false, order=[]}
  out %y: result
}
)");
}

TEST(Text, LocationsPrintOnRequest) {
  Graph g = graph_with_hints({"y"});
  g.set_location(g.equation_id(0), g.add_location({"net.cpp", 12}));
  EXPECT_NE(print(g, {.locations = true}).find("= neg %x  ; net.cpp:12\n"), std::string::npos);
  EXPECT_EQ(print(g).find("net.cpp"), std::string::npos);
  EXPECT_EQ(parse(print(g, {.locations = true})), g);
}

TEST(Text, AroundAnEquation) {
  const Graph g = graph_with_hints({"a", "b", "c", "d", "e", "f", "h", "i"});
  EXPECT_EQ(print_around(g, g.equation_id(7)),
            "  %c: f32[2] = neg %b\n  %d: f32[2] = neg %c\n  %e: f32[2] = neg %d\n"
            "  %f: f32[2] = neg %e\n  %h: f32[2] = neg %f\n> %i: f32[2] = neg %h\n");
}

TEST(Text, AMalformedGraphStillPrints) {
  Graph g("g", Level::Functional);
  g.append(Op::neg, {{ValueId{7}}}, {}, {{{DType::F32, {}}}});
  g.append(Op::call, {{ValueId{0}}}, {SubgraphId{3}}, {});
  EXPECT_NE(print(g).find("= neg %?7"), std::string::npos);
  EXPECT_NE(print(g).find("call %0 {body=@?3}"), std::string::npos);
}

struct Malformed {
  const char* text;
  const char* message;
};

TEST(Text, MalformedTextsSayWhatAndWhere) {
#define BODY(text) "graph @g functional {\n  in %x: f32[2, 3] primal\n" text "\n}\n"
  const Malformed cases[] = {
      {"", "1:1: syntax; expected 'graph', got the end of the text"},
      {"grph @g traced {}", "1:1: syntax; expected 'graph', got 'grph'"},
      {"graph g traced {}", "1:7: syntax; expected '@', got 'g'"},
      {"graph @ traced {}", "1:9: syntax; expected a name, got 'traced'"},
      {"graph @g late {}", "1:10: unknown level 'late'"},
      {"graph @g traced {", "1:18: syntax; expected a statement, got the end of the text"},
      {"graph @g traced {} graph", "1:20: syntax; expected the end of the text, got 'graph'"},
      {"graph @\"g traced {}", "1:8: a string without an end"},
      {"graph @\"g\\q\" traced {}", "1:10: unknown escape in a string"},
      {BODY("in %x: f32[] primal"), "3:4: %x is defined twice"},
      {BODY("in %y: f33[] primal"), "3:8: unknown element type 'f33'"},
      {BODY("in %y: f32[] tertiary"), "3:14: unknown role 'tertiary'"},
      {BODY("in %y: f32[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1] primal"),
       "too many dimensions"},
      {BODY("in %y: f32[-1] primal"), "negative size"},
      {BODY("in %y: f32[4611686018427387904] primal"), "overflows"},
      {BODY("in %y: f32[99999999999999999999] primal"), "3:12: integer outside 64 bits"},
      {BODY("in %y: f32[1.5] primal"), "3:12: syntax; expected an integer, got '1.5'"},
      {BODY("in %y: f32[] primal alias_of=%z+1"), "3:30: %z is not an input"},
      {BODY("in %y: f32[] primal alias_of=%x"), "expected an offset"},
      {BODY("%y: f32[2, 3] = negg %x"), "3:17: unknown op 'negg'"},
      {BODY("%y: f32[2, 3] = neg %z"), "3:21: %z is not defined before"},
      {BODY("%y: f32[2, 3] = neg %y"), "%y is not defined before"},
      {BODY("%y: f32[3, 2] = neg %x"), "3:1: neg: wrong type of the result; expected f32[2, 3]"},
      {BODY("%y: f32[2, 3] = neg %x, %x"), "wrong number of operands; expected 1, got 2"},
      {BODY("%y: f32[2, 3] = add %x"), "wrong number of operands; expected 2, got 1"},
      {BODY("%y: f32[2, 3] = cat {dim=0}"), "expected at least 1, got 0"},
      {BODY("%y: f32[2, 3], %z: f32[2, 3] = neg %x"), "wrong number of results"},
      {BODY("neg %x"), "wrong number of results; expected 1, got 0"},
      {BODY("%x: f32[2, 3] = neg %x"), "%x is defined twice"},
      {BODY("where_ %x, %x, %x"), "has no in-place form"},
      {BODY("%y: f32[2, 3] = neg_ %x"), "an in-place equation has no results"},
      {BODY("%y: f32[2] = sum %x {dims=[1], keepdim=false}"), "sum: attribute 'order' is missing"},
      {BODY("%y: f32[2] = sum %x {dims=[1], dims=[1]}"), "attribute 'dims' is given twice"},
      {BODY("%y: f32[2] = sum %x {dim=1}"), "sum: unknown attribute 'dim'"},
      {BODY("%y: f32[2] = sum %x {dims=[1], keepdim=0, order=[]}"), "expected true or false"},
      {BODY("%y: f32[2] = sum %x {dims=[1], keepdim=false, order=[1]}"), "malformed order"},
      {BODY("%y: f32[2] = sum %x {dims=[2], keepdim=false, order=[]}"), "3:1: sum: "},
      {BODY("%y: f32[2, 3] = elu %x {alpha=1}"), "3:31: syntax; expected a floating-point number"},
      {BODY("%y: f32[2, 3] = gelu %x {approximate=tanh}"), "expected a string, got 'tanh'"},
      {BODY("%y: f32[2, 3] = convert %x {dtype=float}"), "unknown element type 'float'"},
      {BODY("%y: f32[2, 3] = call %x {body=@f}"), "subgraph @f is not defined before"},
      {BODY("%y: f32[2, 3] = neg %x [grad]"),
       "expected no_grad, backward, save, recompute or region, got 'grad'"},
      {BODY("out %y: result"), "%y is not defined before"},
      {BODY("out %x: result of %x name="), "expected a name, got '}'"},
      {BODY("%y: f32[2, 3] = neg %x out %x: mutated of %y"), "not an input of this graph"},
      {BODY("epilogue { write output 0 to %x }"), "expected 'bumps', got '}'"},
      {BODY("epilogue { write output -1 to %x bumps=1 }"), "number outside its range"},
      {BODY("epilogue { result view of %x [neg] }"), "not a view"},
      {BODY("epilogue { undo }"),
       "expected write, result, change, grad, rng_draws or '}', got 'undo'"},
      {BODY("graph @a functional {} graph @a functional {}"), "subgraph @a is defined twice"},
  };
#undef BODY
  for (const Malformed& c : cases) {
    const std::string message = parse_error(c.text);
    EXPECT_NE(message.find(c.message), std::string::npos) << c.text << "\ngot: " << message;
  }
}

TEST(Text, ANulByteIsNotTheEnd) {
  EXPECT_NE(parse_error(std::string_view("graph @g traced {}\0x", 20)), "");
}

TEST(Text, NestingIsBounded) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "graph @g traced {";
  EXPECT_NE(parse_error(text).find("nested too deeply"), std::string::npos);
}

TEST(Text, EveryTruncationIsAnError) {
  for (const char* sample : samples::kAll) {
    const std::string_view text = sample;
    for (size_t length = 0; length + 2 < text.size(); ++length)
      EXPECT_NE(parse_error(text.substr(0, length)), "") << text.substr(0, length);
  }
}

TEST(Text, EveryChangedByteIsReadOrRefused) {
  for (const char* sample : samples::kAll) {
    std::string text = sample;
    for (char& c : text)
      for (const char changed : {'\0', '%', '9', '-', '}', '"', 'x'}) {
        const char before = std::exchange(c, changed);
        parse_error(text);  // must not crash, nor throw anything but Error
        c = before;
      }
  }
}

TEST(Text, AMillionEquationsInSeconds) {
  Graph g("chain", Level::Functional);
  const Type type{DType::F32, {2}};
  ValueId v = g.add_input({.name = "x", .strides = {1}}, type);
  for (int i = 0; i < 1'000'000; ++i) v = g.result(g.append(Op::neg, {{v}}, {}, {{type}}));
  g.add_output({.value = v, .strides = {1}});
  EXPECT_EQ(parse(print(g)), g);
}

}  // namespace
}  // namespace tandem::ir
