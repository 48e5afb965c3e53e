#include <fmt/format.h>
#include <tandem/io.h>
#include <tandem/ops.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "ir/base/error.h"
#include "ir/base/file_writer.h"
#include "ir/json/safetensors.h"
#include "runtime/tape/autograd.h"
#include "runtime/tensor/tensor_impl.h"
#include "runtime/trace/trace.h"

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
    const std::streamoff bytes = in_.tellg();
    in_.seekg(0);
    if (bytes < 0 || !in_)
      ir::fail(Errc::File, fmt::format("load_safetensors: cannot read {}: expected a file whose "
                                       "size is known, no pipe",
                                       path));
    bytes_ = static_cast<size_t>(bytes);
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

/// Error unless there are elements to read or write.
void require_usable(const char* function, const std::string& name, const Tensor& tensor) {
  if (!tensor.defined())
    ir::fail(Errc::Argument,
             fmt::format("{}: tensor \"{}\" is undefined; expected a defined one", function, name));
  runtime::require_real(tensor, fmt::format("{}: tensor \"{}\"", function, name));
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
  for (const auto& [name, tensor] : tensors) {
    require_usable("save_safetensors", name, tensor);
    entries.push_back({name, tensor.impl()->type()});
  }
  const std::string header = ir::write_safetensors_header(entries);
  ir::FileWriter file(path);
  file.write(header);
  const NoGrad no_grad;
  for (const auto& [name, tensor] : tensors) {
    const Tensor dense = tensor.contiguous();
    const auto bytes = static_cast<size_t>(int64_t{ir::size_in_bytes(dense.impl()->type())});
    file.write(dense.impl()->data(), bytes);
  }
  file.commit();
}

void load_into(const nn::NamedTensors& module, const std::map<std::string, Tensor>& file) {
  for (const auto& [name, tensor] : module) {
    require_usable("load", name, tensor);
    const auto it = file.find(name);
    if (it == file.end())
      ir::fail(Errc::File, fmt::format("load: the file has no tensor \"{}\"", name));
    require_usable("load: the file", name, it->second);
    const ir::Type expected = tensor.impl()->type(), got = it->second.impl()->type();
    if (expected != got)
      ir::fail(Errc::File, fmt::format("load: {}: expected {}, got {}", name,
                                       ir::to_string(expected), ir::to_string(got)));
  }
  if (file.size() != module.size())
    ir::fail(Errc::File, fmt::format("load: expected {} tensors, got {} in the file", module.size(),
                                     file.size()));
  const NoGrad no_grad;
  for (const auto& [name, tensor] : module) {
    const Tensor operands[] = {tensor, file.at(name)};
    runtime::check_writable(operands, ir::Op::copy);
  }
  for (const auto& [name, tensor] : module) tensor.copy_(file.at(name));
}

}  // namespace tandem
