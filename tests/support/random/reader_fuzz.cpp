#include "tests/support/random/reader_fuzz.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "codegen/cost/costs.h"
#include "codegen/jit/object_cache.h"
#include "ir/base/error.h"
#include "ir/interpreter/interpret.h"
#include "ir/json/json.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/support/random/data_files.h"
#include "tests/support/random/random_graph.h"
#include "tests/support/temporary_folder.h"
#include "tools/files.h"
#include "tools/passes.h"

namespace tandem::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kEdges[] = {"0",
                                       "1",
                                       "-1",
                                       "8",
                                       "255",
                                       "2147483647",
                                       "2147483648",
                                       "4294967295",
                                       "1152921504606846976",
                                       "4611686018427387904",
                                       "9223372036854775807",
                                       "-9223372036854775808",
                                       "9223372036854775808",
                                       "18446744073709551615"};
constexpr std::string_view kNames[] = {"a",       "x.1",         "x.01",  ".3",    "3",
                                       "_",       "in",          "out",   "graph", "\"\"",
                                       "\"a b\"", "\"\\u0001\"", "\"%\"", "\"é\""};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

// --- graphs

/// Of any level; a partition is two graphs.
std::vector<ir::Graph> random_graphs(Random& random) {
  static constexpr const char* kPasses[] = {"functionalize", "joint", "decompose",
                                            "partition=default"};
  const ir::Graph graph = random_program(random.below(50)).graph;
  std::vector<std::string> passes;
  for (size_t i = random.below(5); i-- > 0;) passes.insert(passes.begin(), kPasses[i]);
  try {
    return tools::run_passes(graph, passes).graphs;
  } catch (const ir::Error&) {  // nothing to differentiate
    return {graph};
  }
}

// --- text, by lines and words

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

/// Positions at which a whole number starts.
std::vector<size_t> numbers_in(const std::string& text) {
  std::vector<size_t> found;
  for (size_t i = 0; i < text.size(); ++i)
    if (std::isdigit(static_cast<unsigned char>(text[i])) && i > 0 && !is_word(text[i - 1]) &&
        text[i - 1] != '%')
      found.push_back(i);
  return found;
}

void replace_word(std::string& text, size_t at, std::string_view with) {
  size_t end = at;
  while (end < text.size() && is_word(text[end])) ++end;
  text.replace(at, end - at, with);
}

void replace_all(std::string& text, const std::string& name, const std::string& with) {
  for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + with.size())) {
    const size_t end = at + name.size();
    if (end < text.size() && is_word(text[end])) continue;
    text.replace(at, name.size(), with);
  }
}

using TextMutation = void (*)(std::string&, Random&);

/// Valid as a rule.
constexpr TextMutation kGentle[] = {
    [](std::string& text, Random& random) {  // another name of a value, everywhere
      const size_t at = text.find('%', random.below(text.size()));
      if (at == text.npos) return;
      size_t end = at + 1;
      while (end < text.size() && is_word(text[end])) ++end;
      const std::string name = text.substr(at, end - at);
      replace_all(text, name, fmt::format("%r{}", random.below(1000)));
    },
    [](std::string& text, Random& random) {  // blanks and comments
      const size_t at = text.find_first_of(" \n", random.below(text.size()));
      if (at != text.npos) text.insert(at, random.one_in(2) ? "  \t\n " : " ; a comment }\n ");
    },
    [](std::string& text, Random& random) {  // one more input, laid out somehow
      const size_t at = text.find('\n');
      text.insert(at + 1,
                  fmt::format("  in %more{}: f32[{}, 1] primal strides=[{}, {}]\n",
                              random.below(1000), random.below(4), random.below(100),
                              random.one_in(3) ? random.of(kEdges) : std::string_view("7")));
    },
    [](std::string& text, Random& random) {  // an alias of another input
      const size_t in = text.find("\n  in %");
      if (in == text.npos) return;
      const size_t name = in + 6, end = text.find(':', name), next = text.find('\n', name);
      text.insert(next + 1,
                  fmt::format("  in %alias{}: f32[{}] primal alias_of={} +{}\n", random.below(1000),
                              random.below(4), text.substr(name, end - name),
                              random.one_in(3) ? random.of(kEdges) : std::string_view("2")));
    },
    [](std::string& text, Random& random) {  // a result twice
      std::vector<std::string> lines = lines_of(text);
      const size_t i = random.below(lines.size());
      if (lines[i].starts_with("  out ") && lines[i].find(": result") != std::string::npos &&
          text.find("epilogue") == text.npos)
        lines.insert(lines.begin() + static_cast<ptrdiff_t>(i), lines[i]);
      text = joined(lines);
    },
    [](std::string& text, Random& random) {  // a flag
      static constexpr std::string_view kFlags[] = {" [save]", " [recompute]", " [no_grad]",
                                                    " [region 3]", " [region 999999999]"};
      std::vector<std::string> lines = lines_of(text);
      std::string& line = lines[random.below(lines.size())];
      if (line.starts_with("  %") && !line.ends_with(']')) line += random.of(kFlags);
      text = joined(lines);
    },
    [](std::string& text, Random& random) {  // a number of the program: sizes must agree
      const size_t at = text.find("{value=", random.below(text.size()));
      if (at != text.npos) text.insert(at + 7, "0");
    },
    [](std::string& text, Random& random) {  // how far the generator advances
      const size_t at = text.find("rng_draws ");
      if (at != text.npos) replace_word(text, at + 10, random.of(kEdges));
    },
};

