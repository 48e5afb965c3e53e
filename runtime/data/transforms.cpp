#include <fmt/format.h>
#include <tandem/data/transforms.h>
#include <tandem/ops.h>
#include <tandem/ops/networks.h>
#include <tandem/ops/shapes.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ir/base/error.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::transforms {
namespace {

/// Height and width.
Size size_of(const char* transform, const Tensor& image) {
  if (!image.defined() || image.dim() < 3)
    ir::fail(Errc::Shape,
             fmt::format("{}: expected an image [..., C, H, W], got {}", transform,
                         image.defined() ? ir::to_string(image.impl()->type()) : "none"));
  return {image.size(-2), image.size(-1)};
}

void check_size(const char* transform, Size size) {
  if (size.height < 1 || size.width < 1)
    ir::fail(Errc::Argument, fmt::format("{}: size {} x {}; expected at least 1", transform,
                                         size.height, size.width));
}

void check_range(const char* transform, const char* what, double least, double most, double from) {
  if (!(least >= from) || !(most >= least) || !std::isfinite(most))
    ir::fail(Errc::Argument, fmt::format("{}: {} from {} to {}; expected a range of numbers of at "
                                         "least {}",
                                         transform, what, least, most, from));
}

void check_probability(const char* transform, double p) {
  if (!(p >= 0 && p <= 1))
    ir::fail(Errc::Argument, fmt::format("{}: p is {}; expected a probability", transform, p));
}

/// `f` of floats [N,C,H,W], whatever the dtype and the dimensions in front; integers are rounded.
template <class F>
Tensor on_floats(const Tensor& image, F f) {
  Shape sizes = image.sizes();
  const DType dtype = image.dtype();
  const bool floats = ir::is_floating(dtype);
  const Tensor four = image.reshape(
      {-1, sizes[sizes.size() - 3], sizes[sizes.size() - 2], sizes[sizes.size() - 1]});
  Tensor out = f(floats ? four : four.to(f32));
  sizes[sizes.size() - 2] = out.size(2);
  sizes[sizes.size() - 1] = out.size(3);
  if (dtype == u8) out = out.clamp(0, 255);
  return (floats ? out : out.round().to(dtype)).reshape(sizes);
}

struct Rectangle {
  int64_t top = 0, left = 0;
  Size size;
};

/// Ten tries of a rectangle within `image`, of a share of its area and a ratio of height to width
/// in these ranges, the ratio's logarithm uniform. Its size is zero if none fits.
Rectangle random_rectangle(Size image, double least_scale, double most_scale, double least_ratio,
                           double most_ratio, Random& random) {
  const auto area = static_cast<double>(image.height * image.width);
  for (int tries = 0; tries < 10; ++tries) {
    const double target = area * random.uniform(least_scale, most_scale);
    const double ratio = std::exp(random.uniform(std::log(least_ratio), std::log(most_ratio)));
    const Size size{std::lround(std::sqrt(target * ratio)), std::lround(std::sqrt(target / ratio))};
    const int64_t rows = image.height - size.height, columns = image.width - size.width;
    if (size.height < 1 || size.width < 1 || rows < 0 || columns < 0) continue;
    const int64_t top = random.below(rows + 1);
    return {top, random.below(columns + 1), size};
  }
  return {};
}

double radians(double degrees) { return degrees * std::numbers::pi / 180; }

/// From places of the result to places of the image, in pixels from the middle: two rows of three.
struct Placement {
  double xx, xy, x, yx, yy, y;
};
Placement inverse(const AffineOptions& o) {
  const double turn = radians(o.angle), shear_x = std::tan(radians(o.shear_x)),
               shear_y = radians(o.shear_y);
  const double a = std::cos(turn - shear_y) / std::cos(shear_y), b = -a * shear_x - std::sin(turn),
               c = std::sin(turn - shear_y) / std::cos(shear_y), d = -c * shear_x + std::cos(turn);
  Placement p{d / o.scale, -b / o.scale, 0, -c / o.scale, a / o.scale, 0};
  p.x = -p.xx * o.translate_x - p.xy * o.translate_y;
  p.y = -p.yx * o.translate_x - p.yy * o.translate_y;
  return p;
}

double largest(DType dtype) {
  constexpr std::pair<DType, double> kLargest[] = {
      {u8, 255}, {i8, 127}, {i16, 32767}, {i32, 2147483647}, {i64, 0x1p63}};
  for (const auto& [integer, value] : kLargest)
    if (integer == dtype) return value;
  return 1;  // Bool
}

/// One number for all channels, or one for each: [n, 1, 1].
Tensor of_channels(const std::vector<double>& numbers, const Tensor& image) {
  const auto count = static_cast<int64_t>(numbers.size());
  if (count != 1 && count != int64_t{image.size(-3)})
    ir::fail(Errc::Shape,
             fmt::format("Normalize: {} numbers for {} channels", count, int64_t{image.size(-3)}));
  Tensor out = runtime::empty_tensor({count, 1, 1}, f64);
  std::ranges::copy(numbers, static_cast<double*>(out.impl()->data()));
  return out.to(image.dtype());
}

}  // namespace

