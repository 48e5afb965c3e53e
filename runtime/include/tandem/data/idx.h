// The files of MNIST and its kin.
#ifndef TANDEM_DATA_IDX_H
#define TANDEM_DATA_IDX_H

#include <tandem/tensor.h>

#include <string>

namespace tandem::data {

/// An IDX file, plain or compressed by gzip: images are u8 [N,H,W], labels u8 [N]. All types of
/// elements are read (u8, i8, i16, i32, f32, f64). Error{File} if it cannot be read or is
/// malformed.
TANDEM_API Tensor load_idx(const std::string& path);

}  // namespace tandem::data

#endif  // TANDEM_DATA_IDX_H
