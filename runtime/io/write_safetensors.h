// Writing a safetensors file for whoever needs more than save_safetensors.
#ifndef TANDEM_RUNTIME_IO_WRITE_SAFETENSORS_H
#define TANDEM_RUNTIME_IO_WRITE_SAFETENSORS_H

#include <tandem/io/safetensors.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::runtime {

/// Where a new file is when it takes the old one's place: with the system, which may crash, or on
/// the disk.
enum class Commit : uint8_t { ToSystem, ToDisk };

/// save_safetensors, for the errors of `function`.
void write_safetensors(std::string_view function, const std::string& path,
                       const NamedTensors& tensors, const Metadata& metadata, Commit commit);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_IO_WRITE_SAFETENSORS_H
