// PNG by libpng, which reports errors by longjmp: functions that call setjmp have no objects with
// destructors, and nothing that throws is called from libpng.
#include <fmt/format.h>
#include <png.h>

#include <csetjmp>
#include <cstring>

#include "ir/base/error.h"
#include "runtime/io/image.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::runtime {
namespace {

/// What libpng's callbacks see.
struct Errors {
  char message[160] = "malformed";
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* errors = static_cast<Errors*>(png_get_error_ptr(png));
  std::strncpy(errors->message, message, sizeof errors->message - 1);
  png_longjmp(png, 1);
}
void on_warning(png_structp /*png*/, png_const_charp /*message*/) {}

[[noreturn]] void malformed(const Errors& errors) {
  ir::fail(Errc::File, fmt::format("PNG: {}", errors.message));
}
[[noreturn]] void out_of_memory() { ir::fail(Errc::OutOfMemory, "libpng: out of memory"); }

// --- reading

struct Source {
  std::string_view bytes;
  size_t at = 0;
};

void on_read(png_structp png, png_bytep to, size_t count) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (count > source->bytes.size() - source->at) png_error(png, "ends too early");
  std::memcpy(to, source->bytes.data() + source->at, count);
  source->at += count;
}

class Reader {
 public:
  explicit Reader(std::string_view bytes)
      : source_{bytes},
        png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, &errors_, on_error, on_warning)),
        info_(png_ == nullptr ? nullptr : png_create_info_struct(png_)) {
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      out_of_memory();
    }
  }
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// How large the image will be, in 8 bits a channel.
  ImageSize read_header() {
    ImageSize size;
    if (!try_header(size)) malformed(errors_);
    return size;
  }
  void read_rows(unsigned char* to, const ImageSize& size) {
    if (!try_rows(to, size)) malformed(errors_);
  }

 private:
  bool try_header(ImageSize& size) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, &source_, on_read);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // ours: check_pixels
    png_read_info(png_, info_);
    png_set_expand(png_);
    png_set_scale_16(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    size = {png_get_image_height(png_, info_), png_get_image_width(png_, info_),
            png_get_channels(png_, info_)};
    return true;
  }
  bool try_rows(unsigned char* to, const ImageSize& size) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    for (int pass = 0; pass < passes_; ++pass)
      for (int64_t y = 0; y < size.height; ++y)
        png_read_row(png_, to + y * size.width * size.channels, nullptr);
    png_read_end(png_, nullptr);
    return true;
  }

  Errors errors_;
  Source source_;
  png_structp png_;
  png_infop info_;
  int passes_ = 1;
};

/// No deflated byte stands for more bytes; a byte holds at most 8 pixels.
constexpr int64_t kMostPerByte = int64_t{1032} * 8;

// --- writing

void on_write(png_structp png, png_bytep from, size_t count) {
  bool failed = false;
  try {
    static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<char*>(from), count);
  } catch (...) {
    failed = true;
  }
  if (failed) png_error(png, "out of memory");
}
void on_flush(png_structp /*png*/) {}

class Writer {
 public:
  Writer()
      : png_(png_create_write_struct(PNG_LIBPNG_VER_STRING, &errors_, on_error, on_warning)),
        info_(png_ == nullptr ? nullptr : png_create_info_struct(png_)) {
    if (info_ == nullptr) {
      png_destroy_write_struct(&png_, nullptr);
      out_of_memory();
    }
  }
  ~Writer() { png_destroy_write_struct(&png_, &info_); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  std::string write(const unsigned char* pixels, const ImageSize& size) {
    if (!try_write(pixels, size)) ir::fail(Errc::Argument, fmt::format("PNG: {}", errors_.message));
    return std::move(out_);
  }

 private:
  bool try_write(const unsigned char* pixels, const ImageSize& size) {
    static constexpr int kColours[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA,
                                       PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_write_fn(png_, &out_, on_write, on_flush);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_IHDR(png_, info_, static_cast<png_uint_32>(size.width),
                 static_cast<png_uint_32>(size.height), 8, kColours[size.channels - 1],
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png_, info_);
    for (int64_t y = 0; y < size.height; ++y)
      png_write_row(png_, pixels + y * size.width * size.channels);
    png_write_end(png_, nullptr);
    return true;
  }

  Errors errors_;
  std::string out_;
  png_structp png_;
  png_infop info_;
};

}  // namespace

bool is_png(std::string_view bytes) { return bytes.starts_with("\x89PNG\r\n\x1a\n"); }

Tensor decode_png(std::string_view bytes, int64_t max_pixels) {
  Reader reader(bytes);
  const ImageSize size = reader.read_header();
  check_pixels(size, max_pixels, bytes.size(), kMostPerByte);
  Tensor image = empty_tensor({size.height, size.width, size.channels}, u8);
  reader.read_rows(static_cast<unsigned char*>(image.impl()->data()), size);
  return image;
}

std::string encode_png(const unsigned char* pixels, const ImageSize& size) {
  return Writer().write(pixels, size);
}

void check_pixels(const ImageSize& size, int64_t max_pixels, size_t file_bytes, int64_t per_byte) {
  const auto of_file = static_cast<int64_t>(file_bytes);
  const int64_t most = std::min(max_pixels, per_byte * of_file);
  if (size.width >= 1 && size.height >= 1 && size.height <= most / size.width) return;
  ir::fail(Errc::File,
           fmt::format("an image of {} x {} pixels in {} bytes; expected 1 to {} pixels",
                       size.width, size.height, file_bytes, most));
}

}  // namespace tandem::runtime
