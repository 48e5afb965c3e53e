// The state of modules: parameters and buffers by name.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tandem/autograd.h>
#include <tandem/nn/module.h>
#include <tandem/ops.h>

#include <map>
#include <set>
#include <string_view>

#include "ir/base/error.h"
#include "runtime/nn/tensor_fields.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/autograd.h"
#include "runtime/trace/trace.h"

namespace tandem::nn::fields {
namespace {

/// "prefix.name" of each name, quoted.
std::vector<std::string> quoted(const std::string& prefix, const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const std::string& name : names)
    out.push_back(fmt::format("\"{}\"", structure::join(prefix, name)));
  return out;
}

/// Which tensor of the state goes into which of the module.
class Assignment {
 public:
  Assignment(const NamedTensors& module, const NamedTensors& state,
             const LoadStateOptions& options);

  /// Error unless the state fits.
  void check(const std::string& file) const;
  /// Copies all or nothing.
  void run() const;
  /// Puts the state's tensors into the fields, all or nothing. Tied ones stay tied.
  void assign_to(const Fields& fields) const;
  const LoadStateReport& report() const { return report_; }

 private:
  void add(const std::string& name, const Tensor& to, const Tensor& from);

  struct Copy {
    std::string name;
    Tensor to, from;
  };
  const LoadStateOptions& options_;
  LoadStateReport report_;
  std::vector<std::string> wrong_;  // what does not fit whatever is asked
  std::vector<Copy> copies_;
};

Assignment::Assignment(const NamedTensors& module, const NamedTensors& state,
                       const LoadStateOptions& options)
    : options_(options) {
  const std::map<std::string_view, Tensor> targets(module.begin(), module.end());
  std::set<std::string_view> names;
  std::set<const void*> given;
  for (const auto& [name, value] : state) {
    const auto target = targets.find(name);
    if (target == targets.end()) {
      report_.unexpected.push_back(name);
      continue;
    }
    given.insert(target->second.impl().get());
    if (!names.insert(name).second)
      wrong_.push_back(fmt::format("\"{}\" twice", structure::join(options.prefix, name)));
    add(name, target->second, value);
  }
  for (const auto& [name, target] : module)
    if (!given.contains(target.impl().get())) report_.missing.push_back(name);
}

void Assignment::add(const std::string& name, const Tensor& to, const Tensor& from) {
  if (from.defined() && from.sizes() == to.sizes()) {
    copies_.push_back({name, to, from});
    return;
  }
  wrong_.push_back(fmt::format("\"{}\": expected {}, got {}",
                               structure::join(options_.prefix, name), to_string(to.sizes()),
                               from.defined() ? to_string(from.sizes()) : "an undefined tensor"));
}

void Assignment::check(const std::string& file) const {
  std::vector<std::string> problems = wrong_;
  const auto add = [&](const char* what, const std::vector<std::string>& names) {
    if (options_.strict && !names.empty())
      problems.push_back(
          fmt::format("{} {}", what, fmt::join(quoted(options_.prefix, names), ", ")));
  };
  add("missing", report_.missing);
  add("unexpected", report_.unexpected);
  if (problems.empty()) return;
  const std::string where = file.empty() ? "load_state_dict" : "load: " + file;
  ir::fail(
      file.empty() ? Errc::Argument : Errc::File,
      fmt::format("{}: the state does not fit the module: {}", where, fmt::join(problems, "; ")));
}

void Assignment::run() const {
  const NoGrad no_grad;
  for (const Copy& copy : copies_) {
    if (runtime::Trace::current() == nullptr)
      for (const Tensor& t : {copy.to, copy.from})
        runtime::require_real(t, fmt::format("load_state_dict: tensor \"{}\"", copy.name));
    const Tensor operands[] = {copy.to, copy.from};
    runtime::check_writable(operands, ir::Op::copy);
  }
  for (const Copy& copy : copies_) copy.to.copy_(copy.from);
}

void Assignment::assign_to(const Fields& fields) const {
  if (runtime::Trace::current() != nullptr)
    ir::fail(Errc::Trace,
             "load_state_dict: assign would replace a module's tensors inside a trace, which later "
             "calls could not replay; expected it outside");
  std::map<const void*, Tensor> by_old;
  for (const Copy& copy : copies_) {
    runtime::require_real(copy.from, fmt::format("load_state_dict: tensor \"{}\"", copy.name));
    Tensor taken = copy.from.detach();
    if (copy.to.requires_grad()) taken.requires_grad_();
    by_old[copy.to.impl().get()] = std::move(taken);
  }
  for (const structure::Field& field : fields)
    if (holds_tensor(field)) {
      const auto taken = by_old.find(tensor_of(field).impl().get());
      if (taken != by_old.end()) tensor_of(field) = taken->second;
    }
}

}  // namespace

NamedTensors every_name(const Fields& fields) {
  NamedTensors out;
  for (const structure::Field& field : fields)
    if (holds_tensor(field)) out.emplace_back(field.path, tensor_of(field));
  return out;
}

NamedTensors state_dict(const Fields& fields) {
  NamedTensors state = every_name(fields);
  for (auto& [name, tensor] : state) tensor = tensor.detach();
  return state;
}

void refuse_assign(const LoadStateOptions& options) {
  if (options.assign)
    ir::fail(Errc::Argument,
             "load_state_dict: assign replaces the module's tensors; expected a module that is not "
             "const");
}

LoadStateReport load_state_dict(const Fields& fields, const NamedTensors& state,
                                const LoadStateOptions& options, const std::string& file) {
  const NamedTensors parts = options.prefix.empty() ? state : parts_of(state, options.prefix);
  const Assignment assignment(every_name(fields), parts, options);
  assignment.check(file);
  if (options.assign)
    assignment.assign_to(fields);
  else
    assignment.run();
  return assignment.report();
}

}  // namespace tandem::nn::fields
