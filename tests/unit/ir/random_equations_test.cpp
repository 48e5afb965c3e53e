// Random equations of every op: the shape rules refuse or accept, and never overflow or read
// outside; what they accept passes through text, JSON and verifier.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "ir/base/error.h"
#include "ir/json/json.h"
#include "ir/shape/shape_rules.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"

namespace tandem::ir {
namespace {

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  /// Mostly small, sometimes an extreme.
  int64_t integer() {
    constexpr int64_t kExtremes[] = {std::numeric_limits<int64_t>::min(),
                                     std::numeric_limits<int64_t>::max(), -1, int64_t{1} << 62};
    return below(8) == 0 ? kExtremes[below(4)] : below(4);
  }

  template <class List>
  List integers() {
    List list;
    for (int64_t n = below(10) == 0 ? 9 : below(4); n > 0; --n) list.push_back(integer());
    return list;
  }

  Type type() {
    constexpr DType kDTypes[] = {DType::F32, DType::F32,  DType::F64,
                                 DType::I64, DType::Bool, DType::BF16};
    Type type{kDTypes[below(6)], {}};
    for (int64_t rank = below(4); rank > 0; --rank) type.sizes.push_back(below(3));
    return type;
  }

  std::vector<Type> operands(const OpInfo& op) {
    const auto most = static_cast<int64_t>(op.operands.size()) + op.variadic;
    const bool same = below(2) == 0;
    std::vector<Type> types;
    for (int64_t n = op.min_operands + below(most - op.min_operands + 1); n > 0; --n)
      types.push_back(same && !types.empty() ? types[0] : type());
    return types;
  }

  AttrValue attr(AttrType type) {
    constexpr double kFloats[] = {0.0, 1.0, 1e-5, -0.0, std::numeric_limits<double>::infinity()};
    constexpr const char* kTexts[] = {"", "none", "mean", "tanh"};
    switch (type) {
      case AttrType::Bool:
        return below(2) == 0;
      case AttrType::Int:
        return integer();
      case AttrType::Dim:
        return Dim(integer());
      case AttrType::Dims:
        return integers<Dims>();
      case AttrType::Axes:
        return integers<Axes>();
      case AttrType::Float:
        return kFloats[below(5)];
      case AttrType::Number:
        return below(2) == 0 ? Number(integer()) : Number(kFloats[below(5)]);
      case AttrType::Type:
        return static_cast<DType>(below(kDTypeCount));
      case AttrType::Text:
        return std::string(kTexts[below(4)]);
      case AttrType::Graph:
        break;
    }
    return SubgraphId{0};
  }

  std::vector<AttrValue> attrs(const OpInfo& op) {
    std::vector<AttrValue> values;
    for (Attr a : op.attrs) values.push_back(attr(type_of(a)));
    return values;
  }

 private:
  std::mt19937_64 random_;
};

/// The result types of a random equation, or none if it is refused.
std::optional<Types> result_types(Op op, std::span<const Type> operands,
                                  const std::vector<AttrValue>& attrs) {
  try {
    return infer_types(op, operands, attrs);
  } catch (const Error&) {
    return std::nullopt;
  }
}

Graph graph_of(Op op, const std::vector<Type>& operands, AttrsRef attrs,
               std::span<const Type> results) {
  Graph g("g", Level::Functional);
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < operands.size(); ++i)
    inputs.push_back(g.add_input(
        {.name = "x" + std::to_string(i), .strides = contiguous_strides(operands[i].sizes)},
        operands[i]));
  g.append(op, inputs, attrs, results);
  return g;
}

bool is_well_formed(const Graph& g) {
  try {
    verify(g);
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(RandomEquations, AreRefusedOrPassThroughTextAndJson) {
  Generator generator(7);
  int ops = 0, accepted_ops = 0;
  for (int i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    if (info(op).cls == OpClass::Control || info(op).cls == OpClass::External) continue;
    int accepted = 0;
    for (int attempt = 0; attempt < 2000 && accepted < 10; ++attempt) {
      const std::vector<Type> operands = generator.operands(info(op));
      const std::vector<AttrValue> attrs = generator.attrs(info(op));
      const std::optional<Types> results = result_types(op, operands, attrs);
      if (!results) continue;
      const Graph g = graph_of(op, operands, attrs, *results);
      if (!is_well_formed(g)) continue;  // sizes whose bytes overflow; a malformed order
      EXPECT_EQ(parse(print(g)), g) << print(g);
      EXPECT_EQ(from_json(to_json(g))[0], g) << print(g);
      ++accepted;
    }
    ++ops;
    accepted_ops += accepted > 0;
  }
  EXPECT_GE(accepted_ops, ops * 9 / 10);
}

}  // namespace
}  // namespace tandem::ir
