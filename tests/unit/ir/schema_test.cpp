// The published JSON Schema: it is what ops.def says, accepts every dump and rejects every dump
// with one field changed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "ir/base/error.h"
#include "ir/json/json.h"
#include "ir/text/text.h"
#include "tests/unit/ir/samples.h"

namespace tandem::ir {
namespace {

using Json = nlohmann::ordered_json;

const std::string kSchemaFile = TANDEM_SOURCE_DIR "/ir/json/graph.schema.json";

TEST(Schema, TheFileIsUpToDate) {
  if (std::getenv("UPDATE_EXPECT")) std::ofstream(kSchemaFile) << json_schema();
  std::stringstream file;
  file << std::ifstream(kSchemaFile).rdbuf();
  EXPECT_EQ(file.str(), json_schema()) << "run this test with UPDATE_EXPECT=1 to rewrite the file";
}

/// A validator for the keywords that the schema uses; any other keyword is an error of the test.
class Validator {
 public:
  explicit Validator(Json schema) : root_(std::move(schema)) {}
  bool accepts(const Json& value) const { return valid(root_, value); }

 private:
  bool valid(const Json& schema, const Json& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    for (const auto& [keyword, argument] : schema.items())
      if (!check(keyword, argument, schema, value)) return false;
    return true;
  }

  bool check(const std::string& keyword, const Json& argument, const Json& schema,
             const Json& value) const {
    if (keyword == "type") return has_type(argument, value);
    if (keyword == "const") return value == argument;
    if (keyword == "enum") return std::ranges::count(argument, value) > 0;
    if (keyword == "$ref")
      return valid(root_.at(Json::json_pointer(argument.get<std::string>().substr(1))), value);
    if (keyword == "anyOf")
      return std::ranges::any_of(argument, [&](const Json& s) { return valid(s, value); });
    if (keyword == "minimum") return !value.is_number() || value >= argument;
    if (keyword == "maximum") return !value.is_number() || value <= argument;
    if (keyword == "pattern")
      return !value.is_string() ||
             std::regex_match(value.get<std::string>(), std::regex(argument.get<std::string>()));
    if (keyword == "maxLength")
      return !value.is_string() || value.get<std::string>().size() <= argument;
    if (keyword == "maxItems") return !value.is_array() || value.size() <= argument;
    if (keyword == "uniqueItems") return !value.is_array() || all_different(value);
    if (keyword == "items")
      return !value.is_array() ||
             std::ranges::all_of(value, [&](const Json& item) { return valid(argument, item); });
    if (keyword == "required")
      return !value.is_object() || std::ranges::all_of(argument, [&](const Json& key) {
        return value.contains(key.get<std::string>());
      });
    if (keyword == "properties") return !value.is_object() || properties_valid(argument, value);
    if (keyword == "additionalProperties") {
      EXPECT_EQ(argument, false);
      return !value.is_object() || std::ranges::all_of(value.items(), [&](const auto& member) {
        return schema["properties"].contains(member.key());
      });
    }
    EXPECT_TRUE(keyword == "$schema" || keyword == "title" || keyword == "$defs") << keyword;
    return true;
  }

  static bool has_type(const std::string& type, const Json& value) {
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    return type == value.type_name();
  }

  static bool all_different(const Json& items) {
    return std::ranges::all_of(items,
                               [&](const Json& i) { return std::ranges::count(items, i) == 1; });
  }

  bool properties_valid(const Json& properties, const Json& value) const {
    for (const auto& [key, schema] : properties.items())
      if (value.contains(key) && !valid(schema, value[key])) return false;
    return true;
  }

  Json root_;
};

Json document() {
  std::vector<Graph> all;
  for (const char* sample : samples::kAll) all.push_back(parse(sample));
  all[1].set_location(all[1].equation_id(0), all[1].add_location({"net.cpp", 3}));
  return Json::parse(to_json(all));
}

TEST(Schema, AcceptsEveryDump) {
  EXPECT_TRUE(Validator(Json::parse(json_schema())).accepts(document()));
}

/// Calls f for every value inside `value`, which f may change and must put back.
void for_each_value(Json& value, const std::function<void(Json&)>& f) {
  f(value);
  if (!value.is_structured()) return;
  for (auto& item : value) for_each_value(item, f);
}

/// True if both the schema and the reader refuse `changed`.
class Refused {
 public:
  ::testing::AssertionResult operator()(const Json& changed) const {
    if (validator_.accepts(changed))
      return ::testing::AssertionFailure() << "the schema accepts it";
    try {
      from_json(changed.dump());
    } catch (const Error&) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << "the reader accepts it";
  }

 private:
  Validator validator_{Json::parse(json_schema())};
};

TEST(Schema, RejectsADumpWithAFieldRemovedRenamedOrAdded) {
  const Refused refused;
  for (const char* sample : samples::kAll) {
    Json all = Json::parse(to_json(parse(sample)));
    for_each_value(all, [&](Json& value) {
      if (!value.is_object()) return;
      const Json before = value;
      value["unknown"] = 1;
      EXPECT_TRUE(refused(all)) << before;
      for (const auto& [key, member] : before.items()) {
        value = before;
        value.erase(key);
        EXPECT_TRUE(refused(all)) << before << " without " << key;
        value[key + "_"] = member;
        EXPECT_TRUE(refused(all)) << before << " with " << key << " renamed";
      }
      value = before;
    });
  }
}

TEST(Schema, RejectsADumpWithAValueOfAnotherType) {
  const Refused refused;
  const Json others[] = {nullptr, true, 1, 0.5, "?", Json::array(), Json::object()};
  for (const char* sample : samples::kAll) {
    Json all = Json::parse(to_json(parse(sample)));
    for_each_value(all, [&](Json& value) {
      const Json before = value;
      const bool float_as_text = before == "nan" || before == "-inf";
      for (const Json& other : others) {
        const bool same = other.type_name() == std::string(before.type_name());
        if ((same && !before.is_number_integer()) ||
            (other.is_number() && before.is_number_float()) ||
            (other.is_number() && float_as_text) ||
            (other.is_number_integer() && before.is_number_integer()))
          continue;
        value = other;
        EXPECT_TRUE(refused(all)) << before << " -> " << other;
      }
      value = before;
    });
  }
}

}  // namespace
}  // namespace tandem::ir
