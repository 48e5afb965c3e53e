#include "tests/support/random/alias_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "ir/strides.h"
#include "tests/support/random/alias_machine.h"

namespace tandem::testing {
namespace {

using Step = AliasProgram::Step;
using Place = AliasProgram::Place;
using Geometry = AliasProgram::Geometry;

constexpr int64_t kMemory = 40;  // elements of each memory

/// splitmix64: the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 0x1234567) {}
  uint32_t operator()() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return static_cast<uint32_t>((z ^ z >> 31) >> 16);
  }
  uint32_t below(uint32_t n) { return (*this)() % n; }
  bool one_in(uint32_t n) { return below(n) == 0; }

 private:
  uint64_t state_;
};

/// What a caller does with the results of a call: its last tensors, and which steps were refused.
Tensors run_later(const AliasProgram& program, const Tensors& inputs, Tensors results) {
  const EnableGrad grad_mode;
  Tensors pool = inputs;
  pool.insert(pool.end(), results.begin(), results.end());
  AliasMachine machine(pool);
  std::vector<double> refused;
  for (const Step& s : program.later) refused.push_back(machine.try_to_run(s));
  const Tensors& all = machine.all();
  const size_t made = std::min(all.size() - pool.size(), size_t{3});
  results.insert(results.end(), all.end() - static_cast<ptrdiff_t>(made), all.end());
  const auto count = static_cast<int64_t>(refused.size());
  results.push_back(from_data(refused, {count}));
  return results;
}

// --- drawing a program

Geometry random_geometry(Random& random) {
  static const std::array<Geometry, 24> kinds{{
      {{6}, {1}},
      {{6}, {1}},
      {{2, 3}, {3, 1}},
      {{2, 3}, {3, 1}},
      {{3, 2}, {1, 3}},
      {{12}, {1}},
      {{2, 2, 3}, {6, 3, 1}},
      // with gaps; the second of each pair steps in another order
      {{6}, {2}},
      {{6}, {3}},
      {{3, 3}, {4, 1}},
      {{3, 3}, {1, 4}},
      {{2, 3}, {8, 2}},
      {{2, 3}, {2, 8}},
      {{4, 4}, {8, 1}},
      {{2, 2, 3}, {16, 8, 2}},
      {{2, 2, 3}, {2, 4, 8}},
      {{17}, {2}},
      {{1, 6}, {9, 3}},
      // repeated, overlapping, of one element or none
      {{2, 6}, {0, 1}},
      {{4, 3}, {2, 1}},
      {{}, {}},
      {{1, 1}, {5, 7}},
      {{0}, {1}},
      {{3, 0}, {2, 2}},
  }};
  return kinds[random.below(kinds.size())];
}

int64_t span_of(const Geometry& g) { return std::max<int64_t>(1, ir::extent(g.sizes, g.strides)); }

std::vector<Place> random_pattern(Random& random, const AliasProgram& program) {
  std::vector<Place> places;
  const uint32_t memories = 1 + random.below(3);
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const auto room = static_cast<uint32_t>(kMemory - span_of(program.inputs[i]) + 1);
    Place p{random.below(memories), random.one_in(2) ? 0 : random.below(room), false};
    if (random.one_in(4)) p.offset = room - 1;  // up to the end of the memory
    if (i > 0 && random.one_in(3))              // over another, or between its elements
      p = {places[i - 1].memory, std::min(places[i - 1].offset + random.below(2), room - 1)};
    p.detached = program.grad == GradKind::SomeDetached && random.one_in(2);
    places.push_back(p);
  }
  return places;
}

bool same_place(const AliasProgram& p, const std::vector<Place>& places, size_t a, size_t b) {
  return p.inputs[a].sizes == p.inputs[b].sizes && p.inputs[a].strides == p.inputs[b].strides &&
         places[a].memory == places[b].memory && places[a].offset == places[b].offset &&
         places[a].detached == places[b].detached;
}

Tensor input_at(const Tensor& memory, const Geometry& g, const Place& place) {
  const Tensor t = memory.as_strided(g.sizes, g.strides, place.offset);
  return place.detached ? t.detach() : t;
}

/// Small integers; and NaN, of which nothing is said but that it stays one.
Tensor memory_of(const AliasProgram& program, uint32_t m, Source& source) {
  const uint64_t seed = program.seed * 4 + m;
  const DType dtype = m % 2 == 0 ? program.dtype : program.other;
  if (!program.special || !ir::is_floating(dtype)) return source.integers({kMemory}, seed, dtype);
  const Tensor numbers = Source(Setting::Plain).integers({kMemory}, seed, dtype);
  return source(where(numbers > 2, numbers * NAN, numbers));
}

