#include "ir/json/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "ir/base/error.h"

namespace tandem::ir {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, kDTypeCount> kNames = {"F64", "F32", "BF16", "F16", "I64",
                                                              "I32", "I16", "I8",   "U8",  "BOOL"};

constexpr const char* kMetadata = "__metadata__";

[[noreturn]] void malformed(const std::string& what) { fail(Errc::File, "safetensors: " + what); }

/// Parses a header or an index, refusing duplicate keys and deep nesting while it reads.
Json parse_header(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const auto callback = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > 4) malformed("header is nested too deeply; expected at most 4 levels");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      malformed(fmt::format("duplicate key \"{}\"", parsed.get<std::string>()));
    return true;
  };
  try {
    return Json::parse(text, callback);
  } catch (const Json::exception& e) {
    malformed(fmt::format("header is not JSON: {}", e.what()));
  }
}

size_t unsigned_of(const Json& value, const std::string& where) {
  if (!value.is_number_unsigned())
    malformed(fmt::format("{}: expected an unsigned integer, got {}", where, value.dump()));
  return value.get<size_t>();
}

DType dtype_of(const Json& value, const std::string& name) {
  const auto it =
      value.is_string() ? std::ranges::find(kNames, value.get<std::string>()) : kNames.end();
  if (it == kNames.end()) malformed(fmt::format("{}: unknown dtype {}", name, value.dump()));
  return static_cast<DType>(it - kNames.begin());
}

Shape shape_of(const Json& value, const std::string& name) {
  if (!value.is_array())
    malformed(fmt::format("{}: shape: expected a list, got {}", name, value.dump()));
  if (value.size() > kMaxRank)
    malformed(
        fmt::format("{}: expected at most {} dimensions, got {}", name, kMaxRank, value.size()));
  Shape shape;
  for (const Json& d : value)
    shape.push_back(
        static_cast<int64_t>(std::min<size_t>(unsigned_of(d, name + ": shape"), INT64_MAX)));
  return shape;
}

SafetensorsEntry entry_of(const std::string& name, const Json& value) {
  for (const char* key : {"dtype", "shape", "data_offsets"})
    if (!value.is_object() || !value.contains(key))
      malformed(fmt::format("{}: expected dtype, shape and data_offsets", name));
  if (value.size() != 3)
    malformed(fmt::format("{}: unknown key beside dtype, shape and data_offsets", name));
  const Json& offsets = value["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2)
    malformed(fmt::format("{}: data_offsets: expected two integers", name));
  SafetensorsEntry entry;
  entry.name = name;
  entry.type.dtype = dtype_of(value["dtype"], name);
  entry.type.sizes = shape_of(value["shape"], name);
  entry.begin = unsigned_of(offsets[0], name + ": data_offsets");
  entry.end = unsigned_of(offsets[1], name + ": data_offsets");
  return entry;
}

/// Entries sorted by position must tile [0, data_bytes) and have the bytes that their shapes ask
/// for.
void check_layout(const std::vector<SafetensorsEntry>& entries, size_t data_bytes) {
  size_t at = 0;
  for (const SafetensorsEntry& e : entries) {
    const auto bytes = static_cast<size_t>(int64_t{size_in_bytes(e.type)});
    if (e.begin != at || e.end < e.begin)
      malformed(fmt::format("{}: data starts at byte {}; expected {} (no holes, no overlaps)",
                            e.name, e.begin, at));
    if (e.end - e.begin != bytes)
      malformed(fmt::format("{}: has {} bytes; expected {} for {}", e.name, e.end - e.begin, bytes,
                            to_string(e.type)));
    at = e.end;
  }
  if (at != data_bytes)
    malformed(fmt::format("file has {} bytes of data; expected {}", data_bytes, at));
}

}  // namespace

size_t safetensors_data_start(std::string_view start, size_t file_bytes) {
  uint64_t length = 0;
  if (start.size() < sizeof(length))
    malformed(fmt::format("file is {} bytes long; expected at least 8", file_bytes));
  std::memcpy(&length, start.data(), sizeof(length));
  if (length > kMaxSafetensorsHeader)
    malformed(
        fmt::format("header of {} bytes; expected at most {}", length, kMaxSafetensorsHeader));
  if (length > file_bytes - sizeof(length))
    malformed(fmt::format("header of {} bytes in a file of {}", length, file_bytes));
  return sizeof(length) + length;
}

