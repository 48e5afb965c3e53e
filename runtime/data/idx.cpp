#include <fmt/format.h>
#include <tandem/data/idx.h>

#include <algorithm>

#include "ir/base/error.h"
#include "runtime/io/deflate.h"
#include "runtime/io/files.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::data {
namespace {

struct ElementType {
  uint8_t code;
  DType dtype;
};
constexpr ElementType kTypes[] = {{0x08, u8},  {0x09, i8},  {0x0b, i16},
                                  {0x0c, i32}, {0x0d, f32}, {0x0e, f64}};

/// Two zero bytes, the type of elements, how many dimensions; their sizes; the elements. Numbers
/// are big endian.
Tensor read_idx(std::string_view bytes) {
  if (bytes.size() < 4 || bytes[0] != 0 || bytes[1] != 0) ir::fail(Errc::File, "no IDX file");
  const auto* const type =
      std::ranges::find(kTypes, static_cast<uint8_t>(bytes[2]), &ElementType::code);
  const auto rank = static_cast<uint8_t>(bytes[3]);
  if (type == std::end(kTypes))
    ir::fail(Errc::File,
             fmt::format("IDX: unknown type of elements {:#04x}", static_cast<uint8_t>(bytes[2])));
  const size_t start = 4 + 4 * size_t{rank};
  if (rank > ir::kMaxRank || bytes.size() < start)
    ir::fail(Errc::File, fmt::format("IDX: {} dimensions in {} bytes", rank, bytes.size()));
  ir::Type found{type->dtype, {}, false};
  for (size_t d = 0; d < rank; ++d)
    found.sizes.push_back(
        int64_t{__builtin_bswap32(runtime::number_at<uint32_t>(bytes, 4 + 4 * d))});
  const int64_t expected = ir::checked_mul(
      ir::numel(found.sizes), static_cast<int64_t>(ir::size_of(found.dtype)), "IDX: bytes");
  if (static_cast<uint64_t>(expected) != bytes.size() - start)
    ir::fail(Errc::File, fmt::format("IDX: {} bytes of elements; expected {} for {}",
                                     bytes.size() - start, expected, ir::to_string(found)));
  Tensor tensor = runtime::tensors_in(bytes)->tensor(start, found);
  runtime::swap_bytes(tensor.impl()->data(), tensor.numel(), ir::size_of(found.dtype));
  return tensor;
}

}  // namespace

Tensor load_idx(const std::string& path) {
  return runtime::reading("load_idx", path, [&] {
    const std::string bytes = runtime::read_file(path);
    return read_idx(runtime::is_gzip(bytes) ? runtime::gunzip(bytes) : bytes);
  });
}

}  // namespace tandem::data
