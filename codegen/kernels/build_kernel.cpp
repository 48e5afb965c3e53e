#include "codegen/kernels/build_kernel.h"

#include <algorithm>
#include <span>

#include "codegen/fusion/slabs.h"
#include "codegen/kernels/column_sums.h"
#include "codegen/kernels/group_writer.h"
#include "codegen/kernels/narrow_rows.h"
#include "codegen/kernels/tiles.h"

namespace tandem::codegen {
namespace {

std::string kernel_name(const Program& p, std::span<const Group> groups) {
  std::string name;
  for (const Group& g : groups)
    for (NodeId n : g.nodes) {
      const std::string& part = p.nodes[n].name;
      if (name.size() + part.size() > 40) return name + "_and_more";
      name += (name.empty() ? "" : "_") + part;
    }
  return name;
}

/// Several groups that run one after the other in each slab. What only they read is kept there.
KernelDraft build_slabs(const Program& p, const Bundle& bundle,
                        const Table<RootId, bool>& is_stored) {
  const Slabs& slabs = bundle.slabs;
  KernelWriter w(p);
  const LoopId slab = w.loop(Loop::Kind::Unit, slabs.count);
  double cost = 0;
  for (size_t i = 0; i < bundle.groups.size(); ++i) {
    const Group& g = bundle.groups[i];
    SlabDims dims = *slab_dims(g.domain, slabs.inner[i], slabs.count);
    for (NodeId n : g.nodes)
      if (const RootId r = p.nodes[n].dest.root; std::ranges::count(slabs.inside, r) > 0)
        w.keep(r, slab, slabs.count, *written_stride(p.nodes[n], g.domain, dims, slabs.count));
    Schedule s = make_slab_schedule(std::move(dims.dims), dims.slab, slab, w);
    write_group(p, g, is_stored, std::move(s), w);
    cost += cost_per_element(p, g, is_stored) * static_cast<double>(g.domain.total);
  }
  return w.take(kernel_name(p, bundle.groups), grain_of(slabs.count, cost, 1));
}

/// Several groups of equal rows: each row of the one is followed by the same row of the next.
KernelDraft build_rows(const Program& p, const std::vector<Group>& groups,
                       const Table<RootId, bool>& is_stored) {
  int64_t total = 0;
  double cost = 0;
  for (const Group& g : groups) {
    total += g.domain.total;
    cost += cost_per_element(p, g, is_stored) * static_cast<double>(g.domain.total);
  }
  cost /= static_cast<double>(total);
  const Dims first = dims_of(groups[0].domain);
  const int64_t cols = total / first.rows;
  KernelWriter w(p);
  Domain joint{.total = total, .cols = cols, .row_nodes = true};
  for (int64_t cut : groups[0].domain.cuts) joint.cuts.push_back(cut / first.cols * cols);
  const Schedule s = make_schedule(joint, cost, {}, w);
  for (LoopId l : s.rows) w.begin(l);
  for (const Group& g : groups) {
    Schedule own = s;
    own.dims = dims_of(g.domain);
    own.col_chunk = own.dims.cols;
    write_row(p, g, is_stored, std::move(own), w);
  }
  for (size_t l = s.rows.size(); l-- > 0;) w.end(s.rows[l]);
  return w.take(kernel_name(p, groups), grain_of(s.units, static_cast<double>(total), cost));
}

KernelDraft build_group(const Program& p, const Group& g, const Table<RootId, bool>& is_stored) {
  KernelWriter w(p);
  const double cost = cost_per_element(p, g, is_stored);
  const Schedule s = make_schedule(g.domain, cost, tile_of(p, g), w);
  write_group(p, g, is_stored, s, w);
  return w.take(kernel_name(p, {&g, 1}),
                grain_of(s.units, static_cast<double>(g.domain.total), cost));
}

KernelDraft build(const Program& p, const Bundle& bundle, const Table<RootId, bool>& is_stored) {
  if (bundle.slabs.count > 0) return build_slabs(p, bundle, is_stored);
  if (bundle.groups.size() > 1) return build_rows(p, bundle.groups, is_stored);
  return build_group(p, bundle.groups[0], is_stored);
}

}  // namespace

KernelDraft build_kernel(const Program& program, const Bundle& bundle,
                         const Table<RootId, bool>& is_stored, int vector_bytes) {
  KernelDraft draft = build(program, bundle, is_stored);
  draft.kernel = with_lanes_along_narrow_rows(std::move(draft.kernel), vector_bytes);
  draft.kernel = with_column_sums_in_registers(std::move(draft.kernel), vector_bytes);
  return draft;
}

}  // namespace tandem::codegen
