#include "runtime/compile/backward_forms.h"

#include <algorithm>
#include <optional>

#include "autodiff/specialise.h"
#include "ir/build/rewrite.h"
#include "ir/geometry.h"

namespace tandem::runtime {
namespace {

/// A function is seldom differentiated in more ways; the oldest form gives way.
constexpr size_t kMaxPartialForms = 16;

bool all(std::span<const bool> flags) {
  return std::ranges::all_of(flags, [](bool b) { return b; });
}

std::vector<bool> key_of(const BackwardRequest& request) {
  std::vector<bool> key(request.defined.begin(), request.defined.end());
  key.insert(key.end(), request.wanted.begin(), request.wanted.end());
  return key;
}

/// By input of `full`: where its value comes from.
std::vector<BackwardForm::Source> sources_of(const ir::Graph& full) {
  std::vector<BackwardForm::Source> sources;
  size_t tangents = 0, kept = 0;
  for (const ir::Input& input : full.inputs()) {
    const bool is_tangent = input.role == ir::Role::Tangent;
    sources.push_back({is_tangent, is_tangent ? tangents++ : kept++});
  }
  return sources;
}

/// (The gradients of a joint graph have all of its inputs, of which a node keeps what is read.)
bool reads_all_inputs(const ir::Graph& graph) {
  const std::vector<uint32_t> uses = ir::use_counts(graph);
  return std::ranges::all_of(graph.inputs(),
                             [&](const ir::Input& input) { return uses[input.value.index] > 0; });
}

/// Whether `op` shows memory with these strides as it is. (In a graph a view may be a copy, and
/// as_strided is of what is contiguous.)
bool shows_part(ir::Op op, const ir::Type& from, const ir::Strides& strides, const ir::Type& to) {
  if (op == ir::Op::as_strided || from.dtype != to.dtype) return false;
  return op != ir::Op::view || ir::strides_as(from.sizes, strides, to.sizes);
}

/// `v` as a part of the tangent that it is a view of, if it is one.
std::optional<BackwardForm::Part> part_of_tangent(const ir::Graph& full, ir::ValueId v) {
  std::vector<ir::EquationId> views;  // the last first
  ir::ValueId base = v;
  for (auto e = full.producer(base); e.valid() && ir::is_view(full.op(e)); e = full.producer(base))
    views.push_back(e), base = full.operand(e, 0);
  const int input = full.input_index(base);
  if (views.empty() || input < 0) return {};
  const std::vector<BackwardForm::Source> sources = sources_of(full);
  const auto [is_tangent, tangent] = sources[static_cast<size_t>(input)];
  if (!is_tangent) return {};
  const ir::Strides& laid_out = full.inputs()[static_cast<size_t>(input)].strides;
  ir::ViewGeometry geometry{laid_out, 0};
  for (size_t i = views.size(); i-- > 0;) {
    const ir::Type &from = full.type(full.operand(views[i], 0)),
                   &to = full.type(full.result(views[i]));
    if (!shows_part(full.op(views[i]), from, geometry.strides, to)) return {};
    geometry = ir::placed_view(full.op(views[i]), from, geometry.strides, geometry.offset,
                               full.attrs(views[i]), to);
  }
  return BackwardForm::Part{.tangent = tangent,
                            .tangent_strides = laid_out,
                            .sizes = full.type(v).sizes,
                            .strides = geometry.strides,
                            .offset = geometry.offset};
}

}  // namespace

// (As eager hands them on: what a leaf keeps is its own, and what counts on a layout asks for it.)
std::vector<BackwardForm::Part> parts_of_tangents(const ir::Graph& full,
                                                  const BackwardRequest& request) {
  std::vector<BackwardForm::Part> parts;
  for (size_t k = 0; k < full.outputs().size(); ++k) {
    auto part = request.wanted[k] ? part_of_tangent(full, full.outputs()[k].value) : std::nullopt;
    if (!part || !request.defined[part->tangent]) continue;
    part->gradient = k;
    parts.push_back(*part);
  }
  return parts;
}

bool BackwardRequest::is_full() const { return all(defined) && all(wanted); }

// Inputs keep their order and their unique names, outputs their order and their targets.
BackwardForm make_form(const std::shared_ptr<const ir::Graph>& full,
                       const BackwardRequest& request) {
  BackwardForm form;
  form.graph = request.is_full() && reads_all_inputs(*full)
                   ? full
                   : std::make_shared<const ir::Graph>(
                         autodiff::specialise_backward(*full, request.defined, request.wanted));
  const std::vector<BackwardForm::Source> sources = sources_of(*full);
  size_t i = 0;
  for (const ir::Input& input : form.graph->inputs()) {
    while (full->inputs()[i].name != input.name) ++i;
    form.sources.push_back(sources[i]);
  }
  size_t k = 0;
  for (const ir::Output& gradient : form.graph->outputs()) {
    while (full->outputs()[k].target != gradient.target) ++k;
    form.gradients.push_back(k);
  }
  return form;
}

std::shared_ptr<BackwardForms::Entry> BackwardForms::entry(const BackwardRequest& request) {
  std::vector<bool> key = key_of(request);
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(partial_, key, [](const auto& e) { return e->key; });
  if (found != partial_.end()) return *found;
  if (partial_.size() == kMaxPartialForms) partial_.erase(partial_.begin());
  partial_.push_back(std::make_shared<Entry>());
  partial_.back()->key = std::move(key);
  return partial_.back();
}

std::shared_ptr<const BackwardForm> BackwardForms::get(const BackwardRequest& request, Make make) {
  const std::shared_ptr<Entry> partial = request.is_full() ? nullptr : entry(request);
  Entry& wanted = partial ? *partial : full_;
  std::call_once(wanted.once, [&] {
    wanted.form = std::make_shared<const BackwardForm>(make(request));
    wanted.made = true;
  });
  return wanted.form;
}

}  // namespace tandem::runtime
