// FunctionRef: a non-owning reference to a callable, two words, no allocation. It must not outlive
// the callable.
#ifndef TANDEM_FUNCTION_REF_H
#define TANDEM_FUNCTION_REF_H

#include <memory>
#include <type_traits>
#include <utility>

namespace tandem::runtime {

template <class Signature>
class FunctionRef;

template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
  FunctionRef(F&& f)  // NOLINT(google-explicit-constructor)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace tandem::runtime

#endif  // TANDEM_FUNCTION_REF_H
