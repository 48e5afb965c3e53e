// When updates of inputs run, and which steps can fail before them.
#include "tests/unit/codegen/check_lowering.h"

namespace tandem::codegen {
namespace {

constexpr int kLayers = 6;
const Shape kSquare{32, 32};
constexpr int64_t kBytes = 4 * 32 * 32;

std::vector<int> all_outputs(const ir::Graph& graph) {
  std::vector<int> outputs;
  for (size_t i = 0; i < graph.outputs().size(); ++i) outputs.push_back(static_cast<int>(i));
  return outputs;
}

/// The layers of a network, its gradients, and then the updates of its weights.
ir::Graph training_step() {
  TestGraph t;
  Builder& b = t.b;
  std::vector<V> weights, values{t.input({4, 32})}, gradients(kLayers);
  for (int i = 0; i < kLayers; ++i) weights.push_back(t.input(kSquare));
  for (V w : weights) values.push_back(b.tanh(b.mm(values.back(), w)));
  V d = values.back();
  for (size_t i = kLayers; i-- > 0;) {
    const V dz = b.mul(d, values[i + 1]);
    gradients[i] = b.mm(b.permute(values[i], ir::Axes{1, 0}), dz);
    d = b.mm(dz, b.permute(weights[i], ir::Axes{1, 0}));
  }
  for (size_t i = 0; i < kLayers; ++i)
    t.output(b.sub(weights[i], b.mul(gradients[i], 1e-3)), {}, static_cast<int>(i) + 1);
  return t.finish();
}

TEST(Updates, FreeEachGradient) {
  const ir::Graph graph = training_step();
  const Checked c = check_lowering(graph, {}, {.write_into_input = all_outputs(graph)}, 1e-4);
  for (int i = 0; i < kLayers; ++i)
    EXPECT_EQ(c.plan.outputs[static_cast<size_t>(i)].into_input, i + 1);
  EXPECT_LE(c.plan.arena_bytes, 3 * kBytes);
}

TEST(Updates, KeepTheirOrderWhereNothingIsWritten) {
  const ir::Graph graph = training_step();
  EXPECT_GE(lower(graph).arena_bytes, kLayers * kBytes);
}

/// An embedding, a product, and then what adds to the table's gradient at `again`, which is the
/// index that the embedding read or another one.
Checked lowered_embedding(bool same_index) {
  TestGraph t;
  Builder& b = t.b;
  const V table = t.input({6, 32}), w = t.input(kSquare), index = t.input({32}, DType::I64),
          other = t.input({32}, DType::I64);
  const V rows = b.index_select(table, 0, index), y = b.tanh(b.mm(rows, w));
  const V dw = b.mm(b.permute(rows, ir::Axes{1, 0}), y);
  const V dx = b.mm(y, b.permute(w, ir::Axes{1, 0}));
  const V zeros = b.full({6, 32}, DType::F32, 0.0);
  t.output(b.sub(w, b.mul(dw, 0.1)), {}, 1);
  t.output(b.sub(table, b.index_add(zeros, 0, same_index ? index : other, dx)), {}, 0);
  const ir::Graph graph = t.finish();
  return check_lowering(graph, {}, {.write_into_input = all_outputs(graph)}, 1e-4);
}

/// The steps that write into input `i`, by where they stand.
std::vector<size_t> writers_of(const Plan& plan, int i) {
  std::vector<size_t> writers;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const auto* const launch = std::get_if<Launch>(&plan.steps[s]);
    if (launch == nullptr) continue;
    const Kernel& kernel = plan.kernels[launch->kernel];
    for (ParamId p : kernel.params.ids())
      if (const BufferRef& to = launch->params[p.index]; kernel.params[p].use != Param::Use::Read &&
                                                         to.kind == BufferRef::Kind::Input &&
                                                         to.index == i)
        writers.push_back(s);
  }
  return writers;
}

/// The last step with a check.
size_t last_check(const Plan& plan) {
  size_t last = 0;
  for (size_t s = 0; s < plan.steps.size(); ++s)
    if (const auto* const launch = std::get_if<Launch>(&plan.steps[s]))
      if (!launch->checks.empty()) last = s;
  return last;
}

TEST(Updates, NeedNotWaitForAnIndexThatWasCheckedBefore) {
  const Plan plan = lowered_embedding(true).plan;
  ASSERT_EQ(writers_of(plan, 1).size(), 1);
  EXPECT_LT(writers_of(plan, 1)[0], last_check(plan));
  EXPECT_EQ(writers_of(plan, 0).size(), 1);
}

TEST(Updates, WaitForWhatCanFail) {
  const Plan plan = lowered_embedding(false).plan;
  ASSERT_EQ(writers_of(plan, 1).size(), 1);
  EXPECT_GT(writers_of(plan, 1)[0], last_check(plan));
}

TEST(Updates, AnIndexMayBeCheckedForMore) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({300, 32}), small = t.input({3, 32}), index = t.input({8}, DType::I64);
  const V rows = b.index_select(x, 0, index);
  t.output(b.exp(x), {}, 0);
  t.output(b.add(rows, b.index_select(small, 0, index)));
  const Checked c = check_lowering(t.finish(), {}, {.write_into_input = {0}});
  EXPECT_GT(writers_of(c.plan, 0).at(0), last_check(c.plan));
}

