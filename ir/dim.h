// Dim: the value of a size, stride, start or length. Today always a constant; code that goes
// through Dim's arithmetic keeps working when symbols arrive. Products and sums that could overflow
// go through the checked functions below.
#ifndef TANDEM_IR_DIM_H
#define TANDEM_IR_DIM_H

#include <tandem/ir/export.h>
#include <tandem/ir/inline_vector.h>

#include <algorithm>
#include <array>
#include <compare>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tandem::ir {

class Dim {
 public:
  constexpr Dim() = default;
  template <std::integral I>
  constexpr Dim(I value)
      : value_(static_cast<int64_t>(value)) {}           // NOLINT(google-explicit-constructor)
  constexpr operator int64_t() const { return value_; }  // NOLINT(google-explicit-constructor)

  constexpr Dim& operator+=(Dim d) { return value_ += d.value_, *this; }
  constexpr Dim& operator-=(Dim d) { return value_ -= d.value_, *this; }
  constexpr Dim& operator*=(Dim d) { return value_ *= d.value_, *this; }

 private:
  int64_t value_ = 0;
};

// Exact-match overloads, so that `Dim op Dim` and `Dim op integer` are not ambiguous with the
// built-in operators.
#define TANDEM_DIM_OPERATOR(op, Result)                                           \
  constexpr Result operator op(Dim a, Dim b) { return int64_t{a} op int64_t{b}; } \
  template <std::integral I>                                                      \
  constexpr Result operator op(Dim a, I b) {                                      \
    return int64_t{a} op static_cast<int64_t>(b);                                 \
  }                                                                               \
  template <std::integral I>                                                      \
  constexpr Result operator op(I a, Dim b) {                                      \
    return static_cast<int64_t>(a) op int64_t{b};                                 \
  }
TANDEM_DIM_OPERATOR(+, Dim)
TANDEM_DIM_OPERATOR(-, Dim)
TANDEM_DIM_OPERATOR(*, Dim)
TANDEM_DIM_OPERATOR(/, Dim)
TANDEM_DIM_OPERATOR(%, Dim)
TANDEM_DIM_OPERATOR(==, bool)
TANDEM_DIM_OPERATOR(<=>, std::strong_ordering)
#undef TANDEM_DIM_OPERATOR

/// Products and sums of sizes and byte counts; throw Error{Argument} "what: ... overflows" instead
/// of wrapping.
TANDEM_API Dim checked_mul(Dim a, Dim b, const char* what);
TANDEM_API Dim checked_add(Dim a, Dim b, const char* what);

/// Sizes, strides or paddings as an attribute: of any number.
using Dims = InlineVector<Dim, 4>;

/// Which dimension of a tensor: in [0, rank), or as in Python in [-rank, rank) before a Builder has
/// wrapped it.
using Axis = int64_t;
/// Not Dims, so that axes are not taken for sizes.
using Axes = InlineVector<Axis, 4>;
/// The permutation that undoes `order`.
TANDEM_API Axes inverse(const Axes& order);

inline constexpr int kMaxRank = 16;

/// What a program counts in, converted as Dim converts it.
template <class I>
concept SizeNumber = std::integral<I> && !std::same_as<I, bool>;

/// What the numbers of a PerDim are.
enum class Counts : uint8_t { Sizes, Strides };

/// Up to kMaxRank numbers, one for each dimension of a tensor; a few are stored inline, as most
/// tensors have few (all of them inline would make what a compiled function keeps twice as large).
/// What they count is part of the type, so that sizes are not taken for strides. Building one of
/// more dimensions is an Error{Shape}.
template <Counts what>
class PerDim {
 public:
  /// The others go through it: what they have taken goes if there are too many.
  PerDim() = default;
  PerDim(const PerDim& other) : memory_(other.memory_), rank_(other.rank_) {
    if (!are_few()) memory_.many = copy_of_many();
  }
  PerDim(PerDim&& other) noexcept
      : memory_(other.memory_), rank_(std::exchange(other.rank_, uint8_t{0})) {}
  PerDim& operator=(PerDim other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(rank_, other.rank_);
    return *this;
  }
  ~PerDim() {
    if (!are_few()) delete[] memory_.many;
  }
  PerDim(std::initializer_list<Dim> dims)
      : PerDim(std::span<const Dim>(dims.begin(), dims.size())) {}
  PerDim(std::span<const Dim> dims);  // NOLINT
  PerDim(const std::vector<Dim>& dims)
      : PerDim(std::span<const Dim>(dims.data(), dims.size())) {}  // NOLINT
  template <SizeNumber I>
  PerDim(std::span<const I> dims) : PerDim() {  // NOLINT(google-explicit-constructor)
    for (const I d : dims) push_back(d);
  }
  template <SizeNumber I>
  PerDim(const std::vector<I>& dims) : PerDim() {  // NOLINT(google-explicit-constructor)
    for (const I d : dims) push_back(d);
  }
  template <SizeNumber I, size_t N>
  PerDim(const std::array<I, N>& dims) : PerDim() {  // NOLINT(google-explicit-constructor)
    for (const I d : dims) push_back(d);
  }
  static PerDim filled(int rank, Dim value);

  int rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  size_t size() const { return rank_; }
  Dim operator[](int i) const { return data()[i]; }
  Dim& operator[](int i) { return data()[i]; }
  Dim back() const { return data()[rank_ - 1]; }
  Dim& back() { return data()[rank_ - 1]; }
  const Dim* data() const { return are_few() ? memory_.few : memory_.many; }
  Dim* data() { return are_few() ? memory_.few : memory_.many; }
  const Dim* begin() const { return data(); }
  const Dim* end() const { return data() + rank_; }
  Dim* begin() { return data(); }
  Dim* end() { return data() + rank_; }
  void push_back(Dim d);
  void insert(int at, Dim d);
  void erase(int at);

  friend bool operator==(const PerDim& a, const PerDim& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  static constexpr uint8_t kFew = 5;
  union Memory {
    Memory() : few{} {}
    Dim few[kFew];
    Dim* many;  // kMaxRank of them
  };

  bool are_few() const { return rank_ <= kFew; }
  Dim* copy_of_many() const;

  Memory memory_;
  uint8_t rank_ = 0;
};

using Shape = PerDim<Counts::Sizes>;
/// Strides are counted in elements.
using Strides = PerDim<Counts::Strides>;
extern template class TANDEM_API PerDim<Counts::Sizes>;
extern template class TANDEM_API PerDim<Counts::Strides>;

/// The number of elements; 1 for rank 0. Checked.
TANDEM_API Dim numel(const Shape& sizes);

/// "[2, 3]".
TANDEM_API std::string to_string(std::span<const Dim> dims);
TANDEM_API std::string to_string(std::span<const Axis> axes);

}  // namespace tandem::ir

#endif  // TANDEM_IR_DIM_H
