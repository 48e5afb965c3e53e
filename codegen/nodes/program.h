// Program: a graph as lowering sees it. Views, fills and iotas are gone (they live in the operands'
// strides); what is left are nodes that compute or copy elements, each over its own domain.
#ifndef TANDEM_CODEGEN_NODES_PROGRAM_H
#define TANDEM_CODEGEN_NODES_PROGRAM_H

#include <string>
#include <vector>

#include "codegen/loops/combine.h"
#include "codegen/nodes/view.h"
#include "ir/base/inline_vector.h"
#include "ir/graph.h"

namespace tandem::codegen {

/// What views are views of: something with memory of its own, or (Full, Iota) a formula.
struct Root {
  enum class Kind : uint8_t { Input, Full, Iota, Computed };
  Kind kind = Kind::Computed;
  ir::DType dtype = ir::DType::F32;
  int64_t numel = 0;
  int64_t gaps = 0;                     // Computed: elements of its memory beside those
  int index = -1;                       // Input: which
  ir::Number first, increment;          // Full: first; Iota: element i is first + i * increment
  int output = -1;                      // Computed: the output whose buffer it lives in, or -1
  ir::InlineVector<NodeId, 2> writers;  // Computed: its nodes, in order
  bool formula() const { return kind == Kind::Full || kind == Kind::Iota; }
  friend bool operator==(const Root&, const Root&) = default;
};

/// Whether `v` shows all elements of `root`, each once, from its first on.
bool shows_all(const View& v, const Root& root);

/// Where a row or column reduction cuts its domain: the operand is [outer, n, inner].
struct Reduction {
  Combine combine = Combine::Sum;
  ir::DType dtype = ir::DType::F32;  // of the accumulator
  int64_t outer = 1, n = 1, inner = 1;
  int64_t lanes = 1, block = 1;
  int64_t empty_blocks = 0;  // after the others: their partials are the identity
  int64_t blocks() const { return (n + block - 1) / block + empty_blocks; }
  friend bool operator==(const Reduction&, const Reduction&) = default;
};

struct Node {
  enum class Kind : uint8_t {
    Pointwise,    // op on operands
    Fold,         // op on `parts` views, by pairs of neighbours: operand 0, and each `part_step`
                  // elements on from the one before
    Gather,       // operand 0 is the index; table + index * gather_stride
    Random,       // operands: key, base counter
    RowReduce,    // operand [outer, n] -> [outer]
    RowPartial,   // operand [outer, n] -> [outer, blocks], one partial for each block
    ColPartial,   // operand [outer, n, inner] -> [outer, blocks, inner]
    Matmul,       // a library call: operands a [b, m, k], b [b, k, n] and maybe a bias [n] that all
                  // rows start as; adds to dest if `accumulate`. If `stride_free`, operands and
                  // dest may have two batch dims
    TiledMatmul,  // the same, generated; operand 2 (if any) is the addend
    Scatter,  // dest[.., index, ..] = src, or combined with it (scatter_add, ...); operands: index,
              // src
    External,  // a custom operator or library function; results contiguous
  };
  Kind kind = Kind::Pointwise;
  ir::Op op = ir::Op::clone;
  ir::DType dtype = ir::DType::F32;  // of the result
  ir::Shape domain;                  // the sizes that the operands have
  std::vector<View> operands;
  View dest;  // over `domain` (reductions, contractions: over the result)
  /// False for a node that writes only a part of its value, or one that others write too: what
  /// reads the value must wait until all is in memory.
  bool whole = true;
  bool only_checks = false;  // Gather: stores nothing
  bool alone = false;        // shares a group with no other
  bool late = false;         // behind the turn of a whole step
  bool ordered = false;      // External: stays though nothing reads what it writes
  bool again = false;        // computes again what another node does, for the group that reads it
  NodeId after;              // a node that must run earlier: it writes the same memory, or gives
                             // the token that this one takes
  std::string name;

