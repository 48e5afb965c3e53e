// InlineVector: a vector whose first N elements need no allocation. For the call path.
#ifndef TANDEM_INLINE_VECTOR_H
#define TANDEM_INLINE_VECTOR_H

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace tandem::runtime {

template <class T, size_t N>
class InlineVector {
 public:
  void push_back(T value) {
    if (size_ == N)
      for (T& t : first_) rest_.push_back(std::move(t));
    if (size_ < N)
      first_[size_] = std::move(value);
    else
      rest_.push_back(std::move(value));
    ++size_;
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return size_ <= N ? first_.data() : rest_.data(); }
  const T* data() const { return size_ <= N ? first_.data() : rest_.data(); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }

 private:
  std::array<T, N> first_;
  std::vector<T> rest_;
  size_t size_ = 0;
};

}  // namespace tandem::runtime

#endif  // TANDEM_INLINE_VECTOR_H
