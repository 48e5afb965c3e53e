#include "functionalize/remove_views.h"

#include <algorithm>

#include "ir/base/error.h"
#include "ir/build/rewrite.h"

namespace tandem::functionalize {
namespace {

using ir::EquationId;
using ir::Graph;
using ir::ResultSource;
using ir::ValueId;

class ViewRemover {
 public:
  explicit ViewRemover(const Graph& source) : source_(source), rewriter_(source) {}

  Graph run() {
    for (size_t i = 0; i < source_.subgraphs().size(); ++i) {
      const ir::SubgraphId id{static_cast<uint32_t>(i)};
      rewriter_.set_subgraph(id, ViewRemover(source_.subgraph(id)).run());
    }
    rewriter_.copy_inputs();
    for (size_t i = 0; i < source_.num_equations(); ++i) equation(source_.equation_id(i));
    rewriter_.copy_outputs();
    replace_results();
    return rewriter_.take();
  }

 private:
  void equation(EquationId e) {
    rewriter_.at(e);
    if (!ir::is_view(source_.op(e))) return void(rewriter_.copy(e));
    rewriter_.set(source_.result(e),
                  rewriter_.builder().emit(ir::copy_form(source_.op(e)), rewriter_.operands(e),
                                           rewriter_.attrs(e)));
  }

  /// What a result shows, as a value.
  ValueId value_of(const ResultSource& source) {
    using Kind = ResultSource::Kind;
    ValueId v = source.kind == Kind::Output         ? output(source.index)
                : source.kind == Kind::ViewOfResult ? values_[static_cast<size_t>(source.index)]
                                                    : final_contents(source.index);
    ir::Builder& b = rewriter_.builder();
    for (const ir::ViewStep& step : source.chain) {
      v = b.emit(ir::copy_form(step.op), {v}, step.attrs);
      if (step.no_grad) v = b.stop_backward(v);
    }
    return v;
  }

  ValueId output(int k) { return rewriter_.target().outputs()[static_cast<size_t>(k)].value; }

  ValueId final_contents(int input) {
    for (const ir::InputWrite& write : source_.epilogue.writes)
      if (write.input == input) return output(write.output);
    return rewriter_[source_.inputs()[static_cast<size_t>(input)].value];
  }

  void replace_results() {
    std::vector<ResultSource> results = source_.epilogue.results;
    for (ResultSource& result : results) {
      values_.push_back(result.history >= 0 ? output(result.history) : value_of(result));
      if (!result.chain.empty()) result = own_output(result);
    }
    rewriter_.target().epilogue.results = std::move(results);
  }

  ResultSource own_output(const ResultSource& result) {
    Graph& target = rewriter_.target();
    ir::Output output;
    output.value = values_.back();
    output.name = "out" + std::to_string(values_.size() - 1) + "_copy";
    output.strides = ir::contiguous_strides(target.type(output.value).sizes);
    output.requires_grad =
        result.requires_grad && std::ranges::none_of(result.chain, &ir::ViewStep::no_grad);
    target.add_output(std::move(output));
    return {ResultSource::Kind::Output,
            static_cast<int>(target.outputs().size()) - 1,
            {},
            result.requires_grad};
  }

  const Graph& source_;
  ir::Rewriter rewriter_;
  std::vector<ValueId> values_;  // what each result so far shows
};

}  // namespace

Graph remove_views(const Graph& functional) {
  TANDEM_CHECK(functional.level == ir::Level::Functional, "remove_views takes a functional graph");
  return ViewRemover(functional).run();
}

}  // namespace tandem::functionalize