  View table;  // Gather: over `domain`, stride 0 at the gathered dim. Scatter: dest likewise
  int64_t gather_stride = 0, gather_extent = 0;
  int64_t random_offset = 0;
  int64_t parts = 1, part_step = 0;  // Fold
  Reduction reduction;
  bool accumulate = false, stride_free = false, plus_zero = false;  // as MatmulSpec's
  int scatter_dim = -1;
  std::string check;                 // what an index out of range is reported as
  std::vector<View> results;         // External: all of them; `dest` is the first
  std::vector<ir::AttrValue> attrs;  // External: the equation's

  /// The roots that the node writes.
  template <class F>
  void for_each_written(F f) const {
    if (kind != Kind::External) return f(dest.root);
    for (const View& v : results) f(v.root);
  }
  /// Fold: what it reads, in order.
  View part(int64_t i) const {
    View v = operands[0];
    v.offset += i * part_step;
    return v;
  }
  template <class F>
  void for_each_operand(F f) const {
    for (const View& v : operands) f(v);
    for (int64_t i = 1; i < parts; ++i) f(part(i));
  }
  int64_t total() const { return ir::numel(domain); }
  /// Whether it gives the elements of its operand as they are.
  bool is_copy() const { return kind == Kind::Pointwise && op == ir::Op::clone; }
  friend bool operator==(const Node&, const Node&) = default;
};

/// What a node makes of its domain.
enum class Makes : uint8_t {
  Elements,      // one value for each element
  Rows,          // one for each row
  RowBlocks,     // one for each block of a row
  ColumnBlocks,  // one for each column of a block of rows
  Alone,         // it runs by itself
};
/// Whether it is a part of what a reduction gives: complete only once all of its group has run.
constexpr bool is_partial(Makes m) { return m == Makes::RowBlocks || m == Makes::ColumnBlocks; }
/// Whether it reduces along rows, in an accumulator.
constexpr bool reduces_rows(Makes m) { return m == Makes::Rows || m == Makes::RowBlocks; }

/// What kinds of nodes are to fusion and to the building of kernels: one row each.
struct NodeTraits {
  Makes makes;
  bool reads_table = false;   // at positions that come from data
  bool takes_writes = false;  // scatters to what it made go on in its memory
};
constexpr NodeTraits traits_of(Node::Kind kind) {
  using enum Node::Kind;
  switch (kind) {
    case Pointwise:
    case Fold:
    case Random:
      return {.makes = Makes::Elements};
    case Gather:
      return {.makes = Makes::Elements, .reads_table = true};
    case RowReduce:
      return {.makes = Makes::Rows};
    case RowPartial:
      return {.makes = Makes::RowBlocks};
    case ColPartial:
      return {.makes = Makes::ColumnBlocks};
    case Matmul:
    case Scatter:
      return {.makes = Makes::Alone, .takes_writes = true};
    case TiledMatmul:
    case External:
      return {.makes = Makes::Alone};
  }
  return {.makes = Makes::Alone};
}
constexpr Makes makes(const Node& node) { return traits_of(node.kind).makes; }

/// An output's source.
struct ProgramOutput {
  RootId root;          // a Computed root bound to the output, or
  int from_input = -1;  // the input that it is
  friend bool operator==(const ProgramOutput&, const ProgramOutput&) = default;
};

struct Program {
  Table<RootId, Root> roots;
  Table<NodeId, Node> nodes;  // in topological order
  std::vector<ProgramOutput> outputs;
  friend bool operator==(const Program&, const Program&) = default;
};

/// What writes `root` first, if that copies another value, of which parts are written later; else
/// null.
const Node* begun_as_copy(const Table<NodeId, Node>& nodes, const Root& root);

/// The program of a graph of primitives. Nothing is fused yet.
Program make_program(const ir::Graph& graph);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_NODES_PROGRAM_H
