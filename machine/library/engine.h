// The one oneDNN engine of the process.
#ifndef TANDEM_MACHINE_LIBRARY_ENGINE_H
#define TANDEM_MACHINE_LIBRARY_ENGINE_H

#include <oneapi/dnnl/dnnl.hpp>

namespace tandem::machine {

inline dnnl::engine& cpu_engine() {
  static dnnl::engine* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_LIBRARY_ENGINE_H