/// The inputs as a pattern places them; those in one place are one tensor.
Tensors make_inputs(const AliasProgram& program, const std::vector<Place>& places, Source& source) {
  Tensors memories, inputs;
  for (uint32_t m = 0; m < 4; ++m) memories.push_back(memory_of(program, m, source));
  for (size_t i = 0; i < places.size(); ++i) {
    size_t same = 0;
    while (same < i && !same_place(program, places, same, i)) ++same;
    inputs.push_back(same < i ? inputs[same]
                              : input_at(memories[places[i].memory], program.inputs[i], places[i]));
  }
  return inputs;
}

Setting setting_of(GradKind kind) {
  const bool leaf = kind == GradKind::Leaf || kind == GradKind::LeafNoGrad;
  return kind == GradKind::None ? Setting::Plain : leaf ? Setting::Leaf : Setting::NonLeaf;
}

const char* name(GradKind kind) {
  static constexpr std::array<const char*, 5> names{"none", "non-leaf", "leaf", "leaf, no_grad",
                                                    "some detached"};
  return names[static_cast<size_t>(kind)];
}

}  // namespace

AliasProgram random_alias_program(uint64_t seed) {
  Random random(seed);
  AliasProgram p;
  p.seed = seed;
  static constexpr std::array<GradKind, 8> kinds{
      GradKind::None,    GradKind::None,         GradKind::NonLeaf, GradKind::NonLeaf,
      GradKind::NonLeaf, GradKind::SomeDetached, GradKind::Leaf,    GradKind::LeafNoGrad};
  p.grad = kinds[random.below(kinds.size())];
  static constexpr std::array<DType, 17> dtypes{f32,  f32, f32, f32, f32, f64, f64, f16,    f16,
                                                bf16, i64, i64, i32, i16, i8,  u8,  boolean};
  p.dtype = dtypes[random.below(dtypes.size())];
  p.other = random.one_in(3) ? dtypes[random.below(dtypes.size())] : p.dtype;
  p.special = ir::is_floating(p.dtype) && p.grad == GradKind::None && random.one_in(3);
  const uint32_t inputs = 1 + random.below(4), steps = 2 + random.below(11),
                 outputs = 1 + random.below(4);
  for (uint32_t i = 0; i < inputs; ++i)
    p.inputs.push_back(i > 0 && random.one_in(2) ? p.inputs[0] : random_geometry(random));
  for (int call = 0; call < 2; ++call) p.patterns.push_back(random_pattern(random, p));
  for (uint32_t i = 0; i < steps; ++i) p.steps.push_back({random(), random(), random(), random()});
  for (uint32_t i = 0; i < outputs; ++i) p.outputs.push_back(random());
  const uint32_t later = random.one_in(2) ? 0 : 1 + random.below(4);
  for (uint32_t i = 0; i < later; ++i) p.later.push_back({random(), random(), random(), random()});
  return p;
}

bool has_gaps(const AliasProgram& program) {
  return std::ranges::any_of(program.inputs, [](const Geometry& g) {
    return ir::numel(g.sizes) > 1 && ir::extent(g.sizes, g.strides) > ir::numel(g.sizes);
  });
}

bool shares_memory(const AliasProgram& program) {
  return std::ranges::any_of(program.patterns, [&](const std::vector<Place>& places) {
    for (size_t a = 0; a < places.size(); ++a)
      for (size_t b = 0; b < a; ++b)
        if (places[a].memory == places[b].memory && !same_place(program, places, a, b)) return true;
    return false;
  });
}

namespace {

/// Only the compiled function's backward is refused, since a later step wrote what is saved.
bool is_stricter(const Outcome& expected, const Outcome& actual) {
  return !expected.backward_error && actual.backward_error &&
         actual.backward_error->code() == Errc::Version;
}

bool is_unsupported(const Outcome& expected, const Outcome& actual) {
  return !expected.forward_error && actual.forward_error &&
         (actual.forward_error->code() == Errc::Unsupported ||
          actual.forward_error->code() == Errc::Mutation);
}

}  // namespace

