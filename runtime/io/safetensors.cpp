#include "ir/json/safetensors.h"

#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/io/safetensors.h>
#include <tandem/ops.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <vector>

#include "ir/base/error.h"
#include "ir/base/file_writer.h"
#include "runtime/io/files.h"
#include "runtime/io/require_usable.h"
#include "runtime/io/write_safetensors.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// --- one file

ir::SafetensorsHeader header_of(const runtime::TensorSource& file) {
  std::string start = file.text(0, std::min<size_t>(file.bytes(), sizeof(uint64_t)));
  const size_t data_start = ir::safetensors_data_start(start, file.bytes());
  return ir::read_safetensors_header(file.text(0, data_start), file.bytes());
}

NamedTensors load_file(const std::string& path, const LoadOptions& options) {
  return runtime::reading("load_safetensors", path, [&] {
    const auto file = runtime::open_tensors(path, options.mmap);
    const ir::SafetensorsHeader header = header_of(*file);
    NamedTensors tensors;
    for (const ir::SafetensorsEntry& entry : header.entries)  // in the order of their data
      tensors.emplace_back(entry.name, file->tensor(header.data_start + entry.begin, entry.type));
    return tensors;
  });
}

int64_t bytes_of(const Tensor& tensor) { return ir::size_in_bytes(tensor.impl()->type()); }

// --- sets of files

/// `name` as a file beside `index`.
std::string beside(const std::string& index, const std::string& name) {
  return (fs::path(index).parent_path() / name).string();
}

NamedTensors load_index(const std::string& path, const LoadOptions& options) {
  const auto file_of = runtime::reading("load_safetensors", path, [&] {
    return ir::read_safetensors_index(runtime::read_file(path));
  });
  std::set<std::string> files;
  for (const auto& [name, file] : file_of) files.insert(file);
  NamedTensors all;
  for (const std::string& file : files)
    for (auto& [name, tensor] : load_file(beside(path, file), options)) {
      const auto it = file_of.find(name);
      if (it != file_of.end() && it->second == file) all.emplace_back(name, tensor);
    }
  if (all.size() == file_of.size()) return all;
  std::set<std::string_view> found;
  for (const auto& [name, tensor] : all) found.insert(name);
  for (const auto& [name, file] : file_of)
    if (!found.contains(name))
      runtime::fail_file("load_safetensors", path,
                         fmt::format("\"{}\" is not in {}, where the index has it", name, file));
  return all;
}

/// Sorted.
std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
    if (it->path().extension() == ".safetensors") files.push_back(it->path().string());
  if (failed)
    runtime::fail_file("load_safetensors", folder, "cannot read the folder: " + failed.message());
  std::ranges::sort(files);
  return files;
}

NamedTensors load_folder(const std::string& folder, const LoadOptions& options) {
  const fs::path path(folder);
  if (fs::exists(path / kIndex)) return load_index((path / kIndex).string(), options);
  if (fs::exists(path / kSingle)) return load_file((path / kSingle).string(), options);
  const std::vector<std::string> files = files_in(folder);
  if (files.empty())
    runtime::fail_file("load_safetensors", folder, "the folder has no file *.safetensors");
  NamedTensors all;
  std::set<std::string> names;
  for (const std::string& file : files)
    for (auto& [name, tensor] : load_file(file, options)) {
      if (!names.insert(name).second)
        runtime::fail_file("load_safetensors", file,
                           fmt::format("\"{}\" is in another file of the folder too", name));
      all.emplace_back(name, tensor);
    }
  return all;
}

/// The tensors' parts of files: each begins at one of these, up to the next.
std::vector<size_t> shards_of(const NamedTensors& tensors, int64_t max_bytes) {
  std::vector<size_t> starts{0};
  int64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t more = bytes_of(tensors[i].second);
    if (i > starts.back() && more > max_bytes - bytes) {
      starts.push_back(i);
      bytes = 0;
    }
    bytes += more;
  }
  starts.push_back(tensors.size());
  return starts;
}

