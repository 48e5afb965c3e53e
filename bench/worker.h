// What the workers of bench/peers/compare have in common: one workload per process reads the data,
// builds the step, runs it three times for checking, then times steps on request. Anything but
// protocol lines goes to stderr.
#ifndef TANDEM_BENCH_WORKER_H
#define TANDEM_BENCH_WORKER_H

#include "bench/workloads.h"

namespace bench {

/// Throws tandem::Error for an unknown name.
using Build = Workload (*)(const std::string& name, Data& data);

/// A worker's main(): WORKLOAD DATA.safetensors.
int run_worker(int argc, char** argv, Build build);

}  // namespace bench

#endif  // TANDEM_BENCH_WORKER_H
