// Freeing long chains without recursion and without memory.
#ifndef TANDEM_RUNTIME_TAPE_DELETE_IN_TURN_H
#define TANDEM_RUNTIME_TAPE_DELETE_IN_TURN_H

#include <utility>

namespace tandem::runtime {

/// Deletes now, or after the deletion of another T that is under way in this thread: what that one
/// owned queues up through T::next_dead, so that a chain of any length needs no stack.
template <class T>
void delete_in_turn(T* dead) {
  thread_local T* pending = nullptr;
  thread_local bool deleting = false;
  dead->next_dead = std::exchange(pending, dead);
  if (std::exchange(deleting, true)) return;
  while (pending != nullptr) {
    T* next = std::exchange(pending, pending->next_dead);
    delete next;
  }
  deleting = false;
}

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TAPE_DELETE_IN_TURN_H
