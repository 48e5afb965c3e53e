#include "codegen/kernels/source_rows.h"

namespace tandem::codegen {

std::optional<SourceView> source_view(const View& v, const Node& scatter) {
  if (auto even = reshaped(v, scatter.domain)) return SourceView{std::move(*even)};
  const auto dim = static_cast<size_t>(scatter.scatter_dim);
  const auto runs = collapsed(v);
  for (size_t r = 0; r < runs.size(); ++r) {
    const int64_t repeats = runs[r].size, sources = scatter.domain[scatter.scatter_dim];
    if (runs[r].stride != 0 || sources % repeats != 0) continue;
    std::vector<int64_t> sizes(scatter.domain.begin(), scatter.domain.end());
    sizes[dim] = repeats;
    sizes.insert(sizes.begin() + scatter.scatter_dim, sources / repeats);
    const auto split = reshaped(v, ir::Shape(sizes));
    if (!split || split->strides[scatter.scatter_dim + 1] != 0) continue;
    SourceView out{
        {v.root, v.offset, scatter.domain, ir::Strides::filled(scatter.domain.rank(), 0)}, repeats};
    for (int d = 0; d < scatter.domain.rank(); ++d)
      out.view.strides[d] = split->strides[d > scatter.scatter_dim ? d + 1 : d];
    return out;
  }
  return std::nullopt;
}

bool is_same_along_row(const View& v, int dim) {
  for (int d = dim + 1; d < v.sizes.rank(); ++d)
    if (v.sizes[d] != 1 && v.strides[d] != 0) return false;
  return true;
}

SourceRows::SourceRows(KernelWriter& writer, const std::vector<Node>& nodes,
                       const std::vector<DimLoops>& loops)
    : w_(writer), nodes_(nodes), loops_(loops) {
  for (const Node& n : nodes) {
    std::vector<SourceView>& views = views_.emplace_back();
    for (const View& v : n.operands)
      views.push_back(&n == &scatter() ? SourceView{v} : *source_view(v, scatter()));
    tables_.push_back(n.kind == Node::Kind::Gather ? *reshaped(n.table, scatter().domain) : View{});
    if (&n != &scatter()) made_by_.emplace(n.dest.root, made_by_.size());
  }
}

SourceRows::Row SourceRows::row(InstrId number) {
  Row row{.number = number};
  row.values.resize(nodes_.size() - 1);
  const auto is_known = [&](size_t node, size_t operand) {
    const auto made = made_by_.find(view(node, operand).root);
    return made != made_by_.end() ? row.values[made->second].valid()
                                  : is_same_along_row(view(node, operand));
  };
  for (size_t n = 0; n + 1 < nodes_.size(); ++n) {
    bool known = nodes_[n].kind != Node::Kind::Gather || is_same_along_row(tables_[n]);
    for (size_t o = 0; o < views_[n].size(); ++o) {
      known = known && is_known(n, o);
      if (!made_by_.contains(view(n, o).root) && is_same_along_row(view(n, o)))
        row.operands[{n, o}] = load(views_[n][o], row);
    }
    if (known) row.values[n] = compute(n, row);
  }
  return row;
}

InstrId SourceRows::element(Row row) {
  for (size_t n = 0; n + 1 < nodes_.size(); ++n)
    if (!row.values[n].valid()) row.values[n] = compute(n, row);
  return operand(nodes_.size() - 1, 1, row);
}

Affine SourceRows::at(const View& v) const {
  return affine(v.offset, {v.strides.begin(), v.strides.end()}, loops_);
}

InstrId SourceRows::load(const SourceView& source, const Row& row) {
  const int dim = scatter().scatter_dim;
  View v = source.view;
  const int64_t stride = v.strides[dim], sources = scatter().domain[dim];
  if ((!row.number.valid() && source.repeats == 1) || stride == 0) return w_.read(v.root, at(v));
  InstrId number = row.number.valid() ? row.number : w_.index(affine(0, {1}, {loops_[dim]}));
  if (source.repeats != 1)
    number = w_.compute(ir::Op::floor_divide, {number, w_.constant(source.repeats, ir::DType::I64)},
                        ir::DType::I64, scatter().check);
  v.strides[dim] = 0;
  return w_.load_at(v.root, at(v), {number, stride, sources / source.repeats}, scatter().check);
}

InstrId SourceRows::operand(size_t node, size_t operand, const Row& row) {
  const View& v = view(node, operand);
  if (const auto made = made_by_.find(v.root); made != made_by_.end())
    return row.values[made->second];
  const auto known = row.operands.find({node, operand});
  return known != row.operands.end() ? known->second : load(views_[node][operand], row);
}

InstrId SourceRows::compute(size_t node, const Row& row) {
  const Node& n = nodes_[node];
  InstrArgs args;
  for (size_t o = 0; o < n.operands.size(); ++o) args.push_back(operand(node, o, row));
  Affine table = n.kind == Node::Kind::Gather ? at(tables_[node]) : Affine{};
  return w_.compute_node(n, std::move(args), std::move(table));
}

}  // namespace tandem::codegen
