#include "codegen/memory/accesses.h"

#include <algorithm>
#include <utility>

namespace tandem::codegen {

using Kind = Instr::Kind;

Elements elements_of(const Kernel& kernel, const Access& access) {
  Elements e{access.index.offset, {}};
  for (const Affine::Term& t : access.index.terms)
    e.runs.push_back({kernel.loops[t.loop].extent, t.stride});
  for (const Access::Indirect& from_data : access.indirect)
    e.runs.push_back({from_data.extent, from_data.stride});
  return e;
}

std::vector<Elements> elements_of(const LaunchDraft& launch, const Kernel& kernel, RootId root,
                                  Kind access) {
  std::vector<Elements> all;
  if (std::ranges::find(launch.roots, root) == launch.roots.end()) return all;
  for (const Instr& i : kernel.code) {
    if (i.kind != access || i.access.is_local()) continue;
    const auto param = i.access.param.index;
    if (launch.roots[param] != root) continue;
    all.push_back(elements_of(kernel, i.access));
    all.back().offset += launch.offsets[param];
  }
  return all;
}

std::vector<Elements> elements_of(const MatmulDraft& product, RootId root, Kind access) {
  const machine::MatmulSpec& spec = product.call.spec;
  std::vector<Elements> all;
  const auto add = [&](RootId r, int64_t offset, int64_t rows, int64_t cols,
                       const machine::MatrixStrides& s) {
    if (r == root)
      all.push_back(
          {offset, {{spec.outer, s.outer}, {spec.batch, s.batch}, {rows, s.row}, {cols, s.col}}});
  };
  if (access == Kind::Store || spec.accumulate)
    add(product.c, product.c_offset, spec.m, spec.n, spec.c);
  if (access == Kind::Store) return all;
  add(product.a, product.a_offset, spec.m, spec.k, spec.a);
  add(product.b, product.b_offset, spec.k, spec.n, spec.b);
  add(product.bias, product.bias_offset, 1, spec.n, {.col = 1});
  return all;
}

std::vector<Elements> elements_of(const ExternalDraft& external, RootId root, Kind access) {
  std::vector<Elements> all;
  const auto add = [&](int64_t offset, const ExternalCall::Argument& a) {
    Elements e{offset, {}};
    for (int d = 0; d < a.type.rank(); ++d) e.runs.push_back({a.type.sizes[d], a.strides[d]});
    all.push_back(std::move(e));
  };
  if (access == Kind::Load) {
    for (size_t i = 0; i < external.operands.size(); ++i)
      if (external.operands[i] == root) add(external.offsets[i], external.call.operands[i]);
  } else {
    for (size_t i = 0; i < external.results.size(); ++i)
      if (external.results[i] == root) add(0, external.call.results[i]);
  }
  return all;
}

}  // namespace tandem::codegen
