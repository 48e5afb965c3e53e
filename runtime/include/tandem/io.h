// Reading and writing tensors as safetensors files.
#ifndef TANDEM_IO_H
#define TANDEM_IO_H

#include <tandem/nn.h>
#include <tandem/tensor.h>

#include <map>
#include <string>

namespace tandem {

/// All tensors of a safetensors file, by name. Error{File} for a file that cannot be read or is
/// malformed.
TANDEM_API std::map<std::string, Tensor> load_safetensors(const std::string& path);

/// Writes the tensors to `path`, through a temporary file beside it that then takes its place (and
/// keeps its owner and mode; symbolic links are followed, devices and pipes written themselves).
/// Error, and no file, for undefined or traced tensors and for names that are not UTF-8 or not
/// unique.
TANDEM_API void save_safetensors(const std::string& path, const nn::NamedTensors& tensors);

/// Copies the file's tensors into the module's, by name; names, dtypes and sizes must agree
/// exactly, and nothing changes if they do not.
TANDEM_API void load_into(const nn::NamedTensors& module,
                          const std::map<std::string, Tensor>& file);

template <class Module>
void save(const std::string& path, const Module& module) {
  save_safetensors(path, nn::named_tensors(module));
}
template <class Module>
void load(const std::string& path, Module& module) {
  load_into(nn::named_tensors(module), load_safetensors(path));
}

}  // namespace tandem

#endif  // TANDEM_IO_H
