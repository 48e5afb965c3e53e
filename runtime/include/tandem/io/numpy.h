// NumPy's files: one array (.npy), or several by name in a zip archive (.npz).
#ifndef TANDEM_IO_NUMPY_H
#define TANDEM_IO_NUMPY_H

#include <tandem/io/safetensors.h>
#include <tandem/named_tensors.h>

#include <string>

namespace tandem {

/// An array of any version of the format. Either byte order and either order of dimensions are read
/// (an array in Fortran order becomes a tensor with such strides); unsigned integers of 16 and 32
/// bits come in the next wider type, and two bytes without a type (<V2) are bf16, as ml_dtypes
/// writes it. Error{File}, which names file and problem, for arrays of structures, objects, strings
/// or complex numbers and for what is malformed.
TANDEM_API Tensor load_npy(const std::string& path, const LoadOptions& options = {});
/// Writes version 1.0, in C order, in one step (see save_safetensors).
TANDEM_API void save_npy(const std::string& path, const Tensor& tensor);

/// The arrays of an archive, stored or deflated, by name without ".npy", in the archive's order.
TANDEM_API NamedTensors load_npz(const std::string& path);
struct NpzOptions {
  bool compress = false;  // numpy.savez_compressed
};
TANDEM_API void save_npz(const std::string& path, const NamedTensors& tensors,
                         const NpzOptions& options = {});

}  // namespace tandem

#endif  // TANDEM_IO_NUMPY_H
