// Where random numbers come from: the generator of the process, and others as objects
// (torch.Generator).
#ifndef TANDEM_GENERATOR_H
#define TANDEM_GENERATOR_H

#include <tandem/structure.h>
#include <tandem/tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace tandem {

/// A source of random numbers of its own: a handle, whose copies draw from the same numbers. Its
/// state is a tensor, i64 [2]: the seed, and how many blocks of four 32-bit words were drawn since.
/// As a field of a module it is a buffer, saved and cloned with the module.
///
/// A compiled function that draws from one (a capture, an argument, a field of one) gives the
/// numbers that eager would have drawn, and leaves the generator where eager would have left it.
/// Other than the process's it is, as all tensors that a compiled function writes, one thread's
/// during such a call.
class TANDEM_API Generator {
 public:
  /// Seeded as the process's is at its start. Inside a trace: a new one in each call.
  Generator();
  explicit Generator(uint64_t seed);

  /// Starts again from `seed`.
  const Generator& manual_seed(uint64_t seed) const;
  /// Starts again from a seed that nobody can foretell, and returns it. Error{Trace} in a trace.
  uint64_t seed() const;
  /// What it was last seeded with. Error{Trace} in a trace.
  uint64_t initial_seed() const;

  /// A copy of the state, i64 [2].
  Tensor get_state() const;
  /// Goes on from a state that get_state gave. Error{DType} or Error{Shape} for other tensors.
  const Generator& set_state(const Tensor& state) const;
  /// Another generator, which goes on from here.
  Generator clone() const;

 private:
  explicit Generator(nn::Buffer of) : state(std::move(of)) {}
  friend TANDEM_API const Generator& default_generator();

  nn::Buffer state;  // NOLINT(readability-identifier-naming): as files name it. None: the process

 public:
  TANDEM_LAZY_FIELDS(Generator, state)
};

/// The generator of the process, from which all draw who name no other: any number of threads may.
/// Inside a trace it can be drawn from; to seed it, to read or to set its state is Error{Trace}.
TANDEM_API const Generator& default_generator();
/// Its state (torch.get_rng_state), i64 [2].
TANDEM_API Tensor get_rng_state();
TANDEM_API void set_rng_state(const Tensor& state);
/// What it was last seeded with (torch.initial_seed).
TANDEM_API uint64_t initial_seed();
/// Seeds it so that nobody can foretell its numbers (torch.seed); returns the seed.
TANDEM_API uint64_t seed();

/// What the process's generator gives while it lives is given again after it, whatever became of
/// the state between (torch.random.fork_rng).
class TANDEM_API ForkRng {
 public:
  explicit ForkRng(bool enabled = true);
  ~ForkRng();
  ForkRng(const ForkRng&) = delete;
  ForkRng& operator=(const ForkRng&) = delete;

 private:
  bool enabled_;
  int64_t key_ = 0, counter_ = 0;  // in a trace: what it has drawn so far
};

#define TANDEM_AT SourceLocation at = SourceLocation::current()

// --- the functions of ops.h and sorting.h, with numbers from `generator`; likewise the methods
TANDEM_API Tensor rand(const Shape& sizes, const Generator& generator, DType dtype = f32,
                       TANDEM_AT);
TANDEM_API Tensor randn(const Shape& sizes, const Generator& generator, DType dtype = f32,
                        TANDEM_AT);
TANDEM_API Tensor rand_like(const Tensor& like, std::optional<DType> dtype,
                            const Generator& generator, TANDEM_AT);
TANDEM_API Tensor randn_like(const Tensor& like, std::optional<DType> dtype,
                             const Generator& generator, TANDEM_AT);
TANDEM_API Tensor randint(int64_t low, int64_t high, const Shape& sizes, const Generator& generator,
                          DType dtype = i64, TANDEM_AT);
TANDEM_API Tensor randperm(Dim n, const Generator& generator, DType dtype = i64, TANDEM_AT);
TANDEM_API Tensor bernoulli(const Tensor& self, const Generator& generator, TANDEM_AT);
TANDEM_API Tensor bernoulli(const Tensor& self, double p, const Generator& generator, TANDEM_AT);
TANDEM_API Tensor multinomial(const Tensor& self, Dim num_samples, bool replacement,
                              const Generator& generator, TANDEM_AT);
TANDEM_API Tensor normal(const Tensor& mean, const Tensor& std, const Generator& generator,
                         TANDEM_AT);
TANDEM_API Tensor normal(const Tensor& mean, double std, const Generator& generator, TANDEM_AT);
TANDEM_API Tensor normal(double mean, const Tensor& std, const Generator& generator, TANDEM_AT);
TANDEM_API Tensor normal(double mean, double std, const Shape& sizes, const Generator& generator,
                         DType dtype = f32, TANDEM_AT);
TANDEM_API Tensor rrelu(const Tensor& self, double lower, double upper, bool training,
                        const Generator& generator, TANDEM_AT);

#undef TANDEM_AT

}  // namespace tandem

#endif  // TANDEM_GENERATOR_H
