#include <fmt/format.h>
#include <tandem/generator.h>
#include <tandem/io/safetensors.h>
#include <tandem/ops.h>
#include <tandem/train/checkpoint.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <ranges>
#include <set>

#include "ir/base/error.h"
#include "runtime/eager/copy.h"
#include "runtime/io/files.h"
#include "runtime/io/write_safetensors.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::train {

namespace fs = std::filesystem;

struct Checkpoint::Part {
  std::string name;
  State state;
  Load load;  // null: into the tensors that `state` gives
};

/// What a file has, by part.
struct Checkpoint::Contents {
  std::string path;
  std::map<std::string, NamedTensors, std::less<>> parts;
};

namespace {

constexpr const char* kRandom = "random";
constexpr const char* kVersionKey = "tandem_checkpoint";
constexpr const char* kVersion = "1";
constexpr const char* kPartsKey = "parts";  // names, separated by spaces
constexpr std::string_view kFilePrefix = "checkpoint-", kFileSuffix = ".safetensors";
constexpr std::string_view kPartialPrefix = ".tandem.", kPartialSuffix = ".partial";
constexpr size_t kProblemsShown = 20;

bool is_part_name(const std::string& name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  return !name.empty() && std::ranges::all_of(name, fits);
}

std::string full_name(const std::string& part, const std::string& name) {
  return name.empty() ? part : part + '.' + name;
}

/// What does not fit, as one Error.
class Problems {
 public:
  void add(const std::string& part, const std::string& problem) {
    lines_.push_back(fmt::format("\n  {}: {}", part, problem));
  }
  bool any() const { return !lines_.empty(); }
  [[noreturn]] void fail(const std::string& path) const {
    std::string list;
    for (size_t i = 0; i < std::min(lines_.size(), kProblemsShown); ++i) list += lines_[i];
    if (lines_.size() > kProblemsShown)
      list += fmt::format("\n  and {} more", lines_.size() - kProblemsShown);
    runtime::fail_file("Checkpoint", path, "it does not fit, and nothing was loaded:" + list);
  }

 private:
  std::vector<std::string> lines_;
};

/// Those of a module each once, under the first name.
NamedTensors each_once(const NamedTensors& tensors) {
  NamedTensors once;
  std::set<const void*> seen;
  for (const auto& [name, tensor] : tensors)
    if (seen.insert(tensor.impl().get()).second) once.emplace_back(name, tensor);
  return once;
}

/// Whether `file` has the tensors of a module, tied ones under one of their names, and no others.
void compare(const std::string& part, const NamedTensors& here, const NamedTensors& file,
             Problems& problems) {
  std::set<const void*> given;
  for (const auto& [name, tensor] : here)
    if (find(file, name) != nullptr) given.insert(tensor.impl().get());
  for (const auto& [name, tensor] : here) {
    const Tensor* found = find(file, name);
    if (given.insert(tensor.impl().get()).second)
      problems.add(part, fmt::format("the file has no tensor \"{}\"", name));
    else if (found != nullptr && found->impl()->type() != tensor.impl()->type())
      problems.add(
          part, fmt::format("{}: expected {}, got {}", name, ir::to_string(tensor.impl()->type()),
                            ir::to_string(found->impl()->type())));
  }
  for (const auto& [name, tensor] : file)
    if (find(here, name) == nullptr)
      problems.add(part, fmt::format("the file has a tensor \"{}\", which is not here", name));
}

NamedTensors copies_of(const NamedTensors& tensors) {
  const NoGrad no_grad;
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) copies.emplace_back(name, tensor.detach().clone());
  return copies;
}

/// Writes what compare() found to fit. Cannot fail.
void copy_into(const NamedTensors& here, const NamedTensors& file) {
  for (const auto& [name, tensor] : here) {
    const Tensor* given = find(file, name);
    if (given == nullptr) continue;  // the tensor has another name
    runtime::copy_elements(*tensor.impl(), *given->impl());
    tensor.impl()->storage->bump_version();
  }
}

void set_random_state(const NamedTensors& state) {
  const Tensor* given = state.size() == 1 ? find(state, "") : nullptr;
  if (given == nullptr || given->impl()->type() != ir::Type{i64, {2}})
    ir::fail(Errc::File, "expected the state of the random generator, i64[2]");
  set_rng_state(*given);
}

/// The step in the name of a checkpoint's file.
std::optional<int64_t> step_of(const std::string& file) {
  std::string_view digits = file;
  if (!digits.starts_with(kFilePrefix) || !digits.ends_with(kFileSuffix)) return {};
  digits.remove_prefix(kFilePrefix.size());
  digits.remove_suffix(kFileSuffix.size());
  int64_t step = 0;
  const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (bad != std::errc() || end != digits.data() + digits.size() || step < 0) return {};
  return step;
}

