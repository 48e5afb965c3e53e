// How products in panels are cut for threads: that cuts cover them, and change no bit.
#include "machine/products/panel_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <thread>
#include <vector>

#include "machine/library/matmul.h"
#include "machine/rounding.h"
#include "tests/support/threads.h"

namespace tandem::machine::products {
namespace {

constexpr const Panels* kAll[] = {&kPanelsAvx2, &kPanelsAvx512};
constexpr int kThreads[] = {1, 2, 3, 8, 16, 64, 256};

PanelWork one_product(int64_t m, int64_t n, int64_t k) {
  return {.matrices = 1,
          .m = m,
          .n = n,
          .k = k,
          .chunks = 1,
          .a_stride = k,
          .a_transposed = false,
          .b_transposed = false};
}

PanelWork random_work(std::mt19937& random) {
  const auto below = [&](int64_t n) { return 1 + static_cast<int64_t>(random() % n); };
  const bool small = random() % 2;
  PanelWork w = one_product(below(small ? 60 : 5000), below(small ? 60 : 5000), below(4000));
  w.matrices = random() % 3 ? 1 : below(300);
  w.chunks = random() % 3 ? 1 : below(std::min<int64_t>(w.k, 32));
  w.a_transposed = random() % 2;
  w.b_transposed = random() % 2;
  w.a_stride = (w.a_transposed ? w.m : w.k) + random() % 3 * 100;
  return w;
}

int64_t blocks_of(const PanelWork& w, const PanelCut& cut) {
  return w.matrices * w.chunks * ceil_div(w.m, cut.m) * ceil_div(w.n, cut.n);
}

/// Of whole tiles, or as equal as can be.
bool are_good_rows(const Panels& panels, int64_t all, int64_t m) {
  return m <= all && (m % panels.tile_rows == 0 || m == ceil_div(all, ceil_div(all, m)));
}

TEST(PanelCut, IsOfWholeTilesOrEqualRowsAndOfWholeVectors) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const PanelWork w = random_work(random);
    for (const Panels* panels : kAll) {
      for (const int threads : kThreads) {
        const PanelCut cut = cut_for(*panels, w, threads);
        EXPECT_TRUE(are_good_rows(*panels, w.m, cut.m)) << cut.m;
        EXPECT_TRUE(cut.n == w.n || (cut.n < w.n && cut.n % panels->vector_columns == 0)) << cut.n;
        EXPECT_GE(cut.m, 1);
        EXPECT_GE(cut.n, 1);
        EXPECT_GE(cut.grain, 1);
      }
    }
  }
}

TEST(PanelCut, OfAPackedBBeginsWherePanelsDo) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    PanelWork w = random_work(random);
    w.matrices = 1;
    w.b_packed = true;
    for (const Panels* panels : kAll) {
      for (const int threads : kThreads) {
        const PanelCut cut = cut_for(*panels, w, threads);
        int64_t panel = 0;
        for (int64_t block = 0; block < w.n; block += cut.n) {
          while (panel < block) panel += panels->panel_columns(w.n - panel);
          EXPECT_EQ(panel, block) << w.n << " by " << cut.n;
        }
      }
    }
  }
}

TEST(PanelCut, GivesAboutEachThreadABlockWhereThereIsEnoughToDo) {
  for (const Panels* panels : kAll) {
    const PanelWork large = one_product(2048, 2048, 1024), small = one_product(8, 16, 8);
    for (const int threads : kThreads) {
      EXPECT_GE(10 * blocks_of(large, cut_for(*panels, large, threads)), 9 * threads);
      EXPECT_EQ(blocks_of(small, cut_for(*panels, small, threads)), 1) << threads;
    }
    EXPECT_EQ(blocks_of(large, cut_for(*panels, large, 1)), 1);
  }
}

// What reads the result takes whole rows, each thread its share: a core has its own still at hand.
TEST(PanelCut, OfAResultThatCachesHoldIsAlongItsRows) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{768, 512, 128}, {512, 256, 688}})
    for (const Panels* panels : kAll) {
      const PanelCut cut = cut_for(*panels, one_product(m, n, k), 2);
      EXPECT_EQ(cut.n, n) << m << " x " << n;
      EXPECT_LT(cut.m, m);
    }
}

// Four tiles are to be two for each of two threads, not three for one.
TEST(PanelCut, OfFewTilesIsEven) {
  const PanelCut cut = cut_for(kPanelsAvx512, one_product(32, 1024, 256), 2);
  EXPECT_EQ(cut.m, cut.n < 1024 ? 32 : 16);
  EXPECT_TRUE(cut.n == 1024 || cut.n <= 528) << cut.n;
}

// (More tiles than an entry has room for.)
TEST(PanelCut, OfHugeProductsIsBounded) {
  for (const Panels* panels : kAll) {
    const PanelWork tall = one_product(int64_t{1} << 40, 2, 2),
                    wide = one_product(2, int64_t{1} << 40, 2);
    for (const PanelWork& w : {tall, wide}) {
      const PanelCut cut = cut_for(*panels, w, 1), remembered = RememberedCut().of(*panels, w, 1);
      EXPECT_EQ(cut.m, remembered.m);
      EXPECT_EQ(cut.n, remembered.n);
    }
    for (const int64_t rest : {0, 5, 9, 200}) {
      PanelWork packed = wide;
      packed.n += rest;
      packed.b_packed = true;
      const PanelCut cut = cut_for(*panels, packed, 1);
      EXPECT_EQ(cut.n % panels->tile_columns, 0) << rest;
      EXPECT_EQ(cut.n, RememberedCut().of(*panels, packed, 1).n) << rest;
    }
  }
}

TEST(PanelCut, IsRememberedForTheNumberOfThreadsThatLastAsked) {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    const PanelWork w = random_work(random);
    const RememberedCut remembered;
    for (const int threads : {2, 2, 1, 16, 256, 2}) {
      const PanelCut cut = cut_for(kPanelsAvx512, w, threads),
                     again = remembered.of(kPanelsAvx512, w, threads);
      EXPECT_EQ(again.m, cut.m);
      EXPECT_EQ(again.n, cut.n);
      EXPECT_EQ(again.grain, cut.grain);
    }
  }
}

// The same Matmul, whose number of threads changes while others use it.
TEST(PanelCut, ChangesNoBitOfAProductThatIsRunning) {
  const testing::Threads restored(2);
  for (const bool transposed : {false, true}) {
    const MatmulSpec spec = dense_matmul(1, 150, 170, 1100, transposed, !transposed);
    const Matmul matmul(spec);
    std::vector<float> a(150 * 1100), b(170 * 1100), expected(150 * 170);
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::ranges::generate(a, [&] { return normal(random); });
    std::ranges::generate(b, [&] { return normal(random); });
    matmul.run(a.data(), b.data(), expected.data());
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 3; ++caller)
      callers.emplace_back([&] {
        for (int round = 0; round < 10; ++round) {
          std::vector<float> c(expected.size());
          matmul.run(a.data(), b.data(), c.data());
          EXPECT_EQ(c, expected);
        }
      });
    for (int round = 0; round < 50; ++round) testing::Threads::set(1 + round % 9);
    for (std::thread& t : callers) t.join();
  }
}

}  // namespace
}  // namespace tandem::machine::products