Tensor ToFloat::operator()(const Tensor& image) const {
  if (!ir::is_floating(dtype))
    ir::fail(Errc::DType, fmt::format("ToFloat: {}; expected a float", ir::name(dtype)));
  if (ir::is_floating(image.dtype())) return image.to(dtype);
  return image.to(dtype) / largest(image.dtype());
}

Tensor Normalize::operator()(const Tensor& image) const {
  size_of("Normalize", image);
  if (!ir::is_floating(image.dtype()))
    ir::fail(Errc::DType, fmt::format("Normalize: {}; expected floats (ToFloat before it)",
                                      ir::name(image.dtype())));
  for (const double number : std)
    if (number == 0) ir::fail(Errc::Argument, "Normalize: a std of 0");
  return (image - of_channels(mean, image)) / of_channels(std, image);
}

Tensor crop(const Tensor& image, int64_t top, int64_t left, Size size) {
  const Size from = size_of("crop", image);
  check_size("crop", size);
  if (top < 0 || left < 0 || top > from.height - size.height || left > from.width - size.width)
    ir::fail(Errc::Index, fmt::format("crop: {} x {} pixels at row {}, column {} of {} x {}",
                                      size.height, size.width, top, left, from.height, from.width));
  return image.slice(-2, top, top + size.height).slice(-1, left, left + size.width);
}

Tensor CenterCrop::operator()(const Tensor& image) const {
  const Size from = size_of("CenterCrop", image);
  check_size("CenterCrop", size);
  const int64_t rows = std::max<int64_t>(size.height - from.height, 0),
                columns = std::max<int64_t>(size.width - from.width, 0);
  const Tensor padded =
      pad(image, std::vector<Dim>{columns / 2, (columns + 1) / 2, rows / 2, (rows + 1) / 2});
  // Halves are rounded to even, as Python does.
  const auto start = [](int64_t length, int64_t part) {
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(length - part) / 2));
  };
  return crop(padded, start(from.height + rows, size.height),
              start(from.width + columns, size.width), size);
}

Tensor Resize::operator()(const Tensor& image) const {
  size_of("Resize", image);
  check_size("Resize", size);
  return on_floats(image, [&](const Tensor& x) {
    return interpolate(x, {.size = {size.height, size.width},
                           .mode = mode,
                           .antialias = antialias && mode != "nearest"});
  });
}

Tensor affine(const Tensor& image, const AffineOptions& options) {
  const Size size = size_of("affine", image);
  if (!(options.scale > 0))
    ir::fail(Errc::Argument,
             fmt::format("affine: scale is {}; expected a positive number", options.scale));
  const Placement p = inverse(options);
  const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  // In affine_grid's places, from -1 to 1.
  const Tensor theta = tensor({{p.xx, p.xy * height / width, p.x * 2 / width},
                               {p.yx * width / height, p.yy, p.y * 2 / height}},
                              f64);
  return on_floats(image, [&](const Tensor& x) {
    const Tensor each = theta.unsqueeze(0).expand({x.size(0), 2, 3});
    return grid_sample(x, affine_grid(each, x.sizes()).to(x.dtype()), {.mode = options.mode});
  });
}