/// The checkpoints of a folder by step, the latest first.
std::map<int64_t, fs::path, std::greater<>> checkpoints_in(const std::string& folder) {
  std::map<int64_t, fs::path, std::greater<>> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (const auto step = step_of(entry.path().filename().string())) found[*step] = entry.path();
  return found;
}

/// Removes what is older than the `keep` checkpoints up to `step` (0: nothing), and what killed
/// writes left.
void remove_old(const std::string& folder, int64_t step, int keep) {
  int kept = 0;
  for (const auto& [at, path] : checkpoints_in(folder))
    if (at <= step && ++kept > keep && keep > 0) fs::remove(path);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPartialPrefix) && name.ends_with(kPartialSuffix)) fs::remove(entry);
  }
}

}  // namespace

Checkpoint::Checkpoint() {
  parts_.push_back(
      {kRandom, [] { return NamedTensors{{"", get_rng_state()}}; }, &set_random_state});
}

Checkpoint::~Checkpoint() = default;

void Checkpoint::add_part(const std::string& name, State state, Load load) {
  if (!is_part_name(name) || std::ranges::count(parts_, name, &Part::name) != 0)
    ir::fail(Errc::Argument,
             fmt::format("Checkpoint::add: expected a name of its own, of letters, digits, '_' and "
                         "'-', other than \"{}\", got \"{}\"",
                         kRandom, name));
  parts_.push_back({name, std::move(state), std::move(load)});
}

// --- saving

void Checkpoint::save(const std::string& path) const {
  NamedTensors all;
  std::string names;
  for (const Part& part : parts_) {
    names += (names.empty() ? "" : " ") + part.name;
    const NamedTensors state = part.load == nullptr ? each_once(part.state()) : part.state();
    for (const auto& [name, tensor] : state) all.emplace_back(full_name(part.name, name), tensor);
  }
  runtime::write_safetensors("Checkpoint::save", path, all,
                             {{"format", "pt"}, {kVersionKey, kVersion}, {kPartsKey, names}},
                             runtime::Commit::ToDisk);
}

std::string Checkpoint::save_step(const std::string& folder, int64_t step,
                                  const KeepOptions& options) const {
  if (step < 0 || options.keep < 0)
    ir::fail(Errc::Argument,
             fmt::format("Checkpoint::save_step: expected a step and a number of checkpoints to "
                         "keep, got {} and {}",
                         step, options.keep));
  const fs::path path =
      fs::path(folder) / fmt::format("{}{:012}{}", kFilePrefix, step, kFileSuffix);
  try {
    fs::create_directories(folder);
    save(path.string());
    remove_old(folder, step, options.keep);
  } catch (const fs::filesystem_error& e) {
    runtime::fail_file("Checkpoint::save_step", folder, e.code().message());
  }
  return path.string();
}

// --- loading

namespace {

bool is_checkpoint(const std::string& path) {
  std::error_code none;
  return fs::is_regular_file(path, none) && !path.ends_with(".json") &&
         safetensors_metadata(path).contains(kVersionKey);
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t size = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, size));
    text.remove_prefix(std::min(size + 1, text.size()));
  }
  return words;
}

std::map<std::string, NamedTensors, std::less<>> read_parts(const std::string& path) {
  const Metadata metadata = safetensors_metadata(path);
  const auto version = metadata.find(kVersionKey);
  const auto names = metadata.find(kPartsKey);
  if (version == metadata.end() || names == metadata.end())
    runtime::fail_file(
        "Checkpoint", path,
        "expected a checkpoint, got another safetensors file (load_part reads one as "
        "the state of one part)");
  if (version->second != kVersion)
    runtime::fail_file("Checkpoint", path,
                       fmt::format("expected version {}, got {}", kVersion, version->second));
  std::map<std::string, NamedTensors, std::less<>> parts;
  for (const std::string& name : words_of(names->second)) parts[name];
  for (auto& [name, tensor] : load_safetensors(path, {.mmap = true})) {
    const size_t dot = name.find('.');
    const auto part = parts.find(std::string_view(name).substr(0, dot));
    if (part == parts.end())
      runtime::fail_file("Checkpoint", path, fmt::format("\"{}\" belongs to no part", name));
    part->second.emplace_back(dot == std::string::npos ? "" : name.substr(dot + 1),
                              std::move(tensor));
  }
  return parts;
}

}  // namespace

