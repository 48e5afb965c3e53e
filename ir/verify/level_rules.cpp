#include "ir/verify/level_rules.h"

#include <initializer_list>

namespace tandem::ir {
namespace {

constexpr unsigned bits(std::initializer_list<Role> roles) {
  unsigned mask = 0;
  for (Role role : roles) mask |= 1u << static_cast<int>(role);
  return mask;
}
bool contains(unsigned mask, Role role) { return mask >> static_cast<int>(role) & 1; }

constexpr unsigned kPrimals = bits({Role::Primal, Role::Parameter, Role::Rng, Role::Token});

struct LevelRoles {
  unsigned inputs, outputs;
};
constexpr LevelRoles kRoles[] = {
    /* Traced */ {kPrimals, bits({Role::Result, Role::Gradient, Role::Token})},
    /* Functional */
    {kPrimals, bits({Role::Result, Role::MutatedInput, Role::Gradient, Role::Token})},
    /* Joint */
    {kPrimals | bits({Role::Tangent}),
     bits({Role::Result, Role::MutatedInput, Role::Gradient, Role::Token})},
    /* Core */
    {kPrimals | bits({Role::Tangent}),
     bits({Role::Result, Role::MutatedInput, Role::Gradient, Role::Token})},
    /* Forward */
    {kPrimals, bits({Role::Result, Role::MutatedInput, Role::Gradient, Role::Saved, Role::Token})},
    /* Backward */
    {bits({Role::Saved, Role::Tangent, Role::Rng, Role::Token}),
     bits({Role::Gradient, Role::Token})}};

constexpr unsigned bit(Level level) { return 1u << static_cast<int>(level); }

/// Levels that a subgraph of a graph of each level may have.
constexpr unsigned kLevels[] = {
    /* Traced */ bit(Level::Traced) | bit(Level::Functional),
    /* Functional */ bit(Level::Functional),
    /* Joint */ bit(Level::Functional) | bit(Level::Joint),
    /* Core */ bit(Level::Core),
    /* Forward */ bit(Level::Core) | bit(Level::Forward),
    /* Backward */ bit(Level::Core) | bit(Level::Backward)};

}  // namespace

bool is_core_or_later(Level level) { return level >= Level::Core; }
bool has_both_halves(Level level) { return level == Level::Joint || level == Level::Core; }

bool may_have_input(Level level, Role role) {
  return contains(kRoles[static_cast<int>(level)].inputs, role);
}
bool may_have_output(Level level, Role role) {
  return contains(kRoles[static_cast<int>(level)].outputs, role);
}
bool may_have_subgraph(Level level, Level subgraph) {
  return (kLevels[static_cast<int>(level)] & bit(subgraph)) != 0;
}

}  // namespace tandem::ir