// --- writes at positions from data

TEST(Updates, AWriteAtPositionsIsCheckedAndThenTouchesNothingElse) {
  for (const Op op : {Op::scatter, Op::scatter_add, Op::scatter_amax}) {
    TestGraph t;
    Builder& b = t.b;
    const V cache = t.input({64, 32}), index = t.input({3, 32}, DType::I64);
    t.output(b.scatter_into(op, cache, 0, index, t.input({3, 32})), {}, 0);
    const ir::Graph graph = t.finish();
    const Checked c = check_lowering(graph, {}, {.write_into_input = all_outputs(graph)});
    EXPECT_EQ(c.plan.outputs[0].into_input, 0);
    EXPECT_EQ(c.plan.steps.size(), 2);
    EXPECT_EQ(writers_of(c.plan, 0), std::vector<size_t>{1});
  }
}

/// Two writes at positions and one of a range, the second through a permutation, to an input of
/// these strides.
ir::Graph writes_to(const ir::Strides& strides) {
  TestGraph t;
  Builder& b = t.b;
  V x = t.input({64, 32, 16}, DType::F32, strides);
  const V at = t.input({3}, DType::I64), rows = t.input({3, 32, 16});
  x = b.index_add(x, 0, at, rows);
  const ir::Axes turned{2, 1, 0};
  x = b.permute(b.index_add(b.permute(x, turned), 2, at, b.permute(rows, turned)), turned);
  x = b.slice_scatter(x, t.input({64, 1, 16}), 1, 3, 4, 1);
  t.output(x, strides, 0);
  return t.finish();
}

TEST(Updates, WritesTouchNothingElseInEveryLayout) {
  const ir::Strides contiguous{512, 16, 1}, transposed{1, 64, 2048}, swapped{16, 1024, 1},
      gapped_rows{1024, 16, 1}, gapped_elements{2048, 64, 2}, gapped_and_swapped{40, 2560, 2};
  for (const ir::Strides& strides :
       {contiguous, transposed, swapped, gapped_rows, gapped_elements, gapped_and_swapped}) {
    SCOPED_TRACE(ir::to_string(strides));
    const ir::Graph graph = writes_to(strides);
    const Checked c = check_lowering(graph, {}, {.write_into_input = {0}});
    EXPECT_EQ(c.plan.outputs[0].into_input, 0);
    EXPECT_LE(c.plan.arena_bytes, 4 * 2 * 3 * 32 * 16);
    EXPECT_EQ(writers_of(c.plan, 0).size(), 3) << print(c.plan);
  }
}

TEST(Updates, WritesAtPositionsAreAllCheckedBeforeTheFirst) {
  TestGraph t;
  Builder& b = t.b;
  const V keys = t.input({64, 32}), values = t.input({64, 32}), at = t.input({3}, DType::I64),
          to = t.input({3}, DType::I64), rows = t.input({3, 32});
  const V written = b.index_add(keys, 0, at, rows);
  const V scores = b.mm(b.tanh(rows), b.permute(written, ir::Axes{1, 0}));
  const V both =
      b.index_add(b.index_add(values, 0, at, rows), 0, to, b.mul(rows, b.sum(scores, {1}, true)));
  t.output(written, {}, 0);
  t.output(both, {}, 1);
  t.output(b.mm(scores, both));
  const ir::Graph graph = t.finish();
  const Checked c = check_lowering(graph, {}, {.write_into_input = {0, 1}}, 1e-4);
  EXPECT_EQ(c.plan.outputs[0].into_input, 0);
  EXPECT_EQ(c.plan.outputs[1].into_input, 1);
  EXPECT_LT(c.plan.arena_bytes, 64 * 32 * 4);
}

/// Caches of all layers in one tensor, as a decoder writes and reads them layer by layer: in a
/// range, or at positions from data.
ir::Graph decoder_of_one_cache(bool by_index) {
  TestGraph t;
  Builder& b = t.b;
  V cache = t.input({3, 2, 64, 16}), x = t.input({2, 1, 16});
  const V index = b.expand(t.input({1}, DType::I64), {2, 1, 16});
  for (int l = 0; l < 3; ++l) {
    const V layer = b.view(b.slice(cache, 0, l, l + 1, 1), {2, 64, 16}), row = b.mul(x, l + 1);
    const V written =
        by_index ? b.scatter(layer, 1, index, row) : b.slice_scatter(layer, row, 1, 3, 4, 1);
    cache = b.slice_scatter(cache, b.view(written, {1, 2, 64, 16}), 0, l, l + 1, 1);
    const V all = b.view(b.slice(cache, 0, l, l + 1, 1), {2, 64, 16});
    x = b.tanh(b.bmm(b.bmm(x, b.permute(all, ir::Axes{0, 2, 1})), all));
  }
  t.output(x);
  t.output(cache, {}, 0);
  return t.finish();
}

