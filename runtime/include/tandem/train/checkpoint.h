// Checkpoints of a training run: all that it takes to go on where it was. (To compute activations
// again in backward is another thing: <tandem/autograd/checkpoint.h>.)
#ifndef TANDEM_TRAIN_CHECKPOINT_H
#define TANDEM_TRAIN_CHECKPOINT_H

#include <tandem/named_tensors.h>
#include <tandem/nn/module.h>
#include <tandem/structure.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace tandem::train {

/// What gives its state as tensors and takes it back: optimizers, schedulers, loaders.
template <class T>
concept Stateful = requires(T& object, const T& same, const NamedTensors& state) {
  { same.state_dict() } -> std::convertible_to<NamedTensors>;
  object.load_state_dict(state);
};

/// Numbers, strings and vectors of numbers.
template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string>;
template <class T>
concept PlainVector =
    structure::is_instance<T, std::vector> && (std::is_arithmetic_v<typename T::value_type>);

struct KeepOptions {
  int keep = 3;  // so many of the newest checkpoints; 0: all
};

/// The parts of a run, by name:
///
///   train::Checkpoint checkpoint;
///   checkpoint.add("model", net), checkpoint.add("optimizer", optimizer);
///   checkpoint.add("scheduler", scheduler), checkpoint.add("loader", loader);
///   int64_t step = 0;
///   checkpoint.add("step", step);
///   checkpoint.load_latest("run");
///   for (; step < steps; ++step) {
///     if (step % 100 == 0) checkpoint.save_step("run", step);
///     ...
///   }
///
/// The state of the process's random generator is a part that is always there. A checkpoint is one
/// safetensors file, in which the tensors of a part are named "part.tensor"; PyTorch can read it.
class TANDEM_API Checkpoint {
 public:
  Checkpoint();
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  /// Adds a part, which must live as long as the checkpoint is used: what has state_dict() and
  /// load_state_dict(); a number, a string, a vector of numbers; a tensor; or a module or other
  /// structure of tensors, whose tensors are loaded in place. Error{Argument} for a name that was
  /// added before, is "random", or has other than letters, digits, '_' and '-'.
  template <class T>
  void add(const std::string& name, T& part);

  /// Writes the file `path`, in one step: a crash leaves the file that was there, or the new one,
  /// on the disk. Error{File} likewise.
  void save(const std::string& path) const;
  /// Error{File} if the file cannot be read, is no checkpoint, or has parts, tensors, dtypes or
  /// sizes other than those here, all of which it lists. Nothing has changed then.
  void load(const std::string& path);

  /// save() to "checkpoint-000000000100.safetensors" in `folder` (made if it is missing), which is
  /// this run's alone; then removes the oldest checkpoints there, and what killed writes left.
  /// Returns the path.
  std::string save_step(const std::string& folder, int64_t step,
                        const KeepOptions& options = {}) const;
  /// load() of the latest checkpoint in `folder`, and its step; none if there is no checkpoint, or
  /// no folder. Of files that cannot be read the one before is taken; Error{File} if none can.
  std::optional<int64_t> load_latest(const std::string& folder);

  /// Loads one part alone: that of a checkpoint; or from any other safetensors file, index or
  /// folder (see load_safetensors) all that is there, as of weights that PyTorch wrote. Errors as
  /// load()'s.
  void load_part(const std::string& name, const std::string& path);

 private:
  using State = std::function<NamedTensors()>;
  using Load = std::function<void(const NamedTensors&)>;
  /// Without `load`: it is loaded into the tensors that `state` gives; one under several names is
  /// saved under the first, and loaded from any of them.
  void add_part(const std::string& name, State state, Load load);

  struct Part;
  struct Contents;
  void load(const Contents& contents);
  void load_parts(const Contents& contents, const std::vector<const Part*>& wanted);

  std::vector<Part> parts_;
};

namespace checkpoint_parts {

/// A value as a tensor without a name of its own, and back. Error{File} if it is of another kind.
TANDEM_API NamedTensors state_of(int64_t value);
TANDEM_API NamedTensors state_of(double value);
TANDEM_API NamedTensors state_of(const std::string& value);
TANDEM_API NamedTensors state_of(const std::vector<int64_t>& value);
TANDEM_API NamedTensors state_of(const std::vector<double>& value);
TANDEM_API void read_state(const NamedTensors& state, int64_t& value);
TANDEM_API void read_state(const NamedTensors& state, double& value);
TANDEM_API void read_state(const NamedTensors& state, std::string& value);
TANDEM_API void read_state(const NamedTensors& state, std::vector<int64_t>& value);
TANDEM_API void read_state(const NamedTensors& state, std::vector<double>& value);

/// What a number is kept as.
template <class T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;

template <class T>
void read(const NamedTensors& state, T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    read_state(state, value);
  } else if constexpr (PlainVector<T>) {
    std::vector<Wide<typename T::value_type>> wide;
    read_state(state, wide);
    value.assign(wide.begin(), wide.end());
  } else {
    Wide<T> wide;
    read_state(state, wide);
    value = static_cast<T>(wide);
  }
}

template <class T>
NamedTensors state(const T& value) {
  if constexpr (std::is_same_v<T, std::string>)
    return state_of(value);
  else if constexpr (PlainVector<T>)
    return state_of(std::vector<Wide<typename T::value_type>>(value.begin(), value.end()));
  else
    return state_of(static_cast<Wide<T>>(value));
}

}  // namespace checkpoint_parts

template <class T>
void Checkpoint::add(const std::string& name, T& part) {
  if constexpr (Stateful<T>)
    add_part(
        name, [&part] { return NamedTensors(part.state_dict()); },
        [&part](const NamedTensors& state) { part.load_state_dict(state); });
  else if constexpr (Plain<T> || PlainVector<T>)
    add_part(
        name, [&part] { return checkpoint_parts::state(part); },
        [&part](const NamedTensors& state) { checkpoint_parts::read(state, part); });
  else
    add_part(name, [&part] { return nn::fields::every_name(structure::fields_of(part)); }, nullptr);
}

}  // namespace tandem::train

#endif  // TANDEM_TRAIN_CHECKPOINT_H
