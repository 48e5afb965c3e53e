#include "runtime/io/npy.h"

#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/io/numpy.h>
#include <tandem/ops.h>

#include <algorithm>
#include <charconv>

#include "ir/base/error.h"
#include "ir/base/file_writer.h"
#include "runtime/io/require_usable.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::runtime {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeader = size_t{1} << 20;

[[noreturn]] void malformed(const std::string& what) { ir::fail(Errc::File, "npy: " + what); }

/// What a descr without its byte order means: `size` bytes in the file, which are a `dtype`, or an
/// unsigned integer that is held in that.
struct Descr {
  std::string_view text;
  DType dtype;
  size_t size;
};
constexpr Descr kDescrs[] = {{"f8", DType::F64, 8},  {"f4", DType::F32, 4}, {"V2", DType::BF16, 2},
                             {"f2", DType::F16, 2},  {"i8", DType::I64, 8}, {"i4", DType::I32, 4},
                             {"i2", DType::I16, 2},  {"i1", DType::I8, 1},  {"u1", DType::U8, 1},
                             {"b1", DType::Bool, 1}, {"u2", DType::I32, 2}, {"u4", DType::I64, 4}};

struct Header {
  const Descr* descr = nullptr;
  bool big_endian = false, fortran_order = false;
  Shape sizes;
};

/// Reads the Python literal.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Header parse() {
    expect('{');
    while (!accept('}')) {
      entry();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    if (at_ != text_.size()) unexpected("the end");
    if (seen_ != 7) malformed("header: expected descr, fortran_order and shape");
    return header_;
  }

 private:
  [[noreturn]] void unexpected(std::string_view expected) const {
    malformed(fmt::format("header: byte {}: expected {}", at_, expected));
  }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip_blanks();
    const bool found = at_ < text_.size() && text_[at_] == c;
    at_ += found ? 1 : 0;
    return found;
  }
  void expect(char c) {
    if (!accept(c)) unexpected(fmt::format("'{}'", c));
  }
  std::string_view string() {
    const char quote = accept('\'') ? '\'' : '"';
    if (quote == '"' && !accept('"')) unexpected("a string");
    const size_t end = text_.find(quote, at_);
    if (end == text_.npos) unexpected("the end of a string");
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }
  bool word(std::string_view expected) {
    skip_blanks();
    const bool found = text_.substr(at_).starts_with(expected);
    at_ += found ? expected.size() : 0;
    return found;
  }
  bool boolean() {
    if (word("True")) return true;
    if (!word("False")) unexpected("True or False");
    return false;
  }
  int64_t integer() {
    skip_blanks();
    int64_t value = 0;
    const auto [end, failed] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (failed != std::errc() || value < 0) unexpected("a size");
    at_ = static_cast<size_t>(end - text_.data());
    accept('L');  // of Python 2
    return value;
  }
  Shape shape() {
    Shape sizes;
    expect('(');
    while (!accept(')')) {
      if (sizes.size() == ir::kMaxRank)
        malformed(fmt::format("expected at most {} dimensions", ir::kMaxRank));
      sizes.push_back(integer());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }
  void descr() {
    if (accept('[')) malformed("an array of structures; expected numbers");
    const std::string_view text = string();
    const char order = text.empty() ? '?' : text[0];
    const auto* const known =
        std::ranges::find(kDescrs, text.substr(text.empty() ? 0 : 1), &Descr::text);
    if (known == std::end(kDescrs) ||
        std::string_view("<>|=").find(order) == std::string_view::npos)
      malformed(fmt::format("elements '{}'; expected floats, integers or bool", text));
    header_.descr = known;
    header_.big_endian = order == '>';
  }
  void entry() {
    const std::string_view key = string();
    expect(':');
    int mark = 0;
    if (key == "descr") {
      descr();
      mark = 1;
    } else if (key == "fortran_order") {
      header_.fortran_order = boolean();
      mark = 2;
    } else if (key == "shape") {
      header_.sizes = shape();
      mark = 4;
    } else {
      malformed(fmt::format("header: unknown key '{}'", key));
    }
    if ((seen_ & mark) != 0) malformed(fmt::format("header: key '{}' twice", key));
    seen_ |= mark;
  }

  std::string_view text_;
  size_t at_ = 0;
  int seen_ = 0;
  Header header_;
};

