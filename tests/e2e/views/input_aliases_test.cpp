// Functions whose inputs share memory: the same tensor twice, overlapping views, views that lie
// between each other, detached twins; and what changes when the next call's inputs share otherwise.
#include <tandem/graph.h>

#include "tests/e2e/contract.h"

namespace tandem::testing {
namespace {

/// The same tensor twice.
MakeInputs twice(const Shape& sizes) {
  return views_of(sizes, [](const Tensor& b) { return Tensors{b, b}; });
}
/// Elements 0..4 and 2..6 of one tensor.
MakeInputs overlapping() {
  return views_of({6}, [](const Tensor& b) { return Tensors{b.slice(0, 0, 4), b.slice(0, 2, 6)}; });
}
/// A tensor and a part of it.
MakeInputs base_and_part() {
  return views_of({6}, [](const Tensor& b) { return Tensors{b, b.slice(0, 2, 5)}; });
}
/// Even and odd elements.
MakeInputs interleaved() {
  return views_of(
      {8}, [](const Tensor& b) { return Tensors{b.slice(0, 0, 8, 2), b.slice(0, 1, 8, 2)}; });
}
/// The left and the right columns of a matrix: rows lie between each other.
MakeInputs columns() {
  return views_of({3, 4},
                  [](const Tensor& b) { return Tensors{b.slice(1, 0, 2), b.slice(1, 2, 4)}; });
}
/// A matrix and its transpose.
MakeInputs transposed() {
  return views_of({3, 3}, [](const Tensor& b) { return Tensors{b, b.t()}; });
}
/// A tensor and a twin that autograd does not know to be one.
MakeInputs detached() {
  return views_of({4}, [](const Tensor& b) { return Tensors{b, b.detach()}; });
}

Tensors write_first(const Tensors& in) {
  in[0].mul_(2);
  return {in[0] + 1, in[1] * 3};
}
Tensors write_second(const Tensors& in) {
  in[1].add_(1);
  return {in[0] * 2, in[1] * 3};
}
Tensors write_both(const Tensors& in) {
  in[0].mul_(2);
  in[1].add_(1);
  in[0].mul_(3);
  return {in[0] * in[0], in[1]};
}
Tensors read_only(const Tensors& in) { return {exp(in[0]).sum() * in[1]}; }
Tensors return_both(const Tensors& in) { return {in[1], in[0]}; }
Tensors write_and_return(const Tensors& in) {
  in[0].add_(1);
  return {in[1], in[0], in[1].slice(0, 0, 2)};
}
Tensors write_under_no_grad(const Tensors& in) {
  {
    const NoGrad no_grad;
    in[1].mul_(2);
  }
  return {in[0] * in[0], in[1] * in[1]};
}
Tensors copy_onto_the_other(const Tensors& in) {
  in[0].copy_(in[1]);
  return {in[0] + in[1]};
}

const std::vector<Row> kRows{
    {"TwiceReadOnly", twice({4}), read_only},
    {"TwiceReturned", twice({4}), return_both},
    {"TwiceFirstWritten", twice({4}), write_first},
    {"TwiceBothWritten", twice({4}), write_both},
    {"TwiceWrittenAndReturned", twice({4}), write_and_return},
    {"TwiceUnderNoGrad", twice({4}), write_under_no_grad},
    {"TwiceCopied", twice({4}), copy_onto_the_other},
    {"TwiceAdded", twice({4}), [](const Tensors& in) -> Tensors { return {in[0] + in[1]}; }},
    {"TwiceMultiplied", twice({4}), [](const Tensors& in) -> Tensors { return {in[0] * in[1]}; }},
    {"ThreeTimes", views_of({4}, [](const Tensor& b) { return Tensors{b, b, b}; }),
     [](const Tensors& in) -> Tensors {
       in[1].mul_(in[2]);
       return {in[0], in[2] * 2};
     }},
    {"OverlappingReadOnly", overlapping(), read_only},
    {"OverlappingReturned", overlapping(), return_both},
    {"OverlappingFirstWritten", overlapping(), write_first},
    {"OverlappingSecondWritten", overlapping(), write_second},
    {"OverlappingBothWritten", overlapping(), write_both},
    {"OverlappingWrittenAndReturned", overlapping(), write_and_return},
    {"OverlappingUnderNoGrad", overlapping(), write_under_no_grad},
    {"OverlappingCopied", overlapping(), copy_onto_the_other},
    {"PartReadOnly", base_and_part(), read_only},
    {"PartOfAWrittenBase", base_and_part(), write_first},
    {"BaseOfAWrittenPart", base_and_part(), write_second},
    {"BaseAndPartWritten", base_and_part(), write_both},
    {"BaseAndPartReturned", base_and_part(), write_and_return},
    {"PartUnderNoGrad", base_and_part(), write_under_no_grad},
    {"InterleavedFirstWritten", interleaved(), write_first},
    {"InterleavedBothWritten", interleaved(), write_both},
    {"InterleavedReturned", interleaved(), write_and_return},
    {"ColumnsFirstWritten", columns(), write_first},
    {"ColumnsBothWritten", columns(), write_both},
    {"TransposedFirstWritten", transposed(), write_first},
    {"TransposedSecondWritten", transposed(), write_second},
    {"TransposedBothWritten", transposed(), write_both},
    {"TransposedMatmul", transposed(),
     [](const Tensors& in) -> Tensors {
       in[1].mul_(2);
       return {matmul(in[0], in[1])};
     }},
    {"DetachedReadOnly", detached(), read_only},
    {"DetachedFirstWritten", detached(), write_first},
    {"DetachedSecondWritten", detached(), write_second},
    {"DetachedBothWritten", detached(), write_both},
    {"DetachedUnderNoGrad", detached(), write_under_no_grad},
    {"DetachedWrittenWithAGradient",
     [](Source& s) {
       const Tensor b = s.noise({4}, 1);
       return Tensors{b, b.detach(), s.noise({4}, 2)};
     },
     [](const Tensors& in) -> Tensors {
       in[1].mul_(in[2]);
       return {in[0] * in[0], in[1] * 2};
     }},
    {"DisjointHalves", views_of({8}, [](const Tensor& b) { return b.tensor_split(2); }),
     write_both},
    {"AlmostTouching",
     views_of({9}, [](const Tensor& b) { return Tensors{b.slice(0, 0, 4), b.slice(0, 5, 9)}; }),
     write_both},
    {"RowsOfAMatrix",
     views_of(
         {3, 4},
         [](const Tensor& b) { return Tensors{b.select(0, 0), b.select(0, 1), b.select(0, 2)}; }),
     [](const Tensors& in) -> Tensors {
       in[0].add_(in[1]);
       in[1].mul_(in[2]);
       return {in[0] * in[1]};
     }},
    {"WindowsOfATensor",
     views_of({8},
              [](const Tensor& b) {
                return Tensors{b.slice(0, 0, 4), b.slice(0, 2, 6), b.slice(0, 4, 8)};
              }),
     [](const Tensors& in) -> Tensors {
       in[1].mul_(2);
       return {in[0] + in[1] + in[2]};
     }},
    {"ABaseInTheMiddle",
     views_of({8}, [](const Tensor& b) { return Tensors{b.slice(0, 1, 3), b, b.slice(0, 2, 7)}; }),
     [](const Tensors& in) -> Tensors {
       in[0].mul_(2);
       in[2].add_(1);
       return {in[1] * in[1], in[0], in[2]};
     }},
    {"DifferentShapesOfOneMemory",
     views_of({6}, [](const Tensor& b) { return Tensors{b.view({2, 3}), b.view({3, 2})}; }),
     [](const Tensors& in) -> Tensors {
       in[0].select(0, 1).mul_(2);
       return {in[1] * 2, in[0]};
     }},
    {"AnEmptyViewOfAWrittenTensor",
     views_of({6}, [](const Tensor& b) { return Tensors{b, b.slice(0, 3, 3)}; }), write_first},
    {"AScalarViewOfAWrittenTensor",
     views_of({6}, [](const Tensor& b) { return Tensors{b, b.select(0, 3)}; }), write_second},
};

TANDEM_CONTRACT(InputAliases, kRows);

// --- views of one memory as several dtypes. (Every f32 pattern that comes up is a number.)

/// A tensor and its bits.
MakeInputs and_bits(DType bits, const Shape& sizes = {4}) {
  return views_of(sizes, [=](const Tensor& b) { return Tensors{b, b.view(bits)}; });
}
Tensors write_the_bits(const Tensors& in) {
  in[1].bitwise_xor_(1);
  return {in[0] * in[0], in[1]};
}
Tensors write_the_number(const Tensors& in) {
  in[0].mul_(2);
  return {in[0] + 1, in[1]};
}
Tensors write_number_and_bits(const Tensors& in) {
  in[0].mul_(2);
  in[1].slice(-1, 0, 2).bitwise_xor_(1);
  in[0].add_(1);
  return {in[0] * in[0], in[1], in[1].slice(-1, 1, 3)};
}
Tensors write_the_bits_under_no_grad(const Tensors& in) {
  {
    const NoGrad no_grad;
    in[1].bitwise_xor_(1);
  }
  return {in[0] * in[0]};
}

const std::vector<Row> kDtypeRows{
    {"BitsWritten", and_bits(i32), write_the_bits},
    {"NumberWritten", and_bits(i32), write_the_number},
    {"BothWritten", and_bits(i32), write_number_and_bits},
    {"BitsUnderNoGrad", and_bits(i32), write_the_bits_under_no_grad},
    {"BytesWritten", and_bits(u8), write_the_bits},
    {"NumberOfBytesWritten", and_bits(u8), write_the_number},
    {"NumberAndBytesWritten", and_bits(u8), write_number_and_bits},
    {"ReadOnly", and_bits(i32),
     [](const Tensors& in) -> Tensors { return {in[0] * 2, in[1] + 1}; }},
    {"Returned", and_bits(i32), return_both},
    {"WiderBits", and_bits(i64, {2, 4}), write_number_and_bits},
    {"PartOfTheBits",
     views_of(
         {8},
         [](const Tensor& b) { return Tensors{b.slice(0, 1, 7), b.view(i64).slice(0, 1, 3)}; }),
     write_number_and_bits},
    {"TheWiderOneFirst",
     views_of(
         {8},
         [](const Tensor& b) { return Tensors{b.view(i64).slice(0, 1, 3), b.slice(0, 3, 8)}; }),
     [](const Tensors& in) -> Tensors {
       in[1].mul_(2);
       in[0].bitwise_xor_(1);
       return {in[0], in[1] * in[1]};
     }},
    {"ThreeDtypes",
     views_of({6},
              [](const Tensor& b) { return Tensors{b.view(i32), b.view(i16).slice(0, 2, 9), b}; }),
     [](const Tensors& in) -> Tensors {
       in[1].bitwise_xor_(1);
       in[2].mul_(2);
       in[0].bitwise_xor_(2);
       return {in[2] * in[2], in[1], in[0]};
     }},
    {"ACacheOfBytes",
     [](Source& s) {
       const Tensor cache = zeros({64}, u8);
       return Tensors{cache, cache.slice(0, 8, 40).view(f32).view({2, 4}), s.noise({4}, 1)};
     },
     [](const Tensors& in) -> Tensors {
       const NoGrad no_grad;
       in[1].select(0, 1).copy_(in[2]);
       return {in[0].slice(0, 20, 28), in[1] * 2};
     }},
    {"DisjointBytes",
     views_of(
         {8},
         [](const Tensor& b) { return Tensors{b.slice(0, 0, 4), b.slice(0, 4, 8).view(i32)}; }),
     write_the_bits},
    {"EveryOtherElement",
     views_of(
         {8},
         [](const Tensor& b) { return Tensors{b.slice(0, 0, 8, 2), b.view(i32).slice(0, 2, 6)}; }),
     write_the_bits},
};

TANDEM_CONTRACT(InputDtypes, kDtypeRows);

// --- one compiled function, called with inputs that share memory in one way and then in another

struct Pattern {
  const char* name;
  MakeInputs inputs;
};

const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> all{
      {"Apart", tensors({{4}, {4}})},
      {"Twice", twice({4})},
      {"Overlapping", overlapping()},
      {"Disjoint", views_of({8}, [](const Tensor& b) { return b.tensor_split(2); })},
      {"Detached", detached()},
  };
  return all;
}

class AliasPatterns : public ::testing::TestWithParam<std::tuple<size_t, size_t>> {};

/// Eager and compiled agree under both patterns, whichever comes first.
TEST_P(AliasPatterns, RecompileWhereNeeded) {
  const auto [first, second] = GetParam();
  for (const Setting setting : {Setting::Plain, Setting::NonLeaf})
    for (Tensors (*function)(const Tensors&) : {write_first, write_second, read_only, return_both,
                                                write_and_return, copy_onto_the_other}) {
      const auto compiled = compile([function](const Tensors& in) { return function(in); });
      for (size_t i : {first, second, first}) {
        const RunOptions how{.setting = setting};
        EXPECT_EQ(difference(run(function, patterns()[i].inputs, how),
                             run(compiled, patterns()[i].inputs, how), 1e-5),
                  "")
            << patterns()[i].name;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(InputAliases, AliasPatterns,
                         ::testing::Combine(::testing::Range(size_t{0}, patterns().size()),
                                            ::testing::Range(size_t{0}, patterns().size())),
                         [](const auto& info) {
                           return std::string(patterns()[std::get<0>(info.param)].name) + "Then" +
                                  patterns()[std::get<1>(info.param)].name;
                         });

/// Disjoint layouts of one memory are inputs of their own, not views of a buffer.
TEST(AliasPatterns, LayoutsThatLieBetweenEachOtherDoNotOverlap) {
  for (const MakeInputs& make : {interleaved(), columns()}) {
    const auto compiled = compile([](const Tensors& in) { return write_both(in); });
    Source source(Setting::Plain);
    const Tensors in = make(source);
    for (const ir::Equation& e : compiled.graphs(in).functional.equations())
      EXPECT_NE(e.op, ir::Op::as_strided_scatter);
  }
}

}  // namespace
}  // namespace tandem::testing
