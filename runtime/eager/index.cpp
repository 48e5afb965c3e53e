// Index ops: positions come from data, and are all checked before anything is written.
#include <vector>

#include "machine/threads/thread_pool.h"
#include "runtime/eager/kernels.h"
#include "runtime/eager/loops.h"

namespace tandem::runtime::eager::kernels {
namespace {

/// The positions in row-major order; Error{Index} if one is outside [0, size).
std::vector<int64_t> positions(const Args& a, const BufferView& index, int64_t size) {
  std::vector<int64_t> out(static_cast<size_t>(int64_t{ir::numel(index.sizes)}));
  const BufferView target{out.data(), DType::I64, index.sizes, ir::contiguous_strides(index.sizes)};
  copy_elements(index, target);
  for (int64_t i : out)
    if (i < 0 || i >= size)
      ir::fail(ir::Errc::Index, std::string(ir::name(a.op)) +
                                    ": index out of range; expected 0 <= index < " +
                                    std::to_string(size) + ", got " + std::to_string(i));
  return out;
}

/// A view with dimension `dim` fixed at `at`.
BufferView row(const BufferView& view, int dim, int64_t at) {
  BufferView out = view;
  out.data = static_cast<char*>(view.data) +
             at * int64_t{view.strides[dim]} * static_cast<int64_t>(ir::size_of(view.dtype));
  out.sizes.erase(dim);
  out.strides.erase(dim);
  return out;
}

/// The offset of an odometer's position with `index` in place of its coordinate `dim`.
int64_t offset_with(const Odometer& at, const Strides& strides, int dim, int64_t index) {
  return at.offset(strides) + (index - int64_t{at.index()[dim]}) * int64_t{strides[dim]};
}

/// The result becomes operand 0, which it is already where that is written.
void start_as_self(const Args& a) {
  if (a.in[0].data != a.out.data) copy_elements(a.in[0], a.out);
}

/// Calls write(element of the result, element of operand 2) for each position in `index`.
template <class T, class Write>
void for_each_scattered(const Args& a, const std::vector<int64_t>& index, Write write) {
  const auto* from = static_cast<const T*>(a.in[2].data);
  auto* out = static_cast<T*>(a.out.data);
  Odometer at(a.in[1].sizes);
  for (const int64_t i : index) {
    write(out[offset_with(at, a.out.strides, a.dim(), i)], from[at.offset(a.in[2].strides)]);
    at.next();
  }
}

/// Each element of the result looks into a line of operand 0, which begins where it does but for
/// `dim`, at one of the places, which lie there with these strides.
void look_up(const Args& a, std::vector<int64_t>& index, const Strides& strides) {
  const int dim = a.dim();
  const BufferView places{index.data(), DType::I64, a.out.sizes, strides};
  BufferView lines{a.in[0].data, a.in[0].dtype, a.out.sizes, a.in[0].strides};
  lines.strides[dim] = 0;
  const BufferView* views[] = {&a.out, &places, &lines};
  with_size(a.out.dtype, [&]<class T>(Tag<T>) {
    const int64_t apart = int64_t{a.in[0].strides[dim]} * static_cast<int64_t>(sizeof(T));
    for_each_row(views, [&](char* const* p, const int64_t* s, int64_t n) {
      for (int64_t i = 0; i < n; ++i)
        at<T>(p[0], i, s[0]) = at<T>(p[2] + at<int64_t>(p[1], i, s[1]) * apart, i, s[2]);
    });
  });
}

/// Elements beside an index up to which each is looked up, or added, by itself: to take them as a
/// view costs more.
constexpr int64_t kFewBeside = 16;

}  // namespace

void gather(const Args& a) {
  auto index = positions(a, a.in[1], a.in[0].sizes[a.dim()]);
  look_up(a, index, ir::contiguous_strides(a.out.sizes));
}

void index_select(const Args& a) {
  const int dim = a.dim();
  auto index = positions(a, a.in[1], a.in[0].sizes[dim]);
  const int64_t elements =
      ir::numel(a.out.sizes) / std::max<int64_t>(static_cast<int64_t>(index.size()), 1);
  if (elements <= kFewBeside) {
    Strides strides = Strides::filled(a.out.sizes.rank(), 0);
    strides[dim] = 1;
    return look_up(a, index, strides);
  }
  const int64_t grain = std::max<int64_t>(kParallelElements / std::max<int64_t>(elements, 1), 1);
  machine::parallel_for(
      static_cast<int64_t>(index.size()), grain, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i)
          copy_elements(row(a.in[0], dim, index[static_cast<size_t>(i)]), row(a.out, dim, i));
      });
}

