// Functions that write their inputs' elements: directly, through views, under NoGrad, through
// detach.
#include "tests/e2e/contract.h"

namespace tandem::testing {
namespace {

const std::vector<Row> kRows{
    {"AddANumber", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors { return in[0].add_(1), Tensors{}; }},
    {"AddATensor", tensors({{2, 3}, {2, 3}}),
     [](const Tensors& in) -> Tensors { return in[0].add_(in[1]), Tensors{}; }},
    {"AddABroadcastTensor", tensors({{2, 3}, {3}}),
     [](const Tensors& in) -> Tensors { return in[0].add_(in[1]), Tensors{in[0] * 2}; }},
    {"MultiplyByItself", tensors({{5}}),
     [](const Tensors& in) -> Tensors { return in[0].mul_(in[0]), Tensors{}; }},
    {"SubtractItself", tensors({{5}}),
     [](const Tensors& in) -> Tensors { return in[0].sub_(in[0]), Tensors{in[0] + 1}; }},
    {"ManyTimes", tensors({{4}}),
     [](const Tensors& in) -> Tensors {
       for (int i = 0; i < 5; ++i) in[0].mul_(1.5).add_(1);
       return {in[0] * in[0]};
     }},
    {"ReadBeforeAndAfter", tensors({{4}}),
     [](const Tensors& in) -> Tensors {
       const Tensor before = exp(in[0]);
       in[0].mul_(3);
       return {before * in[0], before};
     }},
    {"ReturnTheWrittenInput", tensors({{4}}),
     [](const Tensors& in) -> Tensors { return {in[0].mul_(2)}; }},
    {"ReturnTheOldValue", tensors({{4}}),
     [](const Tensors& in) -> Tensors {
       const Tensor old = in[0].clone();
       in[0].zero_();
       return {old};
     }},
    {"Swap", tensors({{4}, {4}}),
     [](const Tensors& in) -> Tensors {
       const Tensor old = in[0].clone();
       in[0].copy_(in[1]);
       in[1].copy_(old);
       return {};
     }},
    {"Rotate", tensors({{4}, {4}, {4}}),
     [](const Tensors& in) -> Tensors {
       const Tensor old = in[0].clone();
       in[0].copy_(in[1]), in[1].copy_(in[2]), in[2].copy_(old);
       return {in[0] - in[1]};
     }},
    {"Fill", tensors({{3, 2}}),
     [](const Tensors& in) -> Tensors { return in[0].fill_(2.5), Tensors{in[0] * 2}; }},
    {"Zero", tensors({{3, 2}, {3, 2}}),
     [](const Tensors& in) -> Tensors { return in[0].zero_(), Tensors{in[0] + in[1]}; }},
    {"FillThenAdd", tensors({{3}, {3}}),
     [](const Tensors& in) -> Tensors { return in[0].fill_(2).add_(in[1]), Tensors{in[0]}; }},
    {"AddThenFill", tensors({{3}, {3}}),
     [](const Tensors& in) -> Tensors { return in[0].add_(in[1]).fill_(2), Tensors{in[0] * 3}; }},
    {"CopyANumberTensor", tensors({{2, 3}, {}}),
     [](const Tensors& in) -> Tensors { return in[0].copy_(in[1]), Tensors{}; }},
    {"CopyFromF64", [](Source& s) { return Tensors{s.noise({3}, 1), s.noise({3}, 2, f64)}; },
     [](const Tensors& in) -> Tensors { return in[0].copy_(in[1]), Tensors{in[0] * 2}; }},
    {"CopyIntegers", [](Source& s) { return Tensors{s.noise({3}, 1), s.integers({3}, 2, i64)}; },
     [](const Tensors& in) -> Tensors { return in[0].copy_(in[1]), Tensors{in[0] * 2}; }},
    {"WriteIntegers", [](Source& s) { return Tensors{s.integers({3}, 1, i64), s.noise({3}, 2)}; },
     [](const Tensors& in) -> Tensors { return in[0].mul_(2).add_(1), Tensors{in[0] * in[1]}; }},
    {"WriteHalfPrecision", tensors({{7}}, bf16),
     [](const Tensors& in) -> Tensors { return in[0].mul_(1.25), Tensors{}; }},
    {"WriteDouble", tensors({{7}}, f64),
     [](const Tensors& in) -> Tensors { return in[0].exp_(), Tensors{in[0]}; }},
    {"WriteBooleans",
     [](Source& s) { return Tensors{s.integers({6}, 1, boolean), s.noise({6}, 2)}; },
     [](const Tensors& in) -> Tensors {
       in[0].copy_(in[1] > 0);
       return {in[1].masked_fill(in[0], 0)};
     }},
    {"Relu", tensors({{9}}), [](const Tensors& in) -> Tensors { return {in[0].relu_() * in[0]}; }},
    {"MaskedFill", tensors({{4, 3}}),
     [](const Tensors& in) -> Tensors { return in[0].masked_fill_(in[0] < 0, -1), Tensors{}; }},
    {"Clamp", tensors({{9}}),
     [](const Tensors& in) -> Tensors { return in[0].clamp_(-0.5, 0.5), Tensors{}; }},
    {"Lerp", tensors({{9}, {9}}),
     [](const Tensors& in) -> Tensors { return in[0].lerp_(in[1], 0.25), Tensors{}; }},
    {"Addcmul", tensors({{9}, {9}, {9}}),
     [](const Tensors& in) -> Tensors { return in[0].addcmul_(in[1], in[2], 2), Tensors{}; }},
    {"Tril", tensors({{4, 4}}),
     [](const Tensors& in) -> Tensors { return in[0].tril_(), Tensors{}; }},
    {"IndexAdd", tensors({{4, 2}, {3, 2}}),
     [](const Tensors& in) -> Tensors {
       in[0].index_add_(0, tensor({1, 3, 1}, i64), in[1]);
       return {in[0] * 2};
     }},
    {"IndexAddDependsOnData",
     [](Source& s) {
       return Tensors{s.noise({4, 2}, 1), s.noise({3, 2}, 2), tensor({1, 3, 1}, i64)};
     },
     [](const Tensors& in) -> Tensors {
       in[0].index_add_(0, in[2], in[1]);
       return {in[0].sum()};
     }},
    {"TransposedInput", views_of({3, 4}, [](const Tensor& b) { return Tensors{b.t()}; }),
     [](const Tensors& in) -> Tensors { return in[0].mul_(2), Tensors{in[0] + 1}; }},
    {"SlicedInput", views_of({10}, [](const Tensor& b) { return Tensors{b.slice(0, 1, 9, 2), b}; }),
     [](const Tensors& in) -> Tensors { return in[0].mul_(2), Tensors{}; }},
    {"EmptyInput", tensors({{0, 3}, {3}}),
     [](const Tensors& in) -> Tensors { return in[0].add_(in[1]), Tensors{in[0].sum()}; }},
    {"ZeroDimInput", tensors({{}}),
     [](const Tensors& in) -> Tensors { return in[0].add_(1), Tensors{in[0] * 2}; }},
    {"ThroughAView", tensors({{2, 3}}),
     [](const Tensors& in) -> Tensors { return in[0].view({-1}).add_(1), Tensors{in[0] * 2}; }},
    {"ThroughASlice", tensors({{4, 3}, {2, 3}}),
     [](const Tensors& in) -> Tensors { return in[0].slice(0, 1, 3).mul_(in[1]), Tensors{}; }},
    {"ThroughASelect", tensors({{4, 3}}),
     [](const Tensors& in) -> Tensors { return in[0].select(1, 2).exp_(), Tensors{in[0].t()}; }},
    {"ThroughAStep", tensors({{8}}),
     [](const Tensors& in) -> Tensors { return in[0].slice(0, 1, 8, 3).add_(1), Tensors{}; }},
    {"ThroughADiagonal", tensors({{4, 4}}),
     [](const Tensors& in) -> Tensors {
       return in[0].diagonal().fill_(1), Tensors{in[0] * in[0]};
     }},
    {"ThroughATranspose", tensors({{3, 4}, {4, 3}}),
     [](const Tensors& in) -> Tensors { return in[0].t().add_(in[1]), Tensors{}; }},
    {"ThroughTwoSlices", tensors({{6}}),
     [](const Tensors& in) -> Tensors {
       in[0].slice(0, 0, 4).mul_(2);
       in[0].slice(0, 2, 6).mul_(3);
       return {in[0].slice(0, 1, 5)};
     }},
    {"ThroughAChainOfViews", tensors({{4, 6}}),
     [](const Tensors& in) -> Tensors {
       in[0].t().slice(0, 1, 5).select(1, 2).view({2, 2}).select(0, 1).mul_(10);
       return {in[0].sum({0})};
     }},
    {"ThroughUnbind", tensors({{3, 2}}),
     [](const Tensors& in) -> Tensors {
       in[0][1].add_(in[0][0]);
       in[0][2].add_(in[0][1]);
       return {};
     }},
    {"ShiftWithinItself", tensors({{6}}),
     [](const Tensors& in) -> Tensors {
       in[0].slice(0, 1, 6).copy_(in[0].slice(0, 0, 5));
       return {in[0] * 2};
     }},
    {"UnderNoGrad", tensors({{4}, {4}}),
     [](const Tensors& in) -> Tensors {
       {
         const NoGrad no_grad;
         in[0].mul_(in[1]);
       }
       return {in[0] * in[1]};
     }},
    {"UnderNoGradThroughAView", tensors({{2, 3}, {3}}),
     [](const Tensors& in) -> Tensors {
       {
         const NoGrad no_grad;
         in[0].select(0, 1).copy_(in[1]);
       }
       return {in[0] * in[1]};
     }},
    {"UnderNoGradOnly", tensors({{4}, {4}}),
     [](const Tensors& in) -> Tensors {
       const NoGrad no_grad;
       in[0].sub_(in[1] * 0.1);
       return {};
     }},
    {"UnderNoGradThenInGradMode", tensors({{4}, {4}}),
     [](const Tensors& in) -> Tensors {
       {
         const NoGrad no_grad;
         in[0].mul_(2);
       }
       in[0].mul_(in[1]);
       return {in[0] * 1.5};
     }},
    {"InGradModeThenUnderNoGrad", tensors({{4}, {4}}),
     [](const Tensors& in) -> Tensors {
       in[0].mul_(in[1]);
       {
         const NoGrad no_grad;
         in[0].add_(1);
       }
       return {in[0] * 1.5};
     }},
    {"ThroughDetach", tensors({{4}, {4}}),
     [](const Tensors& in) -> Tensors { return in[0].detach().mul_(2), Tensors{in[0] * in[1]}; }},
    {"ThroughAViewOfDetach", tensors({{2, 4}}),
     [](const Tensors& in) -> Tensors {
       in[0].detach().select(0, 1).fill_(3);
       return {in[0] * in[0]};
     }},
    {"ThroughDetachAndDirectly", tensors({{4}}),
     [](const Tensors& in) -> Tensors {
       in[0].detach().add_(1);
       in[0].mul_(2);
       return {in[0] * in[0]};
     }},
    {"OneOfSeveralInputs", tensors({{4}, {4}, {4}}),
     [](const Tensors& in) -> Tensors { return {in[1].add_(in[0]), in[2] * in[1]}; }},
    {"AllOfSeveralInputs", tensors({{4}, {4}, {4}}),
     [](const Tensors& in) -> Tensors {
       in[0].add_(in[1]), in[1].mul_(in[2]), in[2].sub_(in[0]);
       return {in[0] + in[1] + in[2]};
     }},
    {"WhatTheBackwardReads", tensors({{4}, {4}}),
     [](const Tensors& in) -> Tensors {
       const Tensor y = in[1] * in[1];
       in[0].copy_(y).mul_(y);
       return {y};
     }},
    {"MatmulIntoAnInput", tensors({{3, 3}, {3, 3}}),
     [](const Tensors& in) -> Tensors { return in[0].copy_(matmul(in[0], in[1])), Tensors{}; }},
    {"RunningMean", tensors({{8, 3}, {3}}),
     [](const Tensors& in) -> Tensors {
       const Tensor mean = in[0].mean({0});
       {
         const NoGrad no_grad;
         in[1].mul_(0.9).add_(mean.detach() * 0.1);
       }
       return {in[0] - mean};
     }},
    {"FailsAfterAWrite", tensors({{4}, {4}}),
     [](const Tensors& in) -> Tensors {
       in[1].add_(1);
       in[0].expand({2, 4}).add_(1);
       return {};
     }},
};

TANDEM_CONTRACT(InputMutation, kRows);

}  // namespace
}  // namespace tandem::testing
