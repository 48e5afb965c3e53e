#include "ir/dim.h"

#include <fmt/format.h>

#include "ir/base/error.h"

namespace tandem::ir {

[[noreturn]] static void overflow(Dim a, char op, Dim b, const char* what) {
  fail(Errc::Argument,
       fmt::format("{}: {} {} {} overflows 64 bits", what, int64_t{a}, op, int64_t{b}));
}

Dim checked_mul(Dim a, Dim b, const char* what) {
  int64_t product;
  if (__builtin_mul_overflow(int64_t{a}, int64_t{b}, &product)) overflow(a, '*', b, what);
  return product;
}

Dim checked_add(Dim a, Dim b, const char* what) {
  int64_t sum;
  if (__builtin_add_overflow(int64_t{a}, int64_t{b}, &sum)) overflow(a, '+', b, what);
  return sum;
}

Axes inverse(const Axes& order) {
  Axes back(order.size());
  for (size_t d = 0; d < order.size(); ++d)
    back[static_cast<size_t>(order[d])] = static_cast<Axis>(d);
  return back;
}

static void check_rank(size_t rank) {
  if (rank > kMaxRank)
    fail(Errc::Shape,
         fmt::format("shape: too many dimensions; expected at most {}, got {}", kMaxRank, rank));
}

template <Counts what>
PerDim<what>::PerDim(std::span<const Dim> dims) : rank_(static_cast<uint8_t>(dims.size())) {
  check_rank(dims.size());
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

template <Counts what>
PerDim<what> PerDim<what>::filled(int rank, Dim value) {
  check_rank(rank);
  PerDim s;
  s.rank_ = static_cast<uint8_t>(rank);
  std::fill(s.begin(), s.end(), value);
  return s;
}

template <Counts what>
void PerDim<what>::push_back(Dim d) {
  check_rank(rank_ + 1u);
  dims_[rank_++] = d;
}

template <Counts what>
void PerDim<what>::insert(int at, Dim d) {
  check_rank(rank_ + 1u);
  std::copy_backward(begin() + at, end(), end() + 1);
  dims_[at] = d;
  ++rank_;
}

template <Counts what>
void PerDim<what>::erase(int at) {
  std::copy(begin() + at + 1, end(), begin() + at);
  --rank_;
}

template class PerDim<Counts::Sizes>;
template class PerDim<Counts::Strides>;

Dim numel(const Shape& sizes) {
  Dim n = 1;
  for (Dim d : sizes) n = checked_mul(n, d, "number of elements");
  return n;
}

namespace {
template <class Number>
std::string listed(std::span<const Number> numbers) {
  std::string s = "[";
  for (const int64_t n : numbers) s += fmt::format("{}{}", s.size() > 1 ? ", " : "", n);
  return s + "]";
}
}  // namespace

std::string to_string(std::span<const Dim> dims) { return listed(dims); }
std::string to_string(std::span<const Axis> axes) { return listed(axes); }

}  // namespace tandem::ir
