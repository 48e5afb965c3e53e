#include "ir/dim.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

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
Dim* PerDim<what>::copy_of_many() const {
  Dim* copy = new Dim[kMaxRank];
  std::copy_n(memory_.many, rank_, copy);
  return copy;
}

template <Counts what>
PerDim<what>::PerDim(std::span<const Dim> dims) {
  check_rank(dims.size());
  if (dims.size() > kFew) memory_.many = new Dim[kMaxRank];
  rank_ = static_cast<uint8_t>(dims.size());
  std::ranges::copy(dims, begin());
}

template <Counts what>
PerDim<what> PerDim<what>::filled(int rank, Dim value) {
  PerDim s;
  for (int d = 0; d < rank; ++d) s.push_back(value);
  return s;
}

template <Counts what>
void PerDim<what>::push_back(Dim d) {
  check_rank(rank_ + 1u);
  if (rank_ == kFew) {
    Dim* many = new Dim[kMaxRank];
    std::ranges::copy(memory_.few, many);
    memory_.many = many;
  }
  ++rank_;
  end()[-1] = d;
}

template <Counts what>
void PerDim<what>::insert(int at, Dim d) {
  push_back(d);
  std::rotate(begin() + at, end() - 1, end());
}

template <Counts what>
void PerDim<what>::erase(int at) {
  std::copy(begin() + at + 1, end(), begin() + at);
  if (rank_ == kFew + 1) {
    const std::unique_ptr<Dim[]> many(memory_.many);
    std::copy_n(many.get(), kFew, memory_.few);
  }
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
