#include "runtime/ops/custom/operator_impl.h"

#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/ops.h>

#include <cstring>
#include <map>
#include <sstream>

#include "ir/base/error.h"
#include "ir/text/spelling.h"
#include "ir/verify/verify.h"
#include "runtime/eager/copy.h"
#include "runtime/tape/autograd.h"

namespace tandem::runtime {

void refuse(const OperatorImpl& op, Errc code, const std::string& problem) {
  ir::fail(code, fmt::format("{}: {}", op.name(), problem));
}

std::string spelled(const std::vector<Number>& numbers) {
  std::string out;
  for (const Number& n : numbers) out += (out.empty() ? "" : " ") + ir::spell(n);
  return out;
}

std::vector<std::string> savable(const OperatorImpl& op) {
  std::vector<std::string> names;
  for (const auto& t : op.tensors) names.push_back(t.name);
  for (size_t w : op.written) names.push_back(op.tensors[w].name + "!");
  for (size_t i = 0; i < op.aliased.size(); ++i)
    if (op.aliased[i] < 0) names.push_back(op.schema.results[i].name);
  return names;
}

namespace {

TensorType type_of(const Tensor& t) { return {t.dtype(), t.sizes()}; }
std::string text(const TensorType& type) { return ir::to_string(ir::Type{type.dtype, type.sizes}); }

std::vector<Number> numbers_of(std::string_view arguments) {
  std::istringstream words{std::string(arguments)};
  std::vector<Number> numbers;
  for (std::string word; words >> word;) {
    if (word == "true" || word == "false")
      numbers.emplace_back(word == "true");
    else if (word.find_first_of(".enai") != std::string::npos)
      numbers.emplace_back(std::strtod(word.c_str(), nullptr));
    else
      numbers.emplace_back(static_cast<int64_t>(std::strtoll(word.c_str(), nullptr, 10)));
  }
  return numbers;
}

/// A tensor over memory that somebody else owns.
Tensor wrapped(const ir::BufferView& view, bool read_only) {
  return from_blob(view.data, view.sizes, view.strides, view.dtype, {}, read_only);
}

/// The contents of what may not change, to find an undeclared write by.
class Snapshot {
 public:
  Snapshot(const OperatorImpl& op, const std::vector<Tensor>& tensors) : op_(op) {
    if (!ir::verification_enabled()) return;
    for (size_t i = 0; i < tensors.size(); ++i)
      if (std::ranges::count(op.written, i) == 0 && !overlaps_written(tensors, i))
        before_.emplace_back(i, contents(tensors[i]));
  }
  void compare(const std::vector<Tensor>& tensors) const {
    for (const auto& [i, before] : before_) {
      const Tensor now = contents(tensors[i]);
      const auto bytes = static_cast<size_t>(int64_t{now.numel()}) * ir::size_of(now.dtype());
      if (std::memcmp(now.impl()->data(), before.impl()->data(), bytes) != 0)
        refuse(op_, Errc::Mutation,
               fmt::format("it wrote argument {}, which its schema does not declare; expected "
                           "Tensor(a!) {}",
                           op_.tensors[i].name, op_.tensors[i].name));
    }
  }

 private:
  bool overlaps_written(const std::vector<Tensor>& tensors, size_t i) const {
    return std::ranges::any_of(op_.written,
                               [&](size_t w) { return share_storage(tensors[w], tensors[i]); });
  }
  static Tensor contents(const Tensor& t) {
    const Tensor copy = empty_tensor(t.sizes(), t.dtype());
    copy_elements(*copy.impl(), *t.impl());
    return copy;
  }

  const OperatorImpl& op_;
  std::vector<std::pair<size_t, Tensor>> before_;
};

}  // namespace

OperatorImpl::OperatorImpl(OperatorDefinition given)
    : definition(std::move(given)), schema(parse_schema(definition.schema)) {
  for (const auto& a : schema.arguments) (a.kind == "Tensor" ? tensors : numbers).push_back(a);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].written) written.push_back(i);
  for (const auto& r : schema.results) {
    const auto of = std::ranges::find_if(
        tensors, [&](const auto& t) { return !r.alias.empty() && t.alias == r.alias; });
    if (!r.alias.empty() && of == tensors.end())
      refuse(*this, Errc::Parse, fmt::format("no argument has the alias {} of a result", r.alias));
    aliased.push_back(of == tensors.end() ? -1 : static_cast<int>(of - tensors.begin()));
    new_results += aliased.back() < 0;
  }
  check_definition();
}

void OperatorImpl::check_definition() const {
  if (!definition.run) refuse(*this, Errc::Argument, "expected a definition with `run`");
  if (tensors.empty()) refuse(*this, Errc::Argument, "expected at least one tensor argument");
  if (gives_nothing() && !is_ordered())
    refuse(*this, Errc::Argument, "expected a written argument, a result of its own, or `ordered`");
  if (new_results > 0 && !definition.shape)
    refuse(*this, Errc::Argument, "expected `shape`, which gives the types of its results");
  const std::vector<std::string> names = savable(*this);
  for (const std::string& name : definition.saves)
    if (std::ranges::count(names, name) == 0)
      refuse(*this, Errc::Argument,
             fmt::format("`saves` names {}; expected an argument, `argument!` for what it is after "
                         "the call, or a new result",
                         name));
}

