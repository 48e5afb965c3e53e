#include "codegen/drafts.h"

#include <unordered_map>

#include "codegen/contractions/contraction.h"
#include "codegen/kernels/build_kernel.h"
#include "codegen/kernels/scatter.h"
#include "codegen/nodes/checks.h"
#include "codegen/slice.h"
#include "ir/base/error.h"

namespace tandem::codegen {
namespace {

MatmulDraft matmul_draft(const Node& n) {
  const View &a = n.operands[0], &b = n.operands[1];
  MatmulDraft draft{.call = matmul_call(n),
                    .a = a.root,
                    .b = b.root,
                    .c = n.dest.root,
                    .a_offset = a.offset,
                    .b_offset = b.offset,
                    .c_offset = n.dest.offset};
  if (n.operands.size() > 2)
    draft.bias = n.operands[2].root, draft.bias_offset = n.operands[2].offset;
  return draft;
}

ExternalDraft external_draft(const Program& p, const Node& n) {
  ExternalDraft draft{.call = {.op = n.op, .attrs = n.attrs, .check = n.check}};
  const auto type_of = [&](const View& v) { return ir::Type{p.roots[v.root].dtype, v.sizes}; };
  for (const View& v : n.operands) {
    draft.call.operands.push_back({{}, type_of(v), v.strides});
    draft.operands.push_back(v.root);
    draft.offsets.push_back(v.offset);
  }
  for (const View& v : n.results) {
    draft.call.results.push_back({{}, type_of(v), v.strides});
    draft.results.push_back(v.root);
  }
  return draft;
}

/// The kernels of what runs in kernels.
std::vector<KernelDraft> build(const Slice& slice, int vector_bytes) {
  const Node& last = slice.program.nodes.back();  // nodes before a scatter make what it moves
  std::vector<KernelDraft> one;
  switch (last.kind) {
    case Node::Kind::TiledMatmul:
      return tiled_matmul(slice.program, last);
    case Node::Kind::Scatter:
      one.push_back(scatter_kernel(slice.program));
      return one;
    case Node::Kind::Pointwise:
    case Node::Kind::Fold:
    case Node::Kind::Gather:
    case Node::Kind::Random:
    case Node::Kind::RowReduce:
    case Node::Kind::RowPartial:
    case Node::Kind::ColPartial:
      one.push_back(build_kernel(slice.program, slice.bundle, slice.stored, vector_bytes));
      return one;
    case Node::Kind::Matmul:
    case Node::Kind::External:
      break;
  }
  TANDEM_CHECK(false, "a call has no kernel");
  return {};
}

class Drafter {
 public:
  Drafter(const Program& p, const Table<RootId, bool>& stored, int vector_bytes)
      : p_(p), vector_bytes_(vector_bytes), slicer_(p, stored) {}

  Drafts run(const std::vector<Bundle>& bundles) {
    for (const Bundle& b : bundles) add(b);
    return std::move(out_);
  }

 private:
  void add(const Bundle& bundle) {
    const Node& first = p_.nodes[bundle.groups[0].nodes[0]];
    const bool fails = can_fail(bundle);
    switch (first.kind) {
      case Node::Kind::Matmul:
        out_.steps.emplace_back(matmul_draft(first));
        return;
      case Node::Kind::External:
        out_.steps.emplace_back(external_draft(p_, first));
        return;
      case Node::Kind::Pointwise:
      case Node::Kind::Fold:
      case Node::Kind::Gather:
      case Node::Kind::Random:
      case Node::Kind::RowReduce:
      case Node::Kind::RowPartial:
      case Node::Kind::ColPartial:
      case Node::Kind::TiledMatmul:
      case Node::Kind::Scatter:
        for (LaunchDraft launch : launches(slicer_.cut(bundle))) {
          for (size_t i = 0; i < launch.roots.size(); ++i) {
            const RootId own = launch.roots[i];
            launch.roots[i] = slicer_.roots()[own];
            launch.offsets[i] += slicer_.offsets()[own];
          }
          launch.can_fail = fails && !launch.checks.empty();
          out_.steps.emplace_back(std::move(launch));
        }
    }
  }

  /// Whether data can make the bundle fail, which runs next.
  bool can_fail(const Bundle& bundle) {
    bool any = false;
    for (const Group& g : bundle.groups)
      for (const NodeId n : g.nodes) any |= checks_.can_fail(p_.nodes[n]);
    return any;
  }

  /// On the roots of the slice.
  const std::vector<LaunchDraft>& launches(const Slice& slice) {
    const auto [at, fresh] = known_.try_emplace(slice);
    if (fresh)
      for (KernelDraft& d : build(at->first, vector_bytes_))
        at->second.push_back(with_kernel(std::move(d)));
    return at->second;
  }

  LaunchDraft with_kernel(KernelDraft d) {
    d.launch.kernel = out_.kernels.next();
    out_.kernels.push_back(std::move(d.kernel));
    return std::move(d.launch);
  }

  const Program& p_;
  const int vector_bytes_;
  Slicer slicer_;
  Checks checks_;
  std::unordered_map<Slice, std::vector<LaunchDraft>, SliceHash> known_;
  Drafts out_;
};

}  // namespace

Drafts make_drafts(const Program& program, const std::vector<Bundle>& bundles,
                   const Table<RootId, bool>& stored, int vector_bytes) {
  return Drafter(program, stored, vector_bytes).run(bundles);
}

}  // namespace tandem::codegen
