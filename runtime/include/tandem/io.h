// Files of tensors: safetensors, NumPy's.
#ifndef TANDEM_IO_H
#define TANDEM_IO_H

#include <tandem/io/numpy.h>
#include <tandem/io/safetensors.h>
#include <tandem/named_tensors.h>
#include <tandem/nn.h>

#include <string>

namespace tandem {

/// Writes nn::state_dict(module), each tensor once, under its first name.
template <class Module>
void save(const std::string& path, const Module& module) {
  save_safetensors(path, nn::named_tensors(module));
}
/// nn::load_state_dict of the file's tensors. Error{File}, and nothing changed, if they do not fit.
template <class Module>
nn::LoadStateReport load(const std::string& path, const Module& module,
                         const nn::LoadStateOptions& options = {}) {
  return nn::fields::load_state_dict(structure::fields_of(module), load_safetensors(path), options,
                                     path);
}

}  // namespace tandem

#endif  // TANDEM_IO_H
