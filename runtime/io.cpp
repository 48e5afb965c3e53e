#include <fmt/format.h>
#include <tandem/io.h>
#include <tandem/ops.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>

#include "ir/error.h"
#include "ir/safetensors.h"
#include "runtime/tensor_impl.h"

namespace tandem {
namespace {

/// A file, read from its start on.
class InputFile {
 public:
  explicit InputFile(const std::string& path)
      : path_(path), in_(path, std::ios::binary | std::ios::ate) {
    if (!in_)
      ir::fail(Errc::File,
               fmt::format("load_safetensors: cannot open {}: {}", path, std::strerror(errno)));
    bytes_ = static_cast<size_t>(in_.tellg());
    in_.seekg(0);
  }

  size_t bytes() const { return bytes_; }
  void read(void* to, size_t bytes) {
    in_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
    if (!in_) ir::fail(Errc::File, fmt::format("load_safetensors: cannot read {}", path_));
  }

 private:
  const std::string& path_;
  std::ifstream in_;
  size_t bytes_ = 0;
};

ir::SafetensorsHeader read_header(InputFile& file) {
  std::string start(std::min<size_t>(file.bytes(), sizeof(uint64_t)), '\0');
  file.read(start.data(), start.size());
  const size_t read = start.size();
  start.resize(ir::safetensors_data_start(start, file.bytes()));
  file.read(start.data() + read, start.size() - read);
  return ir::read_safetensors_header(start, file.bytes());
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

void write_all(std::FILE* file, const void* data, size_t bytes, const std::string& path) {
  if (std::fwrite(data, 1, bytes, file) != bytes)
    ir::fail(Errc::File,
             fmt::format("save_safetensors: cannot write {}: {}", path, std::strerror(errno)));
}

}  // namespace

std::map<std::string, Tensor> load_safetensors(const std::string& path) {
  InputFile file(path);
  const ir::SafetensorsHeader header = read_header(file);
  std::map<std::string, Tensor> tensors;
  for (const ir::SafetensorsEntry& entry : header.entries) {  // in the order of their data
    const Tensor tensor = runtime::empty_tensor(entry.type.sizes, entry.type.dtype);
    if (entry.end > entry.begin) file.read(tensor.impl()->data(), entry.end - entry.begin);
    tensors.emplace(entry.name, tensor);
  }
  return tensors;
}

void save_safetensors(const std::string& path, const nn::NamedTensors& tensors) {
  std::vector<ir::SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors) entries.push_back({name, tensor.impl()->type()});
  const std::string temporary = path + ".partial";
  {
    const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(temporary.c_str(), "wb"));
    if (!file)
      ir::fail(Errc::File, fmt::format("save_safetensors: cannot create {}: {}", temporary,
                                       std::strerror(errno)));
    const std::string header = ir::write_safetensors_header(entries);
    write_all(file.get(), header.data(), header.size(), path);
    for (const auto& [name, tensor] : tensors) {
      const NoGrad no_grad;
      const Tensor dense = tensor.contiguous();
      write_all(file.get(), dense.impl()->data(),
                static_cast<size_t>(int64_t{ir::size_in_bytes(dense.impl()->type())}), path);
    }
    if (std::fflush(file.get()) != 0)
      ir::fail(Errc::File, fmt::format("save_safetensors: cannot write {}", path));
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0)
    ir::fail(Errc::File, fmt::format("save_safetensors: cannot rename {} to {}: {}", temporary,
                                     path, std::strerror(errno)));
}

void load_into(const nn::NamedTensors& module, const std::map<std::string, Tensor>& file) {
  for (const auto& [name, tensor] : module) {
    const auto it = file.find(name);
    if (it == file.end())
      ir::fail(Errc::File, fmt::format("load: the file has no tensor \"{}\"", name));
    const ir::Type expected = tensor.impl()->type(), got = it->second.impl()->type();
    if (expected != got)
      ir::fail(Errc::File, fmt::format("load: {}: expected {}, got {}", name,
                                       ir::to_string(expected), ir::to_string(got)));
  }
  if (file.size() != module.size())
    ir::fail(Errc::File, fmt::format("load: expected {} tensors, got {} in the file", module.size(),
                                     file.size()));
  const NoGrad no_grad;
  for (const auto& [name, tensor] : module) tensor.copy_(file.at(name));
}

}  // namespace tandem
