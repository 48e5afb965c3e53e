// Image files: PNG and JPEG as tensors of bytes [C,H,W].
#ifndef TANDEM_DATA_IMAGE_H
#define TANDEM_DATA_IMAGE_H

#include <tandem/tensor.h>

#include <string>
#include <string_view>

namespace tandem::data {

enum class ImageMode : uint8_t {
  Unchanged,  // as the file has it
  Gray,       // 1 channel: 0.299 R + 0.587 G + 0.114 B, rounded
  Rgb,        // 3 channels; alpha is dropped
};

struct ImageOptions {
  ImageMode mode = ImageMode::Unchanged;
  int64_t max_pixels = int64_t{1} << 27;  // a larger image is an Error
};

/// torchvision.io.read_image: a PNG or JPEG file as u8 [C,H,W], of 1 (gray), 2 (gray, alpha), 3
/// (RGB) or 4 (RGB, alpha) channels. Palettes become colours, 16 bits are scaled to 8. Files may
/// come from anywhere: Error{File}, which names file and problem, for all that is malformed or ends
/// too early; memory is bounded by the file's size and by max_pixels.
TANDEM_API Tensor load_image(const std::string& path, const ImageOptions& options = {});
/// The same from a file's bytes.
TANDEM_API Tensor decode_image(std::string_view bytes, const ImageOptions& options = {});

/// Writes a PNG file in one step: [C,H,W] with 1 to 4 channels, or [H,W]; u8, or floats, of which
/// 0 becomes 0 and 1 becomes 255 (what is outside is clamped, NaN is 0).
TANDEM_API void save_png(const std::string& path, const Tensor& image);

/// torchvision.utils.make_grid: images [N,C,H,W] in rows of `columns`, with `padding` zeros around
/// each: [C, rows (H + padding) + padding, columns (W + padding) + padding].
TANDEM_API Tensor image_grid(const Tensor& images, int64_t columns = 8, int64_t padding = 2);

}  // namespace tandem::data

#endif  // TANDEM_DATA_IMAGE_H
