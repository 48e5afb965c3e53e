// functionalize(fn): the same function without writes to intermediates. It composes with grad, with
// compile and with make_graph (<tandem/graph.h>).
#ifndef TANDEM_FUNCTIONALIZE_H
#define TANDEM_FUNCTIONALIZE_H

#include <tandem/compile.h>

namespace tandem {

/// What functionalize takes out of a function. (Lower case: it reads as part of the call.)
// NOLINTNEXTLINE(readability-identifier-naming)
enum class remove : uint8_t {
  mutations,            // equations that write; arguments are written once, at the end
  mutations_and_views,  // views too: they become `_copy` operations, every tensor is contiguous
};

// The phase of the same name is a namespace inside the library, which this lets stand beside.
inline namespace forms {

/// A function that does what `fn` does, in operations that write nothing; what fn writes to its
/// arguments is copied there at the end. It runs eagerly, inside a trace it is traced through. Fn
/// is as in compile. Without views, results share no memory with anything.
template <class Fn>
auto functionalize(Fn fn, remove what = remove::mutations) {
  using Result = typename runtime::Signature<Fn>::template Result<Fn>;
  return Result(std::move(fn), runtime::make_functionalizer(what == remove::mutations_and_views));
}

}  // namespace forms

}  // namespace tandem

#endif  // TANDEM_FUNCTIONALIZE_H