Tensor RandomCrop::operator()(const Tensor& image, Random& random) const {
  Size from = size_of("RandomCrop", image);
  check_size("RandomCrop", size);
  if (padding < 0) ir::fail(Errc::Argument, fmt::format("RandomCrop: padding is {}", padding));
  int64_t rows = padding, columns = padding;
  if (pad_if_needed) {
    rows += std::max<int64_t>(size.height - from.height - 2 * rows, 0);
    columns += std::max<int64_t>(size.width - from.width - 2 * columns, 0);
  }
  from = {from.height + 2 * rows, from.width + 2 * columns};
  if (size.height > from.height || size.width > from.width)
    ir::fail(Errc::Shape, fmt::format("RandomCrop: {} x {} pixels of {} x {}", size.height,
                                      size.width, from.height, from.width));
  const Tensor padded = rows > 0 || columns > 0
                            ? pad(image, std::vector<Dim>{columns, columns, rows, rows}, fill)
                            : image;
  const int64_t top = random.below(from.height - size.height + 1);
  return crop(padded, top, random.below(from.width - size.width + 1), size);
}

Tensor RandomResizedCrop::operator()(const Tensor& image, Random& random) const {
  const Size from = size_of("RandomResizedCrop", image);
  check_range("RandomResizedCrop", "scale", least_scale, most_scale, 0);
  check_range("RandomResizedCrop", "ratio", least_ratio, most_ratio, 1e-6);
  const Rectangle part =
      random_rectangle(from, least_scale, most_scale, 1 / most_ratio, 1 / least_ratio, random);
  const Resize resize{size, mode, antialias};
  if (part.size.height > 0) return resize(crop(image, part.top, part.left, part.size));
  // The largest middle part of a ratio that is allowed.
  const auto height = static_cast<double>(from.height), width = static_cast<double>(from.width);
  const double ratio = std::clamp(width / height, least_ratio, most_ratio);
  const Size middle{std::min(from.height, std::lround(width / ratio)),
                    std::min(from.width, std::lround(height * ratio))};
  return resize(CenterCrop{middle}(image));
}

Tensor RandomHorizontalFlip::operator()(const Tensor& image, Random& random) const {
  size_of("RandomHorizontalFlip", image);
  check_probability("RandomHorizontalFlip", p);
  return random.chance(p) ? image.flip({-1}) : image;
}

Tensor RandomVerticalFlip::operator()(const Tensor& image, Random& random) const {
  size_of("RandomVerticalFlip", image);
  check_probability("RandomVerticalFlip", p);
  return random.chance(p) ? image.flip({-2}) : image;
}

Tensor RandomAffine::operator()(const Tensor& image, Random& random) const {
  const Size size = size_of("RandomAffine", image);
  check_range("RandomAffine", "scale", least_scale, most_scale, 1e-6);
  AffineOptions options{.angle = random.uniform(-degrees, degrees), .mode = mode};
  const double x = translate_x * static_cast<double>(size.width),
               y = translate_y * static_cast<double>(size.height);
  options.translate_x = std::round(random.uniform(-x, x));
  options.translate_y = std::round(random.uniform(-y, y));
  options.scale = random.uniform(least_scale, most_scale);
  options.shear_x = random.uniform(-shear_degrees, shear_degrees);
  return affine(image, options);
}

Tensor RandomErasing::operator()(const Tensor& image, Random& random) const {
  const Size from = size_of("RandomErasing", image);
  check_probability("RandomErasing", p);
  check_range("RandomErasing", "scale", least_scale, most_scale, 0);
  check_range("RandomErasing", "ratio", least_ratio, most_ratio, 1e-6);
  if (!random.chance(p)) return image;
  const Rectangle part =
      random_rectangle(from, least_scale, most_scale, least_ratio, most_ratio, random);
  Tensor out = image.clone();
  if (part.size.height > 0) crop(out, part.top, part.left, part.size).fill_(value);
  return out;
}

}  // namespace tandem::transforms
