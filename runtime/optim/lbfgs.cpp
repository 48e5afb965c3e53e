#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/ops.h>
#include <tandem/ops/linalg.h>
#include <tandem/ops/reductions.h>
#include <tandem/optim/lbfgs.h>

#include <algorithm>
#include <cmath>

#include "ir/base/error.h"
#include "runtime/optim/line_search.h"
#include "runtime/optim/recipe.h"
#include "runtime/optim/state_numbers.h"

namespace tandem::optim {
namespace {

constexpr std::string_view kNumbers[] = {"lr"};
constexpr Recipe kLbfgs{"LBFGS", kNumbers, {}};

double largest(const Tensor& t) { return t.numel() == 0 ? 0 : abs(t).max().item(); }
double product(const Tensor& a, const Tensor& b) { return dot(a, b).item(); }

const LbfgsOptions& checked(const LbfgsOptions& o) {
  if (o.max_iter <= 0 || o.history_size <= 0 || (o.max_eval && *o.max_eval <= 0))
    ir::fail(Errc::Argument,
             fmt::format("LBFGS: expected max_iter, max_eval and history_size > 0, got {}, {} and "
                         "{}",
                         o.max_iter, o.max_eval.value_or(o.max_iter * 5 / 4), o.history_size));
  return o;
}

}  // namespace

LBFGS::LBFGS(const ParamGroups& parameters, const LbfgsOptions& options)
    : Optimizer(kLbfgs, {.lr = options.lr}, parameters), options_(checked(options)) {
  if (param_groups().size() != 1)
    ir::fail(Errc::Argument,
             fmt::format("LBFGS: expected one group of parameters, got {}", param_groups().size()));
  for (const Tensor& p : param_groups()[0].parameters)
    if (p.dtype() != param_groups()[0].parameters[0].dtype())
      ir::fail(Errc::DType,
               fmt::format("LBFGS: expected parameters of one dtype, got {} and {}",
                           ir::name(param_groups()[0].parameters[0].dtype()), ir::name(p.dtype())));
  if (!options_.max_eval) options_.max_eval = std::max<int64_t>(1, options_.max_iter * 5 / 4);
}

/// One call of step().
class LBFGS::Pass {
 public:
  Pass(LBFGS& optimizer, const std::function<Tensor()>& closure)
      : parameters_(optimizer.param_groups()[0].parameters),
        options_(optimizer.options_),
        found_(optimizer.found_),
        lr_(optimizer.param_groups()[0].get("lr")),
        closure_(closure) {}

  Tensor run() {
    const Tensor first_loss = evaluate();
    loss_ = first_loss.item();
    gradient_ = gradient();
    if (largest(gradient_) <= options_.tolerance_grad) return first_loss;
    for (int64_t i = 1; i <= options_.max_iter; ++i)
      if (!iterate(i == options_.max_iter)) break;
    return first_loss;
  }

 private:
  Tensor evaluate() {
    ++evaluations_;
    ++found_.func_evals;
    const GradMode with_gradients(true);
    return closure_();
  }

  Tensor gradient() const {
    std::vector<Tensor> parts;
    for (const Tensor& p : parameters_) {
      const Tensor g = p.grad();
      parts.push_back(g.defined() ? g.detach().reshape({-1}) : zeros({p.numel()}, p.dtype()));
    }
    return cat(parts);
  }

  void move(double t) const {
    Dim offset = 0;
    for (const Tensor& p : parameters_) {
      const Dim n = p.numel();
      p.add_(found_.direction.slice(0, offset, offset + n).reshape(p.sizes()) * t);
      offset = offset + n;
    }
  }

  /// Whether to go on.
  bool iterate(bool is_last) {
    ++found_.n_iter;
    found_.direction = found_.n_iter == 1 ? neg(gradient_) : next_direction();
    found_.prev_gradient = gradient_.clone();
    found_.prev_loss = loss_;
    found_.step = found_.n_iter == 1 ? std::min(1.0, 1 / abs(gradient_).sum().item()) * lr_ : lr_;
    const double slope = product(gradient_, found_.direction);
    if (slope > -options_.tolerance_change) return false;
    if (options_.line_search == LineSearch::StrongWolfe)
      search(slope);
    else
      take_step(is_last);
    return !is_last && evaluations_ < *options_.max_eval &&
           largest(gradient_) > options_.tolerance_grad &&
           largest(found_.direction * found_.step) > options_.tolerance_change &&
           !(std::abs(loss_ - found_.prev_loss) < options_.tolerance_change);
  }

  void take_step(bool is_last) {
    move(found_.step);
    if (is_last) return;  // nobody reads what is there
    loss_ = evaluate().item();
    gradient_ = gradient();
  }

  void search(double slope) {
    std::vector<Tensor> before;
    for (const Tensor& p : parameters_) before.push_back(p.clone());
    const auto evaluate_at = [&](double t) {
      move(t);
      const double loss = evaluate().item();
      const Tensor g = gradient();
      for (size_t i = 0; i < before.size(); ++i) parameters_[i].copy_(before[i]);
      return LinePoint{t, loss, g, product(g, found_.direction)};
    };
    const LineSearchLimits limits{largest(found_.direction), options_.tolerance_change,
                                  *options_.max_eval - evaluations_};
    const FoundPoint best =
        strong_wolfe({0, loss_, gradient_, slope}, found_.step, limits, evaluate_at);
    loss_ = best.point.loss;
    gradient_ = best.point.gradient;
    found_.step = best.point.t;
    move(found_.step);
  }

