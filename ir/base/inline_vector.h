// InlineVector: a vector whose first N items need no allocation. For what is mostly short: the
// lists of equations, and the call path. Nothing is constructed before it is pushed.
#ifndef TANDEM_IR_BASE_INLINE_VECTOR_H
#define TANDEM_IR_BASE_INLINE_VECTOR_H

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>

namespace tandem::ir {

/// Items of type T, one behind the other.
template <class R, class T>
concept IsListOf = requires(const R& items) {
  { std::data(items) } -> std::convertible_to<const T*>;
  std::size(items);
};

template <class T, size_t N>
class InlineVector {
 public:
  using value_type = T;

  /// The others go through it: what they have taken goes if an item's copy throws.
  InlineVector() = default;
  InlineVector(std::initializer_list<T> items) : InlineVector() {
    append(items.begin(), items.size());
  }
  explicit InlineVector(size_t size, const T& value = T()) : InlineVector() { resize(size, value); }
  /// A copy of another list of the same items. (Copies of a list itself, which are asked for
  /// everywhere, are told apart first: the rest costs time to compile.)
  template <class R>
    requires(!std::is_same_v<std::remove_cvref_t<R>, InlineVector> && IsListOf<R, T>)
  InlineVector(R&& items) : InlineVector() {  // NOLINT(google-explicit-constructor)
    append(items);
  }
  InlineVector(const InlineVector& other) : InlineVector() { append(other.data(), other.size()); }
  InlineVector(InlineVector&& other) noexcept { take(other); }
  InlineVector& operator=(const InlineVector& other) {
    if (this != &other) clear(), append(other.data(), other.size());
    return *this;
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this != &other) release(), take(other);
    return *this;
  }
  ~InlineVector() { release(); }

  void push_back(T value) {
    if (size_ == capacity_) grow(2 * size_t{capacity_});
    std::construct_at(data() + size_++, std::move(value));
  }
  template <IsListOf<T> R>
  void append(const R& items) {
    append(std::data(items), std::size(items));
  }
  void reserve(size_t capacity) {
    if (capacity > capacity_) grow(std::max(capacity, 2 * size_t{capacity_}));
  }
  void resize(size_t size, const T& value = T()) {
    reserve(size);
    if (size > size_) std::uninitialized_fill(end(), data() + size, value);
    if (size < size_) std::destroy(data() + size, end());
    size_ = static_cast<uint32_t>(size);
  }
  void clear() {
    std::destroy(begin(), end());
    size_ = 0;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return is_inline() ? reinterpret_cast<T*>(memory_.few) : memory_.heap; }
  const T* data() const {
    return is_inline() ? reinterpret_cast<const T*>(memory_.few) : memory_.heap;
  }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }

  friend bool operator==(const InlineVector& a, const InlineVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  void append(const T* items, size_t count) {
    reserve(size_ + count);
    std::uninitialized_copy_n(items, count, end());
    size_ += static_cast<uint32_t>(count);
  }
  bool is_inline() const { return capacity_ == N; }

  void grow(size_t capacity) {
    T* items = std::allocator<T>().allocate(capacity);
    std::uninitialized_move(begin(), end(), items);
    const uint32_t size = size_;
    release();
    memory_.heap = items;
    size_ = size;
    capacity_ = static_cast<uint32_t>(capacity);
  }
  /// Takes over the items of `other`, which is then empty, into no items.
  void take(InlineVector& other) {
    if (other.is_inline()) {
      std::uninitialized_move(other.begin(), other.end(), data());
      size_ = other.size_;
      other.clear();
    } else {
      memory_.heap = other.memory_.heap;
      size_ = std::exchange(other.size_, 0);
      capacity_ = std::exchange(other.capacity_, N);
    }
  }
  /// Leaves no items and no memory.
  void release() {
    std::destroy(begin(), end());
    if (!is_inline()) std::allocator<T>().deallocate(memory_.heap, capacity_);
    size_ = 0;
    capacity_ = N;
  }

  uint32_t size_ = 0, capacity_ = N;
  union {
    T* heap;
    alignas(T) unsigned char few[N * sizeof(T)];
  } memory_;
};

template <class T, size_t N, class Predicate>
void erase_if(InlineVector<T, N>& items, Predicate predicate) {
  items.resize(
      static_cast<size_t>(std::remove_if(items.begin(), items.end(), predicate) - items.begin()));
}

}  // namespace tandem::ir

#endif  // TANDEM_IR_BASE_INLINE_VECTOR_H
