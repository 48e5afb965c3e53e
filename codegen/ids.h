// What numbers the things of codegen: an id for each kind of thing, and vectors that take one kind.
#ifndef TANDEM_CODEGEN_IDS_H
#define TANDEM_CODEGEN_IDS_H

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "ir/type.h"

namespace tandem::codegen {

// of a Program
using RootId = ir::Id<struct RootTag>;
using NodeId = ir::Id<struct NodeTag>;
// of a Plan, and of one in the making
using KernelId = ir::Id<struct KernelTag>;
using StepId = ir::Id<struct StepTag>;
// of a Kernel
using ParamId = ir::Id<struct ParamTag>;
using LocalId = ir::Id<struct LocalTag>;
using LoopId = ir::Id<struct LoopTag>;
using AccumulatorId = ir::Id<struct AccumulatorTag>;
using InstrId = ir::Id<struct InstrTag>;

/// The ids of the first `count` things of a kind.
template <class I>
struct Ids {
  struct Iterator {
    uint32_t index;
    I operator*() const { return {index}; }
    Iterator& operator++() { return ++index, *this; }
    friend bool operator==(Iterator, Iterator) = default;
  };
  uint32_t count;
  Iterator begin() const { return {0}; }
  Iterator end() const { return {count}; }
};

/// A vector that ids of one kind index.
template <class I, class T>
class Table : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  decltype(auto) operator[](I id) { return std::vector<T>::operator[](id.index); }
  decltype(auto) operator[](I id) const { return std::vector<T>::operator[](id.index); }
  I add(T item) {
    const I id = next();
    this->push_back(std::move(item));
    return id;
  }
  /// Of what is added next.
  I next() const { return {static_cast<uint32_t>(this->size())}; }
  Ids<I> ids() const { return {static_cast<uint32_t>(this->size())}; }
};

}  // namespace tandem::codegen

template <class Tag>
struct std::hash<tandem::ir::Id<Tag>> {
  size_t operator()(tandem::ir::Id<Tag> id) const { return id.index; }
};

#endif  // TANDEM_CODEGEN_IDS_H
