// What <tandem/graph.h> offers to who steers the compiler.
#include <tandem/graph.h>

#include "ir/base/error.h"
#include "partition/partition.h"
#include "runtime/backends/backends.h"

namespace tandem {

std::shared_ptr<const Partitioner> make_partitioner(const std::string& name) {
  return partition::make_partitioner(name);
}

std::shared_ptr<const Partitioner> make_partitioner(std::string name, ChooseSaved choose) {
  if (!choose)
    ir::fail(Errc::Argument,
             "partitioner " + name + ": expected a function that chooses, got an empty one");
  return partition::make_partitioner(std::move(name), std::move(choose));
}

std::shared_ptr<const Backend> backend_named(const std::string& name) {
  if (name == "jit") return runtime::jit_backend();
  if (name == "interpreter") return runtime::interpreter_backend();
  ir::fail(Errc::Argument, "backend: unknown name; expected jit or interpreter, got " + name);
}

}  // namespace tandem