template <class From, class To>
void widen(const std::string& from, Tensor& to) {
  auto* out = static_cast<To*>(to.impl()->data());
  for (size_t i = 0; i * sizeof(From) < from.size(); ++i)
    out[i] = static_cast<To>(number_at<From>(from, i * sizeof(From)));
}

Tensor read_unsigned(const TensorSource& source, size_t at, const Header& header,
                     const ir::Type& type) {
  const int64_t count = ir::numel(type.sizes);
  std::string raw = source.text(at, static_cast<size_t>(count) * header.descr->size);
  if (header.big_endian) swap_bytes(raw.data(), count, header.descr->size);
  Tensor tensor = empty_tensor(type.sizes, type.dtype);
  if (header.descr->size == 2)
    widen<uint16_t, int32_t>(raw, tensor);
  else
    widen<uint32_t, int64_t>(raw, tensor);
  return tensor;
}

Tensor read_elements(const TensorSource& source, size_t at, const Header& header) {
  Shape sizes = header.sizes;
  if (header.fortran_order) std::ranges::reverse(sizes);
  const ir::Type type{header.descr->dtype, sizes, false};
  const int64_t bytes = ir::checked_mul(ir::numel(sizes), static_cast<int64_t>(header.descr->size),
                                        "npy: size in bytes");
  if (static_cast<uint64_t>(bytes) != source.bytes() - at)
    malformed(fmt::format("{} bytes of elements; expected {} for {}", source.bytes() - at, bytes,
                          ir::to_string(type)));
  if (header.descr->size != ir::size_of(type.dtype)) return read_unsigned(source, at, header, type);
  Tensor tensor = source.tensor(at, type);
  if (header.big_endian) swap_bytes(tensor.impl()->data(), tensor.numel(), header.descr->size);
  return tensor;
}

/// `tensor` with its dimensions in the other order, over the same elements.
Tensor reversed(const Tensor& tensor) {
  Shape sizes = tensor.sizes();
  Strides strides = tensor.strides();
  std::ranges::reverse(sizes);
  std::ranges::reverse(strides);
  return view_tensor(tensor, sizes, strides, 0);
}

}  // namespace

Tensor read_npy(const TensorSource& source) {
  const std::string start = source.text(0, std::min<size_t>(source.bytes(), 12));
  if (start.size() < 12 || !start.starts_with(kMagic)) malformed("no NumPy array");
  const int version = start[6];
  if (version < 1 || version > 3) malformed(fmt::format("unknown version {}", version));
  const size_t begin = version == 1 ? 10 : 12;
  const size_t length =
      version == 1 ? number_at<uint16_t>(start, 8) : number_at<uint32_t>(start, 8);
  if (length > kMaxHeader)
    malformed(fmt::format("header of {} bytes; expected at most {}", length, kMaxHeader));
  const std::string text = source.text(begin, length);
  const Header header = HeaderParser(text).parse();
  const Tensor tensor = read_elements(source, begin + length, header);
  return header.fortran_order ? reversed(tensor) : tensor;
}

std::string npy_header(const Tensor& tensor) {
  const auto* const descr = std::ranges::find(kDescrs, tensor.dtype(), &Descr::dtype);
  std::string shape;
  for (const Dim size : tensor.sizes()) shape += fmt::format("{}, ", int64_t{size});
  if (tensor.dim() > 1) shape.resize(shape.size() - 2);
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                 descr->size == 1 ? '|' : '<', descr->text,
                                 tensor.dim() == 1 ? shape.substr(0, shape.size() - 1) : shape);
  const size_t prefix = kMagic.size() + 4;
  text.append(63 - (prefix + text.size()) % 64, ' ');  // NumPy's elements begin at multiples of 64
  text += '\n';
  std::string header(kMagic);
  header += std::string_view("\x01\x00", 2);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace tandem::runtime

namespace tandem {

Tensor load_npy(const std::string& path, const LoadOptions& options) {
  return runtime::reading("load_npy", path, [&] {
    return runtime::read_npy(*runtime::open_tensors(path, options.mmap));
  });
}

void save_npy(const std::string& path, const Tensor& tensor) {
  runtime::require_usable("save_npy", "tensor", tensor);
  const NoGrad no_grad;
  const Tensor dense = tensor.contiguous();
  ir::FileWriter file(path);
  file.write(runtime::npy_header(dense));
  file.write(runtime::bytes_of(dense));
  file.commit();
}

}  // namespace tandem
