// A walk over the groups in the order in which they run. Of every value is known how many bytes
// were touched since it was last used.
#include "codegen/cost/run_time.h"

#include <algorithm>
#include <map>

#include "codegen/fusion/rematerialize.h"
#include "codegen/library/library.h"
#include "codegen/nodes/program.h"

namespace tandem::codegen {
namespace {

constexpr double kGroupSeconds = 1e-6;  // to start a kernel or a library call

/// How much of [full, 2 * full] `reach` covers: caches do not end at a byte.
double share_beyond(double full, double reach) {
  return full > 0 ? std::clamp(reach / full - 1, 0.0, 1.0) : 1;
}

double elements(const ir::Shape& sizes) { return static_cast<double>(int64_t{ir::numel(sizes)}); }

/// The elements that a view reads, each once.
double distinct_elements(const View& v) {
  double count = 1;
  for (int d = 0; d < v.sizes.rank(); ++d)
    if (v.strides[d] != 0) count *= static_cast<double>(int64_t{v.sizes[d]});
  return count;
}

class Walk {
 public:
  Walk(const CostTable& costs, const Fusion& fusion)
      : costs_(costs),
        p_(fusion.program),
        groups_(fusion.groups),
        group_of_(groups_of_nodes(p_, groups_)),
        stored_(stored_roots(p_, groups_)),
        last_use_(p_.roots.size(), kNever) {
    for (const Root& v : p_.roots)
      if (v.kind == Root::Kind::Input || v.output >= 0) around_ += bytes_of(v);
  }

  double seconds() {
    double seconds = 0;
    for (size_t g = 0; g < groups_.size(); ++g)
      seconds += std::max(arithmetic(groups_[g]), traffic(g)) + kGroupSeconds;
    return seconds;
  }

 private:
  static constexpr double kNever = -1;

  static double bytes_of(const Root& v) {
    return static_cast<double>(v.numel) * static_cast<double>(ir::size_of(v.dtype));
  }

  const Node& node(NodeId n) const { return p_.nodes[n]; }
  const Root& root(RootId r) const { return p_.roots[r]; }

  template <class F>
  static void for_each_read(const Node& n, F f) {
    for (const View& v : n.operands) f(v);
    if (n.table.root.valid()) f(n.table);
  }

  bool is_written_in(RootId r, size_t group) const {
    return std::ranges::any_of(root(r).writers, [&](NodeId w) { return group_of_[w] == group; });
  }

  double element_seconds(ir::Op op) const {
    return 1e-9 * costs_.element_ns[static_cast<size_t>(op)];
  }

  double arithmetic(const Group& group) const {
    double seconds = 0;
    for (NodeId n : group.nodes) seconds += arithmetic(node(n));
    return seconds;
  }

  double arithmetic(const Node& n) const {
    using enum Node::Kind;
    switch (n.kind) {
      case Matmul:
        return flops(n) / costs_.library_flops;
      case TiledMatmul:
        return flops(n) / costs_.generated_flops;
      case Gather:
      case Scatter:
        return 1e-9 * costs_.indirect_ns * elements(n.domain);
      case RowReduce:
      case RowPartial:
      case ColPartial:
        return element_seconds(ir::Op::add) * elements(n.domain);
      case External:
        return external(n);
      case Random:
        return element_seconds(ir::Op::random_bits) * elements(n.domain);
      case Fold:
        return element_seconds(n.op) * elements(n.domain) * static_cast<double>(n.parts - 1);
      case Pointwise:
        break;
    }
    return element_seconds(n.op) * elements(n.domain);
  }

  /// What a user's operator takes nobody knows. Branches and loops: control_seconds().
  double external(const Node& n) const {
    if (ir::info(n.op).cls == ir::OpClass::External) return 0;
    if (ir::info(n.op).cls == ir::OpClass::Control) return 0;
    if (ir::info(n.op).cls == ir::OpClass::Scan)
      return 1e-9 * kScanCost * elements(n.operands[0].sizes);
    if (ir::info(n.op).cls == ir::OpClass::Linalg) return matrix_seconds(n.operands[0].sizes);
    std::vector<ir::Type> operands;
    for (const View& v : n.operands) operands.push_back({root(v.root).dtype, v.sizes});
    return library_flops(n.op, n.attrs, operands, {n.dtype, n.dest.sizes}) / costs_.library_flops;
  }

