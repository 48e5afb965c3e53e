// Functions whose results share memory: with inputs, with values that the caller never sees, with
// each other.
#include "tests/e2e/contract.h"

namespace tandem::testing {
namespace {

Tensors no_grad(const std::function<Tensors()>& body) {
  const NoGrad guard;
  return body();
}

const std::vector<Row> kRows{
    {"AnInput", tensors({{3}}), [](const Tensors& in) -> Tensors { return {in[0]}; }},
    {"AnInputTwice", tensors({{3}}), [](const Tensors& in) -> Tensors { return {in[0], in[0]}; }},
    {"AnInputAndAComputedValue", tensors({{3}}),
     [](const Tensors& in) -> Tensors { return {in[0], in[0] * 2}; }},
    {"AViewOfAnInput", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors { return {in[0].view({3, 2})}; }},
    {"AnAliasOfAnInput", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors { return {in[0].alias()}; }},
    {"ASliceOfAnInput", tensors({{5, 2}}),
     [](const Tensors& in) -> Tensors { return {in[0].slice(0, 1, 4)}; }},
    {"ATransposeOfAnInput", tensors({{5, 2}}),
     [](const Tensors& in) -> Tensors { return {in[0].t()}; }},
    {"ADiagonalOfAnInput", tensors({{4, 4}}),
     [](const Tensors& in) -> Tensors { return {in[0].diagonal(1)}; }},
    {"AnExpandedInput", tensors({{3, 1}}),
     [](const Tensors& in) -> Tensors { return {in[0].expand({2, 3, 4})}; }},
    {"AStridedViewOfAnInput", tensors({{12}}),
     [](const Tensors& in) -> Tensors { return {in[0].as_strided({2, 3}, {6, 1}, 2)}; }},
    {"AChainOfViews", tensors({{4, 6}}),
     [](const Tensors& in) -> Tensors {
       return {in[0].t().slice(0, 1, 5).unsqueeze(0).select(2, 3)};
     }},
    {"TheSameViewTwice", tensors({{4}}),
     [](const Tensors& in) -> Tensors {
       const Tensor v = in[0].slice(0, 1, 3);
       return {v, v};
     }},
    {"TwoEqualViews", tensors({{4}}),
     [](const Tensors& in) -> Tensors { return {in[0].slice(0, 1, 3), in[0].slice(0, 1, 3)}; }},
    {"OverlappingViews", tensors({{6}}),
     [](const Tensors& in) -> Tensors {
       return {in[0].slice(0, 0, 4), in[0].slice(0, 2, 6), in[0]};
     }},
    {"AViewOfAWrittenInput", tensors({{6}}),
     [](const Tensors& in) -> Tensors {
       const Tensor v = in[0].slice(0, 0, 4);
       in[0].mul_(2);
       return {v};
     }},
    {"AViewThatWasWritten", tensors({{6}, {4}}),
     [](const Tensors& in) -> Tensors {
       const Tensor v = in[0].slice(0, 0, 4);
       v.mul_(in[1]);
       return {v, v * 2};
     }},
    {"AViewMadeBeforeAndOneAfterTheWrite", tensors({{6}}),
     [](const Tensors& in) -> Tensors {
       const Tensor v = in[0].slice(0, 0, 4);
       in[0].add_(1);
       return {v, in[0].slice(0, 0, 4), in[0]};
     }},
    {"Detached", tensors({{3}}), [](const Tensors& in) -> Tensors { return {in[0].detach()}; }},
    {"DetachedAndTheInput", tensors({{3}}),
     [](const Tensors& in) -> Tensors { return {in[0].detach(), in[0]}; }},
    {"AViewOfDetached", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors { return {in[0].detach().t()}; }},
    {"DetachOfAView", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors { return {in[0].t().detach()}; }},
    {"AViewMadeUnderNoGrad", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors { return no_grad([&] { return Tensors{in[0].t()}; }); }},
    {"AViewInGradModeOfOneUnderNoGrad", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors {
       const Tensor t = no_grad([&] { return Tensors{in[0].t()}; })[0];
       return {t.select(0, 1)};
     }},
    {"AnInputUnderNoGrad", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors { return no_grad([&] { return Tensors{in[0]}; }); }},
    {"ComputedUnderNoGrad", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors {
       return {no_grad([&] { return Tensors{in[0] * 2}; })[0], in[0] * 2};
     }},
    {"TwoAliasesUnderNoGrad", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors {
       return no_grad([&] {
         const Tensor y = in[0] * 2;
         return Tensors{y, y.view({-1}), y.alias()};
       });
     }},
    {"AnIntermediateTwice", tensors({{3}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0] * 2;
       return {y, y};
     }},
    {"AnIntermediateAndItsView", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0] * 2;
       return {y, y.t()};
     }},
    {"AViewBeforeItsBase", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0] * 2;
       return {y.t(), y};
     }},
    {"ViewsWithoutTheirBase", tensors({{4, 3}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = exp(in[0]);
       return {y.slice(0, 0, 3), y.slice(0, 1, 4)};
     }},
    {"OneViewWithoutItsBase", tensors({{4, 3}}),
     [](const Tensors& in) -> Tensors { return {exp(in[0]).select(1, 1)}; }},
    {"ViewsOfATransposedIntermediate",
     views_of({3, 4}, [](const Tensor& b) { return Tensors{b.t()}; }),
     [](const Tensors& in) -> Tensors {
       const Tensor y = relu(in[0]);
       return {y.select(0, 1), y.expand({2, 4, 3})};
     }},
    {"DisjointViewsOfAnIntermediate", tensors({{6}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0] + 1;
       return {y.slice(0, 0, 3), y.slice(0, 3, 6)};
     }},
    {"ADetachedTwinOfAResult", tensors({{3}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0] * 2;
       return {y, y.detach()};
     }},
    {"OnlyADetachedTwin", tensors({{3}}),
     [](const Tensors& in) -> Tensors { return {(in[0] * 2).detach()}; }},
    {"AWrittenIntermediateAndItsViews", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0] * 2, row = y.select(0, 0), column = y.select(1, 0);
       row.mul_(3);
       column.add_(1);
       return {row, y, column};
     }},
    {"AnExpandedIntermediate", tensors({{3}}),
     [](const Tensors& in) -> Tensors { return {(in[0] * 2).expand({4, 3})}; }},
    {"AZeroFilledIntermediate", tensors({{3}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0] * 2;
       y.zero_();
       return {y};
     }},
    {"AConstant", tensors({{3}}), [](const Tensors&) -> Tensors { return {ones({3})}; }},
    {"ViewsOfAConstant", tensors({{3}}),
     [](const Tensors&) -> Tensors {
       const Tensor c = arange(6);
       return {c.view({2, 3}), c.slice(0, 1, 4), c};
     }},
    {"AConstantWrittenWithAnInput", tensors({{3}}),
     [](const Tensors& in) -> Tensors {
       const Tensor c = zeros({3, 3});
       c.select(1, 1).add_(in[0]);
       return {c, c.select(1, 1)};
     }},
    {"ReshapeThatIsAView", tensors({{2, 6}}),
     [](const Tensors& in) -> Tensors { return {in[0].reshape({3, 4})}; }},
    {"ReshapeThatCopies", views_of({2, 6}, [](const Tensor& b) { return Tensors{b.t()}; }),
     [](const Tensors& in) -> Tensors { return {in[0].reshape({3, 4})}; }},
    {"ContiguousThatIsTheInput", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors { return {in[0].contiguous()}; }},
    {"ContiguousThatCopies", views_of({2, 3}, [](const Tensor& b) { return Tensors{b.t()}; }),
     [](const Tensors& in) -> Tensors { return {in[0].contiguous()}; }},
    {"FlattenOfAnInput", tensors({{2, 3, 2}}),
     [](const Tensors& in) -> Tensors { return {in[0].flatten(), in[0].flatten(1)}; }},
    {"AWrittenInputItsViewAndAComputedValue", tensors({{4}, {4}}),
     [](const Tensors& in) -> Tensors {
       in[0].mul_(in[1]);
       return {in[0].slice(0, 0, 2), in[0] + 1, in[0]};
     }},
    {"IntegerViews", [](Source& s) { return Tensors{s.integers({6}, 1, i64), s.noise({6}, 2)}; },
     [](const Tensors& in) -> Tensors { return {in[0].view({2, 3}), in[1] * in[0]}; }},
    {"AnEmptyView", tensors({{4}}),
     [](const Tensors& in) -> Tensors { return {in[0].slice(0, 2, 2), in[0]}; }},
    {"NothingButAWrite", tensors({{4}}),
     [](const Tensors& in) -> Tensors { return in[0].slice(0, 1, 2).add_(1), Tensors{}; }},
};

