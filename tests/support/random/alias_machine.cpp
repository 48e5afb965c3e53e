#include "tests/support/random/alias_machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/strides.h"
#include "runtime/tape/autograd.h"

namespace tandem::testing {
namespace {

using Step = AliasProgram::Step;

constexpr double kLargestFactor = 1 << 6;

bool broadcasts_to(const Shape& from, const Shape& to) {
  if (from.rank() > to.rank()) return false;
  for (int d = 1; d <= from.rank(); ++d)
    if (from[from.rank() - d] != 1 && from[from.rank() - d] != to[to.rank() - d]) return false;
  return true;
}

Tensor expanded(const Tensor& t) {
  std::vector<Dim> sizes{2};
  sizes.insert(sizes.end(), t.sizes().begin(), t.sizes().end());
  return t.expand(Shape(sizes));
}

/// bool, integers, floats: what is written may be of no higher kind than where it goes.
int kind_of(const Tensor& t) {
  return t.dtype() == boolean ? 0 : ir::is_floating(t.dtype()) ? 2 : 1;
}

/// Of the kinds of writes.
constexpr bool kTakesBool[14] = {true, true,  false, false, true,  true,  false,
                                 true, false, false, false, false, false, true};

/// What a write of `written` reads of `t`: mostly a copy where eager refuses to read it in place.
Tensor to_read(const Tensor& written, const Tensor& t, runtime::Sharing allowed, bool as_it_is) {
  return as_it_is || runtime::is_apart(written, t, allowed) ? t : t.clone();
}

}  // namespace

double largest_exact(DType dtype) {
  if (dtype == f16) return 1 << 8;
  if (dtype == bf16) return 1 << 5;
  return 1 << 21;
}

uint32_t AliasMachine::operand_for(const Tensor& t, uint32_t n) const {
  for (uint32_t i = 0; i < pool_.size(); ++i)
    if (broadcasts_to(at(n + i).sizes(), t.sizes())) return number(n + i);
  return 0;
}

void AliasMachine::add(Tensor t, const std::string& what) {
  if (text_) text_->push_back(fmt::format("t{} = {}", pool_.size(), what));
  pool_.push_back(std::move(t));
}

void AliasMachine::say(std::string what) {
  if (text_) text_->push_back(std::move(what));
}

void AliasMachine::view(const Step& s) {
  const Tensor t = at(s.a);
  const std::string name = fmt::format("t{}", number(s.a));
  const int64_t rank = t.dim();
  const int64_t d = rank > 0 ? s.b % rank : 0;
  const int64_t n = rank > 0 ? int64_t{t.size(d)} : 0;
  switch (s.c % 14) {
    case 0:
      if (n > 0)
        add(t.select(d, s.c / 14 % n), fmt::format("{}.select({}, {})", name, d, s.c / 14 % n));
      return;
    case 1: {
      if (n < 2) return;
      const int64_t start = s.c / 14 % n, end = start + 1 + s.c / 100 % (n - start);
      return add(t.slice(d, start, end), fmt::format("{}.slice({}, {}, {})", name, d, start, end));
    }
    case 2:
      if (n > 2)
        add(t.slice(d, s.c / 14 % 2, n, 2),
            fmt::format("{}.slice({}, {}, {}, 2)", name, d, s.c / 14 % 2, n));
      return;
    case 3:
      if (rank > 1)
        add(t.transpose(d, (d + 1) % rank),
            fmt::format("{}.transpose({}, {})", name, d, (d + 1) % rank));
      return;
    case 4:
      if (t.is_contiguous()) add(t.view({-1}), fmt::format("{}.view({{-1}})", name));
      return;
    case 5:
      if (t.is_contiguous() && int64_t{t.numel()} % 2 == 0 && int64_t{t.numel()} > 0)
        add(t.view({2, int64_t{t.numel()} / 2}),
            fmt::format("{}.view({{2, {}}})", name, int64_t{t.numel()} / 2));
      return;
    case 6:
      if (t.is_contiguous() && int64_t{t.numel()} % 3 == 0 && int64_t{t.numel()} > 0)
        add(t.view({int64_t{t.numel()} / 3, 3}),
            fmt::format("{}.view({{{}, 3}})", name, int64_t{t.numel()} / 3));
      return;
    case 7:
      return add(t.unsqueeze(0), name + ".unsqueeze(0)");
    case 8:
      return add(t.squeeze(), name + ".squeeze()");
    case 9:
      if (rank > 1) add(t.diagonal(), name + ".diagonal()");
      return;
    case 10:
      if (rank < 3) add(expanded(t), name + ".expand({2, ...})");
      return;
    case 11:
      return add(t.detach(), name + ".detach()");
    case 12: {
      if (n < 2) return;
      const bool chunk = s.c / 14 % 2 == 0;  // such parts may not be written in grad mode
      const Tensors parts = chunk ? t.chunk(2, d) : t.tensor_split(2, d);
      const char* op = chunk ? "chunk" : "tensor_split";
      add(parts[0], fmt::format("{}.{}(2, {})[0]", name, op, d));
      return add(parts[1], fmt::format("{}.{}(2, {})[1]", name, op, d));
    }
    default:
      return add(t.alias(), name + ".alias()");
  }
}

void AliasMachine::arithmetic(const Step& s) {
  const Tensor a = at(s.a);
  const uint32_t other = operand_for(a, s.b);
  const Tensor b = pool_[other];
  const std::string x = fmt::format("t{}", number(s.a)), y = fmt::format("t{}", other);
  switch (s.c % 7) {
    case 0:
    case 1:
      bound_ *= 2;
      return add(a + b, x + " + " + y);
    case 2:
      if (kind_of(a) == 0 || kind_of(b) == 0) return;
      bound_ *= 2;
      return add(a - b, x + " - " + y);
    case 3:
      if (bound_ > kLargestFactor) return;
      bound_ *= bound_;
      return add(a * b, x + " * " + y);
    case 4:
      bound_ *= 2;
      return add(a * 2, x + " * 2");
    case 5:
      if (kind_of(a) > 0) add(relu(a), "relu(" + x + ")");
      return;
    default:
      return add(a.clone(), x + ".clone()");
  }
}

void AliasMachine::write(const Step& s) {
  const Tensor a = at(s.a);
  if (ir::self_overlaps(a.sizes(), a.strides()) && s.c % 5 != 0) return;  // mostly an error
  const uint32_t other = operand_for(a, s.b);
  if (kind_of(pool_[other]) > kind_of(a)) return;
  const uint32_t kind = s.c / 5 % 14;
  if (kind_of(a) == 0 && !kTakesBool[kind]) return;
  const bool same = pool_[other].dtype() == a.dtype();
  const auto read = [&](const Tensor& t, runtime::Sharing allowed) {
    return to_read(a, t, allowed, s.c / 1000 % 8 == 0);
  };
  const Tensor given = pool_[other], b = read(given, runtime::Sharing::AllOrNothing);
  const std::string x = fmt::format("t{}", number(s.a)),
                    y = fmt::format("t{}{}", other, b.is_same(given) ? "" : ".clone()");
  switch (kind) {
    case 0:
    case 1:
      bound_ *= 2;
      say(x + ".add_(" + y + ")");
      a.add_(b);
      return;
    case 2:
      if (kind_of(b) == 0) return;
      bound_ *= 2;
      say(x + ".sub_(" + y + ")");
      a.sub_(b);
      return;
    case 3:
      bound_ *= 2;
      say(x + ".mul_(-2)");
      a.mul_(-2);
      return;
    case 4:
      if (bound_ > kLargestFactor) return;
      bound_ *= bound_;
      say(x + ".mul_(" + y + ")");
      a.mul_(b);
      return;
    case 5:
      say(x + ".fill_(3)");
      a.fill_(3);
      return;
    case 6:
      say(x + ".relu_()");
      a.relu_();
      return;
    case 7: {
      if (a.dim() == 0 || b.numel() == 0 || !same) return;
      const bool accumulate = s.c / 70 % 2 == 0;
      bound_ *= 2;
      say(fmt::format("{}.index_put_({{{} > 0}}, first of {}, {})", x, y, y, accumulate));
      const Tensor value = b.reshape({-1}).slice(0, 0, 1);
      a.index_put_({expand_as(b > 0, a)}, read(value, runtime::Sharing::Nothing), accumulate);
      return;
    }
    case 8:
    case 9:
      say(x + (kind == 8 ? ".remainder_(3)" : ".fmod_(-2)"));
      kind == 8 ? a.remainder_(3) : a.fmod_(-2);
      return;
    case 10:
      if (kind_of(a) != 1) return;  // of floats it has no gradient
      say(x + ".floor_divide_(2)");
      a.floor_divide_(2);
      return;
    case 11:
    case 12: {
      if (a.dim() == 0 || !same) return;
      const int64_t d = s.c / 70 % a.dim();
      const Tensor rows = arange(int64_t{a.size(d)});
      bound_ *= 2;
      say(fmt::format("{}.index_add_({}, arange, {} expanded)", x, d, y));
      a.index_add_(d, rows, read(expand_as(b, a), runtime::Sharing::Nothing));
      return;
    }
    default:
      say(x + ".copy_(" + y + ")");
      a.copy_(b);
      return;
  }
}

void AliasMachine::run(const Step& s) {
  if (bound_ > largest_ / 16) return;
  const uint32_t kind = s.kind % 16;
  const bool no_grad = kind == 0 || kind == 7;
  const GradMode mode(grad_enabled() && !no_grad);
  if (no_grad) say("{ NoGrad:");
  if (kind < 6)
    view(s);
  else if (kind < 11)
    write(s);
  else
    arithmetic(s);
  if (no_grad) say("}");
}

int AliasMachine::try_to_run(const Step& s) {
  try {
    run(s);
    return -1;
  } catch (const Error& e) {
    say(e.what());
    return static_cast<int>(e.code());
  }
}

}  // namespace tandem::testing
