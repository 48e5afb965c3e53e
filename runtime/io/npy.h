// The format of one NumPy array: "\x93NUMPY", a version, the length of a header, the header (a
// Python dict of descr, fortran_order and shape), then the elements.
#ifndef TANDEM_RUNTIME_IO_NPY_H
#define TANDEM_RUNTIME_IO_NPY_H

#include <tandem/tensor.h>

#include <string>

#include "runtime/io/files.h"

namespace tandem::runtime {

/// Error{File} says what is malformed.
Tensor read_npy(const TensorSource& source);
/// All before the elements, for a tensor that is written in C order.
std::string npy_header(const Tensor& tensor);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_IO_NPY_H