std::vector<TensorType> OperatorImpl::new_types(const std::vector<TensorType>& of,
                                                const std::vector<Number>& given) const {
  if (new_results == 0) return {};
  std::vector<TensorType> types = definition.shape(of, given);
  if (types.size() != new_results)
    refuse(*this, Errc::Shape,
           fmt::format("`shape` gives the wrong number of types; expected {}, "
                       "got {}",
                       new_results, types.size()));
  return types;
}

std::vector<ir::Type> OperatorImpl::result_types(std::span<const ir::Type> operands,
                                                 std::string_view arguments) const {
  if (operands.size() != tensors.size())
    refuse(*this, Errc::Graph,
           fmt::format("wrong number of operands; expected {}, got {}", tensors.size(),
                       operands.size()));
  const std::vector<Number> given = numbers_of(arguments);
  if (given.size() != numbers.size())
    refuse(
        *this, Errc::Graph,
        fmt::format("wrong number of numbers; expected {}, got {}", numbers.size(), given.size()));
  std::vector<TensorType> of;
  for (const ir::Type& t : operands) of.push_back({t.dtype, t.sizes});
  std::vector<ir::Type> types;
  for (size_t w : written) types.push_back(operands[w]);
  for (const TensorType& t : new_types(of, given)) types.push_back({t.dtype, t.sizes});
  return types;
}

void OperatorImpl::run(std::span<const ir::BufferView> operands, std::string_view arguments,
                       std::span<const ir::BufferView> results) const {
  std::vector<Tensor> given;
  for (const ir::BufferView& view : operands) given.push_back(wrapped(view, true));
  for (size_t k = 0; k < written.size(); ++k) {
    const Tensor contents = wrapped(results[k], false);
    copy_elements(*contents.impl(), *given[written[k]].impl());
    given[written[k]] = contents;
  }
  const std::vector<Tensor> made = run_checked(given, numbers_of(arguments));
  for (size_t i = 0; i < made.size(); ++i)
    copy_elements(*wrapped(results[written.size() + i], false).impl(), *made[i].impl());
}

/// Twins over the same memory, for the user's code: without history, with versions of their own
/// (the call advances the real ones once), and read-only where it may not write.
std::vector<Tensor> OperatorImpl::lent(const std::vector<Tensor>& given) const {
  std::map<const Storage*, std::shared_ptr<Storage>> storages;
  for (size_t i = 0; i < given.size(); ++i) {
    const std::shared_ptr<Storage>& real = given[i].impl()->storage;
    const bool writes =
        std::ranges::any_of(written, [&](size_t w) { return share_storage(given[w], given[i]); });
    storages.emplace(real.get(),
                     Storage::wrap(real->data(), real->bytes(), [real](void*) {}, !writes));
  }
  std::vector<Tensor> twins;
  for (const Tensor& t : given) {
    twins.push_back(without_history(t));
    twins.back().impl()->storage = storages[t.impl()->storage.get()];
  }
  return twins;
}

std::vector<Tensor> OperatorImpl::run_checked(const std::vector<Tensor>& on,
                                              const std::vector<Number>& given) const {
  const Snapshot snapshot(*this, on);
  const std::vector<Tensor> arguments = lent(on);
  std::vector<Tensor> results;
  {
    const NoGrad no_grad;
    results = definition.run(arguments, given);
  }
  check_new(results, arguments, given);
  snapshot.compare(on);
  return results;
}

void OperatorImpl::check_new(const std::vector<Tensor>& results,
                             const std::vector<Tensor>& arguments,
                             const std::vector<Number>& given) const {
  if (results.size() != new_results)
    refuse(
        *this, Errc::Argument,
        fmt::format("`run` gives the wrong number of results; expected {} that are no arguments, "
                    "got {}",
                    new_results, results.size()));
  std::vector<TensorType> of;
  for (const Tensor& t : arguments) of.push_back(type_of(t));
  const std::vector<TensorType> types = new_types(of, given);
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string got = results[i].defined() ? text(type_of(results[i])) : "undefined";
    if (got != text(types[i]))
      refuse(*this, Errc::Shape,
             fmt::format("result {} is not what `shape` says; expected {}, got "
                         "{}",
                         i, text(types[i]), got));
    for (size_t a = 0; a < arguments.size(); ++a)
      if (share_storage(results[i], arguments[a]))
        refuse(*this, Errc::Mutation,
               fmt::format("result {} shares memory with argument {}, which its schema does not "
                           "declare; expected a tensor of its own, or Tensor({}) in the schema",
                           i, tensors[a].name, tensors[a].alias.empty() ? "a" : tensors[a].alias));
  }
}

std::vector<Tensor> OperatorImpl::arrange(const std::vector<Tensor>& arguments,
                                          std::vector<Tensor> made) const {
  std::vector<Tensor> results;
  size_t next = 0;
  for (size_t i = 0; i < aliased.size(); ++i) {
    if (aliased[i] < 0) {
      results.push_back(std::move(made[next++]));
      continue;
    }
    const Tensor& argument = arguments[static_cast<size_t>(aliased[i])];
    results.push_back(definition.view ? definition.view(i, argument) : argument);
    if (!share_storage(results.back(), argument))
      refuse(*this, Errc::Mutation,
             fmt::format("`view` gives a tensor of its own for result {}; expected a view of "
                         "argument {}",
                         i, tensors[static_cast<size_t>(aliased[i])].name));
  }
  return results;
}

}  // namespace tandem::runtime
