// Transforms of images.
#include <gtest/gtest.h>
#include <tandem/data.h>
#include <tandem/data/transforms.h>
#include <tandem/tandem.h>

#include <cmath>
#include <map>

#include "tests/support/expect_error.h"

namespace tandem {
namespace {

namespace tf = transforms;
using data::Random;
using testing::expect_error;
using Numbers = std::vector<double>;

Tensor image(int64_t height = 4, int64_t width = 6, DType dtype = u8) {
  return arange(2 * height * width).reshape({2, height, width}).to(dtype);
}

TEST(Transforms, ToFloatAndNormalize) {
  EXPECT_EQ(tf::ToFloat()(tensor({0, 255}, u8)).to_vector<double>(), (Numbers{0, 1}));
  EXPECT_EQ(tf::ToFloat{f64}(tensor({-32767}, i16)).to_vector<double>(), (Numbers{-1}));
  EXPECT_EQ(tf::ToFloat{bf16}(tensor({0.5})).dtype(), bf16);
  EXPECT_EQ(tf::ToFloat()(tensor({true})).item(), 1);
  const Tensor x = ones({5, 2, 1, 1});
  EXPECT_EQ(tf::Normalize({{1, 3}, {1, 4}})(x)[0].to_vector<double>(), (Numbers{0, -0.5}));
  EXPECT_EQ(tf::Normalize({{3}, {2}})(x).sizes(), x.sizes());
  expect_error(Errc::Shape, "3 numbers for 2 channels", [&] { tf::Normalize{{1, 2, 3}, {1}}(x); });
  expect_error(Errc::Argument, "a std of 0", [&] { tf::Normalize{{1}, {0}}(x); });
  expect_error(Errc::DType, "u8; expected floats", [&] { tf::Normalize{{1}, {1}}(image()); });
  expect_error(Errc::DType, "expected a float", [&] { tf::ToFloat{i32}(x); });
}

TEST(Transforms, CropsAreViewsOfTheMiddle) {
  const Tensor x = image();
  EXPECT_TRUE(equal(tf::CenterCrop{{2, 2}}(x), x.slice(1, 1, 3).slice(2, 2, 4)));
  // (4 - 3) / 2 and (6 - 3) / 2 are rounded to even.
  EXPECT_TRUE(equal(tf::CenterCrop{{3, 3}}(x), x.slice(1, 0, 3).slice(2, 2, 5)));
  const Tensor padded = tf::CenterCrop{{5, 2}}(x);
  EXPECT_EQ(padded.sizes(), (Shape{2, 5, 2}));
  EXPECT_EQ(padded.slice(1, 4, 5).sum().item(), 0);
  EXPECT_TRUE(tf::crop(x, 1, 2, {2, 3}).shares_storage(x));
  for (const tf::Size size : {tf::Size{4, 2}, tf::Size{2, 6}})
    expect_error(Errc::Index, "at row 1, column 1 of 4 x 6", [&] { tf::crop(x, 1, 1, size); });
  expect_error(Errc::Index, "crop", [&] { tf::crop(x, -1, 0, {1, 1}); });
  expect_error(Errc::Argument, "expected at least 1", [&] { tf::crop(x, 0, 0, {0, 1}); });
  expect_error(Errc::Shape, "expected an image [..., C, H, W], got u8[4, 6]",
               [&] { tf::crop(x[0], 0, 0, {1, 1}); });
  expect_error(Errc::Shape, "got none", [&] { tf::CenterCrop{{1, 1}}(Tensor()); });
}

TEST(Transforms, ResizeIsInterpolate) {
  const Tensor x = image(8, 6, f32);
  const Tensor expected =
      interpolate(x.unsqueeze(0), {.size = {4, 9}, .mode = "bilinear", .antialias = true})[0];
  EXPECT_TRUE(equal(tf::Resize{{4, 9}}(x), expected));
  EXPECT_TRUE(equal(tf::Resize{{4, 9}}(x.to(u8)), expected.round().to(u8)));
  EXPECT_EQ(tf::Resize({{4, 9}, "nearest"})(x.expand({5, 2, 8, 6})).sizes(), (Shape{5, 2, 4, 9}));
  // Overshoots are clamped.
  const Tensor edge = cat({zeros({1, 4, 4}), full({1, 4, 4}, 255)}, 2).to(u8);
  EXPECT_EQ(tf::Resize({{8, 16}, "bicubic"})(edge).max().item(), 255);
  EXPECT_EQ(tf::Resize({{8, 16}, "bicubic"})(edge).min().item(), 0);
}

TEST(Transforms, AffineTurnsMovesAndScales) {
  const Tensor x = image(5, 5, f32);
  const auto same = [&](const tf::AffineOptions& options, const Tensor& expected) {
    EXPECT_TRUE(allclose(tf::affine(x, options), expected, 1e-5, 1e-4));
  };
  same({}, x);
  same({.angle = 90}, rot90(x, -1, {1, 2}));  // clockwise
  same({.angle = 180}, x.flip({1, 2}));
  same({.angle = 90, .mode = "bilinear"}, rot90(x, -1, {1, 2}));
  same({.translate_x = 1, .translate_y = 2},
       pad(x, std::vector<Dim>{1, 0, 2, 0}).slice(1, 0, 5).slice(2, 0, 5));
  // Not square: a turn by a right angle shows the middle.
  const Tensor wide = image(3, 5, f32);
  EXPECT_TRUE(allclose(tf::affine(wide, {.angle = 90}).slice(2, 1, 4),
                       rot90(wide.slice(2, 1, 4), -1, {1, 2}), 1e-5, 1e-4));
  const Tensor larger = tf::affine(x, {.scale = 3});
  EXPECT_EQ(larger[0][1][1].item(), x[0][2][2].item());
  const Tensor sheared = tf::affine(x, {.shear_x = 45});
  EXPECT_TRUE(allclose(sheared.select(1, 2), x.select(1, 2)));
  EXPECT_EQ(tf::affine(x.to(u8), {.angle = 30}).dtype(), u8);
  expect_error(Errc::Argument, "scale is 0", [&] { tf::affine(x, {.scale = 0}); });
}

TEST(Transforms, RandomOnesFollowFromTheirNumbers) {
  const Tensor x = image(20, 16);
  const auto check = [&](const auto& transform) {
    const auto with = [&](uint64_t seed) {
      Random random(seed);
      return transform(x, random);
    };
    EXPECT_TRUE(equal(with(1), with(1)));
    int differ = 0;
    for (uint64_t seed = 2; seed < 12; ++seed)
      differ += with(seed).sizes() == with(1).sizes() && !equal(with(seed), with(1));
    EXPECT_GT(differ, 1);
  };
  check(tf::RandomCrop{{20, 16}, 4});
  check(tf::RandomCrop{{30, 16}, 0, 7, true});
  check(tf::RandomResizedCrop{{8, 8}});
  check(tf::RandomHorizontalFlip());
  check(tf::RandomVerticalFlip());
  check(tf::RandomAffine{.degrees = 20,
                         .translate_x = 0.2,
                         .translate_y = 0.2,
                         .least_scale = 0.8,
                         .most_scale = 1.2,
                         .shear_degrees = 5});
  check(tf::RandomErasing());
  check(tf::Compose(tf::RandomCrop{{20, 16}, 2}, tf::RandomHorizontalFlip(), tf::ToFloat()));
  EXPECT_TRUE(equal(x, image(20, 16)));  // nothing wrote it
}

TEST(Transforms, CropsAreEven) {
  const Tensor x = image(3, 3);
  std::map<double, int> corners;
  Random random(1);
  for (int i = 0; i < 2500; ++i)
    ++corners[tf::RandomCrop{{3, 3}, 2, 100}(x, random)[0][2][2].item()];
  // 25 places, of which 9 show a pixel of the image in the corner.
  EXPECT_EQ(corners.size(), 10u);
  for (const auto& [value, count] : corners)
    EXPECT_NEAR(count, value == 100 ? 1600 : 100, value == 100 ? 120 : 45);
}

TEST(Transforms, ErasingKeepsToItsRanges) {
  const Tensor x = ones({1, 20, 20});
  Random random(3);
  double least = 400, most = 0;
  for (int i = 0; i < 200; ++i) {
    const double erased = 400 - tf::RandomErasing{.p = 1}(x, random).sum().item();
    least = std::min(least, erased);
    most = std::max(most, erased);
  }
  EXPECT_GE(least, 4);
  EXPECT_LE(most, 0.36 * 400);
  EXPECT_GT(most, 80);
}

TEST(Transforms, RefuseWrongOptions) {
  const Tensor x = image();
  Random random(1);
  const auto refused = [&](Errc code, const char* part, const auto& transform) {
    expect_error(code, part, [&] { transform(x, random); });
  };
  refused(Errc::Shape, "5 x 4 pixels of 4 x 6", tf::RandomCrop{{5, 4}});
  refused(Errc::Argument, "padding is -1", tf::RandomCrop{{2, 2}, -1});
  refused(Errc::Argument, "expected a probability", tf::RandomHorizontalFlip{1.5});
  refused(Errc::Argument, "expected a probability", tf::RandomVerticalFlip{NAN});
  refused(Errc::Argument, "expected a probability", tf::RandomErasing{.p = -0.1});
  refused(Errc::Argument, "scale from 1 to 0.5",
          tf::RandomAffine{.least_scale = 1, .most_scale = 0.5});
  refused(Errc::Argument, "ratio from 0 to 1",
          tf::RandomErasing{.least_ratio = 0, .most_ratio = 1});
  refused(Errc::Argument, "expected at least 1", tf::RandomResizedCrop{{0, 3}});
}

TEST(Transforms, ALoaderGivesTheSameWhateverItsWorkers) {
  const data::TensorDataset digits(randint(0, 256, {40, 1, 8, 8}).to(u8), arange(40));
  const auto transformed =
      tf::on_first(digits, tf::Compose(tf::RandomCrop{{8, 8}, 1}, tf::RandomAffine{.degrees = 10},
                                       tf::ToFloat(), tf::Normalize{{0.5}, {0.5}}));
  data::DataLoader alone(transformed, {.batch_size = 7, .shuffle = true});
  data::DataLoader threads(transformed, {.batch_size = 7, .shuffle = true, .num_workers = 3});
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto it = threads.begin();
    for (const auto& [x, y] : alone) {
      EXPECT_TRUE(equal(x, it->first));
      EXPECT_TRUE(equal(y, it->second));
      ++it;
    }
  }
}

}  // namespace
}  // namespace tandem
