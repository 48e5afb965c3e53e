// Writes at positions from data: where they go in any layout, against writes one by one; and that
// an index out of range changes nothing.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <functional>

#include "tests/support/expect_error.h"
#include "tests/support/layouts.h"

namespace tandem::testing {
namespace {

using Write = std::function<void(const Tensor& self)>;

// --- layouts

const std::pair<const char*, Layout> kLayouts[] = {
    {"contiguous", [](const Tensor& t) { return t.clone(); }},
    {"transposed", transposed},
    {"gapped", gapped},
    {"inner", inner},
};

// --- where values go

/// self[indices] = values (or +=), position by position; undefined indices are all of a dim.
Tensor put_one_by_one(const Tensor& self, const std::vector<Tensor>& indices, const Tensor& values,
                      bool accumulate) {
  const Tensor result = self.clone();
  std::vector<int64_t> dims;
  for (size_t d = 0; d < indices.size(); ++d)
    if (indices[d].defined()) dims.push_back(static_cast<int64_t>(d));
  const bool adjacent = dims.back() - dims[0] + 1 == static_cast<int64_t>(dims.size());
  const int64_t positions = indices[static_cast<size_t>(dims[0])].numel();
  for (int64_t p = 0; p < positions; ++p) {
    Tensor place = result;
    for (size_t k = dims.size(); k-- > 0;)
      place = place.select(dims[k], indices[static_cast<size_t>(dims[k])][p].item<int64_t>());
    const Tensor value = values.select(adjacent ? dims[0] : 0, p);
    accumulate ? place.add_(value) : place.copy_(value);
  }
  return result;
}

void put_compiled(const Tensor& self, const std::vector<Tensor>& indices, const Tensor& values,
                  bool accumulate) {
  std::vector<Tensor> given;
  for (const Tensor& t : indices)
    if (t.defined()) given.push_back(t);
  const auto put = compile([&](const Tensor& x, const std::vector<Tensor>& at, const Tensor& v) {
    std::vector<Tensor> list(indices.size());
    size_t next = 0;
    for (size_t d = 0; d < list.size(); ++d)
      if (indices[d].defined()) list[d] = at[next++];
    x.index_put_(list, v, accumulate);
  });
  put(self, given, values);
}

TEST(IndexWrites, ReachTheSamePlacesInEveryLayout) {
  const Shape sizes{3, 4, 2, 5};
  for (const auto& [name, lay_out] : kLayouts)
    for (const DType dtype : {f32, bf16, i64})
      for (int chosen = 1; chosen < 16; ++chosen)
        for (const bool accumulate : {false, true}) {
          SCOPED_TRACE(::testing::Message() << name << " " << chosen << " " << accumulate);
          std::vector<Tensor> indices(4);
          for (int d = 0; d < 4; ++d)
            if ((chosen >> d & 1) != 0)
              indices[static_cast<size_t>(d)] = randint(-int64_t{sizes[d]}, sizes[d], {6});
          const Tensor self = lay_out(randint(-9, 9, sizes).to(dtype)), before = self.clone();
          const Tensor values = randint(-9, 9, self.index(indices).sizes()).to(dtype);
          const Tensor expected = put_one_by_one(before, indices, values, accumulate);
          EXPECT_TRUE(equal(self.index_put(indices, values, accumulate), expected));
          EXPECT_TRUE(equal(self, before));
          if (dtype == f32) {
            const Tensor compiled = lay_out(before);
            put_compiled(compiled, indices, values, accumulate);
            EXPECT_TRUE(equal(compiled, expected));
          }
          self.index_put_(indices, values, accumulate);
          EXPECT_TRUE(equal(self, expected));
        }
}

// --- an index out of range

/// `wrong`: positions of which one does not exist.
std::vector<std::pair<const char*, Write>> writes(const Tensor& wrong, const Tensor& rows) {
  const Tensor table = wrong.unsqueeze(1).expand(rows.sizes());
  return {
      {"index_add", [=](const Tensor& x) { x.index_add_(0, wrong, rows); }},
      {"index_copy", [=](const Tensor& x) { x.index_copy_(0, wrong, rows); }},
      {"index_fill", [=](const Tensor& x) { x.index_fill_(0, wrong, 3); }},
      {"index_reduce", [=](const Tensor& x) { x.index_reduce_(0, wrong, rows, "prod"); }},
      {"scatter", [=](const Tensor& x) { x.scatter_(0, table, rows); }},
      {"scatter number", [=](const Tensor& x) { x.scatter_(0, table, 3); }},
      {"scatter_add", [=](const Tensor& x) { x.scatter_add_(0, table, rows); }},
      {"scatter_reduce", [=](const Tensor& x) { x.scatter_reduce_(0, table, rows, "amax"); }},
      {"index_put", [=](const Tensor& x) { x.index_put_({wrong}, rows); }},
      {"index_put of two", [=](const Tensor& x) { x.index_put_({wrong, wrong % 2}, 3.0); }},
  };
}

/// Two writes of which the second fails: a compiled function writes neither.
TEST(IndexWrites, OutOfRangeChangeNothing) {
  for (const int64_t size : {8, 600})
    for (const auto& [layout, lay_out] : kLayouts) {
      const Tensor start = randn({size, 64});
      const Tensor wrong = tensor({1, static_cast<int>(size), 0}, i64), rows = randn({3, 64});
      for (const auto& [name, write] : writes(wrong, rows)) {
        SCOPED_TRACE(::testing::Message() << name << " " << layout << " " << size);
        const Tensor x = lay_out(start), y = lay_out(start);
        const Tensor right = tensor({1, 2}, i64);
        expect_error(Errc::Index, "index out of range", [&] { write(x); });
        EXPECT_TRUE(equal(x, start));
        const auto both = compile([&](const Tensor& a, const Tensor& b) {
          a.index_fill_(0, right, 5);
          write(b);
        });
        expect_error(Errc::Index, "index out of range", [&] { both(x, y); });
        EXPECT_TRUE(equal(x, start));
        EXPECT_TRUE(equal(y, start));
      }
    }
}

/// Positions in dims of many and of few elements, of either integer, some counted from the end.
TEST(IndexWrites, AtPositionsInLongDims) {
  for (const Shape& sizes : {Shape{5000, 3}, {3, 5000}, {4097, 4096}}) {
    const Tensor x = arange(5000).slice(0, 0, sizes[0]).unsqueeze(1) * 7 +
                     arange(5000).slice(0, 0, sizes[1]).unsqueeze(0);
    const int64_t rows = sizes[0], columns = sizes[1];
    const Tensor i = tensor({0, -1, 2, 1}, i64) * (rows / 3), j = tensor({-1, 2, 0, 1}, i32);
    const Tensor down = where(i < 0, i + rows, i), across = where(j < 0, j + columns, j);
    const auto get = [](const Tensor& t, const Tensor& a, const Tensor& b) {
      return t.index({a, b});
    };
    EXPECT_TRUE(equal(get(x, i, j), down * 7 + across)) << to_string(sizes);
    EXPECT_TRUE(equal(compile(get)(x, i, j), down * 7 + across)) << to_string(sizes);
    const auto put = [](const Tensor& t, const Tensor& a, const Tensor& b) {
      t.index_put_({a, b}, tensor({-1, -2, -3, -4}, i64));
    };
    for (const bool is_compiled : {false, true}) {
      const Tensor y = x.clone();
      is_compiled ? compile(put)(y, i, j) : put(y, i, j);
      EXPECT_TRUE(equal(y.index({i, j}), tensor({-1, -2, -3, -4}, i64))) << to_string(sizes);
      EXPECT_EQ(count_nonzero(y != x).item<int64_t>(), 4) << to_string(sizes);
      for (const int64_t wrong : {rows, -rows - 1, int64_t{1} << 62})
        expect_error(Errc::Index, "index out of range", [&] {
          is_compiled ? compile(put)(y, i * 0 + wrong, j) : put(y, i * 0 + wrong, j);
        });
      EXPECT_EQ(count_nonzero(y != x).item<int64_t>(), 4) << to_string(sizes);
    }
  }
}

/// A write by a wrong index leaves history as it is too.
TEST(IndexWrites, OutOfRangeLeaveTheHistory) {
  const Tensor leaf = randn({40, 64}).requires_grad_(), x = leaf * 2;
  expect_error(Errc::Index, "index out of range",
               [&] { x.index_add_(0, tensor({40}, i64), randn({1, 64})); });
  x.sum().backward();
  EXPECT_TRUE(equal(leaf.grad(), full({40, 64}, 2)));
}

/// What a compiled function writes by positions that it was not traced with.
TEST(IndexWrites, OfACacheStepByStep) {
  const auto step = compile([](const Tensor& keys, const Tensor& at, const Tensor& k) {
    keys.index_copy_(2, at, k);
    return matmul(k, keys.transpose(-1, -2));
  });
  const Tensor keys = zeros({2, 3, 64, 16}), expected = zeros({2, 3, 64, 16});
  const float* const memory = keys.data<float>();
  for (int64_t t = 0; t < 5; ++t) {
    const Tensor at = full({1}, t * 7, i64), k = randn({2, 3, 1, 16});
    const Tensor scores = step(keys, at, k);
    expected.narrow(2, t * 7, 1).copy_(k);
    EXPECT_TRUE(equal(keys, expected));
    EXPECT_TRUE(allclose(scores, matmul(k, expected.transpose(-1, -2)), 1e-5, 1e-5));
  }
  EXPECT_EQ(keys.data<float>(), memory);
}

/// One token of a decoder whose caches are parts of one tensor: [layer, keys and values, ...].
Tensor decoded(const Tensor& caches, const Tensor& at, const Tensor& token, bool by_index) {
  Tensor x = token;
  for (int64_t l = 0; l < 3; ++l) {
    for (const int64_t part : {0, 1}) {
      const Tensor cache = caches[l][part], row = x * static_cast<double>(part + 2);
      if (by_index)
        cache.index_copy_(1, at, row);
      else
        cache.narrow(1, 5, 1).copy_(row);
    }
    const Tensor scores = matmul(x, caches[l][0].transpose(-1, -2));
    x = x + matmul(softmax(scores, -1), caches[l][1]);
  }
  return x;
}

TEST(IndexWrites, OfOneCacheOfAllLayers) {
  for (const bool by_index : {false, true})
    for (const auto& [name, lay_out] : kLayouts) {
      SCOPED_TRACE(::testing::Message() << name << " " << by_index);
      const auto step = compile([&](const Tensor& caches, const Tensor& at, const Tensor& token) {
        const Tensor before = caches[1] * 2, x = decoded(caches, at, token, by_index);
        return std::vector<Tensor>{x, before, caches[2][1] * 3};
      });
      const Tensor start = randn({3, 2, 4, 40, 8}), at = tensor({5}, i64);
      const Tensor caches = lay_out(start), expected = start.clone();
      for (int t = 0; t < 3; ++t) {
        const Tensor token = randn({4, 1, 8}), before = expected[1] * 2;
        const Tensor x = decoded(expected, at, token, by_index);
        const std::vector<Tensor> results = step(caches, at, token);
        EXPECT_TRUE(allclose(results[0], x, 1e-4, 1e-4));
        EXPECT_TRUE(allclose(results[1], before, 1e-4, 1e-4));
        EXPECT_TRUE(allclose(results[2], expected[2][1] * 3, 1e-4, 1e-4));
        EXPECT_TRUE(allclose(caches, expected, 1e-4, 1e-4));
      }
    }
}

/// Writes of every kind one on the other, through views, with reads between.
std::vector<Tensor> written_on(const Tensor& x, const Tensor& at, const Tensor& rows) {
  std::vector<Tensor> seen;
  x.index_copy_(0, at, rows);
  x.transpose(0, 2).index_add_(2, at, rows.transpose(0, 2));
  seen.push_back(x.sum({1}));
  x.narrow(1, 1, 2).index_fill_(0, at, 5);
  x.slice(0, 1, 6, 2).select(2, 3).mul_(2);
  x.unflatten(0, {2, 3}).permute({2, 1, 0, 3}).index_put_({Slice{}, 2, at % 2}, -1);
  seen.push_back(x.narrow(0, 1, 3) * 2);
  x.select(1, 2).scatter_add_(1, at.view({1, 2}), rows.select(1, 0).narrow(0, 0, 1));
  return seen;
}

TEST(IndexWrites, OneOnTheOtherInEveryLayout) {
  const auto step = compile(written_on);
  const Tensor at = tensor({4, 1}, i64);
  for (const auto& [name, lay_out] : kLayouts)
    for (int call = 0; call < 2; ++call) {
      SCOPED_TRACE(name);
      const Tensor start = randn({6, 4, 5}), rows = randn({2, 4, 5});
      const Tensor eager = lay_out(start), compiled = lay_out(start), plain = start.clone();
      const std::vector<Tensor> expected = written_on(plain, at, rows);
      for (const auto& seen : {written_on(eager, at, rows), step(compiled, at, rows)})
        for (size_t i = 0; i < expected.size(); ++i)
          EXPECT_TRUE(allclose(seen[i], expected[i], 1e-6, 1e-6));
      EXPECT_TRUE(equal(eager, plain));
      EXPECT_TRUE(equal(compiled, plain));
    }
}

/// Around what is written lies what belongs to others.
TEST(IndexWrites, LeaveTheGapsOfALayout) {
  const auto write = compile([](const Tensor& x, const Tensor& at, const Tensor& rows) {
    x.index_copy_(0, at, rows);
    x.index_add_(0, at, rows);
  });
  const Tensor whole = randn({7, 3, 40}), before = whole.clone(), at = tensor({5, 0}, i64);
  const Tensor rows = randn({2, 20}), part = whole.select(1, 1).slice(1, 0, 40, 2);
  write(part, at, rows);
  before.select(1, 1).slice(1, 0, 40, 2).index_copy_(0, at, rows * 2);
  EXPECT_TRUE(equal(whole, before));
}

TEST(IndexWrites, OfPartsOfPartsHaveGradients) {
  for (const bool by_index : {false, true}) {
    const auto f = [&](const Tensor& caches, const Tensor& at, const Tensor& token) {
      const Tensor own = caches * 1;
      for (int64_t l = 0; l < 3; ++l) {
        const Tensor cache = own[l][1], row = token * static_cast<double>(l + 2);
        by_index ? cache.index_add_(1, at, row) : cache.narrow(1, 5, 1).copy_(row);
      }
      return (own[0] * own[1] * own[2]).sum();
    };
    const Tensor caches = randn({3, 2, 4, 40, 8}, f64).requires_grad_(), at = tensor({5}, i64),
                 token = randn({4, 1, 8}, f64).requires_grad_();
    f(caches, at, token).backward();
    const Tensor of_caches = caches.grad().clone(), of_token = token.grad().clone();
    caches.set_grad({}), token.set_grad({});
    compile(f)(caches, at, token).backward();
    EXPECT_TRUE(allclose(caches.grad(), of_caches, 1e-9, 1e-9));
    EXPECT_TRUE(allclose(token.grad(), of_token, 1e-9, 1e-9));
  }
}

}  // namespace
}  // namespace tandem::testing
