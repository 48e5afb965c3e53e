// Connectionist temporal classification: the probability of all paths that spell the targets.
#include <limits>

#include "runtime/networks/losses.h"

namespace tandem {
namespace {

using runtime::Call;
using runtime::V;

std::string function() { return ir::ErrorScope::function(); }

/// Stands for the logarithm of no probability; sums of it are finite, and so are its gradients.
constexpr double kNever = -1e30;

/// A batch of paths over labels with blanks around each.
struct Paths {
  Call& c;
  V emissions;  // [t, n, l], l = 2 s + 1: the logarithms of the labels' probabilities
  V may_skip;   // [n, l]: a label that the one before last may lead to
  V never;      // kNever
  int64_t n, l;
};

void require_lengths(const std::vector<Dim>& lengths, int64_t n, int64_t most, const char* name) {
  bool fits = static_cast<int64_t>(lengths.size()) == n;
  for (const Dim length : lengths) fits = fits && length >= 0 && length <= most;
  if (!fits)
    ir::fail(Errc::Argument,
             fmt::format("{}: {} do not fit; expected {} numbers of 0 to {}, got {}", function(),
                         name, n, most, to_string(lengths)));
}

V numbers(Call& c, const std::vector<Number>& list, const Shape& sizes) {
  return c.in(from_numbers(list, sizes, i64));
}

int64_t longest(const std::vector<Dim>& lengths) {
  int64_t most = 0;
  for (const Dim length : lengths) most = std::max(most, int64_t{length});
  return most;
}

int64_t shortest(const std::vector<Dim>& lengths) {
  int64_t least = longest(lengths);
  for (const Dim length : lengths) least = std::min(least, int64_t{length});
  return least;
}

/// Targets [n, s] or one after the other, as [n, s] with blanks behind each one's end.
V padded_targets(Call& c, V targets, const std::vector<Dim>& lengths, int64_t blank) {
  const auto n = static_cast<int64_t>(lengths.size());
  const int64_t s = longest(lengths);
  const bool is_joined = c.b.rank(targets) == 1;
  int64_t start = 0;
  std::vector<Number> places, there;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t length = lengths[static_cast<size_t>(i)];
    if (!is_joined) start = i * c.b.sizes(targets)[1];
    for (int64_t k = 0; k < s; ++k) {
      there.emplace_back(k < length ? 1 : 0);
      places.emplace_back(k < length ? start + k : 0);
    }
    if (is_joined) start += length;
  }
  const Dim count = c.b.numel(targets);
  if (is_joined && count != start)
    ir::fail(Errc::Shape, fmt::format("{}: targets do not fit their lengths; expected {}, got {}",
                                      function(), start, int64_t{count}));
  if (n * s == 0) return c.b.full({n, s}, i64, blank);
  const V flat = c.b.reshape(c.b.convert(targets, i64), {count});
  const V found = c.b.reshape(c.b.index_select(flat, 0, numbers(c, places, {n * s})), {n, s});
  return c.b.where(c.b.ne(numbers(c, there, {n, s}), 0), found, blank);
}

/// With blanks before, between and behind.
V with_blanks(Call& c, V targets, int64_t blank) {
  const Dim n = c.b.sizes(targets)[0], s = c.b.sizes(targets)[1];
  const V blanks = c.b.full({n, s}, i64, blank);
  const V pairs[] = {blanks, targets};
  const V joined[] = {c.b.reshape(c.b.stack(pairs, 2), {n, 2 * s}), c.b.full({n, 1}, i64, blank)};
  return c.b.cat(joined, 1);
}

/// x [n, l] moved `by` places to the right.
V moved(Call& c, V x, int64_t by, const Number& value) {
  const Dim l = c.b.sizes(x)[1], none = 0;
  const V cut = c.b.slice(x, 1, 0, std::max<int64_t>(l - by, 0));
  return c.b.pad(cut, std::vector<Dim>{none, none, std::min<int64_t>(by, l), none}, value);
}

V log_sum(Call& c, V a, V b) { return c.b.pointwise(ir::Op::logaddexp, {a, b}); }

/// The logarithms of the probabilities that log_p [t, n, c] has for labels [n, l].
V emissions_of(Call& c, V log_p, V labels) {
  Shape sizes = c.b.sizes(labels);
  sizes = {c.b.sizes(log_p)[0], sizes[0], sizes[1]};
  return c.b.gather(log_p, 2, c.b.expand(labels, sizes));
}

V emission(const Paths& p, int64_t t) { return p.c.b.select(p.emissions, 0, t); }

/// The logarithms of the probabilities of all paths up to a label.
V first_step(const Paths& p, V ends) {
  const V places = p.c.b.iota(p.l, i64);
  const V first = p.c.b.where(p.c.b.lt(places, 2), emission(p, 0), kNever);
  const V none = p.c.b.where(p.c.b.eq(places, 0), p.c.b.zeros_like(first), kNever);
  return p.c.b.where(p.c.b.gt(ends, 0), first, none);
}

V next_step(const Paths& p, V alpha, int64_t t) {
  const V behind = p.c.b.pad(alpha, std::vector<Dim>{0, 0, 2, 0}, kNever);
  const V step = log_sum(p.c, alpha, p.c.b.slice(behind, 1, 1, p.l + 1));
  const V skip = p.c.b.where(p.may_skip, p.c.b.slice(behind, 1, 0, p.l), p.never);
  return p.c.b.add(log_sum(p.c, step, skip), emission(p, t));
}

/// The logarithm of the probability of the targets [n].
V log_likelihood(const Paths& p, const std::vector<Dim>& input_lengths,
                 const std::vector<Dim>& target_lengths) {
  std::vector<Number> lengths, last, before;
  for (const Dim length : input_lengths) lengths.emplace_back(length);
  for (const Dim length : target_lengths) {
    last.emplace_back(2 * length);
    before.emplace_back(std::max<int64_t>(2 * length - 1, 0));
  }
  const V ends = numbers(p.c, lengths, {p.n, 1});
  V alpha = first_step(p, ends);
  const int64_t first_end = shortest(input_lengths);
  for (int64_t t = 1; t < longest(input_lengths); ++t) {
    const V next = next_step(p, alpha, t);
    alpha = t < first_end ? next : p.c.b.where(p.c.b.gt(ends, t), next, alpha);
  }
  const V at_last = p.c.b.gather(alpha, 1, numbers(p.c, last, {p.n, 1}));
  const V at_label = p.c.b.gather(alpha, 1, numbers(p.c, before, {p.n, 1}));
  const V has_label = p.c.b.gt(numbers(p.c, last, {p.n, 1}), 0);
  const V sum = log_sum(p.c, at_last, p.c.b.where(has_label, at_label, kNever));
  return p.c.b.reshape(sum, {p.n});
}

V mean_by_length(Call& c, V losses, const std::vector<Dim>& target_lengths) {
  std::vector<Number> lengths;
  for (const Dim length : target_lengths) lengths.emplace_back(std::max<int64_t>(length, 1));
  const Dim n = static_cast<int64_t>(lengths.size());
  return c.b.mean(c.b.div(losses, c.b.convert(numbers(c, lengths, {n}), c.b.dtype(losses))));
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probabilities, const Tensor& targets,
                const std::vector<Dim>& input_lengths, const std::vector<Dim>& target_lengths,
                const CtcOptions& options, SourceLocation at) {
  Call c(at);
  const V given = c.in(log_probabilities, "log_probabilities");
  const bool is_one = c.b.rank(given) == 2;
  const V log_p = is_one ? c.b.unsqueeze(given, 1) : given;
  V labels = c.in(targets, "targets");
  if (c.b.rank(log_p) != 3 || (c.b.rank(labels) != 1 && c.b.rank(labels) != 2) ||
      !ir::is_floating(c.b.dtype(log_p)) || c.b.sizes(log_p)[0] < 1)
    ir::fail(Errc::Shape,
             fmt::format("{}: expected floating log_probabilities [t, n, c] or [t, c] "
                         "and targets [n, s] or [sum of lengths], got {} and {}",
                         function(), to_string(c.b.sizes(given)), to_string(c.b.sizes(labels))));
  const Shape sizes = c.b.sizes(log_p);
  const Dim s = c.b.rank(labels) == 2 ? c.b.sizes(labels)[1] : c.b.numel(labels);
  require_lengths(input_lengths, sizes[1], sizes[0], "input_lengths");
  require_lengths(target_lengths, sizes[1], s, "target_lengths");
  if (options.blank < 0 || options.blank >= sizes[2])
    ir::fail(Errc::Argument, fmt::format("{}: blank out of range; expected 0 to {}, got {}",
                                         function(), int64_t{sizes[2]} - 1, options.blank));
  labels = with_blanks(c, padded_targets(c, labels, target_lengths, options.blank), options.blank);
  const V may_skip = c.b.logical_and(c.b.ne(labels, options.blank),
                                     c.b.ne(labels, moved(c, labels, 2, options.blank)));
  const V never = c.b.full({}, c.b.dtype(log_p), kNever);
  const Paths paths{
      c, emissions_of(c, log_p, labels), may_skip, never, sizes[1], c.b.sizes(labels)[1]};
  const V likelihood = log_likelihood(paths, input_lengths, target_lengths);
  const double impossible = options.zero_infinity ? 0 : std::numeric_limits<double>::infinity();
  const V losses = c.b.where(c.b.gt(likelihood, kNever / 10), c.b.neg(likelihood), impossible);
  if (options.reduction == "mean") return c.out(mean_by_length(c, losses, target_lengths));
  return reduced_tensor(c, is_one ? c.b.reshape(losses, {}) : losses, options.reduction);
}

}  // namespace tandem