/// Mostly not.
constexpr TextMutation kRough[] = {
    [](std::string& text, Random& random) {
      const std::vector<size_t> numbers = numbers_in(text);
      if (!numbers.empty()) replace_word(text, random.of(numbers), random.of(kEdges));
    },
    [](std::string& text, Random& random) {
      const size_t at = text.find_first_of("%@", random.below(text.size()));
      if (at != text.npos) replace_word(text, at + 1, random.of(kNames));
    },
    [](std::string& text, Random& random) {
      std::vector<std::string> lines = lines_of(text);
      std::swap(lines[random.below(lines.size())], lines[random.below(lines.size())]);
      text = joined(lines);
    },
    [](std::string& text, Random& random) {
      std::vector<std::string> lines = lines_of(text);
      lines.erase(lines.begin() + static_cast<ptrdiff_t>(random.below(lines.size())));
      text = joined(lines);
    },
    [](std::string& text, Random& random) {
      text[random.below(text.size())] = static_cast<char>(random.below(256));
    },
    [](std::string& text, Random& random) { text.resize(random.below(text.size())); },
};

std::string mutated_text(Random& random) {
  std::string text = ir::print(random_graphs(random)[0]);
  const bool rough = random.one_in(3);
  for (size_t i = 1 + random.below(4); i-- > 0 && !text.empty();) random.of(kGentle)(text, random);
  if (rough && !text.empty()) random.of(kRough)(text, random);
  return text;
}

// --- JSON, by nodes

/// All values below `json`, with the keys that lead there.
void collect(Json& json, const std::string& key, std::vector<std::pair<std::string, Json*>>& all) {
  all.emplace_back(key, &json);
  if (json.is_object())
    for (auto& [name, value] : json.items()) collect(value, name, all);
  if (json.is_array())
    for (Json& value : json) collect(value, key, all);
}

Json edge(Random& random) { return Json::parse(random.of(kEdges)); }

/// Free text and places: nothing else depends on them.
bool is_free(const std::string& key, const Json& json) {
  return json.is_primitive() && (key == "name" || key == "hint" || key == "file" || key == "line");
}

void mutate_gently(Json& document, Random& random) {
  std::vector<std::pair<std::string, Json*>> all, some;
  collect(document, "", all);
  std::ranges::copy_if(all, std::back_inserter(some), [](const auto& node) {
    return is_free(node.first, *node.second) || node.first == "mark" || node.first == "offset";
  });
  if (some.empty()) return;
  auto& [key, json] = random.of(some);
  if (json->is_string())
    *json = fmt::format("{}{}", random.of(kNames), random.below(1'000'000));
  else if (key == "line")
    *json = random.below(1'000'000);
}

void mutate_roughly(Json& document, Random& random) {
  std::vector<std::pair<std::string, Json*>> all;
  collect(document, "", all);
  Json& json = *random.of(all).second;
  if (json.is_number() || random.one_in(4))
    json = edge(random);
  else if (json.is_boolean())
    json = !json.get<bool>();
  else if (json.is_string())
    json = std::string(random.of(kNames));
  else if (json.is_array() && !json.empty() && random.one_in(2))
    json.push_back(json[random.below(json.size())]);
  else if (!json.empty())
    json.erase(json.is_array() ? json.end() - 1 : json.begin());
}

