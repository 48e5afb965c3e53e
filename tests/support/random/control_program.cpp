#include "tests/support/random/control_program.h"

#include <fmt/format.h>
#include <tandem/control_flow.h>

#include <random>

#include "runtime/backends/backends.h"

namespace tandem::testing {
namespace {

using Tensors = std::vector<Tensor>;
using Block = ControlProgram::Block;
using Step = ControlProgram::Step;

constexpr int64_t kSize = 3;  // of every matrix
constexpr size_t kInputs = 3;

enum Kind : uint32_t {
  Compute,
  Product,
  View,
  Write,
  WriteRow,
  Draw,
  Cond,
  Switch,
  While,
  Fori,
  Scan,
  Map
};

struct Form {
  const char* name;
  size_t blocks, results;  // bodies, and what each gives
  uint32_t weight;         // how often it is drawn
};
constexpr Form kForms[] = {{"compute", 0, 0, 8}, {"product", 0, 0, 3},   {"view", 0, 0, 1},
                           {"write", 0, 0, 3},   {"write_row", 0, 0, 3}, {"draw", 0, 0, 2},
                           {"cond", 2, 2, 3},    {"switch", 3, 1, 1},    {"while", 1, 2, 2},
                           {"fori", 1, 1, 2},    {"scan", 1, 2, 4},      {"map", 1, 1, 1}};

// --- drawing

class Draws {
 public:
  Draws(uint64_t seed, ControlNumbers numbers) : random_(seed), numbers_(numbers) {}

  Block block(int depth, size_t steps, size_t results, bool may_draw) {
    Block block;
    for (size_t i = 0; i < steps; ++i) block.steps.push_back(step(depth, may_draw));
    for (size_t i = 0; i < results; ++i) block.results.push_back(number());
    return block;
  }

  uint32_t number() { return static_cast<uint32_t>(random_() >> 33); }

 private:
  Step step(int depth, bool may_draw) {
    Step s{kind(depth, may_draw), number(), number(), number(), {}};
    // What draws different numbers on different ways has no compiled form.
    const bool inner = may_draw && s.kind != Cond && s.kind != Switch && s.kind != While;
    for (size_t i = 0; i < kForms[s.kind].blocks; ++i)
      s.blocks.push_back(block(depth + 1, 1 + number() % 4, kForms[s.kind].results, inner));
    return s;
  }

  uint32_t kind(int depth, bool may_draw) {
    const auto allowed = [&](uint32_t kind) {
      if (kind == While && numbers_ == ControlNumbers::Gradients) return false;  // has none
      if (kind == Draw && !may_draw) return false;
      return depth < 3 || kForms[kind].blocks == 0;
    };
    for (;;) {
      uint32_t at = number() % 33, kind = 0;
      while (at >= kForms[kind].weight) at -= kForms[kind++].weight;
      if (allowed(kind)) return kind;
    }
  }

  std::mt19937_64 random_;
  const ControlNumbers numbers_;
};

// --- running

class Runner {
 public:
  explicit Runner(const ControlProgram& program)
      : dtype_(program.dtype), smooth_(program.numbers == ControlNumbers::Gradients) {}

  /// The tensors there are those of the caller, and those made here.
  Tensors run(const Block& block, Tensors there) const {
    for (const Step& s : block.steps) run(s, there);
    Tensors results;
    for (const uint32_t r : block.results) results.push_back(there[r % there.size()]);
    return results;
  }

 private:
  Tensor bounded(const Tensor& t) const { return smooth_ ? tanh(t) : clamp(t, -8, 8); }

  void bound_(Tensor& t) const { smooth_ ? t.mul_(0.5) : t.clamp_(-8, 8); }

  void run(const Step& s, Tensors& there) const {
    const auto at = [&](uint32_t i) { return there[i % there.size()]; };
    const Tensor a = at(s.a), b = at(s.b), c = at(s.c);
    if (s.kind >= Cond) return run_control(s, there, a, b, c);
    if (s.kind == Compute) there.push_back(computed(s.c, a, b));
    if (s.kind == Product) there.push_back(bounded(mm(a, b)));
    if (s.kind == View) there.push_back(a.t());
    if (s.kind == Draw) there.push_back(drawn(s.c));
    if (s.kind == Write) write(s.c, a, b);
    if (s.kind == WriteRow) write(s.c, a[s.b % kSize], b[s.c % kSize]);
  }

  Tensor computed(uint32_t form, const Tensor& a, const Tensor& b) const {
    switch (form % 6) {
      case 0:
        return bounded(a + b);
      case 1:
        return bounded(a * b);
      case 2:
        return bounded(a - b[0]);
      case 3:
        return bounded(a.sum(0).unsqueeze(1) + b);
      case 4:
        return smooth_ ? sin(a) : maximum(a, b);
      default:
        return where(a > b, a, -b);
    }
  }

