// Every op and its in-place form on operands that lie in memory in every way (offset, with gaps,
// transposed, repeated, between and over each other, of no dimension, empty), in every dtype, NaN
// included: eager against eager on memory of their own, compiled against eager. What lies between
// the elements that an op writes must stay.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/base/error.h"
#include "ir/shape/shape_rules.h"
#include "ir/strides.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tensor/tensor_impl.h"
#include "tests/support/op_samples.h"
#include "tests/support/outcome.h"
#include "tools/memory.h"

namespace tandem::testing {
namespace {

using ir::Buffer;
using ir::Op;
using ir::OpClass;

// --- where operands lie

struct Place {
  size_t memory;  // by operand
  Strides strides;
  int64_t offset, room;  // elements of the memory
};

enum class Layout : uint8_t {
  Own,
  Offset,
  Gaps,
  RowGaps,
  Transposed,
  TransposedGaps,
  OthersRepeat,
  Interleaved,
  Same,
  Overlapping
};
constexpr Layout kLayouts[] = {Layout::Offset,      Layout::Gaps,           Layout::RowGaps,
                               Layout::Transposed,  Layout::TransposedGaps, Layout::OthersRepeat,
                               Layout::Interleaved, Layout::Same,           Layout::Overlapping};

/// Strides that step `unit` in the last dimension and leave `gap` elements behind each row.
Strides rows(const Shape& sizes, int64_t unit, int64_t gap) {
  Strides strides = Strides::filled(sizes.rank(), unit);
  int64_t step = unit;
  for (int d = sizes.rank(); d-- > 0; step += d == sizes.rank() - 1 ? gap : 0) {
    strides[d] = step;
    step *= std::max<int64_t>(1, sizes[d]);
  }
  return strides;
}

Strides reversed(const Shape& sizes, int64_t unit) {
  Strides strides = Strides::filled(sizes.rank(), unit);
  for (int d = 1; d < sizes.rank(); ++d)
    strides[d] = strides[d - 1] * std::max<int64_t>(1, sizes[d - 1]);
  return strides;
}

Strides repeated(const Shape& sizes) {
  Strides strides = rows(sizes, 1, 0);
  if (sizes.rank() > 0) strides[0] = 0;
  return strides;
}

Strides strides_in(Layout layout, const Shape& sizes, bool first, int64_t operands) {
  switch (layout) {
    case Layout::Gaps:
      return rows(sizes, 2, 0);
    case Layout::RowGaps:
      return rows(sizes, 1, 3);
    case Layout::Transposed:
      return reversed(sizes, 1);
    case Layout::TransposedGaps:
      return reversed(sizes, 3);
    case Layout::OthersRepeat:
      return first ? rows(sizes, 2, 1) : repeated(sizes);
    case Layout::Interleaved:
      return rows(sizes, operands, 0);
    default:
      return rows(sizes, 1, 0);
  }
}

/// Operands like the first may share its memory.
std::vector<Place> places(Layout layout, const std::vector<Buffer>& operands) {
  const auto count = static_cast<int64_t>(operands.size());
  const bool shares = layout >= Layout::Interleaved;
  std::vector<Place> out;
  int64_t room = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Buffer& operand = operands[static_cast<size_t>(i)];
    const bool joins = shares && operand.type() == operands[0].type();
    const int64_t offset = layout == Layout::Own || layout == Layout::Same ? 0 : joins ? i : 3;
    const Strides strides = strides_in(layout, operand.sizes(), i == 0, joins ? count : 1);
    // Up to the end of the last memory, so that what is beyond is not the tensor's.
    const int64_t reach = offset + int64_t{ir::extent(operand.sizes(), strides)};
    room = std::max(room, reach);
    out.push_back({joins ? 0 : static_cast<size_t>(i), strides, offset, reach});
  }
  for (Place& p : out)
    if (shares && p.memory == 0) p.room = room;
  return out;
}

// --- what is computed

struct Item {
  OpSample sample;
  ir::Types results;
};

struct Subject {
  Op op;
  bool in_place;
  std::vector<Item> items;
};

Tensor filled_memory(const Place& place, const Buffer& like) {
  return full({std::max<int64_t>(1, place.room)}, like.dtype() == DType::Bool ? 1 : 113,
              like.dtype());
}

Tensor view_at(const Tensor& memory, const Place& place, const Buffer& like) {
  return memory.as_strided(like.sizes(), place.strides, place.offset);
}

void put(const Buffer& values, const Tensor& into) {
  Buffer copy = values;
  tools::copy_elements(copy.view(), into.impl()->view());
}

/// The operands of all items, one after the other; where they share memory the first item's come
/// last, so that they are as given.
Tensors make_operands(const Subject& subject, Layout layout, Source& source) {
  Tensors all;
  for (const Item& item : subject.items) {
    const std::vector<Place> where = places(layout, item.sample.operands);
    Tensors memories, operands;
    for (size_t i = 0; i < where.size(); ++i) {
      const Buffer& values = item.sample.operands[i];
      memories.push_back(where[i].memory == i ? source(filled_memory(where[i], values))
                                              : memories[where[i].memory]);
      operands.push_back(view_at(memories.back(), where[i], values));
    }
    for (size_t i = operands.size(); i-- > 0;) put(item.sample.operands[i], operands[i]);
    if (layout == Layout::Same)
      for (size_t i = 1; i < operands.size(); ++i)
        if (where[i].memory == 0) operands[i] = operands[0];
    all.insert(all.end(), operands.begin(), operands.end());
  }
  return all;
}

Tensors compute(const Subject& subject, const Tensors& operands) {
  Tensors results;
  auto next = operands.begin();
  for (const Item& item : subject.items) {
    const auto count = static_cast<ptrdiff_t>(item.sample.operands.size());
    const Tensors own(next, next + count);
    next += count;
    for (const Tensor& result :
         runtime::dispatch(subject.op, own, item.sample.attrs, subject.in_place, item.results))
      if (!subject.in_place) results.push_back(result);
  }
  return results;
}

// --- samples in every dtype

Buffer converted(const Buffer& from, DType dtype) {
  Buffer to(ir::Type{dtype, from.sizes()});
  for (int64_t i = 0; i < from.numel(); ++i) to.set(i, from.at(i));
  return to;
}

/// The sample with operands of dtype `from` in another.
OpSample in_dtype(OpSample sample, DType from, DType to) {
  for (Buffer& b : sample.operands)
    if (b.dtype() == from) b = converted(b, to);
  return sample;
}

OpSample without_dims(OpSample sample) {
  for (Buffer& b : sample.operands) {
    Buffer scalar(ir::Type{b.dtype(), {}});
    scalar.set(0, b.at(0));
    b = scalar;
  }
  return sample;
}

void add(Subject& subject, OpSample sample) {
  std::vector<ir::Type> types;
  for (const Buffer& b : sample.operands) types.push_back(b.type());
  try {
    const ir::Types results = ir::infer_types(subject.op, types, sample.attrs);
    if (!subject.in_place || results[0] == types[0])
      subject.items.push_back({std::move(sample), results});
  } catch (const ir::Error&) {  // not of this dtype
  }
}

void add_in_every_dtype(Subject& subject, const OpSample& sample) {
  static constexpr std::pair<DType, DType> kLike[] = {{DType::F32, DType::F16},
                                                      {DType::F32, DType::BF16},
                                                      {DType::I64, DType::I16},
                                                      {DType::I64, DType::I8},
                                                      {DType::I64, DType::U8}};
  add(subject, sample);
  for (const auto& [from, to] : kLike)
    if (sample.operands[0].dtype() == from) add(subject, in_dtype(sample, from, to));
}

Subject subject_of(Op op, bool in_place, int64_t length) {
  Subject subject{op, in_place, {}};
  for (OpSample& sample : op_samples(op, length)) {
    if (sample.operands.empty()) continue;
    if (length == 1 && ir::is_pointwise(op)) sample = without_dims(sample);
    if (length > 16 && ir::is_pointwise(op)) add_special_values(sample, 5);
    add_in_every_dtype(subject, sample);
  }
  return subject;
}

// --- checks

Tensor own_copy(const Tensor& t) {
  const Tensor copy = runtime::empty_tensor(t.sizes(), t.dtype());
  tools::copy_elements(t.impl()->view(), copy.impl()->view());
  return copy;
}

/// Equal, NaN to NaN, but for rounding where sums may be in another order.
void expect_same(const Tensor& expected, const Tensor& got, double tolerance) {
  ASSERT_EQ(ir::to_string(expected.sizes()), ir::to_string(got.sizes()));
  const auto e = expected.to_vector<double>(), g = got.to_vector<double>();
  for (size_t i = 0; i < e.size(); ++i) {
    if (e[i] == g[i] || (std::isnan(e[i]) && std::isnan(g[i]))) continue;
    ASSERT_LE(std::abs(e[i] - g[i]), tolerance * std::max(1., std::abs(e[i]))) << "element " << i;
  }
}

/// Copies of memories, with what `written` holds at the places of `operand`.
void put_expected(const Tensors& copies, const Tensors& memories, const Tensor& operand,
                  const Tensor& written) {
  for (size_t m = 0; m < memories.size(); ++m)
    if (memories[m].shares_storage(operand))
      tools::copy_elements(
          written.impl()->view(),
          copies[m]
              .as_strided(operand.sizes(), operand.strides(), operand.storage_offset())
              .impl()
              ->view());
}

/// Eager does to operands of this layout what it does to operands of their own memory.
void check_eager(const Subject& subject, Layout layout) {
  Source source(Setting::Plain);
  const Tensors operands = make_operands(subject, layout, source);
  Tensors own, expected_memories;
  for (const Tensor& t : operands) own.push_back(own_copy(t));
  for (const Tensor& m : source.memories()) expected_memories.push_back(own_copy(m));
  const Tensors got = compute(subject, operands), expected = compute(subject, own);
  for (size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(fmt::format("item {}", i));
    expect_same(expected[i], got[i], ir::is_pointwise(subject.op) ? 0 : 1e-5);
  }
  size_t next = 0;
  for (const Item& item : subject.items) {
    if (subject.in_place)
      put_expected(expected_memories, source.memories(), operands[next], own[next]);
    next += item.sample.operands.size();
  }
  for (size_t m = 0; m < expected_memories.size(); ++m) {
    SCOPED_TRACE(fmt::format("memory {}", m));
    expect_same(expected_memories[m], source.memories()[m], 0);
  }
}

void check_compiled(const Subject& subject, Layout layout) {
  const auto compiled =
      compile([&](const Tensors& operands) { return compute(subject, operands); });
  const MakeInputs inputs = [&](Source& source) { return make_operands(subject, layout, source); };
  const auto eager = [&](const Tensors& operands) { return compute(subject, operands); };
  const Outcome expected = run(eager, inputs, {}), actual = run(compiled, inputs, {});
  ASSERT_FALSE(expected.forward_error) << expected.forward_error->what();
  EXPECT_EQ(difference(expected, actual, 1e-5), "");
}

/// Random numbers come from no operand; as_strided speaks of the memory of a contiguous one; other
/// dtypes are only shown of elements side by side; a view gives nothing to compute.
bool takes_layouts(Op op) {
  const OpClass cls = ir::info(op).cls;
  if (cls == OpClass::Random || cls == OpClass::View || ir::has_attr(op, ir::Attr::strides) ||
      op == Op::view_dtype_copy)
    return false;
  const std::vector<OpSample> samples = op_samples(op, 7);
  return !samples.empty() && !samples[0].operands.empty();
}

class OpLayouts : public ::testing::TestWithParam<Op> {};
class OpLayoutsInPlace : public OpLayouts {};

/// Every `step`-th item, from another one on for each layout: compiling takes long.
Subject part_of(const Subject& subject, Layout layout, size_t step) {
  Subject part{subject.op, subject.in_place, {}};
  for (size_t i = static_cast<size_t>(layout) % step; i < subject.items.size(); i += step)
    part.items.push_back(subject.items[i]);
  return part;
}

void check(Op op, bool in_place) {
  for (const int64_t length : {0, 1, 7, 35})
    for (const Layout layout : kLayouts) {
      SCOPED_TRACE(fmt::format("length {}, layout {}", length, static_cast<int>(layout)));
      const Subject subject = subject_of(op, in_place, length);
      check_eager(subject, layout);
      const Subject part = part_of(subject, layout, length == 35 ? 4 : 11);
      if (length != 7 && !part.items.empty()) check_compiled(part, layout);
      if (::testing::Test::HasFailure()) return;
    }
}

TEST_P(OpLayouts, Result) { check(GetParam(), false); }
TEST_P(OpLayoutsInPlace, Operand) { check(GetParam(), true); }

std::vector<Op> ops_with_layouts(bool in_place) {
  std::vector<Op> ops;
  for (int i = 0; i < ir::kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    if (takes_layouts(op) && (!in_place || ir::info(op).in_place)) ops.push_back(op);
  }
  return ops;
}

std::string name_of(const ::testing::TestParamInfo<Op>& op) {
  return std::string(ir::name(op.param));
}

INSTANTIATE_TEST_SUITE_P(All, OpLayouts, ::testing::ValuesIn(ops_with_layouts(false)), name_of);
INSTANTIATE_TEST_SUITE_P(All, OpLayoutsInPlace, ::testing::ValuesIn(ops_with_layouts(true)),
                         name_of);

}  // namespace
}  // namespace tandem::testing
