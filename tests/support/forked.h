// A forked child of a process with threads.
#ifndef TANDEM_TESTS_SUPPORT_FORKED_H
#define TANDEM_TESTS_SUPPORT_FORKED_H

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace tandem::testing {

/// Whether every thread of this process but the calling one sleeps.
inline bool others_sleep() {
  const auto self = std::to_string(gettid());
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string stat;
    std::getline(std::ifstream(task.path() / "stat"), stat);
    const size_t name_end = stat.rfind(") ");
    if (name_end == std::string::npos) continue;  // it has ended
    if (task.path().filename() != self && stat[name_end + 2] != 'S') return false;
  }
  return true;
}

/// The status, as of waitpid, of a forked child that runs `body` and exits with 0 if that is true;
/// it is killed after `seconds`. Threads that are just starting may be inside the allocator of a
/// sanitizer, whose locks the child would find locked for ever, so the fork waits until all sleep.
template <class Body>
int status_in_child(Body body, unsigned seconds = 30) {
  for (int i = 0; i < 1000 && !others_sleep(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const pid_t child = fork();
  if (child == 0) {
    alarm(seconds);
    _exit(body() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_FORKED_H
