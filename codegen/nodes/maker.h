// How equations become nodes. Each primitive has a rule, nodes_of<op>, in the file of its class;
// one without a definition does not link. Rules write values and nodes through a Maker.
#ifndef TANDEM_CODEGEN_NODES_MAKER_H
#define TANDEM_CODEGEN_NODES_MAKER_H

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "codegen/contractions/split_batches.h"
#include "codegen/nodes/program.h"
#include "ir/base/function_ref.h"

namespace tandem::codegen {

using ir::Attr;
using ir::Dim;
using ir::DType;
using ir::EquationId;
using ir::Graph;
using ir::Number;
using ir::Op;
using ir::Shape;
using ir::ValueId;

class Maker {
 public:
  explicit Maker(const Graph& graph);
  Program run();

  // --- the graph
  const Graph& graph() const { return g_; }
  /// Where a value of the graph lies, once it is known.
  const View& view(ValueId v) const { return views_[v]; }
  const View& operand(EquationId e, int i) const { return views_[g_.operand(e, i)]; }
  /// Whether the result of `e` was computed before, as what a matmul gives.
  bool is_known(EquationId e) const { return views_[g_.result(e)].root.valid(); }
  void set(ValueId v, const View& to) { views_[v] = to; }
  void set(EquationId e, const View& to) { views_[g_.result(e)] = to; }
  const ir::Type& result_type(EquationId e) const { return g_.type(g_.result(e)); }
  int64_t size_attr(EquationId e, Attr a) const { return g_.attr<Dim>(e, a); }
  int dim_attr(EquationId e, Attr a) const { return static_cast<int>(g_.attr<int64_t>(e, a)); }
  const ir::Dims& dims_attr(EquationId e, Attr a) const { return g_.attr<ir::Dims>(e, a); }
  const ir::Axes& axes(EquationId e) const { return g_.attr<ir::Axes>(e, Attr::dims); }
  /// What a failure of `e` is reported as: the function or op, and the user's line if known.
  std::string check_text(EquationId e) const;
  /// Whether `v` is made, not a view, and used once.
  bool is_used_up(ValueId v);
  /// Whether anything behind `e` reads what `v` shows, or gives it.
  bool is_read_after(ValueId v, EquationId e);
  const ResultPaths& paths();

  // --- values
  Root& root_of(const View& v) { return p_.roots[v.root]; }
  const Root& root_of(const View& v) const { return p_.roots[v.root]; }
  const Root& root_of(RootId r) const { return p_.roots[r]; }
  DType dtype(const View& v) const { return root_of(v).dtype; }
  bool is_full(const View& v) const { return root_of(v).kind == Root::Kind::Full; }
  RootId add(Root r) { return p_.roots.add(std::move(r)); }
  /// A value that nodes are to write.
  View computed(DType dtype, const Shape& sizes);
  View fresh(EquationId e) { return computed(result_type(e).dtype, result_type(e).sizes); }
  View filled(const Number& number, DType dtype, const Shape& sizes);
  /// For a value that takes a copy: what strides can express all the same (Shown::split).
  const View* split_of(ValueId v) const;
  void set_split(ValueId v, const View& split) { splits_[v.index] = split; }
  /// The node that gives `token`; none for the first of an order.
  NodeId giver(ValueId token) const;
  void set_giver(ValueId token, NodeId node) { givers_[token.index] = node; }

  // --- nodes
  Node& node(NodeId n) { return p_.nodes[n]; }
  const Node& node(NodeId n) const { return p_.nodes[n]; }
  const Node* begun_as_copy(const Root& root) const {
    return codegen::begun_as_copy(p_.nodes, root);
  }
  /// Appends a node that writes node.dest; returns its id, or none if there is nothing to write.
  NodeId push(Node n);
  /// Appends a node of any number of results; returns its id.
  NodeId push_external(Node n);
  View pointwise(Op op, std::vector<View> operands, DType type, const Shape& sizes);
  View copied(const View& v) { return pointwise(Op::clone, {v}, dtype(v), v.sizes); }
  /// A copy that is in memory before anything reads it, or is done beside it.
  View taken_apart(const View& v);
  View converted(const View& v, DType to);
  View reshape(const View& v, const Shape& sizes);
  /// An operand in memory.
  View stored(const View& v) { return root_of(v).formula() ? copied(v) : v; }
  /// Copies `v` into `dest`, a part of a value; in an order that suits reading.
  NodeId write_region(View v, View dest, NodeId after = {});

 private:
  bool is_late(EquationId e) const;
  void input(int i);
  void output(int o);
  bool is_input(const View& v, int i, const ir::Strides& strides) const;
  void remove_dead_nodes();

  const Graph& g_;
  ir::ValueMap<View> views_;
  std::map<std::tuple<DType, Number::Kind, int64_t>, RootId> fills_;  // constants already made
  std::map<uint32_t, View> splits_;                                   // by value that is a copy
  std::map<uint32_t, NodeId> givers_;                                 // by token
  std::optional<ResultPaths> paths_;                                  // made when first needed
  std::vector<uint32_t> uses_;                                        // of each value; likewise
  std::vector<uint32_t> last_readers_;  // equations, of each value that is no view; likewise
  Program p_;
  bool late_ = false;  // the equation whose nodes are being made stands behind the turn of a step
};

/// Makes the values and nodes of equation `e`, and says where its results lie.
template <Op op>
void nodes_of(Maker& m, EquationId e);
#define OP(name, class_, level, operands, attributes, shape, traits, effect) \
  template <>                                                                \
  void nodes_of<Op::name>(Maker & m, EquationId e);
#include "ir/ops.def"

// Rules of all ops of a class.
void pointwise_nodes(Maker& m, EquationId e);
void reduction_nodes(Maker& m, EquationId e);
/// Of a primitive that a function of library/library.h computes.
void library_nodes(Maker& m, EquationId e);
void scan_nodes(Maker& m, EquationId e);
/// Whether `v` lies as the function that computes `op` reads it.
bool is_ready(Op op, const View& v);
void linalg_nodes(Maker& m, EquationId e);

/// Whether a value that parts are written of began as an input to which the graph gives new
/// contents.
bool updates_input(Maker& m, const View& v);

/// Where the result of `e` lies, which is operand 0 but for what `e` writes there: it holds operand
/// 0 already. That is in the whole which the result is put back into, if nothing else reads it.
View begun_as_self(Maker& m, EquationId e);

/// f(operand, its part of the result) for the operands of concatenation `e`, of which matmuls may
/// write parts before the others are known.
void for_each_part(Maker& m, EquationId e, ir::FunctionRef<void(ValueId, const View&)> f);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_NODES_MAKER_H