/// model-00001-of-00003.safetensors, or one of our two names.
bool is_of_a_set(const std::string& name) {
  constexpr std::string_view kPattern = "model-#####-of-#####.safetensors";
  return name == kSingle || name == kIndex ||
         std::ranges::equal(name, kPattern, [](char c, char expected) {
           return expected == '#' ? c >= '0' && c <= '9' : c == expected;
         });
}

void remove_others(const std::string& folder, const std::set<std::string>& written) {
  std::vector<fs::path> others;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (is_of_a_set(name) && !written.contains(name)) others.push_back(entry.path());
  }
  for (const fs::path& path : others) fs::remove(path);
}

/// Gives the names of the files.
std::set<std::string> write_set(const std::string& folder, const NamedTensors& tensors,
                                const ShardOptions& options) {
  const std::vector<size_t> starts = shards_of(tensors, options.max_shard_bytes);
  const size_t count = starts.size() - 1;
  if (count == 1) {
    save_safetensors(folder + "/" + kSingle, tensors, options.metadata);
    return {kSingle};
  }
  if (count > 99999)
    ir::fail(Errc::Argument, fmt::format("save_sharded: {} files; expected at most 99999", count));
  std::set<std::string> files;
  std::map<std::string, std::string> file_of;
  int64_t total = 0;
  for (size_t s = 0; s < count; ++s) {
    const auto part = std::span(tensors).subspan(starts[s], starts[s + 1] - starts[s]);
    const std::string file = fmt::format("model-{:05}-of-{:05}.safetensors", s + 1, count);
    save_safetensors(folder + "/" + file, NamedTensors(part.begin(), part.end()), options.metadata);
    files.insert(file);
    for (const auto& [name, tensor] : part) {
      file_of[name] = file;
      total += bytes_of(tensor);
    }
  }
  ir::FileWriter index(folder + "/" + kIndex);
  index.write(ir::write_safetensors_index(file_of, total));
  index.commit();
  files.insert(kIndex);
  return files;
}

/// What a file of these tensors begins with.
std::string checked_header(std::string_view function, const NamedTensors& tensors,
                           const Metadata& metadata) {
  std::vector<ir::SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    runtime::require_usable(function, name, tensor);
    entries.push_back({name, tensor.impl()->type()});
  }
  return ir::write_safetensors_header(entries, metadata);
}

}  // namespace

NamedTensors load_safetensors(const std::string& path, const LoadOptions& options) {
  std::error_code none;
  if (fs::is_directory(path, none)) return load_folder(path, options);
  return path.ends_with(".json") ? load_index(path, options) : load_file(path, options);
}

Metadata safetensors_metadata(const std::string& path) {
  return runtime::reading("safetensors_metadata", path, [&] {
    return header_of(*runtime::open_tensors(path, /*mapped=*/false)).metadata;
  });
}

void runtime::write_safetensors(std::string_view function, const std::string& path,
                                const NamedTensors& tensors, const Metadata& metadata,
                                Commit commit) {
  const std::string header = checked_header(function, tensors, metadata);
  ir::FileWriter file(path);
  file.write(header);
  const NoGrad no_grad;
  for (const auto& [name, tensor] : tensors) file.write(bytes_of(tensor.contiguous()));
  commit == Commit::ToDisk ? file.commit_to_disk() : file.commit();
}

void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const Metadata& metadata) {
  runtime::write_safetensors("save_safetensors", path, tensors, metadata,
                             runtime::Commit::ToSystem);
}

void save_sharded(const std::string& folder, const NamedTensors& tensors,
                  const ShardOptions& options) {
  if (options.max_shard_bytes < 1)
    ir::fail(Errc::Argument, fmt::format("save_sharded: max_shard_bytes is {}; expected at least 1",
                                         options.max_shard_bytes));
  checked_header("save_sharded", tensors, options.metadata);
  try {
    fs::create_directories(folder);
    remove_others(folder, write_set(folder, tensors, options));
  } catch (const fs::filesystem_error& e) {
    runtime::fail_file("save_sharded", folder, e.code().message());
  }
}

}  // namespace tandem
