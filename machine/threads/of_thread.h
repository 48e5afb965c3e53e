// Objects of one thread each, for code that destructors of static objects may call: they run behind
// the end of their thread's own.
#ifndef TANDEM_MACHINE_THREADS_OF_THREAD_H
#define TANDEM_MACHINE_THREADS_OF_THREAD_H

#include <utility>

namespace tandem::machine {

/// This thread's T, made at the first call and destroyed with the thread. One that is asked for
/// later is another, and stays.
template <class T>
T& of_thread() {
  static thread_local T* object = nullptr;
  struct Owner {
    ~Owner() { delete std::exchange(object, nullptr); }
  };
  static thread_local Owner owner;
  [[maybe_unused]] Owner& made = owner;
  if (object == nullptr) object = new T;
  return *object;
}

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_THREADS_OF_THREAD_H