namespace {

/// Adds what lies beside each place of operand 2 to what lies beside index[place] of the result,
/// one element beside an index after the other.
template <class T>
void add_by_element(const Args& a, const std::vector<int64_t>& index) {
  const int dim = a.dim();
  const BufferView to = row(a.out, dim, 0), from = row(a.in[2], dim, 0);
  const int64_t to_step = int64_t{a.out.strides[dim]}, from_step = int64_t{a.in[2].strides[dim]},
                beside = ir::numel(to.sizes);
  Odometer at(to.sizes);
  for (int64_t i = 0; i < beside; ++i, at.next()) {
    T* const sums = static_cast<T*>(to.data) + at.offset(to.strides);
    const T* source = static_cast<const T*>(from.data) + at.offset(from.strides);
    for (const int64_t place : index) {
      T& sum = sums[place * to_step];
      sum = store<T>(static_cast<Compute<T>>(load(sum) + load(*source)));
      source += from_step;
    }
  }
}

}  // namespace

void index_add(const Args& a) {
  const int dim = a.dim();
  const auto index = positions(a, a.in[1], a.in[0].sizes[dim]);
  start_as_self(a);
  if (ir::numel(row(a.out, dim, 0).sizes) <= kFewBeside)
    return with_type<All>(a.out.dtype, [&]<class T>(Tag<T>) { add_by_element<T>(a, index); });
  with_type<All>(a.out.dtype, [&]<class T>(Tag<T>) {
    for (size_t i = 0; i < index.size(); ++i) {
      const BufferView target = row(a.out, dim, index[i]);
      map<T, T>(target, target, row(a.in[2], dim, static_cast<int64_t>(i)),
                [](Compute<T> x, Compute<T> y) { return static_cast<Compute<T>>(x + y); });
    }
  });
}

namespace {

/// out = self, then at each place combine(what is there, src), in row-major order of src.
template <class Combine>
void scatter_by(const Args& a, Combine combine) {
  const auto index = positions(a, a.in[1], a.in[0].sizes[a.dim()]);
  start_as_self(a);
  with_type<All>(a.out.dtype, [&]<class T>(Tag<T>) {
    for_each_scattered<T>(a, index, [&](T& to, T src) {
      to = store<T>(static_cast<Compute<T>>(combine(load(to), load(src))));
    });
  });
}

}  // namespace

void scatter_add(const Args& a) {
  scatter_by(a, [](auto x, auto y) { return x + y; });
}
void scatter_prod(const Args& a) {
  scatter_by(a, [](auto x, auto y) { return x * y; });
}
void scatter_amax(const Args& a) {
  scatter_by(a, [](auto x, auto y) { return maximum_of(x, y); });
}
void scatter_amin(const Args& a) {
  scatter_by(a, [](auto x, auto y) { return minimum_of(x, y); });
}

void scatter(const Args& a) {
  const auto index = positions(a, a.in[1], a.in[0].sizes[a.dim()]);
  start_as_self(a);
  with_size(a.out.dtype, [&]<class T>(Tag<T>) {
    for_each_scattered<T>(a, index, [](T& to, T src) { to = src; });
  });
}

}  // namespace tandem::runtime::eager::kernels
