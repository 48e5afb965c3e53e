// Sums of products in Einstein's notation: the notation, then the order of the products.
#include <tandem/ops/linalg.h>

#include <array>
#include <cctype>
#include <limits>

#include "runtime/linalg/checks.h"
#include "runtime/linalg/contraction.h"

namespace tandem {
namespace {

using runtime::Call;
using runtime::kLabels;
using runtime::Labelled;
using runtime::Labels;
using runtime::reject;
using runtime::V;

// Labels: A to Z, a to z, then the dimensions that "..." stands for, the last one first.
constexpr int kLetters = 52;
constexpr int kEllipsis = -1;

int label_of(char letter) {
  return std::isupper(static_cast<unsigned char>(letter)) != 0 ? letter - 'A' : letter - 'a' + 26;
}
char letter_of(int label) { return static_cast<char>(label < 26 ? 'A' + label : 'a' + label - 26); }

// --- the notation

/// The labels of a term, kEllipsis for "...".
std::vector<int> parsed_term(std::string_view text) {
  std::vector<int> labels;
  bool has_ellipsis = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (std::isalpha(static_cast<unsigned char>(text[i])) != 0) {
      labels.push_back(label_of(text[i]));
    } else if (text.substr(i, 3) == "..." && !has_ellipsis) {
      labels.push_back(kEllipsis), has_ellipsis = true, i += 2;
    } else {
      reject(Errc::Argument,
             "subscripts are not understood; expected letters and at most one "
             "\"...\", got \"{}\"",
             text);
    }
  }
  return labels;
}

struct Notation {
  std::vector<std::vector<int>> terms;
  std::optional<std::vector<int>> output;
};

Notation parsed(std::string_view equation) {
  const size_t arrow = equation.find("->");
  Notation n;
  for (std::string_view rest = equation.substr(0, arrow);;) {
    const size_t comma = rest.find(',');
    n.terms.push_back(parsed_term(rest.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    rest = rest.substr(comma + 1);
  }
  if (arrow != std::string_view::npos) n.output = parsed_term(equation.substr(arrow + 2));
  return n;
}

// --- operands

/// The labels of the dimensions of an operand.
std::vector<int> labels_of(const std::vector<int>& term, int rank, size_t operand) {
  const bool has_ellipsis = std::ranges::count(term, kEllipsis) != 0;
  const int left = rank - static_cast<int>(term.size()) + (has_ellipsis ? 1 : 0);
  if (left < 0 || (left > 0 && !has_ellipsis) || left > kLabels - kLetters)
    reject(Errc::Shape, "subscripts do not fit operand {}; expected {} dimensions, got {}", operand,
           term.size() - (has_ellipsis ? 1 : 0), rank);
  std::vector<int> labels;
  for (const int label : term) {
    if (label != kEllipsis) labels.push_back(label);
    for (int d = left; label == kEllipsis && d > 0; --d) labels.push_back(kLetters + d - 1);
  }
  return labels;
}

using Sizes = std::array<Dim, kLabels>;

std::string spelled(int label) {
  return label < kLetters ? std::string(1, letter_of(label)) : "...";
}

/// A size for each label: of 1 and n it is n.
void add_sizes(Sizes& sizes, const std::vector<int>& labels, const Shape& of) {
  for (size_t d = 0; d < labels.size(); ++d) {
    Dim& size = sizes[static_cast<size_t>(labels[d])];
    const Dim n = of[static_cast<int>(d)];
    if (size == -1 || size == 1)
      size = n;
    else if (n != size && n != 1)
      reject(Errc::Shape, "sizes of {} do not broadcast; expected {} or 1, got {}",
             spelled(labels[d]), int64_t{size}, int64_t{n});
  }
}

/// Of a label that appears twice the diagonal, of one that does more often the diagonal of those.
Labelled with_diagonals(Call& c, Labelled x, size_t operand) {
  for (size_t d = 0; d < x.dims.size(); ++d) {
    const auto twin =
        std::find(x.dims.begin() + static_cast<std::ptrdiff_t>(d) + 1, x.dims.end(), x.dims[d]);
    if (twin == x.dims.end()) continue;
    const int first = static_cast<int>(d), second = static_cast<int>(twin - x.dims.begin());
    const Shape& sizes = c.b.sizes(x.value);
    if (sizes[first] != sizes[second])
      reject(Errc::Shape, "{} stands for two sizes of operand {}; expected one, got {} and {}",
             spelled(x.dims[d]), operand, int64_t{sizes[first]}, int64_t{sizes[second]});
    x.value = c.b.diagonal(x.value, 0, first, second);
    const int label = x.dims[d];
    x.dims.erase(twin);
    x.dims.erase(x.dims.begin() + first);
    x.dims.push_back(label);
    --d;
  }
  return x;
}

/// Without dimensions of size 1 that another operand has more of.
Labelled without_ones(Call& c, Labelled x, const Sizes& sizes) {
  ir::Axes ones;
  std::vector<int> left;
  for (size_t d = 0; d < x.dims.size(); ++d) {
    const Dim own = c.b.sizes(x.value)[static_cast<int>(d)];
    if (own == 1 && sizes[static_cast<size_t>(x.dims[d])] != 1)
      ones.push_back(static_cast<ir::Axis>(d));
    else
      left.push_back(x.dims[d]);
  }
  return ones.empty() ? x : Labelled{c.b.squeeze(x.value, ones), left};
}

/// "..." as the dimensions of which there are `count`.
std::vector<int> with_ellipsis(const std::vector<int>& labels, int count) {
  std::vector<int> all;
  for (const int label : labels) {
    if (label != kEllipsis) all.push_back(label);
    for (int d = count; label == kEllipsis && d > 0; --d) all.push_back(kLetters + d - 1);
  }
  return all;
}

/// "..." and the labels that appear once, in order.
std::vector<int> implied_output(const std::vector<std::vector<int>>& terms) {
  std::vector<int> output{kEllipsis};
  for (int label = 0; label < kLetters; ++label) {
    std::ptrdiff_t times = 0;
    for (const auto& term : terms) times += std::ranges::count(term, label);
    if (times == 1) output.push_back(label);
  }
  return output;
}

void require_output(const std::vector<int>& output, const Sizes& sizes) {
  for (const int label : output) {
    if (std::ranges::count(output, label) > 1)
      reject(Errc::Argument, "{} is twice in the output; expected it once", spelled(label));
    if (sizes[static_cast<size_t>(label)] == -1)
      reject(Errc::Argument, "{} of the output is in no operand; expected letters of operands",
             spelled(label));
  }
}

// --- the order of the products

/// Of operands, which the bits of an integer choose.
class Order {
 public:
  Order(const std::vector<Labels>& operands, const Labels& output, const Sizes& sizes)
      : operands_(operands), output_(output), sizes_(sizes) {}

  /// The multiplications that x and y together take, of operands each.
  double cost(const Labels& x, const Labels& y) const {
    double product = 1;
    for (size_t label = 0; label < kLabels; ++label)
      if (x.test(label) || y.test(label)) product *= static_cast<double>(int64_t{sizes_[label]});
    return product;
  }

  /// The labels that are left of the product of the chosen.
  Labels left(uint32_t chosen) const {
    Labels of_chosen, of_others = output_;
    for (size_t i = 0; i < operands_.size(); ++i)
      ((chosen >> i & 1) != 0 ? of_chosen : of_others) |= operands_[i];
    return of_chosen & of_others;
  }

  /// For each choice of operands, a part of it that is to be multiplied with the rest.
  std::vector<uint32_t> best_parts() const {
    const uint32_t end = 1U << operands_.size();
    std::vector<double> least(end, 0);
    std::vector<uint32_t> part(end, 0);
    std::vector<Labels> labels(end);
    for (uint32_t all = 1; all < end; ++all) {
      labels[all] = left(all);
      if ((all & (all - 1)) == 0) continue;
      least[all] = std::numeric_limits<double>::infinity();
      for (uint32_t some = (all - 1) & all; some > (all ^ some); some = (some - 1) & all) {
        const uint32_t rest = all ^ some;
        const double total = least[some] + least[rest] + cost(labels[some], labels[rest]);
        if (total < least[all]) least[all] = total, part[all] = some;
      }
    }
    return part;
  }

 private:
  const std::vector<Labels>& operands_;
  Labels output_;
  const Sizes& sizes_;
};

std::vector<Labels> labels_of(const std::vector<Labelled>& operands) {
  std::vector<Labels> labels;
  for (const Labelled& x : operands) labels.push_back(x.labels());
  return labels;
}

/// What `kept` leaves of the operands but two, when these are one.
Labels kept_by_others(const std::vector<Labels>& operands, size_t i, size_t j, Labels kept) {
  for (size_t k = 0; k < operands.size(); ++k)
    if (k != i && k != j) kept |= operands[k];
  return kept;
}

/// Multiplies the cheapest pair.
void merge_one(Call& c, std::vector<Labelled>& operands, const Labels& output, const Sizes& sizes) {
  const std::vector<Labels> labels = labels_of(operands);
  const Order order(labels, output, sizes);
  size_t first = 0, second = 1;
  for (size_t i = 0; i < labels.size(); ++i)
    for (size_t j = i + 1; j < labels.size(); ++j)
      if (order.cost(labels[i], labels[j]) < order.cost(labels[first], labels[second]))
        first = i, second = j;
  operands[first] = runtime::contracted(c, operands[first], operands[second],
                                        kept_by_others(labels, first, second, output));
  operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(second));
}

/// The product of all, in the best order of at most eight.
Labelled product(Call& c, std::vector<Labelled> operands, const Labels& output,
                 const Sizes& sizes) {
  while (operands.size() > 8) merge_one(c, operands, output, sizes);
  const std::vector<Labels> labels = labels_of(operands);
  const Order order(labels, output, sizes);
  const std::vector<uint32_t> parts = order.best_parts();
  const auto made = [&](const auto& self, uint32_t chosen) -> Labelled {
    if (parts[chosen] == 0) return operands[static_cast<size_t>(std::countr_zero(chosen))];
    const uint32_t rest = chosen ^ parts[chosen];
    Labelled x = self(self, parts[chosen]), y = self(self, rest);
    // the operand that comes first stands on the left
    if (std::countr_zero(rest) < std::countr_zero(parts[chosen])) std::swap(x, y);
    return runtime::contracted(c, x, y, order.left(chosen));
  };
  return runtime::summed(c, made(made, static_cast<uint32_t>(parts.size() - 1)), output);
}

Labels set_of(const std::vector<int>& labels) {
  Labels set;
  for (const int label : labels) set.set(static_cast<size_t>(label));
  return set;
}

/// Whether a sum is of elements of one operand, not of products.
bool sums_one(const std::vector<Labels>& operands, const Labels& output, const Sizes& sizes) {
  for (size_t label = 0; label < kLabels; ++label) {
    if (output.test(label) || (operands.size() > 1 && sizes[label] == 1)) continue;
    if (std::ranges::count_if(operands, [&](const Labels& l) { return l.test(label); }) == 1)
      return true;
  }
  return false;
}

/// Integers are summed in i64, as `sum` does; those of products keep their dtype.
V summand(Call& c, V x) { return ir::is_integral(c.b.dtype(x)) ? c.b.convert(x, i64) : x; }

Tensor einsum_of(Call& c, const Notation& notation, const std::vector<Tensor>& tensors) {
  if (tensors.empty() || tensors.size() != notation.terms.size())
    reject(Errc::Argument, "there are not as many operands as terms; expected {}, got {}",
           tensors.empty() ? 1 : notation.terms.size(), tensors.size());
  Sizes sizes;
  sizes.fill(-1);
  std::vector<Labelled> operands;
  int most = 0;  // dimensions of "..."
  for (size_t i = 0; i < tensors.size(); ++i) {
    const V v = c.in(tensors[i], "an operand");
    runtime::require_dtype_of(c, v, i == 0 ? v : operands[0].value, fmt::format("operand {}", i));
    const std::vector<int> labels = labels_of(notation.terms[i], c.b.rank(v), i);
    for (const int label : labels) most = std::max(most, label - kLetters + 1);
    operands.push_back(with_diagonals(c, {v, labels}, i));
    add_sizes(sizes, operands[i].dims, c.b.sizes(operands[i].value));
  }
  const std::vector<int> output =
      with_ellipsis(notation.output ? *notation.output : implied_output(notation.terms), most);
  require_output(output, sizes);
  if (sums_one(labels_of(operands), set_of(output), sizes))
    for (Labelled& x : operands) x.value = summand(c, x.value);
  for (Labelled& x : operands) x = without_ones(c, std::move(x), sizes);
  const Labelled result = product(c, std::move(operands), set_of(output), sizes);
  return c.out(runtime::arranged(c, result, output));
}

// --- numbers in place of letters

std::string spelled(const std::vector<Subscript>& subscripts) {
  std::string text;
  for (const Subscript& s : subscripts) {
    if (s.label >= kLetters || s.label < -1)
      reject(Errc::Argument, "subscript out of range; expected 0 to 51, got {}", s.label);
    text += s.label < 0 ? "..." : std::string(1, letter_of(s.label));
  }
  return text;
}

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands, SourceLocation at) {
  Call c(at);
  return einsum_of(c, parsed(equation), operands);
}
Tensor einsum(const std::vector<Subscripted>& operands,
              const std::optional<std::vector<Subscript>>& output, SourceLocation at) {
  const ir::ErrorScope errors(at);
  std::string equation;
  std::vector<Tensor> tensors;
  for (const Subscripted& x : operands) {
    equation += (tensors.empty() ? "" : ",") + spelled(x.subscripts);
    tensors.push_back(x.tensor);
  }
  return einsum(output ? equation + "->" + spelled(*output) : equation, tensors, at);
}

}  // namespace tandem