SafetensorsHeader read_safetensors_header(std::string_view start, size_t file_bytes) {
  const size_t data_start = safetensors_data_start(start, file_bytes);
  const Json json = parse_header(start.substr(0, data_start).substr(sizeof(uint64_t)));
  if (!json.is_object()) malformed("header: expected an object");
  if (json.size() > kMaxSafetensorsEntries)
    malformed(fmt::format("{} tensors; expected at most {}", json.size(), kMaxSafetensorsEntries));
  SafetensorsHeader header;
  header.data_start = data_start;
  for (const auto& [name, value] : json.items()) {
    if (name != kMetadata) {
      header.entries.push_back(entry_of(name, value));
      continue;
    }
    if (!value.is_object()) malformed("__metadata__: expected an object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) malformed("__metadata__: expected strings");
      header.metadata[key] = text.get<std::string>();
    }
  }
  std::ranges::sort(header.entries, {},
                    [](const SafetensorsEntry& e) { return std::pair(e.begin, e.end); });
  check_layout(header.entries, file_bytes - data_start);
  return header;
}

namespace {

/// Whether JSON can hold it.
bool is_utf8(std::string_view text) {
  try {
    (void)Json(text).dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

/// `text` with what is not printable ASCII as \xNN.
std::string spelled(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c >= ' ' && c <= '~' ? std::string(1, c)
                                : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

[[noreturn]] void refuse_name(std::string_view name, std::string_view why) {
  fail(Errc::Argument, fmt::format("safetensors: tensor \"{}\": {}", spelled(name), why));
}

/// What is written can be read again: by others too, who may be stricter.
void check_names(std::span<const SafetensorsEntry> entries) {
  if (entries.size() > kMaxSafetensorsEntries)
    fail(Errc::Argument, fmt::format("safetensors: {} tensors; expected at most {}", entries.size(),
                                     kMaxSafetensorsEntries));
  std::set<std::string_view> names;
  for (const SafetensorsEntry& e : entries) {
    if (!is_utf8(e.name)) refuse_name(e.name, "expected a name in UTF-8");
    if (e.name == kMetadata) refuse_name(e.name, "expected another name, this one is reserved");
    if (!names.insert(e.name).second) refuse_name(e.name, "expected each name once, got two");
  }
}

}  // namespace

std::string write_safetensors_header(std::span<const SafetensorsEntry> entries,
                                     const std::map<std::string, std::string>& metadata) {
  check_names(entries);
  for (const auto& [key, text] : metadata)
    if (!is_utf8(key) || !is_utf8(text))
      fail(Errc::Argument,
           fmt::format("safetensors: metadata \"{}\": expected UTF-8", spelled(key)));
  Json json = Json::object();
  if (!metadata.empty()) json[kMetadata] = metadata;
  size_t at = 0;
  for (const SafetensorsEntry& e : entries) {
    const auto bytes = static_cast<size_t>(int64_t{size_in_bytes(e.type)});
    Json shape = Json::array();
    for (Dim d : e.type.sizes) shape.push_back(int64_t{d});
    json[e.name] = {{"dtype", kNames[static_cast<size_t>(e.type.dtype)]},
                    {"shape", shape},
                    {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = json.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  if (length > kMaxSafetensorsHeader)
    fail(Errc::Argument, fmt::format("safetensors: header of {} bytes; expected at most {} (fewer "
                                     "tensors, or shorter names)",
                                     length, kMaxSafetensorsHeader));
  std::string header(sizeof(length), '\0');
  std::memcpy(header.data(), &length, sizeof(length));
  return header + text;
}

std::map<std::string, std::string> read_safetensors_index(std::string_view json) {
  const Json index = parse_header(json);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    malformed("index: expected an object with a weight_map");
  if (index["weight_map"].size() > kMaxSafetensorsEntries)
    malformed(fmt::format("index: {} tensors; expected at most {}", index["weight_map"].size(),
                          kMaxSafetensorsEntries));
  std::map<std::string, std::string> file_of;
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string()) malformed(fmt::format("index: {}: expected a file's name", name));
    file_of[name] = file.get<std::string>();
    const std::string& plain = file_of[name];
    if (plain.empty() || plain == "." || plain == ".." ||
        plain.find_first_of(std::string_view("/\\\0", 3)) != plain.npos)
      malformed(fmt::format("index: {}: \"{}\" is no name of a file beside the index", name,
                            spelled(plain)));
  }
  return file_of;
}

std::string write_safetensors_index(const std::map<std::string, std::string>& file_of,
                                    int64_t total_bytes) {
  return Json{{"metadata", {{"total_size", total_bytes}}}, {"weight_map", file_of}}.dump(2) + "\n";
}

}  // namespace tandem::ir
