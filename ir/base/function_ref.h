// A non-owning reference to a callable: two words, no allocation. The callable must outlive the
// call it is passed to.
#ifndef TANDEM_IR_BASE_FUNCTION_REF_H
#define TANDEM_IR_BASE_FUNCTION_REF_H

#include <memory>
#include <type_traits>
#include <utility>

namespace tandem::ir {

template <typename Signature>
class FunctionRef;

template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
             std::is_invocable_r_v<R, F&, Args...>)
  FunctionRef(
      F&& f)  // NOLINT(google-explicit-constructor): a lambda is passed where this is expected
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

}  // namespace tandem::ir

#endif  // TANDEM_IR_BASE_FUNCTION_REF_H
