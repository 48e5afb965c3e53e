// InlineVector: a vector whose first N elements need no allocation. For the call path: nothing is
// constructed before it is pushed.
#ifndef TANDEM_INLINE_VECTOR_H
#define TANDEM_INLINE_VECTOR_H

#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace tandem::runtime {

template <class T, size_t N>
class InlineVector {
 public:
  InlineVector() = default;
  InlineVector(const InlineVector& other) { append(other); }
  InlineVector(InlineVector&& other) noexcept { append(std::move(other)); }
  InlineVector& operator=(const InlineVector& other) {
    if (this != &other) clear(), append(other);
    return *this;
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this != &other) clear(), append(std::move(other));
    return *this;
  }
  ~InlineVector() { std::destroy_n(first(), inline_size()); }

  void push_back(T value) {
    if (size_ < N) {
      std::construct_at(first() + size_, std::move(value));
    } else {
      if (size_ == N) spill();
      rest_.push_back(std::move(value));
    }
    ++size_;
  }
  void clear() {
    std::destroy_n(first(), inline_size());
    rest_.clear();
    size_ = 0;
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return size_ <= N ? first() : rest_.data(); }
  const T* data() const { return size_ <= N ? first() : rest_.data(); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }

 private:
  T* first() { return reinterpret_cast<T*>(memory_); }
  const T* first() const { return reinterpret_cast<const T*>(memory_); }
  size_t inline_size() const { return size_ <= N ? size_ : 0; }
  void spill() {
    rest_.assign(std::make_move_iterator(first()), std::make_move_iterator(first() + N));
    std::destroy_n(first(), N);
  }
  void append(const InlineVector& other) {
    for (const T& value : other) push_back(value);
  }
  void append(InlineVector&& other) {
    for (T& value : other) push_back(std::move(value));
  }

  size_t size_ = 0;
  std::vector<T> rest_;
  alignas(T) unsigned char memory_[N * sizeof(T)];
};

}  // namespace tandem::runtime

#endif  // TANDEM_INLINE_VECTOR_H
