#include "runtime/io/image.h"

#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/data/image.h>
#include <tandem/ops.h>

#include "ir/base/error.h"
#include "ir/base/file_writer.h"
#include "runtime/io/files.h"
#include "runtime/io/require_usable.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::data {
namespace {

/// Of u8 [H,W,3]: Rec. 601 in 16 bits, rounded.
Tensor luminance(const Tensor& rgb) {
  constexpr uint32_t kRed = 19595, kGreen = 38470, kBlue = 7471, kHalf = 1 << 15;
  Tensor gray = runtime::empty_tensor({rgb.size(0), rgb.size(1), 1}, u8);
  const auto* from = static_cast<const uint8_t*>(rgb.impl()->data());
  auto* to = static_cast<uint8_t*>(gray.impl()->data());
  for (int64_t i = 0; i < gray.numel(); ++i, from += 3)
    to[i] =
        static_cast<uint8_t>((from[0] * kRed + from[1] * kGreen + from[2] * kBlue + kHalf) >> 16);
  return gray;
}

/// u8 [H,W,C] with the channels that are asked for.
Tensor in_mode(const Tensor& image, ImageMode mode) {
  const int64_t channels = image.size(2);
  if (mode == ImageMode::Unchanged) return image;
  const Tensor colours = slice(image, 2, 0, channels > 2 ? 3 : 1);
  if (mode == ImageMode::Gray) return channels > 2 ? luminance(colours.contiguous()) : colours;
  return channels > 2 ? colours : colours.expand({image.size(0), image.size(1), 3});
}

/// u8 [H,W,C].
Tensor bytes_of_image(const Tensor& image) {
  runtime::require_usable("save_png", "image", image);
  const Tensor planes = image.dim() == 2 ? image.unsqueeze(0) : image;
  if (planes.dim() != 3 || planes.size(0) < 1 || planes.size(0) > 4 || planes.numel() == 0)
    ir::fail(Errc::Shape, fmt::format("save_png: {}; expected [H,W], or [C,H,W] of 1 to 4 channels",
                                      ir::to_string(image.impl()->type())));
  const bool floats = ir::is_floating(image.dtype());
  if (!floats && image.dtype() != u8)
    ir::fail(Errc::DType,
             fmt::format("save_png: {}; expected u8 or floats in [0, 1]", ir::name(image.dtype())));
  const Tensor bytes =
      floats ? nan_to_num(planes.to(f32)).clamp(0, 1).mul(255).round().to(u8) : planes;
  return bytes.permute({1, 2, 0}).contiguous();
}

}  // namespace

Tensor decode_image(std::string_view bytes, const ImageOptions& options) {
  if (!runtime::is_png(bytes) && !runtime::is_jpeg(bytes))
    ir::fail(Errc::File, "neither a PNG nor a JPEG image");
  const auto decode = runtime::is_png(bytes) ? runtime::decode_png : runtime::decode_jpeg;
  const NoGrad no_grad;
  return in_mode(decode(bytes, options.max_pixels), options.mode).permute({2, 0, 1}).contiguous();
}

Tensor load_image(const std::string& path, const ImageOptions& options) {
  return runtime::reading("load_image", path,
                          [&] { return decode_image(runtime::read_file(path), options); });
}

void save_png(const std::string& path, const Tensor& image) {
  const NoGrad no_grad;
  const Tensor pixels = bytes_of_image(image);
  const std::string contents =
      runtime::encode_png(static_cast<const unsigned char*>(pixels.impl()->data()),
                          {pixels.size(0), pixels.size(1), pixels.size(2)});
  ir::FileWriter file(path);
  file.write(contents);
  file.commit();
}

Tensor image_grid(const Tensor& images, int64_t columns, int64_t padding) {
  runtime::require_usable("image_grid", "images", images);
  if (images.dim() != 4 || images.numel() == 0 || columns < 1 || padding < 0)
    ir::fail(Errc::Shape, fmt::format("image_grid: {} in {} columns with padding {}; expected "
                                      "images [N,C,H,W]",
                                      ir::to_string(images.impl()->type()), columns, padding));
  const int64_t count = images.size(0), height = images.size(2) + padding,
                width = images.size(3) + padding, rows = (count - 1) / columns + 1;
  columns = std::min(columns, count);
  const NoGrad no_grad;
  Tensor grid =
      zeros({images.size(1), rows * height + padding, columns * width + padding}, images.dtype());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t y = i / columns * height + padding, x = i % columns * width + padding;
    grid.slice(1, y, y + height - padding).slice(2, x, x + width - padding) = images[i];
  }
  return grid;
}

}  // namespace tandem::data