TEST(Updates, PartsOfPartsAreWrittenWhereTheInputIs) {
  constexpr int64_t kLayerBytes = 4 * 2 * 64 * 16;
  for (const bool by_index : {false, true}) {
    const ir::Graph graph = decoder_of_one_cache(by_index);
    const Checked c = check_lowering(graph, {}, {.write_into_input = {1}}, 1e-4);
    EXPECT_EQ(c.plan.outputs[1].into_input, 0);
    EXPECT_LT(c.plan.arena_bytes, kLayerBytes) << print(c.plan);
    for (size_t s : writers_of(c.plan, 0))
      EXPECT_LE(c.plan.kernels[std::get<Launch>(c.plan.steps[s]).kernel].units(), 2);
  }
}

/// Parts of an input written one after the other, each from what another part of it held.
TEST(Updates, PartsMadeOfOtherPartsAreWrittenInPlace) {
  for (const bool along_columns : {false, true}) {
    TestGraph t;
    Builder& b = t.b;
    V x = t.input({16, 8, 32});
    const V v = t.input({32});
    const int dim = along_columns ? 2 : 0;
    const auto part = [&](int at) { return b.slice(x, dim, at, at + 1, 1); };
    for (int at = 0; at < 4; ++at) x = b.slice_scatter(x, b.mul(part(at), 2), dim, at, at + 1, 1);
    for (int at = 4; at < 8; ++at)
      x = b.slice_scatter(x, b.add(part(at), part(at + 4)), dim, at, at + 1, 1);
    x = b.slice_scatter(x, b.expand(v, {16, 1, 32}), 1, 7, 8, 1);
    t.output(x, {}, 0);
    const ir::Graph graph = t.finish();
    const Checked c = check_lowering(graph, {}, {.write_into_input = {0}});
    EXPECT_EQ(c.plan.outputs[0].into_input, 0);
    EXPECT_EQ(c.plan.arena_bytes, 0) << print(c.plan);
  }
}

/// What moves within an input is kept apart before it is overwritten, and nothing else.
TEST(Updates, RowsThatChangePlacesAreKeptAlone) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({64, 256});
  const auto rows = [&](V of, int from, int to) { return b.slice(of, 0, from, to, 1); };
  V y = b.slice_scatter(x, rows(x, 1, 2), 0, 0, 1, 1);
  y = b.slice_scatter(y, rows(x, 0, 1), 0, 1, 2, 1);
  y = b.slice_scatter(y, rows(y, 5, 8), 0, 4, 7, 1);
  t.output(y, {}, 0);
  const ir::Graph graph = t.finish();
  const Checked c = check_lowering(graph, {}, {.write_into_input = {0}});
  EXPECT_EQ(c.plan.outputs[0].into_input, 0) << print(c.plan);
  EXPECT_LE(c.plan.arena_bytes, 4 * 256 * 4);
}

/// What rows give is written into a column of them once all of them have been read.
TEST(Updates, SumsOfRowsAreWrittenIntoThemBehind) {
  for (const bool is_sum_beside : {false, true}) {
    TestGraph t;
    Builder& b = t.b;
    const V x = t.input({64, 256});
    V column = b.view(b.sum(x, {1}), {64, 1});
    if (is_sum_beside) column = b.sub(b.slice(x, 1, 3, 4, 1), column);
    t.output(b.slice_scatter(x, column, 1, 3, 4, 1), {}, 0);
    const ir::Graph graph = t.finish();
    const Checked c = check_lowering(graph, {}, {.write_into_input = {0}});
    EXPECT_EQ(c.plan.outputs[0].into_input, 0) << print(c.plan);
    EXPECT_LE(c.plan.arena_bytes, 4 * 64) << print(c.plan);
  }
}

TEST(Updates, APartOfWhatWasOverwrittenIsACopy) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({16, 32});
  const V first = b.slice(x, 0, 0, 1, 1), second = b.slice(x, 0, 1, 2, 1);
  const V half = b.slice_scatter(x, b.mul(second, 2), 0, 0, 1, 1);
  t.output(b.slice_scatter(half, b.mul(first, 2), 0, 1, 2, 1), {}, 0);
  check_lowering(t.finish(), {}, {.write_into_input = {0}});
}

TEST(Updates, AWriteAtPositionsOfWhatIsReadLaterIsACopy) {
  TestGraph t;
  Builder& b = t.b;
  const V cache = t.input({64, 32}), index = t.input({3}, DType::I64), rows = t.input({3, 32});
  t.output(b.index_add(cache, 0, index, rows), {}, 0);
  t.output(b.mm(rows, b.permute(cache, ir::Axes{1, 0})));
  const ir::Graph graph = t.finish();
  check_lowering(graph, {}, {.write_into_input = {0}}, 1e-4);
}

}  // namespace
}  // namespace tandem::codegen
