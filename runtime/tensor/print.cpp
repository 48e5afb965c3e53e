// Tensors as text, as PyTorch prints them: aligned columns, four decimals, scientific notation
// where magnitudes ask for it, and "..." in long dimensions of large tensors.
#include <fmt/format.h>
#include <tandem/tensor.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "ir/buffer.h"
#include "runtime/tape/autograd.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem {
namespace {

constexpr int64_t kThreshold = 1000, kEdge = 3;

/// How the elements of one tensor are written.
struct Style {
  bool floating = false, whole = true, scientific = false;
  size_t width = 0;

  std::string text(const Number& v) const {
    if (!floating)
      return v.kind() == Number::Kind::Bool ? (v.to_bool() ? "true" : "false")
                                            : fmt::format("{}", v.to_int());
    const double x = v.to_double();
    if (std::isnan(x)) return "nan";
    if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
    if (scientific) return fmt::format("{:.4e}", x);
    return whole ? fmt::format("{:.0f}.", x) : fmt::format("{:.4f}", x);
  }
};

class Printer {
 public:
  explicit Printer(const Tensor& t)
      : view_(t.impl()->view()), shortened_(int64_t{t.numel()} > kThreshold) {
    style_.floating = ir::is_floating(t.dtype());
    choose_style();
  }

  std::string print() {
    std::string out = "tensor(";
    write(out, 0, 0, 7);
    return out;
  }

 private:
  Number at(int64_t offset) const {
    const auto bytes = static_cast<int64_t>(ir::size_of(view_.dtype));
    return ir::load_element(static_cast<char*>(view_.data) + offset * bytes, view_.dtype);
  }
  int64_t size(int dim) const { return view_.sizes[dim]; }
  bool skips(int dim) const { return shortened_ && size(dim) > 2 * kEdge; }

  /// Calls visit(i) for the shown indices of a dimension, and gap() where some are left out.
  template <class Visit, class Gap>
  void each(int dim, Visit visit, Gap gap) const {
    for (int64_t i = 0; i < size(dim); ++i) {
      if (skips(dim) && i == kEdge) {
        gap();
        i = size(dim) - kEdge;
      }
      visit(i);
    }
  }

  template <class Visit>
  void each_shown(int dim, int64_t offset, Visit visit) const {
    if (dim == view_.sizes.rank()) return visit(at(offset));
    each(
        dim, [&](int64_t i) { each_shown(dim + 1, offset + i * view_.strides[dim], visit); },
        [] {});
  }

  void choose_style() {
    double largest = 0, smallest = INFINITY;
    each_shown(0, 0, [&](const Number& v) {
      const double x = std::abs(v.to_double());
      if (!std::isfinite(x) || !style_.floating) return;
      if (x != std::trunc(x)) style_.whole = false;
      if (x != 0) largest = std::max(largest, x), smallest = std::min(smallest, x);
    });
    style_.scientific = largest > 0 &&
                        (largest / smallest > 1000 || largest > 1e8 || smallest < 1e-4) &&
                        (!style_.whole || largest > 1e8);
    each_shown(0, 0, [&](const Number& v) {
      style_.width = std::max(style_.width, style_.text(v).size());
    });
  }

  void write(std::string& out, int dim, int64_t offset, int indent) const {
    if (dim == view_.sizes.rank()) {
      out += fmt::format("{:>{}}", style_.text(at(offset)), style_.width);
      return;
    }
    const bool innermost = dim == view_.sizes.rank() - 1;
    const std::string separator =
        innermost ? ", "
                  : "," + std::string(static_cast<size_t>(view_.sizes.rank() - dim - 1), '\n') +
                        std::string(static_cast<size_t>(indent + 1), ' ');
    out += '[';
    bool first = true;
    const auto separate = [&] {
      if (!first) out += separator;
      first = false;
    };
    each(
        dim,
        [&](int64_t i) {
          separate();
          write(out, dim + 1, offset + i * view_.strides[dim], indent + 1);
        },
        [&] {
          separate();
          out += "...";
        });
    out += ']';
  }

  ir::BufferView view_;
  bool shortened_;
  Style style_;
};

std::string describe_traced(const Tensor& t) {
  const auto& at = t.impl()->made_at;
  return fmt::format("traced tensor {} (made at {}:{})", ir::to_string(t.impl()->type()),
                     at.file_name(), at.line());
}

}  // namespace

std::string Tensor::to_string() const {
  if (!defined()) return "undefined tensor";
  if (impl_->is_traced()) return describe_traced(*this);
  std::string out = Printer(*this).print();
  if (ir::numel(impl_->sizes) == 0 && dim() != 1)
    out += fmt::format(", sizes={}", ir::to_string(impl_->sizes));
  const DType usual = ir::is_integral(dtype()) ? i64 : f32;
  if (dtype() != usual && dtype() != boolean) out += fmt::format(", dtype={}", ir::name(dtype()));
  const std::string made_by = runtime::history_name(*this);
  if (!made_by.empty())
    out += fmt::format(", grad_fn={}", made_by);
  else if (requires_grad())
    out += ", requires_grad=true";
  return out + ")";
}

std::ostream& operator<<(std::ostream& out, const Tensor& t) { return out << t.to_string(); }

}  // namespace tandem
