// The tensors of a structure: listed, and others in their place.
#ifndef TANDEM_AUTOGRAD_TENSORS_OF_H
#define TANDEM_AUTOGRAD_TENSORS_OF_H

#include <tandem/structure.h>

namespace tandem::runtime {

/// The tensors of a structure, in order.
struct ListTensors {
  std::vector<Tensor>& list;
  void operator()(const Tensor& t, const std::string&) { list.push_back(t); }
  template <class T>
  void operator()(const T&, const std::string&) {}
  void count(size_t, const std::string&) {}
};

/// Puts in place of each tensor of a structure what `make` gives for it.
template <class Make>
struct ReplaceTensors {
  Make make;
  structure::OwnShared own = structure::OwnShared(true);
  void operator()(Tensor& t, const std::string&) { t = make(t); }
  template <class T>
  void operator()(const T&, const std::string&) {}
  void count(size_t, const std::string&) {}
};

template <class T, class Make>
void replace_tensors(T& value, Make make) {
  ReplaceTensors<Make> replace{make};
  structure::for_each_leaf<true>(value, replace);
}

}  // namespace tandem::runtime

#endif  // TANDEM_AUTOGRAD_TENSORS_OF_H
