// What the decoders of image files have in common.
#ifndef TANDEM_RUNTIME_IO_IMAGE_H
#define TANDEM_RUNTIME_IO_IMAGE_H

#include <tandem/tensor.h>

#include <string>
#include <string_view>

namespace tandem::runtime {

/// Rows of pixels, the channels of each together.
struct ImageSize {
  int64_t height = 0, width = 0, channels = 0;
};

bool is_png(std::string_view bytes);
bool is_jpeg(std::string_view bytes);

/// u8 [H,W,C]. Error{File} says what is malformed.
Tensor decode_png(std::string_view bytes, int64_t max_pixels);
Tensor decode_jpeg(std::string_view bytes, int64_t max_pixels);
/// A file of `pixels` in that order.
std::string encode_png(const unsigned char* pixels, const ImageSize& size);

/// Error{File} unless there are pixels, at most `max_pixels`, and at most `per_byte` for each byte
/// of the file.
void check_pixels(const ImageSize& size, int64_t max_pixels, size_t file_bytes, int64_t per_byte);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_IO_IMAGE_H