  static void copied(const Tensor& to, const Tensor& from) { to.copy_(from); }

  void write(uint32_t form, Tensor to, const Tensor& from) const {
    switch (form % 4) {
      case 0:
        to.add_(from);
        return bound_(to);
      case 1:
        return copied(to, from);
      case 2:
        to.mul_(from);
        return bound_(to);
      default:
        to.fill_(static_cast<double>(form % 7) - 3);
    }
  }

  Tensor drawn(uint32_t form) const {
    const Shape sizes = {kSize, kSize};
    if (smooth_) return rand(sizes, dtype_);
    return form % 2 == 0 ? randint(-3, 4, sizes, dtype_)
                         : bernoulli(full(sizes, 0.5, f32)).to(dtype_);
  }

  // --- branches and loops. Bodies see all that is there.

  Tensors body(const Block& block, const Tensors& there, Tensors more) const {
    Tensors all = there;
    for (Tensor& t : more) all.push_back(std::move(t));
    return run(block, std::move(all));
  }

  void run_control(const Step& s, Tensors& there, const Tensor& a, const Tensor& b,
                   const Tensor& c) const {
    const Tensors now = there;
    const auto given = [&](size_t block, Tensors more) {
      return body(s.blocks[block], now, std::move(more));
    };
    const int64_t count = s.c % 5;
    switch (s.kind) {
      case Cond:
        return append(there, cond(
                                 a.sum() > static_cast<double>(count) - 2,
                                 [&] { return given(0, {}); }, [&] { return given(1, {}); }));
      case Switch:
        return append(there, switch_case(a.sum().detach().clamp(0, 2).to(i64),
                                         std::tuple([&] { return given(0, {}); },
                                                    [&] { return given(1, {}); },
                                                    [&] { return given(2, {}); })));
      case While:
        return append(there, run_while(s, now, a, b, count));
      case Fori:
        return append(there, fori_loop(
                                 0, count,
                                 [&](const Tensor& i, Tensors carry) {
                                   return given(0, {carry[0], a + i.to(dtype_)});
                                 },
                                 Tensors{b}));
      case Scan:
        return append(there, run_scan(s, now, a, stack({a, b, c}, 0)));
      default:
        return append(
            there,
            {bounded(map([&](const Tensor& x) { return given(0, {x})[0]; }, stack({a, b, c}, 0))
                         .sum(0))});
    }
  }

  static void append(Tensors& there, const Tensors& more) {
    there.insert(there.end(), more.begin(), more.end());
  }

  Tensors run_while(const Step& s, const Tensors& now, const Tensor& a, const Tensor& b,
                    int64_t count) const {
    using State = std::pair<Tensor, Tensors>;
    const State last = while_loop(
        [&](const State& state) {
          return logical_and(state.first < count, state.second[0].sum() < 20);
        },
        [&](const State& state) {
          return State(state.first + 1, body(s.blocks[0], now, state.second));
        },
        State(full({}, 0, i64), {a, b}));
    return last.second;
  }

  Tensors run_scan(const Step& s, const Tensors& now, const Tensor& carry, const Tensor& xs) const {
    const auto [last, ys] = scan(
        [&](const Tensor& state, const Tensor& x) {
          const Tensors given = body(s.blocks[0], now, {state, x});
          return std::pair(given[0], given[1]);
        },
        carry, xs, {.reverse = s.c % 2 == 1});
    return {last, bounded(ys.sum(0)), ys[s.b % kSize]};
  }

  const DType dtype_;
  const bool smooth_;
};

// --- printing

void print(const Block& block, const std::string& indent, size_t there, std::string& out);

/// How many tensors a step adds, and (to its bodies) is handed.
std::pair<size_t, size_t> added(uint32_t kind) {
  switch (kind) {
    case Write:
    case WriteRow:
      return {0, 0};
    case Cond:
      return {2, 0};
    case While:
      return {2, 2};
    case Fori:
      return {1, 2};
    case Scan:
      return {3, 2};
    default:
      return {1, kind == Map ? 1 : 0};
  }
}

void print(const Step& s, const std::string& indent, size_t& there, std::string& out) {
  const auto [more, handed] = added(s.kind);
  out += fmt::format("{}{} t{} t{} t{} form {} -> {} from t{}\n", indent, kForms[s.kind].name,
                     s.a % there, s.b % there, s.c % there, s.c % 60, more, there);
  for (const Block& block : s.blocks) print(block, indent + "  ", there + handed, out);
  there += more;
}

void print(const Block& block, const std::string& indent, size_t there, std::string& out) {
  for (const Step& s : block.steps) print(s, indent, there, out);
  out += indent + "give";
  for (const uint32_t r : block.results) out += fmt::format(" t{}", r % there);
  out += "\n";
}

// --- comparing

/// All that a caller sees of two calls.
struct Seen {
  Tensors tensors;
  std::optional<Error> error;
};

class Check {
 public:
  explicit Check(const ControlProgram& program) : program_(program) {}