AliasVerdict check_alias_program(const AliasProgram& program,
                                 const std::shared_ptr<const ir::Backend>& backend) {
  const auto function = [&](const Tensors& inputs) {
    AliasMachine machine(inputs);
    for (const Step& s : program.steps) machine.run(s);
    return machine.outputs(program.outputs);
  };
  const auto with_caller = [&](const Program& f) -> Program {
    return [&program, f](const Tensors& in) { return run_later(program, in, f(in)); };
  };
  const auto compiled_by = [&](const char* partition) {
    CompileOptions options;
    options.backend = backend;
    options.partition = partition;
    return with_caller(compile([&](const Tensors& inputs) { return function(inputs); }, options));
  };
  const Program compiled = compiled_by("default");
  const RunOptions how{.setting = setting_of(program.grad),
                       .grad_mode = program.grad != GradKind::LeafNoGrad};
  AliasVerdict verdict;
  for (const std::vector<Place>& places : program.patterns) {
    const MakeInputs make = [&](Source& s) { return make_inputs(program, places, s); };
    const Outcome expected = run(with_caller(function), make, how);
    verdict.too_large |= largest_magnitude(expected) >
                         std::min(largest_exact(program.dtype), largest_exact(program.other));
    if (verdict.too_large) return verdict;
    Outcome actual = run(compiled, make, how);
    if (!program.later.empty() && is_stricter(expected, actual)) {
      verdict.stricter = true;
      actual = run(compiled_by("save-all"), make, how);
      if (is_stricter(expected, actual)) {
        verdict.strictest = true;
        actual.backward_error.reset(), actual.gradients = expected.gradients;
      }
    }
    verdict.refused |= expected.forward_error.has_value();
    const bool unsupported = is_unsupported(expected, actual);
    verdict.unsupported |= unsupported;
    if (!unsupported) verdict.difference = difference(expected, actual, 0);
    if (verdict.difference.empty() && actual.forward_error)
      verdict.difference = untouched(actual, make, how);
    if (!verdict.difference.empty()) return verdict;
  }
  return verdict;
}

namespace {

/// Leaves out elements of `list`, last first, as long as `keep` holds.
template <class T, class Keep>
bool drop_from(std::vector<T>& list, size_t least, const Keep& keep) {
  bool dropped = false;
  for (size_t i = list.size(); i-- > 0 && list.size() > least;) {
    const T element = list[i];
    list.erase(list.begin() + static_cast<ptrdiff_t>(i));
    if (keep())
      dropped = true;
    else
      list.insert(list.begin() + static_cast<ptrdiff_t>(i), element);
  }
  return dropped;
}

}  // namespace

AliasProgram minimized(AliasProgram program, const std::shared_ptr<const ir::Backend>& backend) {
  const auto differs = [&] { return !check_alias_program(program, backend).difference.empty(); };
  bool smaller = true;
  while (smaller) {
    smaller = drop_from(program.patterns, 1, differs);
    smaller |= drop_from(program.steps, 0, differs);
    smaller |= drop_from(program.outputs, 0, differs);
    smaller |= drop_from(program.later, 0, differs);
  }
  return program;
}

std::string to_string(const AliasProgram& program) {
  std::string text = fmt::format("seed {}, grad: {}, {} and {}{}\n", program.seed,
                                 name(program.grad), ir::name(program.dtype),
                                 ir::name(program.other), program.special ? " with NaN" : "");
  for (const std::vector<Place>& places : program.patterns) {
    text += "call:";
    for (size_t i = 0; i < places.size(); ++i)
      text += fmt::format("{} t{} = memory{}.as_strided({}, {}, {}){}", i ? "," : "", i,
                          places[i].memory, ir::to_string(program.inputs[i].sizes),
                          ir::to_string(program.inputs[i].strides), places[i].offset,
                          places[i].detached ? ".detach()" : "");
    text += "\n";
  }
  std::vector<std::string> lines;
  Source source(Setting::Plain);
  try {
    const Tensors inputs = make_inputs(program, program.patterns[0], source);
    AliasMachine machine(inputs, &lines);
    for (const Step& s : program.steps) machine.run(s);
    std::string results = "return";
    for (uint32_t n : program.outputs) results += fmt::format(" t{}", machine.number(n));
    lines.push_back(results);
    if (!program.later.empty()) lines.emplace_back("then, on the inputs and results:");
    Tensors pool = inputs;
    for (const Tensor& t : machine.outputs(program.outputs)) pool.push_back(t);
    AliasMachine caller(pool, &lines);
    for (const Step& s : program.later) caller.try_to_run(s);
  } catch (const Error& e) {
    lines.emplace_back(e.what());
  }
  text += fmt::format("  {}\n", fmt::join(lines, "\n  "));
  return text;
}

}  // namespace tandem::testing