std::string mutated_json(Random& random) {
  Json document = Json::parse(ir::to_json(random_graphs(random)));
  for (size_t i = 1 + random.below(4); i-- > 0;) mutate_gently(document, random);
  if (random.one_in(3)) mutate_roughly(document, random);
  std::string text = document.dump(static_cast<int>(random.below(3)) - 1);
  if (random.one_in(20)) text[random.below(text.size())] = static_cast<char>(random.below(256));
  return text;
}

// --- safetensors

std::string with_length(const std::string& header, const std::string& data, uint64_t length) {
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + data;
}

/// Each entry of the header in another way, of the same bytes.
void reshape(Json& entry, Random& random) {
  static constexpr std::string_view kOf[][2] = {
      {"F32", "I32"}, {"F64", "I64"}, {"I8", "U8"}, {"BF16", "F16"}, {"F16", "I16"}};
  for (const auto& [from, to] : kOf)
    if (entry["dtype"] == from && random.one_in(2)) entry["dtype"] = to;
  if (random.one_in(2)) entry["shape"].push_back(1);
}

std::string mutated_safetensors(Random& random) {
  const tools::Tensors tensors = random_tensors(random_program(random.below(50)).graph, 1);
  const std::string bytes = tools::to_safetensors(tensors);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  Json header = Json::parse(bytes.substr(sizeof length, length));
  std::string data = bytes.substr(sizeof length + length);
  for (auto& [name, entry] : header.items())
    if (random.one_in(2)) reshape(entry, random);
  if (random.one_in(3)) header["__metadata__"] = {{"é", "1"}, {"", ""}};
  if (random.one_in(4)) mutate_roughly(header, random);
  std::string text = header.dump();
  if (random.one_in(3)) text += std::string(random.below(20), ' ');
  if (random.one_in(16)) text[random.below(text.size())] = static_cast<char>(random.below(256));
  if (random.one_in(16)) data.resize(random.below(2 * data.size() + 1));
  const bool wrong = random.one_in(16);
  return with_length(text, data, wrong ? edge(random).get<uint64_t>() : text.size());
}

// --- costs

std::string mutated_costs(Random& random) {
  std::vector<std::string> lines = lines_of(codegen::print(codegen::shipped_costs()));
  for (size_t i = 1 + random.below(4); i-- > 0;) {
    std::swap(lines[random.below(lines.size())], lines[random.below(lines.size())]);
    std::string& line = lines[random.below(lines.size())];
    line = line.substr(0, line.find(' ')) + fmt::format(" {}", 0.25 + 1e3 * random.below(1000));
    lines.erase(lines.begin() + static_cast<ptrdiff_t>(random.below(lines.size())));
  }
  if (random.one_in(3)) random.of(lines) = fmt::format("mul {}", random.of(kEdges));
  std::string text = joined(lines);
  if (random.one_in(8)) text[random.below(text.size())] = static_cast<char>(random.below(256));
  return text;
}

// --- entries of the cache of object code

/// A folder of its own with one entry, for `kContent`.
class OneEntry {
 public:
  OneEntry() { cache_.emplace(folder_.path().string()); }

