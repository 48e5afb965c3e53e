// Weights computed from others at each call: torch.nn.utils.parametrizations, with its names in the
// state ("parametrizations.weight.original0").
#ifndef TANDEM_NN_PARAMETRIZATIONS_H
#define TANDEM_NN_PARAMETRIZATIONS_H

#include <tandem/nn/fields.h>

#include <map>
#include <string>
#include <type_traits>
#include <utility>

namespace tandem::nn {

struct WeightNormOptions {
  int64_t dim = 0;  // a norm for each index of this dimension; -1: one norm of all
};

/// Salimans & Kingma 2016: weight = magnitude * direction / |direction|.
struct WeightNormTensors {
  using Options = WeightNormOptions;
  Tensor magnitude, direction;  // [1, .., size(dim), .., 1] (dim -1: []) and as the weight
  int64_t dim = 0;
  TANDEM_NAMED_FIELDS(WeightNormTensors, "original0, original1, dim", magnitude, direction, dim)

  WeightNormTensors() = default;
  /// Those that give `weight`.
  TANDEM_API WeightNormTensors(const Tensor& weight, const Options& options);
  TANDEM_API Tensor weight() const;
};

struct SpectralNormOptions {
  int64_t n_power_iterations = 1;  // at each call while training
  double eps = 1e-12;              // of the vectors' norms
  int64_t dim = 0;  // whose indices are the matrix's rows: 1 for transposed convolutions
};

/// Miyato et al. 2018: weight = original / (largest singular value of its matrix), by power
/// iteration. A weight of one dimension is divided by its norm.
struct SpectralNormTensors {
  using Options = SpectralNormOptions;
  struct Vectors {
    Buffer u, v;  // [rows], [columns]
    TANDEM_NAMED_FIELDS(Vectors, "_u, _v", u, v)
  };
  Tensor original;
  Vectors vectors;
  bool training = true;
  int64_t n_power_iterations = 1, dim = 0;
  double eps = 1e-12;
  TANDEM_NAMED_FIELDS(SpectralNormTensors, "original, 0, training, n_power_iterations, dim, eps",
                      original, vectors, training, n_power_iterations, dim, eps)

  SpectralNormTensors() = default;
  /// Starts from random vectors and 15 iterations.
  TANDEM_API SpectralNormTensors(const Tensor& weight, const Options& options);
  /// While training, the vectors are written first.
  TANDEM_API Tensor weight() const;

 private:
  void iterate(const Tensor& matrix, int64_t times) const;
};

/// A module whose tensor `Field` is computed by `Parts` at each call; the other fields keep their
/// names. What training changes are the parts, not the module's field, which is undefined.
template <class M, class Parts, auto Field>
class Parametrized {
 public:
  Parametrized() = default;
  explicit Parametrized(M module, const typename Parts::Options& options = {},
                        const std::string& name = "weight")
      : module_(std::move(module)) {
    parametrizations_.emplace(name, Parts(module_.*Field, options));
    module_.*Field = Tensor();
  }
  TANDEM_NAMED_FIELDS(Parametrized, ", parametrizations", module_, parametrizations_)

  Tensor weight() const { return parametrizations_.begin()->second.weight(); }
  const Parts& parts() const { return parametrizations_.begin()->second; }
  /// The module as it computes now: for what is not called with one tensor.
  M module() const {
    M module = module_;
    module.*Field = weight();
    return module;
  }
  auto operator()(const Tensor& x, SourceLocation where = SourceLocation::current()) const {
    if constexpr (std::is_invocable_v<const M&, const Tensor&, SourceLocation>)
      return module()(x, where);
    else
      return module()(x);
  }

 private:
  M module_;
  std::map<std::string, Parts> parametrizations_;  // one
};

/// torch.nn.utils.parametrizations.weight_norm and spectral_norm, of a module's `weight` or of
/// another field: nn::WeightNorm<Cell, &Cell::w>(cell, {.dim = 1}, "w").
template <class M, auto Field = &M::weight>
using WeightNorm = Parametrized<M, WeightNormTensors, Field>;
template <class M, auto Field = &M::weight>
using SpectralNorm = Parametrized<M, SpectralNormTensors, Field>;

/// The module shares its other tensors with the result. Error{Argument} for options that do not
/// fit the weight.
template <class M>
WeightNorm<M> weight_norm(M module, const WeightNormOptions& options = {}) {
  return WeightNorm<M>(std::move(module), options);
}
template <class M>
SpectralNorm<M> spectral_norm(M module, const SpectralNormOptions& options = {}) {
  return SpectralNorm<M>(std::move(module), options);
}

/// The module with the weight as it is now, a leaf of its own.
template <class M, class Parts, auto Field>
M remove_parametrizations(const Parametrized<M, Parts, Field>& from) {
  M module = from.module();
  const bool trained = (module.*Field).requires_grad();
  module.*Field = (module.*Field).detach().requires_grad_(trained);
  return module;
}

}  // namespace tandem::nn

#endif  // TANDEM_NN_PARAMETRIZATIONS_H
