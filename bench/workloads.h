// The training steps that are compared with the peers, as programs a user of Tandem would write.
#ifndef TANDEM_BENCH_WORKLOADS_H
#define TANDEM_BENCH_WORKLOADS_H

#include <tandem/tandem.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace bench {

using Data = std::map<std::string, tandem::Tensor>;

struct Workload {
  std::function<void()>
      step;  // one training step; leaves every gradient or updated parameter readable
  std::function<std::vector<double>()> check;  // the checked numbers of the last step
};

/// Throws tandem::Error for an unknown name.
Workload build(const std::string& name, Data& data);

/// The same training step as one function of loss, backward and optimizer, compiled or eager.
/// Throws tandem::Error for a name that is unknown or trains nothing.
Workload build_whole(const std::string& name, Data& data, bool compiled);

}  // namespace bench

#endif  // TANDEM_BENCH_WORKLOADS_H
