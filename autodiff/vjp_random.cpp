// Rules of random ops, of ops with subgraphs (which joint and tape differentiate), and of custom
// operators.
#include "autodiff/rules.h"

namespace tandem::autodiff {

const VjpRule vjp_random_bits = kZeroGradient;
const VjpRule vjp_rand = kZeroGradient;
const VjpRule vjp_randn = kZeroGradient;
// Linear, and its own transpose: the same draws give the same mask, so it need not be saved.
const VjpRule vjp_dropout =
    rule(wrt<kOther>([](Args a) {
           return a.b.emit(Op::dropout, {a.g, a.x(1)},
                           {a.attr<double>(Attr::p), a.attr<Dim>(Attr::offset)});
         }),
         NoGradient{});

const VjpRule vjp_call = kSubgraph;
const VjpRule vjp_custom_function = kSubgraph;
const VjpRule vjp_hook = kSubgraph;
const VjpRule vjp_first_token = kZeroGradient;
// control/gradient.h makes custom_functions of those that have a gradient: all but while_loop.
const VjpRule vjp_cond{.kind = VjpRule::Kind::NotDifferentiable};
const VjpRule vjp_while_loop{.kind = VjpRule::Kind::NotDifferentiable};
const VjpRule vjp_scan{.kind = VjpRule::Kind::NotDifferentiable};
const VjpRule vjp_custom_operator{.kind = VjpRule::Kind::NotDifferentiable};
const VjpRule vjp_ordered_operator{.kind = VjpRule::Kind::NotDifferentiable};

}  // namespace tandem::autodiff
