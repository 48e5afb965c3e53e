#include <fmt/format.h>
#include <tandem/io.h>
#include <tandem/ops.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>

#include "ir/error.h"
#include "ir/safetensors.h"
#include "runtime/tensor_impl.h"

namespace tandem {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in)
    ir::fail(Errc::File,
             fmt::format("load_safetensors: cannot open {}: {}", path, std::strerror(errno)));
  std::string bytes(static_cast<size_t>(in.tellg()), '\0');
  in.seekg(0);
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!in) ir::fail(Errc::File, fmt::format("load_safetensors: cannot read {}", path));
  return bytes;
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
  const std::string bytes = read_file(path);
  const ir::SafetensorsHeader header = ir::read_safetensors_header(bytes);
  std::map<std::string, Tensor> tensors;
  for (const ir::SafetensorsEntry& entry : header.entries) {
    const Tensor tensor = runtime::empty_tensor(entry.type.sizes, entry.type.dtype);
    if (entry.end > entry.begin)
      std::memcpy(tensor.impl()->data(), bytes.data() + header.data_start + entry.begin,
                  entry.end - entry.begin);
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
