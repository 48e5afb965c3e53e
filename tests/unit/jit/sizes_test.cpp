// Code that reads sizes from a table: the bits of the code that has them in it, whatever is open;
// and which sizes share code.
#include <memory>

#include "codegen/jit/emit/emit.h"
#include "codegen/jit/llvm.h"
#include "codegen/jit/object.h"
#include "codegen/memory/in_place.h"
#include "tests/unit/codegen/random_lowering.h"
#include "tests/unit/jit/kernel_writer.h"

namespace tandem::jit {
namespace {

using codegen::Plan;
using codegen::TestGraph;
using codegen::V;
using LK = Loop::Kind;

/// Code of one form, whatever other code there is.
class FormCode {
 public:
  FormCode(Opened opened, const Target& target)
      : numbers_(std::move(opened.numbers)), params_(std::move(opened.params)) {
    llvm::LLVMContext context;
    llvm::Module module("test", context);
    codegen::verify(opened.form.kernel);
    emit_kernel(module, opened.form, target, "kernel");
    const std::vector<std::string> names = {"kernel"};
    code_ = Code::load(compile_object(module, target), names);
  }
  codegen::KernelFunction function() const {
    return reinterpret_cast<codegen::KernelFunction>(code_.entry(0));
  }
  const std::vector<uint64_t>& numbers() const { return numbers_; }
  const std::vector<ParamId>& params() const { return params_; }