// Parts that load themselves come first: they may refuse, and all get back what they had. The
// generator is the last of them, since another may draw. Then what cannot fail.
void Checkpoint::load_parts(const Contents& contents, const std::vector<const Part*>& wanted) {
  Problems problems;
  for (const auto& [name, state] : contents.parts)
    if (std::ranges::count(wanted, name, &Part::name) == 0)
      problems.add(name, "the file has such a part, which was not added here");
  for (const Part* part : wanted)
    if (!contents.parts.contains(part->name))
      problems.add(part->name, "the file has no such part");
    else if (part->load == nullptr)
      compare(part->name, part->state(), contents.parts.at(part->name), problems);
  if (problems.any()) problems.fail(contents.path);
  std::vector<std::pair<const Part*, NamedTensors>> before;
  const auto give_back = [&] {
    for (const auto& [part, state] : before) part->load(state);
  };
  for (const Part* part : wanted) {
    if (part->load == nullptr) continue;
    before.emplace_back(part, copies_of(part->state()));
    try {
      part->load(contents.parts.at(part->name));
    } catch (const Error& e) {
      problems.add(part->name, e.what());
    } catch (...) {
      give_back();
      throw;
    }
  }
  if (problems.any()) {
    give_back();
    problems.fail(contents.path);
  }
  for (const Part* part : wanted)
    if (part->load == nullptr) copy_into(part->state(), contents.parts.at(part->name));
}

void Checkpoint::load(const Contents& contents) {
  std::vector<const Part*> wanted;
  for (const Part& part : std::views::reverse(parts_)) wanted.push_back(&part);
  load_parts(contents, wanted);
}

void Checkpoint::load(const std::string& path) { load(Contents{path, read_parts(path)}); }

void Checkpoint::load_part(const std::string& name, const std::string& path) {
  const auto part = std::ranges::find(parts_, name, &Part::name);
  if (part == parts_.end())
    ir::fail(
        Errc::Argument,
        fmt::format("Checkpoint::load_part: expected a part that was added, got \"{}\"", name));
  Contents contents{path, {}};
  if (is_checkpoint(path))
    std::erase_if(contents.parts = read_parts(path),
                  [&](const auto& p) { return p.first != name; });
  else
    contents.parts[name] = load_safetensors(path, {.mmap = true});
  load_parts(contents, {&*part});
}

std::optional<int64_t> Checkpoint::load_latest(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return {};
  std::map<int64_t, fs::path, std::greater<>> found;
  try {
    found = checkpoints_in(folder);
  } catch (const fs::filesystem_error& e) {
    runtime::fail_file("Checkpoint::load_latest", folder, e.code().message());
  }
  std::string unreadable;
  for (const auto& [step, path] : found) {
    Contents contents{path.string(), {}};
    try {
      contents.parts = read_parts(contents.path);
    } catch (const Error& e) {
      unreadable += fmt::format("\n  {}", e.what());
      continue;
    }
    load(contents);
    return step;
  }
  if (!unreadable.empty())
    runtime::fail_file("Checkpoint::load_latest", folder,
                       "no checkpoint can be read:" + unreadable);
  return {};
}

// --- values

namespace checkpoint_parts {
namespace {

/// The one tensor of a value's state.
Tensor value_of(const NamedTensors& state, DType dtype, int rank, const char* what) {
  const Tensor* t = state.size() == 1 ? find(state, "") : nullptr;
  if (t == nullptr || t->dtype() != dtype || t->dim() != rank)
    ir::fail(Errc::File,
             fmt::format("expected {} ({}, {} dimensions), got {}", what, ir::name(dtype), rank,
                         t == nullptr ? fmt::format("{} tensors", state.size())
                                      : ir::to_string(t->impl()->type())));
  return *t;
}

template <class T>
NamedTensors vector_state(const std::vector<T>& value) {
  return {{"", from_data(value, {static_cast<int64_t>(value.size())})}};
}

}  // namespace

NamedTensors state_of(int64_t value) { return {{"", from_data(std::vector<int64_t>{value}, {})}}; }
NamedTensors state_of(double value) { return {{"", from_data(std::vector<double>{value}, {})}}; }
NamedTensors state_of(const std::string& value) {
  return vector_state(std::vector<uint8_t>(value.begin(), value.end()));
}
NamedTensors state_of(const std::vector<int64_t>& value) { return vector_state(value); }
NamedTensors state_of(const std::vector<double>& value) { return vector_state(value); }

void read_state(const NamedTensors& state, int64_t& value) {
  value = value_of(state, i64, 0, "an integer").to_vector<int64_t>().at(0);
}
void read_state(const NamedTensors& state, double& value) {
  value = value_of(state, f64, 0, "a number").to_vector<double>().at(0);
}
void read_state(const NamedTensors& state, std::string& value) {
  const auto bytes = value_of(state, u8, 1, "a string").to_vector<uint8_t>();
  value.assign(bytes.begin(), bytes.end());
}
void read_state(const NamedTensors& state, std::vector<int64_t>& value) {
  value = value_of(state, i64, 1, "integers").to_vector<int64_t>();
}
void read_state(const NamedTensors& state, std::vector<double>& value) {
  value = value_of(state, f64, 1, "numbers").to_vector<double>();
}

}  // namespace checkpoint_parts

}  // namespace tandem::train
