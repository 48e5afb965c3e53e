// Files of tensors: safetensors, NumPy's.
#ifndef TANDEM_IO_H
#define TANDEM_IO_H

#include <tandem/io/numpy.h>
#include <tandem/io/safetensors.h>
#include <tandem/named_tensors.h>
#include <tandem/nn.h>

#include <string>

namespace tandem {

/// Copies the file's tensors into the module's, by name; names, dtypes and sizes must agree
/// exactly, and nothing changes if they do not.
TANDEM_API void load_into(const NamedTensors& module, const NamedTensors& file);

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
