// JPEG by libjpeg. Its errors are made to return by longjmp: functions that call setjmp have no
// objects with destructors.
#include <fmt/format.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
// libjpeg's headers count on <cstdio>.
#include <jerror.h>
#include <jpeglib.h>

#include "ir/base/error.h"
#include "runtime/io/image.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::runtime {
namespace {

struct Errors : jpeg_error_mgr {
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX] = "malformed";
};

[[noreturn]] void on_error(j_common_ptr jpeg) {
  auto* errors = static_cast<Errors*>(jpeg->err);
  errors->format_message(jpeg, errors->message);
  std::longjmp(errors->back, 1);
}

/// Warnings that leave the pixels as they were meant.
bool is_harmless(int code) {
  return code == JWRN_ADOBE_XFORM || code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR;
}

/// Level -1 is a warning: the data are damaged, and libjpeg would guess.
void on_message(j_common_ptr jpeg, int level) {
  if (level < 0 && !is_harmless(jpeg->err->msg_code)) on_error(jpeg);
}
void on_output(j_common_ptr /*jpeg*/) {}

/// A progressive file may have any number of scans, each of which costs a pass over the image.
constexpr int kMostScans = 500;
void on_progress(j_common_ptr jpeg) {
  const auto* decoder = reinterpret_cast<j_decompress_ptr>(jpeg);
  if (decoder->input_scan_number <= kMostScans) return;
  auto* errors = static_cast<Errors*>(jpeg->err);
  std::strncpy(errors->message, "too many scans", sizeof errors->message - 1);
  std::longjmp(errors->back, 1);
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {
    jpeg_.err = jpeg_std_error(&errors_);
    errors_.error_exit = on_error;
    errors_.emit_message = on_message;
    errors_.output_message = on_output;
    if (!try_create()) malformed();
    jpeg_.progress = &progress_;
    progress_.progress_monitor = on_progress;
  }
  ~Reader() { jpeg_destroy_decompress(&jpeg_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  ImageSize read_header() {
    if (!try_header()) malformed();
    const bool gray = jpeg_.jpeg_color_space == JCS_GRAYSCALE;
    if (!gray && jpeg_.jpeg_color_space != JCS_YCbCr && jpeg_.jpeg_color_space != JCS_RGB)
      ir::fail(Errc::Unsupported, "JPEG: CMYK or another colour space; expected gray or RGB");
    jpeg_.out_color_space = gray ? JCS_GRAYSCALE : JCS_RGB;
    return {jpeg_.image_height, jpeg_.image_width, gray ? 1 : 3};
  }
  void read_rows(unsigned char* to, const ImageSize& size) {
    if (!try_rows(to, size.width * size.channels)) malformed();
  }

 private:
  [[noreturn]] void malformed() const {
    ir::fail(Errc::File, fmt::format("JPEG: {}", errors_.message));
  }
  bool try_create() {
    if (setjmp(errors_.back) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    return true;
  }
  bool try_header() {
    if (setjmp(errors_.back) != 0) return false;
    jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(bytes_.data()),
                 static_cast<unsigned long>(bytes_.size()));
    jpeg_read_header(&jpeg_, TRUE);
    return true;
  }
  bool try_rows(unsigned char* to, int64_t row_bytes) {
    if (setjmp(errors_.back) != 0) return false;
    jpeg_start_decompress(&jpeg_);
    while (jpeg_.output_scanline < jpeg_.output_height) {
      JSAMPROW row = to + jpeg_.output_scanline * row_bytes;
      jpeg_read_scanlines(&jpeg_, &row, 1);
    }
    jpeg_finish_decompress(&jpeg_);
    return true;
  }

  std::string_view bytes_;
  Errors errors_;
  jpeg_progress_mgr progress_ = {};
  jpeg_decompress_struct jpeg_ = {};
};

/// Each block of 64 pixels takes a bit at least.
constexpr int64_t kMostPerByte = 64 * 8;

}  // namespace

bool is_jpeg(std::string_view bytes) { return bytes.starts_with("\xff\xd8\xff"); }

Tensor decode_jpeg(std::string_view bytes, int64_t max_pixels) {
  Reader reader(bytes);
  const ImageSize size = reader.read_header();
  check_pixels(size, max_pixels, bytes.size(), kMostPerByte);
  Tensor image = empty_tensor({size.height, size.width, size.channels}, u8);
  reader.read_rows(static_cast<unsigned char*>(image.impl()->data()), size);
  return image;
}

}  // namespace tandem::runtime
