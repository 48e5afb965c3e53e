// Ids of one kind number one kind of thing: a mistake does not compile.
#include "codegen/ids.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "codegen/nodes/program.h"

namespace tandem::codegen {
namespace {

template <class T, class I>
concept TakesIndex = requires(T table, I id) { table[id]; };

static_assert(TakesIndex<decltype(Program::roots), RootId>);
static_assert(!TakesIndex<decltype(Program::roots), NodeId>);
static_assert(!TakesIndex<decltype(Program::roots), int>);
static_assert(TakesIndex<decltype(Kernel::locals), LocalId>);
static_assert(!TakesIndex<decltype(Kernel::locals), ParamId>);
static_assert(!std::is_convertible_v<InstrId, LoopId>);
static_assert(!std::is_convertible_v<int, InstrId>);

TEST(Ids, OfATableFollowEachOther) {
  Table<RootId, char> table;
  const RootId a = table.add('a'), b = table.add('b');
  EXPECT_EQ(table[a], 'a');
  EXPECT_EQ(table[b], 'b');
  EXPECT_EQ(table.next(), RootId{2});
  std::string all;
  for (RootId r : table.ids()) all += table[r];
  EXPECT_EQ(all, "ab");
  EXPECT_FALSE(RootId().valid());
}

TEST(NodeTraits, OnlyWhatRunsAloneMakesNoPartOfAGroup) {
  using enum Node::Kind;
  for (Node::Kind kind : {Pointwise, Gather, Random})
    EXPECT_EQ(traits_of(kind).makes, Makes::Elements);
  for (Node::Kind kind : {Matmul, TiledMatmul, Scatter, External})
    EXPECT_EQ(traits_of(kind).makes, Makes::Alone);
  EXPECT_TRUE(reduces_rows(traits_of(RowReduce).makes) && !is_partial(traits_of(RowReduce).makes));
  EXPECT_TRUE(reduces_rows(traits_of(RowPartial).makes) && is_partial(traits_of(RowPartial).makes));
  EXPECT_TRUE(!reduces_rows(traits_of(ColPartial).makes) &&
              is_partial(traits_of(ColPartial).makes));
}

}  // namespace
}  // namespace tandem::codegen
