// Views, shape, index and random ops, which are linear in what they move; and those that no tangent
// goes through.
#include "autodiff/forward/rules.h"

namespace tandem::autodiff {

const JvpRule jvp_view = linear(kSelf);
const JvpRule jvp_permute = linear(kSelf);
const JvpRule jvp_expand = linear(kSelf);
const JvpRule jvp_slice = linear(kSelf);
const JvpRule jvp_diagonal = linear(kSelf);
const JvpRule jvp_as_strided = linear(kSelf);
const JvpRule jvp_select = linear(kSelf);
const JvpRule jvp_squeeze = linear(kSelf);
const JvpRule jvp_unsqueeze = linear(kSelf);
const JvpRule jvp_transpose = linear(kSelf);
const JvpRule jvp_unfold = linear(kSelf);
const JvpRule jvp_alias = linear(kSelf);
const JvpRule jvp_view_dtype = kNoTangent;
const JvpRule jvp_detach = kNoTangent;

const JvpRule jvp_view_copy = linear(kSelf);
const JvpRule jvp_permute_copy = linear(kSelf);
const JvpRule jvp_expand_copy = linear(kSelf);
const JvpRule jvp_slice_copy = linear(kSelf);
const JvpRule jvp_diagonal_copy = linear(kSelf);
const JvpRule jvp_as_strided_copy = linear(kSelf);
const JvpRule jvp_select_copy = linear(kSelf);
const JvpRule jvp_squeeze_copy = linear(kSelf);
const JvpRule jvp_unsqueeze_copy = linear(kSelf);
const JvpRule jvp_transpose_copy = linear(kSelf);
const JvpRule jvp_unfold_copy = linear(kSelf);
const JvpRule jvp_alias_copy = linear(kSelf);
const JvpRule jvp_view_dtype_copy = kNoTangent;
const JvpRule jvp_detach_copy = kNoTangent;

const JvpRule jvp_slice_scatter = linear(kSelf | kOther);
const JvpRule jvp_diagonal_scatter = linear(kSelf | kOther);
const JvpRule jvp_as_strided_scatter = linear(kSelf | kOther);
const JvpRule jvp_select_scatter = linear(kSelf | kOther);

const JvpRule jvp_cat = linear(kEveryOperand);
const JvpRule jvp_pad =
    formula([](Along a) { return a.b.pad(a.t(), a.attr<ir::Dims>(Attr::padding), 0); });
const JvpRule jvp_flip = linear(kSelf);
const JvpRule jvp_full = kNoTangent;
const JvpRule jvp_iota = kNoTangent;

// --- index
const JvpRule jvp_index_select = linear(kSelf);
const JvpRule jvp_gather = linear(kSelf);
const JvpRule jvp_embedding = linear(kSelf);
const JvpRule jvp_index_add = linear(kSelf | kThird);
const JvpRule jvp_scatter_add = linear(kSelf | kThird);
const JvpRule jvp_scatter = linear(kSelf | kThird);

namespace {

/// Each element of self and src goes into one place: its slope there times its tangent.
std::optional<Term> through_places(const Along& a, JvpContext& c) {
  const V ones = a.b.full_like(a.y, 1);
  const auto slope = [&](size_t i) { return Term{&a.b, *gradients_of(c, 0, ones, i)[i]}; };
  const auto placed = [&](Term moved) {
    const auto dim = static_cast<int>(a.attr<int64_t>(Attr::dim));
    return Term{&a.b, a.b.scatter_add(a.b.zeros_like(a.y), dim, a.x(1), moved)};
  };
  return through_operands(
      a, [&](Term t) { return slope(0) * t; }, NoPart{},
      [&](Term t) { return placed(slope(2) * t); });
}

constexpr JvpRule kPlaces{JvpRule::Kind::Formula, 0,
                          [](JvpContext& c) { return results(through_places(Along(c), c)); }};

}  // namespace

const JvpRule jvp_scatter_prod = kPlaces;
const JvpRule jvp_scatter_amax = kPlaces;
const JvpRule jvp_scatter_amin = kPlaces;

// --- random: the same draws give the same mask
const JvpRule jvp_random_bits = kNoTangent;
const JvpRule jvp_rand = kNoTangent;
const JvpRule jvp_randn = kNoTangent;
const JvpRule jvp_dropout = linear(kSelf);

// --- subgraphs and what users registered
const JvpRule jvp_call = kOfSubgraph;
const JvpRule jvp_custom_function = kOfSubgraph;
const JvpRule jvp_hook = kOfSubgraph;
// (Passes move their bodies: control.h.)
const JvpRule jvp_cond = kNoTangent;
const JvpRule jvp_while_loop = kNoTangent;
const JvpRule jvp_scan = kNoTangent;
const JvpRule jvp_first_token = kNoTangent;
const JvpRule jvp_custom_operator = kNoTangent;
const JvpRule jvp_ordered_operator = kNoTangent;

}  // namespace tandem::autodiff