TANDEM_CONTRACT(OutputAliases, kRows);

const std::vector<Row> kMultiOutput{
    {"Unbind", tensors({{3, 2}}), [](const Tensors& in) -> Tensors { return in[0].unbind(); }},
    {"UnbindOfAnIntermediate", tensors({{3, 2}}),
     [](const Tensors& in) -> Tensors { return (in[0] * 2).unbind(1); }},
    {"Chunk", tensors({{7, 2}}), [](const Tensors& in) -> Tensors { return in[0].chunk(3); }},
    {"ChunkOfAnIntermediate", tensors({{4, 6}}),
     [](const Tensors& in) -> Tensors { return exp(in[0]).chunk(3, 1); }},
    {"Split", tensors({{7}}), [](const Tensors& in) -> Tensors { return in[0].split(3); }},
    {"SplitAndTheWhole", tensors({{6}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0] + 1;
       Tensors parts = y.split(2);
       parts.push_back(y);
       return parts;
     }},
    {"SomeOfThePieces", tensors({{3, 4}}),
     [](const Tensors& in) -> Tensors {
       const Tensors parts = (in[0] * in[0]).unbind();
       return {parts[2], parts[0]};
     }},
    {"WrittenPieces", tensors({{6}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0] * 2;
       const Tensors parts = y.tensor_split(2);
       parts[0].add_(parts[1]);
       return {parts[0], parts[1], y};
     }},
    {"PiecesUnderNoGrad", tensors({{6}}),
     [](const Tensors& in) -> Tensors { return no_grad([&] { return in[0].chunk(2); }); }},
    {"PiecesOfAViewUnderNoGrad", tensors({{6}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0] * 2;
       const Tensor v = no_grad([&] { return Tensors{y.slice(0, 1, 5)}; })[0];
       const Tensors parts = v.chunk(2);
       y.relu_();
       return {parts[1]};
     }},
    {"PiecesOfAWrittenInput", tensors({{6}}),
     [](const Tensors& in) -> Tensors {
       const Tensors parts = in[0].chunk(2);
       in[0].mul_(3);
       return parts;
     }},
};

TANDEM_CONTRACT(MultiOutputViews, kMultiOutput);

// --- results that the function made leaves which require grad

const std::vector<Row> kLeaves{
    {"Detached", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors { return {(in[0] * 2).detach().requires_grad_()}; }},
    {"DetachedView", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors {
       return {(in[0] * 2).view({6}).detach().requires_grad_(), in[0] + 1};
     }},
    {"DetachedViewOfAnInput", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors { return {in[0].view({6}).detach().requires_grad_()}; }},
    {"BesideTheirBase", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0] * 2;
       return {y, y.view({6}).detach().requires_grad_()};
     }},
    {"WithViews", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors {
       const Tensor leaf = (in[0] * 2).detach().requires_grad_();
       return {leaf.view({6}), leaf};
     }},
    {"AView", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[0].detach() * 2, v = y.view({6});
       v.requires_grad_();
       return {v, y};
     }},
    {"Constants", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors { return {ones({2}).requires_grad_(), in[0] * 2}; }},
};

TANDEM_CONTRACT(LeafResults, kLeaves);

}  // namespace
}  // namespace tandem::testing
