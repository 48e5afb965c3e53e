// What works on any module, that is, on any structure of <tandem/structure.h>: its tensors by name,
// its state, copies, modes. Names are paths ("blocks.0.attn.weight"), as in PyTorch.
//
// A module's buffers are its fields of type nn::Buffer and its integer tensors; its parameters all
// other tensors that it has, trained or frozen (requires_grad). Undefined tensors are left out. A
// tensor that stands in several fields (tied weights) is one.
#ifndef TANDEM_NN_MODULE_H
#define TANDEM_NN_MODULE_H

#include <tandem/named_tensors.h>
#include <tandem/nn/fields.h>

#include <string>
#include <type_traits>
#include <vector>

namespace tandem::nn {

struct LoadStateOptions {
  bool strict = true;       // missing and unexpected names are an Error
  std::string prefix = {};  // the module's names begin so in the state, whose other parts are left
  // The module takes the state's tensors (their memory and dtypes) in place of its own, which
  // optimizers made before still hold. Of a module that is not const, not inside a trace.
  bool assign = false;
};

struct LoadStateReport {
  std::vector<std::string> missing;     // names of the module that the state lacks
  std::vector<std::string> unexpected;  // names of the state that the module lacks
};

/// For a list of fields, what the functions below do for a module.
namespace fields {
using structure::Fields;

TANDEM_API NamedTensors named_tensors(const Fields& fields);
TANDEM_API NamedTensors named_parameters(const Fields& fields);
TANDEM_API NamedTensors named_buffers(const Fields& fields);
/// All tensors, tied ones under each of their names.
TANDEM_API NamedTensors every_name(const Fields& fields);
TANDEM_API std::vector<Tensor> tensors_of(const NamedTensors& named);
TANDEM_API int64_t num_parameters(const Fields& fields);
TANDEM_API NamedTensors state_dict(const Fields& fields);
/// `file`: where the state comes from; empty: from the caller. With `assign` the fields are
/// written.
TANDEM_API LoadStateReport load_state_dict(const Fields& fields, const NamedTensors& state,
                                           const LoadStateOptions& options,
                                           const std::string& file = {});
/// Error{Argument} if a state is to be assigned, to a module that is const.
TANDEM_API void refuse_assign(const LoadStateOptions& options);
TANDEM_API void copy_memory(const Fields& fields);
/// The bool fields called `training`.
TANDEM_API std::vector<bool*> training_flags(const Fields& fields);
TANDEM_API void train(const Fields& fields, bool training);
TANDEM_API void requires_grad_(const Fields& fields, bool value);
TANDEM_API void zero_grad(const Fields& fields);
TANDEM_API void to(const Fields& fields, DType dtype);
/// The structs of this type, each once.
TANDEM_API std::vector<void*> modules(const Fields& fields, const std::type_info& type);
}  // namespace fields

/// Every tensor, each once, under its first name.
template <class Module>
NamedTensors named_tensors(const Module& module) {
  return fields::named_tensors(structure::fields_of(module));
}
/// The parameters, each once, under the first name.
template <class Module>
NamedTensors named_parameters(const Module& module) {
  return fields::named_parameters(structure::fields_of(module));
}
/// What an optimizer is given: it leaves those alone that get no gradient.
template <class Module>
std::vector<Tensor> parameters(const Module& module) {
  return fields::tensors_of(named_parameters(module));
}
/// The buffers, each once, under the first name.
template <class Module>
NamedTensors named_buffers(const Module& module) {
  return fields::named_buffers(structure::fields_of(module));
}
template <class Module>
std::vector<Tensor> buffers(const Module& module) {
  return fields::tensors_of(named_buffers(module));
}
/// How many elements the parameters have.
template <class Module>
int64_t num_parameters(const Module& module) {
  return fields::num_parameters(structure::fields_of(module));
}

/// torch.nn.Module.state_dict: parameters and buffers in the order of fields, detached, over the
/// module's own memory; tied tensors under each of their names.
template <class Module>
NamedTensors state_dict(const Module& module) {
  return fields::state_dict(structure::fields_of(module));
}

/// torch.nn.Module.load_state_dict: copies the state's tensors into the module's, in place and
/// without history, converted to their dtypes. Of tied tensors one name is enough. Error{Argument},
/// and nothing changed, for other sizes, and, if strict, for names that are missing or unexpected;
/// it lists them all.
template <class Module>
LoadStateReport load_state_dict(Module&& module, const NamedTensors& state,
                                const LoadStateOptions& options = {}) {
  if (std::is_const_v<std::remove_reference_t<Module>>) fields::refuse_assign(options);
  return fields::load_state_dict(structure::fields_of(module), state, options);
}

/// A deep copy (Python's copy.deepcopy; `Module copy = module` shares the tensors): memory of its
/// own in the same layout, tied tensors and views of one memory as they were, requires_grad kept;
/// no history and no gradients. What shared_ptrs point to is copied too.
template <class Module>
Module clone(const Module& module) {
  Module copy = module;
  structure::Fields of_copy;
  structure::ListOwnFields list(of_copy);
  structure::for_each_leaf<true>(copy, list);
  fields::copy_memory(of_copy);
  return copy;
}

/// Sets each bool field called `training`, at any depth. Compiled functions are guarded by it.
template <class Module>
void train(Module& module, bool training = true) {
  fields::train(structure::fields_of(module), training);
}
template <class Module>
void eval(Module& module) {
  train(module, false);
}

/// Freezes (false) or thaws the parameters of a module or of a part of it.
template <class Module>
void requires_grad_(const Module& module, bool value = true) {
  fields::requires_grad_(structure::fields_of(module), value);
}

/// Makes the parameters' gradients undefined.
template <class Module>
void zero_grad(const Module& module) {
  fields::zero_grad(structure::fields_of(module));
}

/// torch.nn.Module.to(dtype): the floating tensors and their gradients are converted; they stay the
/// same objects, so optimizers and other modules that hold them go on with them. The state that an
/// optimizer has of them keeps its dtype: make optimizers afterwards. Not to be called between a
/// forward and its backward. Error, and nothing changed,
/// for a dtype that is not floating, inside a trace, and for tensors with a history.
template <class Module>
void to(Module& module, DType dtype) {
  fields::to(structure::fields_of(module), dtype);
}

/// Every struct of type T (exactly) in the module, itself included, in the order of fields, a
/// struct before its own parts; one that several shared_ptrs share once.
template <class T, class Module>
auto modules(Module& module) {
  using Found = std::conditional_t<std::is_const_v<Module>, const T, T>;
  std::vector<Found*> found;
  for (void* m : fields::modules(structure::fields_of(module), typeid(T)))
    found.push_back(static_cast<T*>(m));
  return found;
}

/// f(part) for each of modules<T>(module).
template <class T, class Module, class Function>
void apply(Module& module, Function f) {
  for (auto* part : modules<T>(module)) f(*part);
}

}  // namespace tandem::nn

#endif  // TANDEM_NN_MODULE_H