  // operand 0 is [b, m, k]
  static double flops(const Node& n) {
    return 2 * elements(n.dest.sizes) * static_cast<double>(int64_t{n.operands[0].sizes.back()});
  }

  /// What the group reads that it does not make, and what it makes for others.
  double traffic(size_t g) {
    std::map<RootId, double> read, written;  // elements
    for (NodeId n : groups_[g].nodes) {
      for_each_read(node(n), [&](const View& v) {
        if (!root(v.root).formula() && !is_written_in(v.root, g))
          read[v.root] += distinct_elements(v) * static_cast<double>(node(n).parts);
      });
      node(n).for_each_written([&](RootId r) {
        if (stored_[r]) written[r] += elements(node(n).dest.sizes);
      });
    }
    double seconds = 0;
    for (const auto& [r, count] : read) seconds += touch(r, count);
    for (const auto& [r, count] : written) seconds += touch(r, count);
    return seconds;
  }

  /// What comes from outside was last used before as much as this graph is given and returns; what
  /// has only just got its place in the arena finds that in the caches, as far as it fits.
  double reach_of(RootId r, double bytes) const {
    const double last = last_use_[r];
    if (last != kNever) return touched_ - last + bytes;
    const Root& v = root(r);
    return v.kind == Root::Kind::Input || v.output >= 0 ? touched_ + around_ : 2 * bytes;
  }

  double touch(RootId r, double count) {
    const Root& v = root(r);
    const double bytes =
        std::min(count, static_cast<double>(v.numel)) * static_cast<double>(ir::size_of(v.dtype));
    const double seconds = transfer_seconds(costs_, bytes, reach_of(r, bytes));
    touched_ += bytes;
    last_use_[r] = touched_;
    return seconds;
  }

  const CostTable& costs_;
  const Program& p_;
  const std::vector<Group>& groups_;
  Table<NodeId, size_t> group_of_;
  Table<RootId, bool> stored_;
  Table<RootId, double> last_use_;   // as touched_ was then
  double touched_ = 0, around_ = 0;  // bytes
};

}  // namespace

double transfer_seconds(const CostTable& costs, double bytes, double reach) {
  const double near = share_beyond(costs.near_bytes, reach),
               shared = share_beyond(costs.shared_bytes, reach);
  const double ns = costs.near_byte_ns + near * (costs.shared_byte_ns - costs.near_byte_ns) +
                    shared * (costs.byte_ns - costs.shared_byte_ns);
  return 1e-9 * ns * bytes;
}

namespace {

/// What a branch or loop runs: the dearer branch, a scan's body as often as it is long. (How often
/// a while_loop goes around nobody knows: once.)
double control_seconds(const CostTable& costs, const ir::Graph& graph, ir::EquationId e) {
  double seconds = 0;
  for (const ir::AttrValue& attr : graph.attrs(e)) {
    const auto* id = std::get_if<ir::SubgraphId>(&attr);
    if (id == nullptr) continue;
    const double body = run_seconds(costs, graph.subgraph(*id));
    seconds = graph.op(e) == ir::Op::cond ? std::max(seconds, body) : seconds + body;
  }
  const bool is_counted = ir::has_attr(graph.op(e), ir::Attr::length);
  return is_counted
             ? seconds * static_cast<double>(int64_t{graph.attr<ir::Dim>(e, ir::Attr::length)})
             : seconds;
}

}  // namespace

double run_seconds(const CostTable& costs, const ir::Graph& graph) {
  double seconds = Walk(costs, fuse_lean(make_program(graph))).seconds();
  for (size_t i = 0; i < graph.num_equations(); ++i)
    if (ir::info(graph.op(graph.equation_id(i))).cls == ir::OpClass::Control)
      seconds += control_seconds(costs, graph, graph.equation_id(i));
  return seconds;
}

}  // namespace tandem::codegen
