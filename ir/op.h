// Ops: the enum, and what ops.def says of each. Code asks these traits, never "is it one of these
// ops".
#ifndef TANDEM_IR_OP_H
#define TANDEM_IR_OP_H

#include <tandem/ir/export.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tandem::ir {

enum class Op : uint16_t {
#define OP(name, class_, level, operands, attributes, shape, traits, effect) name,
#include "ops.def"
};

inline constexpr int kOpCount = 0
#define OP(name, class_, level, operands, attributes, shape, traits, effect) +1
#include "ops.def"
    ;

enum class Attr : uint8_t {
#define ATTR(name, type) name,
#include "ops.def"
};

inline constexpr int kAttrCount = 0
#define ATTR(name, type) +1
#include "ops.def"
    ;

enum class AttrType : uint8_t { Bool, Int, Dim, Dims, Axes, Float, Number, Type, Text, Graph };

/// What an op is to the passes.
enum class OpClass : uint8_t {
  Pointwise,    // element i of the result depends on element i of the operands
  Reduction,    // combines elements along dims
  Scan,         // runs along one dimension in order: scans, sorts, searches
  Linalg,       // factors and solutions of matrices
  Contraction,  // matrix products, convolutions, sums over windows
  View,         // re-reads operand 0's elements in another arrangement
  Shape,        // rearranges or joins elements into a new value
  Factory,      // no operands
  Index,        // element positions come from data
  Random,       // a function of an rng value and an offset
  Control,      // has subgraphs, or is there for the order of others
  External,     // code that the user registered: opaque
};

enum class OpLevel : uint8_t { Primitive, Composite };

/// What an equation may do beside giving its results; each may be treated less freely than the one
/// before. Passes ask effect_of (effect.h), which looks at the equation too.
enum class Effect : uint8_t {
  Pure,     // nothing
  MayFail,  // fails on data, before any result is visible
  Random,   // gives other numbers for another rng
  Opaque,   // nobody sees what it does, but its results are a function of its operands
  Ordered,  // takes and gives a token: happens once, in the order of the tokens, read or not
};
TANDEM_API std::string_view name(Effect effect);

/// May neither stand for an equal equation nor be computed again.
constexpr bool runs_once(Effect effect) { return effect >= Effect::Opaque; }
/// Stays where nothing reads its results.
constexpr bool must_run(Effect effect) { return effect == Effect::Ordered; }

/// The traits column of ops.def.
namespace row {
enum Trait : unsigned {
  None = 0,
  Commutative = 1,
  InPlace = 2,
  Overwrites = 4,
  Inlined = 8,
  Moves = 16
};
}

/// How many results the operand column of a row names: "self -> values indices" two, "self" one.
constexpr size_t count_results(std::string_view operands) {
  const size_t arrow = operands.find("-> ");
  if (arrow == std::string_view::npos) return 1;
  size_t words = 1;
  for (char c : operands.substr(arrow + 3)) words += c == ' ';
  return words;
}

/// What a rule of an op with `N` results returns, in the row's order: one T, or an array.
template <class T, size_t N>
using ResultsOf = std::conditional_t<N == 1, T, std::array<T, N>>;

/// What a rule returned, as a list.
template <class List, class T>
List listed(T results) {
  List list;
  if constexpr (std::is_same_v<T, typename List::value_type>)
    list.push_back(std::move(results));
  else
    for (auto& result : results) list.push_back(std::move(result));
  return list;
}

/// A list of at most `N` items that can be a constant of the program.
template <class T, size_t N>
class ShortList {
 public:
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T& operator[](size_t i) const { return items_[i]; }
  constexpr const T* begin() const { return items_.data(); }
  constexpr const T* end() const { return items_.data() + size_; }
  constexpr void push_back(const T& item) { items_.at(size_++) = item; }

 private:
  std::array<T, N> items_{};
  size_t size_ = 0;
};

struct OpInfo {
  std::string_view name;
  OpClass cls;
  OpLevel level;
  ShortList<std::string_view, 8> operands;  // names, without "..." and "?"
  int min_operands;                         // fewer operands than this is malformed
  bool variadic;                            // the last operand name stands for one or more
  ShortList<std::string_view, 4> results;   // names
  bool open_results;                        // not the row says how many there are, and of what type
  ShortList<Attr, 8> attrs;                 // in the order in which they are stored and printed
  bool commutative;
  bool in_place;                             // the writing form `name_` exists
  bool overwrites;                           // the writing form does not read what it overwrites
  bool moves;                                // moves or converts elements, or works on bits
  bool inlined;                              // decomposed by putting its body in its place
  Effect effect;                             // of an equation without subgraphs
  std::array<int8_t, kAttrCount> positions;  // of each attribute in `attrs`; -1: it has none
};

/// By op.
TANDEM_API extern const std::array<OpInfo, kOpCount> kOps;
inline const OpInfo& info(Op op) { return kOps[static_cast<size_t>(op)]; }
TANDEM_API std::string_view name(Op op);
TANDEM_API std::optional<Op> op_named(std::string_view name);

TANDEM_API std::string_view name(Attr attr);
TANDEM_API std::optional<Attr> attr_named(std::string_view name);
TANDEM_API AttrType type_of(Attr attr);

TANDEM_API std::string_view name(OpClass cls);

inline bool is_view(Op op) { return info(op).cls == OpClass::View; }
/// The op that gives a contiguous copy of what the view `op` shows.
TANDEM_API Op copy_form(Op view);
inline bool is_pointwise(Op op) { return info(op).cls == OpClass::Pointwise; }
inline bool is_composite(Op op) { return info(op).level == OpLevel::Composite; }

inline bool has_attr(Op op, Attr attr) {
  return info(op).positions[static_cast<size_t>(attr)] >= 0;
}
[[noreturn]] TANDEM_API void fail_without_attr(Op op, Attr attr);

/// The position of `attr` among the op's attributes; an internal error if the op has no such
/// attribute.
inline int attr_index(Op op, Attr attr) {
  if (!has_attr(op, attr)) [[unlikely]]
    fail_without_attr(op, attr);
  return info(op).positions[static_cast<size_t>(attr)];
}

}  // namespace tandem::ir

#endif  // TANDEM_IR_OP_H
