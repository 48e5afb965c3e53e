// What is done to images on their way into a batch, as in torchvision.transforms. A transform is
// called with an image [..., C, H, W] (often u8, as files give it) and, if it is random, with the
// sample's random numbers: all images of one call are treated alike. Error{Shape} for what has no
// such dimensions.
//
//   namespace tf = td::transforms;
//   auto train = td::transforms::on_first(dataset, tf::Compose(tf::RandomCrop{{32, 32}, 4},
//                                         tf::RandomHorizontalFlip(), tf::ToFloat(),
//                                         tf::Normalize{{0.49, 0.48, 0.45}, {0.25, 0.24, 0.26}}));
#ifndef TANDEM_DATA_TRANSFORMS_H
#define TANDEM_DATA_TRANSFORMS_H

#include <tandem/data/dataset.h>
#include <tandem/data/random.h>
#include <tandem/tensor.h>

#include <concepts>
#include <tuple>
#include <utility>
#include <vector>

namespace tandem::transforms {

using data::Random;

struct Size {
  int64_t height = 0, width = 0;
};

// --- always the same

/// Bytes 0 to 255 become 0 to 1; integers of other types are divided by their largest value; floats
/// are converted: torchvision's ConvertImageDtype.
struct ToFloat {
  DType dtype = f32;
  TANDEM_API Tensor operator()(const Tensor& image) const;
};

/// (x - mean) / std of each channel. Of floats; one mean and std, or one for each channel.
struct Normalize {
  std::vector<double> mean, std;
  TANDEM_API Tensor operator()(const Tensor& image) const;
};

/// The middle; an image that is smaller is first padded with zeros.
struct CenterCrop {
  Size size;
  TANDEM_API Tensor operator()(const Tensor& image) const;
};

/// Bilinear (or "nearest", "bicubic"), with antialiasing; integers are rounded.
struct Resize {
  Size size;
  std::string_view mode = "bilinear";
  bool antialias = true;
  TANDEM_API Tensor operator()(const Tensor& image) const;
};

/// Rows and columns [top, top + height), [left, left + width). Error{Index} unless they are there.
TANDEM_API Tensor crop(const Tensor& image, int64_t top, int64_t left, Size size);

/// In this order: shear, scale, turn (clockwise), move. The middle of the image stays.
struct AffineOptions {
  double angle = 0;                         // degrees
  double translate_x = 0, translate_y = 0;  // pixels
  double scale = 1;
  double shear_x = 0, shear_y = 0;    // degrees
  std::string_view mode = "nearest";  // or "bilinear"; outside the image is 0
};
/// torchvision.transforms.functional.affine.
TANDEM_API Tensor affine(const Tensor& image, const AffineOptions& options);

// --- at random

/// A part of this size of the image with `padding` pixels of `fill` on each side; and with as many
/// more as it lacks, if `pad_if_needed`.
struct RandomCrop {
  Size size;
  int64_t padding = 0;
  double fill = 0;
  bool pad_if_needed = false;
  TANDEM_API Tensor operator()(const Tensor& image, Random& random) const;
};

/// A part of such an area (of the image's) and ratio of width to height, resized.
struct RandomResizedCrop {
  Size size;
  double least_scale = 0.08, most_scale = 1;
  double least_ratio = 3.0 / 4, most_ratio = 4.0 / 3;
  std::string_view mode = "bilinear";
  bool antialias = true;
  TANDEM_API Tensor operator()(const Tensor& image, Random& random) const;
};

struct RandomHorizontalFlip {
  double p = 0.5;
  TANDEM_API Tensor operator()(const Tensor& image, Random& random) const;
};
struct RandomVerticalFlip {
  double p = 0.5;
  TANDEM_API Tensor operator()(const Tensor& image, Random& random) const;
};

/// Turned by up to `degrees` either way, moved by up to these fractions of width and height, scaled
/// and sheared. torchvision's RandomRotation is RandomAffine{.degrees = d}.
struct RandomAffine {
  double degrees = 0;
  double translate_x = 0, translate_y = 0;
  double least_scale = 1, most_scale = 1;
  double shear_degrees = 0;  // along x
  std::string_view mode = "nearest";
  TANDEM_API Tensor operator()(const Tensor& image, Random& random) const;
};

/// With probability p, a rectangle of such an area and ratio of height to width becomes `value`.
struct RandomErasing {
  double p = 0.5;
  double least_scale = 0.02, most_scale = 0.33;
  double least_ratio = 0.3, most_ratio = 3.3;
  double value = 0;
  TANDEM_API Tensor operator()(const Tensor& image, Random& random) const;
};

// --- put together

/// `transform(value)`, or `transform(value, random)`.
template <class T, class Value>
auto apply(const T& transform, const Value& value, Random& random) {
  if constexpr (std::invocable<const T&, const Value&, Random&>)
    return transform(value, random);
  else
    return transform(value);
}

/// One after the other.
template <class... T>
class Compose {
 public:
  explicit Compose(T... transforms) : transforms_(std::move(transforms)...) {}
  Tensor operator()(Tensor image, Random& random) const {
    std::apply(
        [&](const auto&... transform) {
          ((image = transforms::apply(transform, image, random)), ...);
        },
        transforms_);
    return image;
  }

 private:
  std::tuple<T...> transforms_;
};

/// A data set of pairs or tuples whose first part is transformed.
template <data::Dataset D, class T>
auto on_first(D dataset, T transform) {
  return data::MapDataset(
      std::move(dataset), [transform = std::move(transform)](data::ItemOf<D> item, Random& random) {
        std::get<0>(item) = transforms::apply(transform, std::get<0>(item), random);
        return item;
      });
}

}  // namespace tandem::transforms

#endif  // TANDEM_DATA_TRANSFORMS_H