  std::optional<std::string> object() const { return cache_->find(kContent); }
  std::string file_of(const std::string& object, std::string_view content = kContent) const {
    cache_->store(content, object);
    std::ifstream file(cache_->path(content), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void overwrite(const std::string& file) const {
    std::ofstream(cache_->path(kContent), std::ios::binary | std::ios::trunc) << file;
  }

 private:
  static constexpr std::string_view kContent = "what an object was made from";

  TemporaryFolder folder_;
  std::optional<jit::ObjectCache> cache_;
};

std::string mutated_entry(Random& random) {
  const OneEntry entry;
  const std::string object(random.below(3) * random.below(5000),
                           static_cast<char>(random.below(256)));
  std::string file = entry.file_of(object);
  if (!random.one_in(3)) return file;
  switch (random.below(5)) {
    case 0:  // a bit, mostly of the header
      file[random.below(random.one_in(3) ? file.size() : 32)] ^=
          static_cast<char>(1u << random.below(8));
      break;
    case 1:
      file.resize(random.below(2 * file.size()));
      break;
    case 2: {  // a length
      const uint64_t length = random.below(2) << random.below(64);
      std::memcpy(file.data() + 8 * (1 + random.below(2)), &length, sizeof length);
      break;
    }
    case 3:  // another's
      file = entry.file_of(object, fmt::format("another {}", random.below(100)));
      break;
    default:  // two halves
      file = file.substr(0, file.size() / 2) + entry.file_of(object + "x").substr(file.size() / 2);
  }
  return file;
}

// --- reading

/// Programs of more elements are only read.
constexpr int64_t kMostElements = 1 << 16;

int64_t reach(const ir::Type& type, const ir::Strides& strides) {
  int64_t end = 1;
  for (int d = 0; d < type.rank(); ++d)
    if (type.sizes[d] > 1) end += (type.sizes[d] - 1) * strides[d];
  return end;
}

bool is_small(const ir::Graph& graph) {
  int64_t elements = 0;
  for (uint32_t v = 0; v < graph.num_values(); ++v) {
    elements += std::min<int64_t>(numel(graph.type({v}).sizes), kMostElements);
    if (elements >= kMostElements) return false;
  }
  for (const ir::Input& input : graph.inputs()) {
    const int64_t offset = input.alias_of ? int64_t{input.alias_of->offset} : 0;
    if (offset < -kMostElements || offset > kMostElements) return false;
    if (reach(graph.type(input.value), input.strides) > kMostElements) return false;
  }
  return true;
}

/// What a program of a file may do: anything but crash or break an invariant.
void run(const ir::Graph& graph) {
  if (graph.level != ir::Level::Traced || !is_small(graph)) return;
  std::vector<ir::Buffer> inputs;
  const auto tensors = random_tensors(graph, 1);
  for (const ir::Input& input : graph.inputs()) {
    const auto found = tensors.find(input.name);
    inputs.push_back(found != tensors.end() ? found->second : ir::Buffer());
    if (found == tensors.end() && !input.alias_of)
      inputs.back() = ir::Buffer(graph.type(input.value));
  }
  try {
    ir::interpret(graph, inputs);
    tools::run_passes(graph, {"functionalize"});
  } catch (const ir::Error&) {  // of the data, or of what nobody supports
    return;
  }
}

std::string check_graphs(const std::vector<ir::Graph>& graphs) {
  for (const ir::Graph& graph : graphs) {
    if (ir::parse(ir::print(graph)) != graph) return "the text form reads back as another graph";
    run(graph);
  }
  return ir::from_json(ir::to_json(graphs)) == graphs ? "" : "JSON reads back as other graphs";
}

std::string check_text(const std::string& file) {
  std::vector<ir::Graph> graphs{ir::parse(file)};
  ir::verify(graphs[0]);
  return check_graphs(graphs);
}
std::string check_json(const std::string& file) { return check_graphs(ir::from_json(file)); }

std::string check_safetensors(const std::string& file) {
  const auto same = [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.type() == b.second.type() &&
           std::memcmp(a.second.data(), b.second.data(),
                       static_cast<size_t>(int64_t{size_in_bytes(a.second.type())})) == 0;
  };
  const tools::Tensors tensors = tools::tensors_of(file),
                       again = tools::tensors_of(tools::to_safetensors(tensors));
  return std::ranges::equal(tensors, again, same) ? "" : "the tensors read back as others";
}

std::string check_costs(const std::string& file) {
  const std::string text = codegen::print(codegen::parse_costs(file));
  return codegen::print(codegen::parse_costs(text)) == text ? ""
                                                            : "the table reads back as another";
}

std::string check_entry(const std::string& file) {
  const OneEntry entry;
  entry.overwrite(file);
  const std::optional<std::string> object = entry.object();
  if (!object) ir::fail(ir::Errc::Argument, "no entry");
  return entry.file_of(*object) == file ? "" : "what was found is stored otherwise";
}

struct FormRow {
  std::string_view name;
  std::string (*mutated)(Random&);
  std::string (*check)(const std::string&);
};
constexpr FormRow kForms[] = {{"text", mutated_text, check_text},
                              {"JSON", mutated_json, check_json},
                              {"safetensors", mutated_safetensors, check_safetensors},
                              {"costs", mutated_costs, check_costs},
                              {"entries", mutated_entry, check_entry},
                              {"tables", mutated_table, check_table},
                              {"IDX", mutated_idx, check_idx},
                              {"images", mutated_image, check_image},
                              {"merges", mutated_merges, check_merges}};
const FormRow& row(FileForm form) { return kForms[static_cast<size_t>(form)]; }

}  // namespace

std::string_view name(FileForm form) { return row(form).name; }

std::string mutated_file(FileForm form, uint64_t seed) {
  Random random(seed);
  return row(form).mutated(random);
}

ReaderVerdict check_reader(FileForm form, const std::string& file) {
  try {
    return {true, row(form).check(file)};
  } catch (const ir::Error&) {
    return {};
  } catch (const std::exception& e) {
    return {false, fmt::format("expected an Error, got {}", e.what())};
  }
}

}  // namespace tandem::testing
