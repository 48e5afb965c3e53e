#include "tools/files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "ir/base/error.h"
#include "ir/base/file_writer.h"
#include "ir/json/json.h"
#include "ir/json/safetensors.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"

namespace tandem::tools {
namespace {

using ir::Errc;

[[noreturn]] void cannot(const char* what, const std::string& path) {
  ir::fail(Errc::File, fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)));
}

size_t data_bytes(const ir::Type& type) {
  return static_cast<size_t>(int64_t{ir::size_in_bytes(type)});
}

}  // namespace

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) cannot("open", path);
  std::string bytes;
  char block[1 << 16];
  while (in.read(block, sizeof block) || in.gcount() > 0)
    bytes.append(block, static_cast<size_t>(in.gcount()));
  if (in.bad()) cannot("read", path);
  return bytes;
}

void write_file(const std::string& path, std::string_view bytes) {
  ir::FileWriter file(path);
  file.write(bytes);
  file.commit();
}

void write_output(std::string_view bytes) {
  const bool done = std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size();
  if (!done || std::fflush(stdout) != 0) cannot("write", "standard output");
}

std::vector<ir::Graph> read_graphs(const std::string& path) {
  const std::string text = read_file(path);
  if (path.ends_with(".json")) return ir::from_json(text);
  std::vector<ir::Graph> graphs{ir::parse(text)};
  ir::verify(graphs[0]);
  return graphs;
}

ir::Graph read_graph(const std::string& path) {
  std::vector<ir::Graph> graphs = read_graphs(path);
  if (graphs.size() != 1)
    ir::fail(Errc::Argument, fmt::format("{}: expected one graph, got {}", path, graphs.size()));
  return std::move(graphs[0]);
}

std::string written(const std::vector<ir::Graph>& graphs, bool json, bool locations) {
  if (json) return ir::to_json(graphs) + "\n";
  std::string text;
  for (const ir::Graph& graph : graphs) text += ir::print(graph, {.locations = locations});
  return text;
}

Tensors tensors_of(std::string_view bytes) {
  const ir::SafetensorsHeader header = ir::read_safetensors_header(bytes, bytes.size());
  Tensors tensors;
  for (const ir::SafetensorsEntry& entry : header.entries) {
    ir::Buffer buffer(entry.type);
    if (entry.end > entry.begin)
      std::memcpy(buffer.data(), bytes.data() + header.data_start + entry.begin,
                  entry.end - entry.begin);
    tensors.emplace(entry.name, std::move(buffer));
  }
  return tensors;
}

std::string to_safetensors(const Tensors& tensors) {
  std::vector<ir::SafetensorsEntry> entries;
  for (const auto& [name, buffer] : tensors) {
    entries.emplace_back();
    entries.back().name = name;
    entries.back().type = buffer.type();
  }
  std::string bytes = ir::write_safetensors_header(entries);
  for (const auto& [name, buffer] : tensors)
    bytes.append(static_cast<const char*>(buffer.data()), data_bytes(buffer.type()));
  return bytes;
}

}  // namespace tandem::tools
