// What exit() takes apart under threads that still run. It destroys the static objects of oneDNN
// and LLVM while detached threads may be inside them; so from then on nobody gets in, and exit
// waits for those who are. (Our own static objects are never destroyed.)
#ifndef TANDEM_MACHINE_LIBRARY_EXIT_GATE_H
#define TANDEM_MACHINE_LIBRARY_EXIT_GATE_H

namespace tandem::machine {

/// While it lives its thread is inside a library. Once the process is ending the constructor does
/// not return, save on the thread that ends it.
class InLibrary {
 public:
  InLibrary() noexcept;
  ~InLibrary();
  InLibrary(const InLibrary&) = delete;
  InLibrary& operator=(const InLibrary&) = delete;
};

/// Has exit close the gate before it destroys what static objects exist now, and wait for up to two
/// seconds. To be called once a library has made its own.
void close_gate_at_exit();

/// Whether the gate is closed.
bool is_ending() noexcept;

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_LIBRARY_EXIT_GATE_H
