// What a caller does with the results of a compiled function, in eager mode, is what it would do to
// eager results: writes, uses after writes, and what autograd refuses of both.
#include "tests/e2e/contract.h"

namespace tandem::testing {
namespace {

struct ThenRow {
  const char* name;
  MakeInputs inputs;
  Program function;
  Afterwards afterwards;
};

std::ostream& operator<<(std::ostream& out, const ThenRow& row) { return out << row.name; }

class WrittenResults : public ::testing::TestWithParam<ThenRow> {};

TEST_P(WrittenResults, AreAsEager) {
  const ThenRow& row = GetParam();
  check_compiled(row.function, row.inputs, {.afterwards = row.afterwards});
}

// --- what callers do

/// Writes result `k` with what requires grad, if an input does.
Afterwards write(size_t k) {
  return [k](const Tensors& in, const Tensors& results) {
    results[k].mul_(in.back().sum() * 2);
    return Tensors{results[k] * 2};
  };
}

/// The same, and then uses result `other`.
Afterwards write_and_use(size_t k, size_t other) {
  return [=](const Tensors& in, const Tensors& results) {
    results[k].mul_(in.back().sum() * 2);
    return Tensors{results[other] * 3, results[k]};
  };
}

Afterwards write_without_grad_and_use(size_t k, size_t other) {
  return [=](const Tensors&, const Tensors& results) {
    {
      const NoGrad guard;
      results[k].mul_(2);
    }
    return Tensors{results[other] * 3};
  };
}

Afterwards use(size_t k) {
  return [k](const Tensors&, const Tensors& results) {
    return Tensors{results[k] * 3, results[k].detach(), results[k].alias()};
  };
}

// --- what functions give

Tensor under_no_grad(const std::function<Tensor()>& make) {
  const NoGrad guard;
  return make();
}

Tensors one_part(const Tensors& in) { return {(in[0] * 2).chunk(2)[0]}; }
Tensors one_part_of_an_input(const Tensors& in) { return {in[0].chunk(2)[1]}; }
Tensors a_view_of_a_part(const Tensors& in) { return {exp(in[0]).split(2)[0].unsqueeze(0)}; }
Tensors a_part_twice(const Tensors& in) {
  const Tensor part = (in[0] * 2).unbind()[1];
  return {part, part, part.alias()};
}
Tensors parts(const Tensors& in) { return (in[0] * 2).chunk(2); }
Tensors one_part_of_detached(const Tensors& in) {
  return {(in[0] * 2).detach().chunk(2)[0], in[0] * 2};
}

Tensors no_grad_view(const Tensors& in) {
  return {under_no_grad([&] { return in[0].slice(0, 1, 3); })};
}
Tensors no_grad_view_of_computed(const Tensors& in) {
  const Tensor y = in[0] * 2;
  return {under_no_grad([&] { return y.slice(0, 1, 3); })};
}
Tensors no_grad_view_beside_its_base(const Tensors& in) {
  const Tensor y = in[0] * 2;
  return {under_no_grad([&] { return y.slice(0, 1, 3); }), y};
}
Tensors view_of_no_grad_view(const Tensors& in) {
  const Tensor v = under_no_grad([&] { return in[0].slice(0, 1, 3); });
  return {v.unsqueeze(0), v, v * 2};
}
Tensors part_of_no_grad_view(const Tensors& in) {
  return {under_no_grad([&] { return (in[0] * 2).chunk(2)[0]; }),
          under_no_grad([&] { return in[0].chunk(2)[0]; })};
}

Tensors detached(const Tensors& in) { return {in[0].detach()}; }
Tensors detached_and_its_view(const Tensors& in) {
  const Tensor d = in[0].detach();
  return {d.slice(0, 1, 3), d};
}
Tensors two_views_of_detached(const Tensors& in) {
  const Tensor d = (in[0] * 2).detach();
  return {d.slice(0, 1, 3), d.slice(0, 0, 2)};
}
Tensors written_detached_input(const Tensors& in) {
  const Tensor d = in[0].detach();
  d.mul_(in[1]);
  return {d};
}
Tensors written_detached_and_its_view(const Tensors& in) {
  const Tensor d = in[0].detach(), v = d.slice(0, 1, 3);
  d.mul_(in[1]);
  return {v, d, in[0] * 2};
}
Tensors detached_written_through_a_view(const Tensors& in) {
  const Tensor y = in[0] * 2, d = y.detach();
  d.slice(0, 1, 3).mul_(in[1].slice(0, 0, 2));
  return {y, d, d * 2};
}
Tensors only_a_view_of_written_detached(const Tensors& in) {
  const Tensor y = in[0] * 2, d = y.detach();
  d.mul_(in[1]);
  return {d.slice(0, 0, 3), y.slice(0, 2, 4)};
}
Tensors twice_detached_and_written(const Tensors& in) {
  const Tensor d = in[0].detach();
  d.mul_(in[1]);
  const Tensor e = d.detach();
  e.add_(in[1]);
  return {d, e, e.view({2, 2})};
}
Tensors two_detached_twins_written_in_turn(const Tensors& in) {
  const Tensor y = in[0] * 2, a = y.detach(), b = y.detach();
  a.mul_(in[1]);
  b.add_(in[1]);
  a.add_(b);
  return {a, b, y};
}
Tensors detached_filled_after_a_write(const Tensors& in) {
  const Tensor d = in[0].detach();
  d.mul_(in[1]);
  d.fill_(3);
  return {d, d.slice(0, 0, 2)};
}
Tensors detached_written_then_the_input(const Tensors& in) {
  const Tensor y = in[0] * 2, d = y.detach();
  d.mul_(in[1]);
  y.add_(1);
  return {d, y, y * d};
}
Tensors made_without_grad_then_written(const Tensors& in) {
  const Tensor y = under_no_grad([&] { return in[0] * 2; });
  y.mul_(in[1]);
  return {y, y.slice(0, 1, 3)};
}
Tensors detached_under_no_grad_then_written(const Tensors& in) {
  const Tensor d = under_no_grad([&] { return in[0].detach(); });
  d.mul_(in[1]);
  return {d, in[0]};
}
Tensors as_other_dtype_written(const Tensors& in) {
  const Tensor y = in[0] * 2, d = y.view(bf16);
  d.mul_(in[1].sum().to(bf16));
  return {y, d};
}

Tensors view_of_filled(const Tensors& in) {
  const Tensor y = relu(in[0]), v = y.slice(0, 1, 3);
  y.fill_(3);
  return {v, in[0] * 2};
}
Tensors view_of_no_grad_view_made_before_grad(const Tensors& in) {
  const Tensor d = in[0].detach();
  const Tensor v = under_no_grad([&] { return d.slice(0, 1, 3); });
  const Tensor u = v.unsqueeze(0);
  d.mul_(in[1]);
  return {u};
}

const std::vector<ThenRow> kRows{
    {"OnePartIsWritten", tensors({{4}}), one_part, write(0)},
    {"OnePartIsUsed", tensors({{4}}), one_part, use(0)},
    {"OnePartIsWrittenWithoutGrad", tensors({{4}}), one_part, write_without_grad_and_use(0, 0)},
    {"OnePartOfAnInputIsWritten", tensors({{4}}), one_part_of_an_input, write(0)},
    {"AViewOfAPartIsWritten", tensors({{4}}), a_view_of_a_part, write(0)},
    {"APartTwiceIsWritten", tensors({{4, 2}}), a_part_twice, write(1)},
    {"APartTwiceIsUsed", tensors({{4, 2}}), a_part_twice, use(1)},
    {"PartsAreUsedAfterAWriteWithoutGrad", tensors({{4}}), parts, write_without_grad_and_use(0, 1)},
    {"PartsAreWritten", tensors({{4}}), parts, write(1)},
    {"APartOfDetachedIsWritten", tensors({{4}}), one_part_of_detached, write(0)},
    {"APartOfDetachedIsWrittenWithoutGrad", tensors({{4}}), one_part_of_detached,
     write_without_grad_and_use(0, 0)},

    {"ANoGradViewIsUsed", tensors({{4}}), no_grad_view, use(0)},
    {"ANoGradViewIsWritten", tensors({{4}}), no_grad_view, write(0)},
    {"ANoGradViewIsWrittenWithoutGrad", tensors({{4}}), no_grad_view,
     write_without_grad_and_use(0, 0)},
    {"ANoGradViewOfComputedIsUsed", tensors({{4}}), no_grad_view_of_computed, use(0)},
    {"ANoGradViewOfComputedIsWritten", tensors({{4}}), no_grad_view_of_computed, write(0)},
    {"ANoGradViewOfComputedIsWrittenWithoutGrad", tensors({{4}}), no_grad_view_of_computed,
     write_without_grad_and_use(0, 0)},
    {"TheBaseOfANoGradViewIsWritten", tensors({{4}}), no_grad_view_beside_its_base,
     write_and_use(1, 0)},
    {"AViewOfANoGradViewIsUsed", tensors({{4}}), view_of_no_grad_view, use(0)},
    {"AViewOfANoGradViewIsWritten", tensors({{4}}), view_of_no_grad_view, write(0)},
    {"APartOfANoGradViewIsWritten", tensors({{4}}), part_of_no_grad_view, write(0)},
    {"APartOfANoGradViewOfAnInputIsWritten", tensors({{4}}), part_of_no_grad_view, write(1)},

    {"ANoGradViewOfAViewOfFilledIsMade", tensors({{4}}), view_of_filled,
     [](const Tensors&, const Tensors& results) {
       return Tensors{under_no_grad([&] { return results[0].slice(0, 0, 1); })};
     }},
    {"AViewOfANoGradViewMadeBeforeGrad", tensors({{4}, {4}}), view_of_no_grad_view_made_before_grad,
     [](const Tensors&, const Tensors& results) { return Tensors{results[0].detach()}; }},

    {"DetachedIsWritten", tensors({{4}, {4}}), detached, write(0)},
    {"DetachedIsWrittenAndItsViewUsed", tensors({{4}, {4}}), detached_and_its_view,
     write_and_use(1, 0)},
    {"AViewOfDetachedIsWrittenAndTheWholeUsed", tensors({{4}, {4}}), detached_and_its_view,
     write_and_use(0, 1)},
    {"OneViewOfDetachedIsWrittenAndAnotherUsed", tensors({{4}, {4}}), two_views_of_detached,
     write_and_use(0, 1)},
    {"AWrittenDetachedInputIsUsed", tensors({{4}, {4}}), written_detached_input, use(0)},
    {"AWrittenDetachedInputIsWritten", tensors({{4}, {4}}), written_detached_input, write(0)},
    {"WrittenDetachedAndItsViewAreUsed", tensors({{4}, {4}}), written_detached_and_its_view,
     write_and_use(1, 0)},
    {"AViewOfWrittenDetachedIsWritten", tensors({{4}, {4}}), written_detached_and_its_view,
     write_and_use(0, 1)},
    {"DetachedWrittenThroughAView", tensors({{4}, {4}}), detached_written_through_a_view,
     write_and_use(1, 0)},
    {"OnlyAViewOfWrittenDetached", tensors({{4}, {4}}), only_a_view_of_written_detached,
     write_and_use(0, 1)},
    {"TwiceDetachedAndWritten", tensors({{4}, {4}}), twice_detached_and_written,
     write_and_use(2, 1)},
    {"TwoDetachedTwinsWrittenInTurn", tensors({{4}, {4}}), two_detached_twins_written_in_turn,
     write_and_use(0, 1)},
    {"DetachedFilledAfterAWrite", tensors({{4}, {4}}), detached_filled_after_a_write,
     write_and_use(1, 0)},
    {"DetachedWrittenThenTheInput", tensors({{4}, {4}}), detached_written_then_the_input, use(0)},
    {"MadeWithoutGradThenWritten", tensors({{4}, {4}}), made_without_grad_then_written,
     write_and_use(1, 0)},
    {"DetachedUnderNoGradThenWritten", tensors({{4}, {4}}), detached_under_no_grad_then_written,
     write(0)},
    {"AsOtherDtypeWritten", tensors({{4}, {4}}), as_other_dtype_written, use(1)},
};

INSTANTIATE_TEST_SUITE_P(Results, WrittenResults, ::testing::ValuesIn(kRows),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::testing
