// What convolutions and pools share: images with and without a batch, numbers for each spatial
// dimension.
#ifndef TANDEM_RUNTIME_NETWORKS_IMAGES_H
#define TANDEM_RUNTIME_NETWORKS_IMAGES_H

#include <fmt/format.h>
#include <tandem/ops/networks.h>

#include <array>

#include "runtime/ops/call.h"

namespace tandem::runtime {

/// [n, channels, spatial...].
struct Images {
  V v;
  bool is_single;  // it was given without n
};

/// `t` of `spatial` spatial dimensions.
Images images(Call& c, const Tensor& t, int spatial, const char* name = "input");
/// A result, or two, for the caller: without n if `in` came without.
Tensor given_back(Call& c, V v, const Images& in);
std::array<Tensor, 2> given_back(Call& c, V first, V second, const Images& in);

/// Integers as i64, which alone windows are computed of; others as they are.
V widened(Call& c, V v);

/// One of `numbers` for each of `spatial` dimensions.
ir::Dims each(const Spatial& numbers, int spatial, const char* name);
/// The same of what says where windows lie: Error of numbers so large that positions would not be
/// within 64 bits.
ir::Dims window_numbers(const Spatial& numbers, int spatial, const char* name);
/// The same; `other` where it was left out.
ir::Dims window_numbers_or(const Spatial& numbers, const ir::Dims& other, int spatial,
                           const char* name);

/// Error unless one of sizes and ratios is given, and the ratios are between 0 and 1.
void require_sizes_or_ratios(const FractionalMaxPoolOptions& options, int spatial);

/// The spatial sizes of images.
ir::Dims spatial_sizes(Call& c, V v);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_NETWORKS_IMAGES_H