 private:
  std::vector<uint64_t> numbers_;
  std::vector<ParamId> params_;
  Code code_;
};

using MakeOpened = Opened (*)(const Kernel&);
Opened nothing_open(const Kernel& k) { return {Form{k}, {}}; }
Opened outer_open(const Kernel& k) { return opened(k, Openness::Outer); }
Opened all_open(const Kernel& k) { return opened(k, Openness::All); }

test::KernelRunner runner(MakeOpened make, const Target& target) {
  return [make, &target](const Kernel& kernel, void* const* params, int64_t begin, int64_t end,
                         KernelError* error) {
    const FormCode code(make(kernel), target);
    const size_t bytes = codegen::scratch_bytes(kernel) + 64;
    const std::unique_ptr<void, void (*)(void*)> scratch(std::aligned_alloc(64, bytes / 64 * 64),
                                                         std::free);
    std::vector<void*> arguments =
        jit::arguments({params, kernel.params.size()}, code.params(), code.numbers());
    return code.function()(arguments.data(), begin, end, scratch.get(), error);
  };
}

std::vector<ir::Buffer> samples(const Plan& plan) {
  std::vector<ir::Buffer> inputs;
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    inputs.push_back(codegen::sample(plan.inputs[i].type, static_cast<int>(i)));
  return inputs;
}

void expect_same_bits(const std::vector<ir::Buffer>& a, const std::vector<ir::Buffer>& b) {
  for (size_t o = 0; o < a.size(); ++o)
    for (int64_t i = 0; i < a[o].numel(); ++i)
      ASSERT_EQ(distance(a[o].at(i), b[o].at(i), a[o].type().dtype), 0)
          << "output " << o << ", element " << i;
}

/// Runs the plan's kernels with everything in their code, and with more and more open.
void expect_same_bits_when_open(const Plan& plan, const Target& target) {
  const std::vector<ir::Buffer> inputs = samples(plan);
  const auto run = [&](MakeOpened make) {
    return test::PlanInterpreter(plan, runner(make, target)).run(inputs).outputs;
  };
  const std::vector<ir::Buffer> own = run(nothing_open);
  expect_same_bits(own, run(outer_open));
  expect_same_bits(own, run(all_open));
}

TEST(OpenSizes, RandomGraphsHaveTheBitsOfTheirOwnCode) {
  const std::vector<Target> all = targets();
  for (uint32_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ir::Graph graph = codegen::RandomGraph(1000 + seed).finish(false);
    expect_same_bits_when_open(codegen::lower(graph, codegen::direct_writes(graph)),
                               all[seed % all.size()]);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// --- the same programs at several sizes

/// How an input [rows, cols] lies in memory.
enum class Layout : uint8_t { Contiguous, Gapped, Transposed, Expanded };

ir::Strides strides_of(Layout layout, int64_t rows, int64_t cols) {
  switch (layout) {
    case Layout::Contiguous:
      return {cols, 1};
    case Layout::Gapped:
      return {cols + 3, 1};
    case Layout::Transposed:
      return {1, rows};
    case Layout::Expanded:
      return {0, 1};
  }
  return {};
}

struct Sized {
  int64_t rows, cols;
  DType dtype = DType::F32;
  Layout layout = Layout::Contiguous;

  V input(TestGraph& t) const {
    return t.input({rows, cols}, dtype, strides_of(layout, rows, cols));
  }
};

using Program = ir::Graph (*)(const Sized&);

ir::Graph chain(const Sized& s) {
  TestGraph t;
  const V x = s.input(t), y = t.input({s.rows, s.cols}, s.dtype);
  t.output(t.b.add(t.b.mul(x, x), y));
  return t.finish();
}

ir::Graph softmax(const Sized& s) {
  TestGraph t;
  const V x = s.input(t);
  const V e = t.b.exp(t.b.sub(x, t.b.amax(x, {1}, true)));
  t.output(t.b.div(e, t.b.sum(e, {1}, true)));
  return t.finish(16, 64);
}

ir::Graph sums(const Sized& s) {
  TestGraph t;
  const V x = s.input(t), twice = t.b.add(x, x);
  t.output(t.b.sum(twice, {0}, false));
  t.output(t.b.sum(twice, {1}, false));
  t.output(t.b.sum(twice, {0, 1}, false));
  t.output(t.b.amax(twice, {0}, false));
  t.output(t.b.reduce(Op::prod, twice, ir::Axes{0}, false));
  return t.finish(8, 16);
}

ir::Graph moved(const Sized& s) {
  TestGraph t;
  const V x = s.input(t), other = s.input(t), rows = t.input({3}, DType::I64);
  t.output(t.b.permute(x, {1, 0}));
  t.output(t.b.cat(std::vector<V>{x, other}, 0));
  t.output(t.b.cat(std::vector<V>{x, t.b.neg(x), x}, 0));
  t.output(t.b.cat(std::vector<V>{x, t.b.neg(x)}, 1));
  t.output(t.b.flip(x, ir::Axes{0, 1}));
  if (s.rows > 3) {
    const V taken = t.b.index_select(x, 0, rows);
    t.output(taken);
    t.output(t.b.index_add(x, 0, rows, taken));
  }
  return t.finish();
}

constexpr Program kPrograms[] = {chain, softmax, sums, moved};

Plan plan_of(Program program, const Sized& s) { return codegen::lower(program(s)); }

constexpr std::pair<int64_t, int64_t> kSizes[] = {
    {0, 5}, {5, 0}, {1, 1}, {1, 70}, {2, 17}, {7, 31}, {33, 64}, {130, 65}, {300, 9}, {70, 700}};

TEST(OpenSizes, ProgramsOfAnySizeAndLayoutHaveTheBitsOfTheirOwnCode) {
  const std::vector<Target> all = targets();
  size_t turn = 0;
  for (const Program program : kPrograms)
    for (const auto& [rows, cols] : kSizes)
      for (const Layout layout :
           {Layout::Contiguous, Layout::Gapped, Layout::Transposed, Layout::Expanded}) {
        const bool has_extremes = program == softmax || program == sums;
        if (has_extremes && rows * cols == 0) continue;
        SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(cols) + " layout " +
                     std::to_string(static_cast<int>(layout)));
        expect_same_bits_when_open(plan_of(program, {rows, cols, DType::F32, layout}),
                                   all[turn++ % all.size()]);
        if (testing::Test::HasFatalFailure()) return;
      }
}

TEST(OpenSizes, EveryDtypeHasTheBitsOfItsOwnCode) {
  for (const DType dtype : {DType::F64, DType::BF16, DType::F16, DType::I64, DType::I32, DType::I16,
                            DType::I8, DType::U8})
    for (const Target& target : targets())
      for (const Program program : {chain, sums}) {
        SCOPED_TRACE(std::string(ir::name(dtype)) + " " + target.features);
        expect_same_bits_when_open(plan_of(program, {37, 83, dtype, Layout::Gapped}), target);
        if (testing::Test::HasFatalFailure()) return;
      }
}

/// How many kernels of the program wait for code at each of these sizes, one after the other.
std::vector<int> waiting(Program program, const std::vector<Sized>& sizes) {
  std::vector<int> fresh;
  std::vector<std::shared_ptr<const void>> alive;
  for (const Sized& s : sizes) {
    const CompiledKernels code = compile_kernels(plan_of(program, s).kernels);
    fresh.push_back(code.fresh);
    alive.push_back(code.owner);
  }
  return fresh;
}

TEST(OpenSizes, NewOuterSizesFindTheirCode) {
  for (const Program program : {chain, softmax, moved}) {
    const std::vector<int> fresh =
        waiting(program, {{1000, 96}, {1100, 96}, {1003, 96}, {997, 96}});
    EXPECT_GT(fresh[0], 0);
    EXPECT_EQ(fresh[2], 0);
    EXPECT_EQ(fresh[3], 0);
  }
}

TEST(OpenSizes, NewInnerSizesFindTheirCode) {
  const std::vector<int> fresh =
      waiting(softmax, {{1000, 600}, {1000, 740}, {1007, 733}, {900, 801}});
  EXPECT_GT(fresh[1], 0);
  EXPECT_EQ(fresh[2], 0);
  EXPECT_EQ(fresh[3], 0);
}

// A function that is known to meet many sizes does not wait twice; where its rows have few columns,
// for another number of rows.
TEST(OpenSizes, CodeForAnySizeServesTheNextOne) {
  const auto fresh = [](const Sized& s) {
    return compile_kernels(plan_of(softmax, s).kernels, native_target(), {}, Sizes::Open).fresh;
  };
  EXPECT_GT(fresh({501, 40}), 0);
  for (const Sized& s : {Sized{502, 40}, {501, 61}, {777, 45}}) EXPECT_EQ(fresh(s), 0);
  EXPECT_GT(fresh({501, 3}), 0);
  for (const Sized& s : {Sized{502, 3}, {301, 3}, {499, 3}}) EXPECT_EQ(fresh(s), 0);
}

// That two dims are as long as each other by chance, or that a result lies where an operand lies,
// is not in the code.
TEST(OpenSizes, ChanceAndPlacesAreOpen) {
  const auto rows_of = [](int64_t outer, int64_t rows) {
    Writer w;
    const auto x = w.param(DType::F32), y = w.result(DType::F32);
    const auto o = w.loop(LK::Serial, outer), r = w.loop(LK::Serial, rows),
               c = w.loop(LK::Vector, 100);
    const codegen::Affine index{0, {{o, rows * 100}, {r, 100}, {c, 1}}};
    for (const LoopId l : {o, r, c}) w.begin(l);
    w.store(y, index, w.compute(ir::Op::neg, {w.load(x, index)}, DType::F32));
    for (const LoopId l : {c, r, o}) w.end(l);
    return std::move(w.k);
  };
  const Form form = opened(rows_of(4, 7), Openness::All).form;
  EXPECT_EQ(opened(rows_of(5, 5), Openness::All).form, form);
  const auto in_place = codegen::merged_in_place(rows_of(4, 7), {0}, {1});
  ASSERT_TRUE(in_place.has_value());
  const Opened open = opened(*in_place, Openness::All);
  EXPECT_EQ(open.form, form);
  const codegen::Table<ParamId, ParamId> both_the_first = {{0}, {0}};
  EXPECT_EQ(open.params, both_the_first);
  const std::vector<Argument> arguments = {random_argument(DType::F32, 2800, 3)};
  const FormCode code(open, native_target());
  EXPECT_EQ(
      run(*in_place, arguments, code.function(), code.numbers(), code.params()).arguments[0].bytes,
      interpreted(*in_place, arguments).arguments[0].bytes);
}

// Batches whose sums have 17 to 24 blocks.
TEST(OpenSizes, SumsOfAboutAsManyBlocksShareCode) {
  const std::vector<int> fresh = waiting(sums, {{270, 96}, {290, 96}, {301, 96}, {370, 96}});
  EXPECT_EQ(fresh[2], 0);
  EXPECT_EQ(fresh[3], 0);
}

/// Rows of random words, `n` apart.
Kernel random_rows(int64_t rows, int64_t n, int64_t offset) {
  Writer w;
  const auto key = w.param(DType::I64), y = w.result(DType::I32);
  const auto row = w.loop(LK::Serial, rows), loop = w.loop(LK::Vector, n);
  const auto k = w.load(key, {0, {}}), base = w.load(key, {1, {}});
  w.begin(row);
  w.begin(loop);
  const auto bits = w.push({.kind = Instr::Kind::RandomBits,
                            .dtype = DType::I32,
                            .args = {k, base},
                            .number = offset,
                            .affine = {0, {{row, n}, {loop, 1}}}});
  w.store(y, {0, {{row, n}, {loop, 1}}}, bits);
  w.end(loop);
  w.end(row);
  return std::move(w.k);
}

TEST(OpenSizes, RandomWordsAreThoseOfTheirOwnCode) {
  for (const Target& target : targets())
    for (const int64_t n : {64, 66, 67, 100}) {
      const Kernel k = random_rows(5, n, 7 * n);
      std::vector<Argument> arguments{random_argument(DType::I64, 2, 3),
                                      Argument(DType::I32, 5 * n)};
      const auto words = [&](MakeOpened make) {
        const FormCode code(make(k), target);
        return run(k, arguments, code.function(), code.numbers(), code.params()).arguments[1].bytes;
      };
      EXPECT_EQ(words(nothing_open), words(outer_open)) << n;
      EXPECT_EQ(words(nothing_open), words(all_open)) << n;
    }
  EXPECT_EQ(outer_open(random_rows(5, 64, 1)).form, outer_open(random_rows(9, 64, 2)).form);
  EXPECT_NE(all_open(random_rows(5, 64, 1)).form, all_open(random_rows(5, 66, 1)).form);
}

/// y[i] = x[table[i]] of a table of `n`: which size an index is refused by.
Kernel gather(int64_t n, int64_t extent) {
  Writer w;
  const auto x = w.param(DType::F32), table = w.param(DType::I64), y = w.result(DType::F32);
  const auto loop = w.loop(LK::Vector, n);
  w.begin(loop);
  const auto at = w.load(table, {0, {{loop, 1}}});
  w.store(y, {0, {{loop, 1}}}, w.load(x, {0, {}}, {{at, 1, extent}}));
  w.end(loop);
  return std::move(w.k);
}

TEST(OpenSizes, FailuresNameTheSizeOfTheCall) {
  for (const int64_t extent : {30, 40}) {
    const Kernel k = gather(20, extent);
    std::vector<Argument> arguments{random_argument(DType::F32, 40, 1), Argument(DType::I64, 20),
                                    Argument(DType::F32, 20)};
    arguments[1].set(7, extent);
    for (const MakeOpened make : {outer_open, all_open}) {
      const FormCode code(make(k), native_target());
      const Outcome o = run(k, arguments, code.function(), code.numbers(), code.params());
      EXPECT_EQ(o.status, 1);
      EXPECT_EQ(o.error.value, extent);
      EXPECT_EQ(o.error.extent, extent);
    }
  }
  EXPECT_EQ(outer_open(gather(20, 30)).form, outer_open(gather(20, 40)).form);
}

}  // namespace
}  // namespace tandem::jit