  ControlVerdict run() const {
    const auto eager = [&](const Tensors& t) { return Runner(program_).run(program_.main, t); };
    const Seen expected = seen(eager);
    ControlVerdict verdict;
    if (expected.error) {
      verdict.refused = true;
      return verdict;
    }
    for (const bool jit : {false, true}) {
      const auto backend = jit ? runtime::jit_backend() : runtime::interpreter_backend();
      const Seen got = seen(compile(eager, {.backend = backend}));
      if (got.error && is_stricter(*got.error))
        verdict.stricter = true;
      else
        verdict.difference += difference(expected, got, jit ? "jit" : "interpreter");
    }
    if (!verdict.difference.empty()) verdict.difference += to_string(program_);
    return verdict;
  }

 private:
  static bool is_stricter(const Error& error) {
    return error.code() == Errc::Mutation || error.code() == Errc::Unsupported;
  }

  Tensors inputs(uint64_t call) const {
    const bool smooth = program_.numbers == ControlNumbers::Gradients;
    Tensors all;
    const GradMode off(false);
    manual_seed(program_.seed + 1000 * call);
    for (size_t i = 0; i < kInputs; ++i)
      all.push_back(smooth ? randn({kSize, kSize}, program_.dtype)
                           : randint(-4, 5, {kSize, kSize}, program_.dtype));
    return all;
  }

  template <class Fn>
  Seen seen(const Fn& fn) const {
    Seen all;
    try {
      for (const uint64_t call : {0, 1}) add_call(fn, call, all.tensors);
    } catch (const Error& error) {
      all.error = error;
    }
    return all;
  }

  template <class Fn>
  void add_call(const Fn& fn, uint64_t call, Tensors& all) const {
    const bool smooth = program_.numbers == ControlNumbers::Gradients;
    const Tensors leaves = inputs(call);
    Tensors given;
    for (const Tensor& t : leaves) given.push_back(smooth ? t.requires_grad_() * 1 : t);
    const Tensors results = fn(given);
    for (const Tensor& t : results) all.push_back(t.detach().clone());
    for (const Tensor& t : given) all.push_back(t.detach().clone());
    all.push_back(rand({2}));
    if (!smooth) return;
    Tensor loss = full({}, 0, program_.dtype);
    for (size_t i = 0; i < results.size(); ++i)
      loss = loss + (results[i] * (1 + 0.3 * static_cast<double>(i))).sum();
    for (const Tensor& t : given) loss = loss + (t * t).sum();
    loss.backward();
    for (const Tensor& t : leaves) all.push_back(t.grad().defined() ? t.grad() : zeros_like(t));
  }

  std::string difference(const Seen& expected, const Seen& got, const char* who) const {
    if (got.error) return fmt::format("{}: {}\n", who, got.error->what());
    for (size_t i = 0; i < expected.tensors.size(); ++i) {
      const Tensor &a = expected.tensors[i], &b = got.tensors[i];
      const bool same =
          a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
          (program_.numbers == ControlNumbers::Integers ? a.equal(b)
                                                        : a.allclose(b, 1e-8, 1e-9, true));
      if (!same)
        return fmt::format("{}: tensor {} differs; expected {}, got {}\n", who, i, text(a),
                           text(b));
    }
    return {};
  }

  static std::string text(const Tensor& t) {
    std::string out;
    const Tensor flat = t.to(f64).flatten();
    for (int64_t i = 0; i < flat.numel(); ++i) out += fmt::format(" {}", flat[i].item());
    return out;
  }

  const ControlProgram& program_;
};

}  // namespace

ControlProgram random_control_program(uint64_t seed, ControlNumbers numbers) {
  Draws draws(seed, numbers);
  ControlProgram program{.seed = seed, .numbers = numbers};
  const DType dtypes[] = {f32, f32, i64, f64};
  program.dtype = numbers == ControlNumbers::Gradients ? f64 : dtypes[draws.number() % 4];
  program.main = draws.block(0, 3 + draws.number() % 6, 3, true);
  return program;
}

std::string to_string(const ControlProgram& program) {
  std::string out = fmt::format("seed {}, {}, {} matrices\n", program.seed,
                                program.numbers == ControlNumbers::Integers ? "integers" : "smooth",
                                ir::name(program.dtype));
  print(program.main, "  ", kInputs, out);
  return out;
}

ControlVerdict check_control(const ControlProgram& program) { return Check(program).run(); }

}  // namespace tandem::testing