  /// Keeps what the last step says of the Hessian; then two loops over what is kept.
  Tensor next_direction() {
    const Tensor y = gradient_ - found_.prev_gradient, s = found_.direction * found_.step;
    if (const double ys = product(y, s); ys > 1e-10) remember(y, s, ys);
    Tensor q = neg(gradient_);
    std::vector<double> al(found_.ro.size());
    for (size_t i = al.size(); i-- > 0;) {
      al[i] = product(found_.old_stps[i], q) * found_.ro[i];
      q = q - found_.old_dirs[i] * al[i];
    }
    Tensor r = q * found_.h_diag;
    for (size_t i = 0; i < al.size(); ++i) {
      const double be = product(found_.old_dirs[i], r) * found_.ro[i];
      r = r + found_.old_stps[i] * (al[i] - be);
    }
    return r;
  }

  void remember(const Tensor& y, const Tensor& s, double ys) {
    if (static_cast<int64_t>(found_.ro.size()) == options_.history_size) {
      found_.old_dirs.erase(found_.old_dirs.begin());
      found_.old_stps.erase(found_.old_stps.begin());
      found_.ro.erase(found_.ro.begin());
    }
    found_.old_dirs.push_back(y);
    found_.old_stps.push_back(s);
    found_.ro.push_back(1 / ys);
    found_.h_diag = ys / product(y, y);
  }

  const std::vector<Tensor>& parameters_;
  const LbfgsOptions& options_;
  Found& found_;
  const double lr_;
  const std::function<Tensor()>& closure_;
  int64_t evaluations_ = 0;
  double loss_ = 0;
  Tensor gradient_;
};

Tensor LBFGS::step(const std::function<Tensor()>& closure) {
  if (!closure) ir::fail(Errc::Argument, "LBFGS: step expected a closure, got an empty one");
  const NoGrad no_grad;
  return Pass(*this, closure).run();
}

NamedTensors LBFGS::state_dict() const {
  NamedTensors out = Optimizer::state_dict();
  const auto add = [&](const std::string& name, double value) {
    out.emplace_back(name, full({}, value, f64));
  };
  const std::string group = "param_groups.0.", state = "state.0.";
  for (const auto& [name, count] :
       {std::pair("max_iter", options_.max_iter), std::pair("max_eval", *options_.max_eval),
        std::pair("history_size", options_.history_size)})
    out.emplace_back(group + name, full({}, count, i64));
  add(group + "tolerance_grad", options_.tolerance_grad);
  add(group + "tolerance_change", options_.tolerance_change);
  if (found_.n_iter == 0) return out;
  out.emplace_back(state + "func_evals", full({}, found_.func_evals, i64));
  out.emplace_back(state + "n_iter", full({}, found_.n_iter, i64));
  add(state + "t", found_.step);
  add(state + "prev_loss", found_.prev_loss);
  add(state + "H_diag", found_.h_diag);
  out.emplace_back(state + "d", found_.direction);
  out.emplace_back(state + "prev_flat_grad", found_.prev_gradient);
  for (size_t i = 0; i < found_.ro.size(); ++i) {
    out.emplace_back(fmt::format("{}old_dirs.{}", state, i), found_.old_dirs[i]);
    out.emplace_back(fmt::format("{}old_stps.{}", state, i), found_.old_stps[i]);
  }
  out.emplace_back(state + "ro", vector_of(found_.ro));
  return out;
}

namespace {

Tensor saved_vector(const NamedTensors& state, const std::string& name, const Tensor& like) {
  const Tensor* found = find(state, name);
  if (found == nullptr || found->sizes() != like.sizes())
    ir::fail(Errc::Shape, fmt::format("LBFGS: expected {} {} in the state, got {}", name,
                                      to_string(like.sizes()),
                                      found == nullptr ? "none" : to_string(found->sizes())));
  return found->to(like.dtype()).clone();
}

}  // namespace

void LBFGS::load_state_dict(const NamedTensors& state) {
  const NoGrad no_grad;
  const NamedTensors saved = parts_of(state, "state.0");
  const auto number = [&](const char* name) { return require_number("LBFGS", saved, name); };
  Found next;
  if (!saved.empty()) {
    Dim n = 0;
    for (const Tensor& p : param_groups()[0].parameters) n = n + p.numel();
    const Tensor like = zeros({n}, param_groups()[0].parameters[0].dtype());
    next.func_evals = static_cast<int64_t>(number("func_evals"));
    next.n_iter = static_cast<int64_t>(number("n_iter"));
    next.step = number("t");
    next.prev_loss = number("prev_loss");
    next.h_diag = number("H_diag");
    next.direction = saved_vector(saved, "d", like);
    next.prev_gradient = saved_vector(saved, "prev_flat_grad", like);
    next.ro = numbers_of(saved, "ro");
    for (size_t i = 0; i < next.ro.size(); ++i) {
      next.old_dirs.push_back(saved_vector(saved, fmt::format("old_dirs.{}", i), like));
      next.old_stps.push_back(saved_vector(saved, fmt::format("old_stps.{}", i), like));
    }
  }
  LbfgsOptions options = options_;
  const NamedTensors group = parts_of(state, "param_groups.0");
  const auto read = [&](const char* name, auto& option) {
    if (const auto value = number_of(group, name))
      option = static_cast<std::remove_reference_t<decltype(option)>>(*value);
  };
  int64_t max_eval = *options.max_eval;
  read("max_iter", options.max_iter);
  read("max_eval", max_eval);
  read("history_size", options.history_size);
  read("tolerance_grad", options.tolerance_grad);
  read("tolerance_change", options.tolerance_change);
  options.max_eval = max_eval;
  checked(options);
  Optimizer::load_state_dict(group.empty() ? state : with_prefix("param_groups.0", group));
  options_ = options;
  found_ = std::move(next);
}

}  // namespace tandem::optim
