// The text form of kernels and plans, for goldens and people.
#include <fmt/format.h>

#include <array>

#include "codegen/loops/kernel.h"
#include "codegen/plan.h"
#include "ir/base/error.h"
#include "ir/geometry.h"

namespace tandem::codegen {
namespace {

using Kind = Instr::Kind;

constexpr std::array kUses = {"read", "write", "update"};
constexpr std::array kLoops = {"unit", "serial", "vector"};
constexpr std::array kCombines = {"sum", "prod",   "max",    "min", "any",
                                  "all", "argmax", "argmin", "dot"};

std::string text(const Affine& a) {
  std::string out;
  for (const auto& t : a.terms) {
    if (!out.empty()) out += " + ";
    out += t.stride == 1 ? fmt::format("i{}", t.loop.index)
                         : fmt::format("{} * i{}", t.stride, t.loop.index);
  }
  if (out.empty()) return std::to_string(a.offset);
  return a.offset == 0 ? out : fmt::format("{} + {}", out, a.offset);
}

std::string text(const Access& a) {
  std::string index = text(a.index);
  for (const auto& i : a.indirect)
    index += fmt::format(" + {} * %{} (< {})", i.stride, i.value.index, i.extent);
  return fmt::format("{}{}[{}]{}", a.is_local() ? 'l' : 'p',
                     a.is_local() ? a.local.index : a.param.index, index, a.again ? " again" : "");
}

std::string text(const ir::Number& n) {
  if (n.kind() == ir::Number::Kind::Bool) return n.to_bool() ? "true" : "false";
  return n.is_float() ? fmt::format("{}", n.to_double()) : std::to_string(n.to_int());
}

/// A clamp that never bites is left out.
std::string text(const Kernel& k, LoopId id) {
  const Loop& l = k.loops[id];
  std::string out =
      fmt::format("{} i{} < {}", kLoops[static_cast<size_t>(l.kind)], id.index, l.extent);
  if (l.clamp_loop.valid() && k.loops[l.clamp_loop].extent * l.extent > l.clamp_total)
    out += fmt::format(" and < {} - {} * i{}", l.clamp_total, l.extent, l.clamp_loop.index);
  return out;
}

std::string arguments(const Instr& i) {
  std::string out;
  for (InstrId a : i.args) out += fmt::format("{}%{}", out.empty() ? "" : ", ", a.index);
  return out;
}

std::string text(const Kernel& k, const Instr& i) {
  switch (i.kind) {
    case Kind::LoopBegin:
      return text(k, i.loop) + (i.args.empty() ? " {" : " if " + arguments(i) + " {");
    case Kind::LoopEnd:
      return "}";
    case Kind::Constant:
      return fmt::format("constant {}", text(i.number));
    case Kind::Index:
      return fmt::format("index {}", text(i.affine));
    case Kind::Load:
      return fmt::format("load {}", text(i.access));
    case Kind::Store:
      return fmt::format("store {}, {}", text(i.access), arguments(i));
    case Kind::Compute:
      return fmt::format("{} {}", ir::name(i.op), arguments(i));
    case Kind::RandomBits:
      return fmt::format("random_bits {} at {} + {}", arguments(i), text(i.number), text(i.affine));
    case Kind::Accumulate:
      return fmt::format("accumulate a{}, {}", i.accumulator.index, arguments(i));
    case Kind::Reduced:
      return fmt::format("reduced a{}", i.accumulator.index);
  }
  return {};
}

bool has_value(Kind k) {
  return k != Kind::LoopBegin && k != Kind::LoopEnd && k != Kind::Store && k != Kind::Accumulate;
}

std::string header(const Kernel& k) {
  std::string out = fmt::format("kernel {}(", k.name);
  for (ParamId p : k.params.ids())
    out += fmt::format("{}p{} {} {}", p.index == 0 ? "" : ", ", p.index,
                       kUses[static_cast<size_t>(k.params[p].use)], ir::name(k.params[p].dtype)) +
           (k.params[p].streams ? " streams" : "");
  out += ")\n";
  for (LocalId l : k.locals.ids())
    out += fmt::format("  local l{} {}[{}]\n", l.index, ir::name(k.locals[l].dtype),
                       k.locals[l].elements);
  for (AccumulatorId a : k.accumulators.ids()) {
    const Accumulator& acc = k.accumulators[a];
    out += fmt::format("  accumulator a{} {} {} over i{}, lanes {}, block {}\n", a.index,
                       kCombines[static_cast<size_t>(acc.combine)], ir::name(acc.dtype),
                       acc.loop.index, acc.lanes, acc.block);
  }
  for (LoopId l : k.loops.ids())
    if (k.loops[l].kind == Loop::Kind::Unit) out += fmt::format("  {}\n", text(k, l));
  return out;
}

std::string text(const BufferRef& b) {
  constexpr std::array kNames = {"input", "output", "arena"};
  std::string out = kNames[static_cast<size_t>(b.kind)];
  if (b.kind == BufferRef::Kind::Arena) return fmt::format("{}+{}", out, b.byte_offset);
  out += fmt::format(" {}", b.index);
  return b.byte_offset == 0 ? out : fmt::format("{}+{}", out, b.byte_offset);
}

std::string text(const Plan& plan, const Launch& launch) {
  std::string params;
  for (const BufferRef& b : launch.params) params += (params.empty() ? "" : ", ") + text(b);
  return fmt::format("launch {} {}({}), units {}, grain {}", launch.kernel.index,
                     plan.kernels[launch.kernel].name, params, launch.units, launch.grain);
}

/// The attributes of a branch or loop.
std::string control_text(const ExternalCall& call) {
  std::string out;
  for (const ir::Attr attr : ir::info(call.op).attrs) {
    const ir::AttrValue& value = call.attrs[static_cast<size_t>(ir::attr_index(call.op, attr))];
    if (const auto* body = std::get_if<ir::SubgraphId>(&value))
      out += fmt::format(", {} body {}", ir::name(attr), body->index);
    else if (const auto* count = std::get_if<int64_t>(&value))
      out += fmt::format(", {} {}", ir::name(attr), *count);
    else if (const auto* length = std::get_if<ir::Dim>(&value))
      out += fmt::format(", {} {}", ir::name(attr), int64_t{*length});
    else if (std::get<bool>(value))
      out += fmt::format(", {}", ir::name(attr));
  }
  return out;
}

std::string text(const Plan& /*plan*/, const ExternalCall& external) {
  const auto list = [](const std::vector<ExternalCall::Argument>& arguments) {
    std::string out;
    for (const auto& a : arguments) {
      out += (out.empty() ? "" : ", ") + text(a.buffer) + " " + ir::to_string(a.type);
      if (!ir::is_contiguous(a.type.sizes, a.strides))
        out += " strides " + ir::to_string(a.strides);
    }
    return out;
  };
  if (external.is_control())
    return fmt::format("{} {} = ({}){}", ir::name(external.op), list(external.results),
                       list(external.operands), control_text(external));
  if (!external.is_custom())
    return fmt::format("library {} = {}({})", list(external.results), ir::name(external.op),
                       list(external.operands));
  return fmt::format("external {} = {}({}) {{{}}}", list(external.results), external.custom_name(),
                     list(external.operands), external.numbers());
}

std::string_view precision_text(machine::MatmulPrecision precision) {
  if (precision == machine::MatmulPrecision::Highest) return "";
  return precision == machine::MatmulPrecision::High ? ", high precision" : ", medium precision";
}

std::string text(const Plan& /*plan*/, const MatmulCall& c) {
  const machine::MatmulSpec& s = c.spec;
  const auto batch = [&](const machine::MatrixStrides& of) {
    return s.outer == 1 ? std::to_string(of.batch) : fmt::format("{} {}", of.outer, of.batch);
  };
  return fmt::format(
      "matmul {}x[{}, {}, {}] {} (b {}, r {}) {} {}{} (b {}, r {}, c {}) @ {} (b {}, r {}, c "
      "{}){}",
      s.outer == 1 ? std::to_string(s.batch) : fmt::format("{}x{}", s.outer, s.batch), s.m, s.n,
      s.k, text(c.c), batch(s.c), s.c.row, s.accumulate && !c.bias ? "+=" : "=",
      c.bias        ? text(*c.bias) + " + "
      : s.plus_zero ? "0 + "
                    : "",
      text(c.a), batch(s.a), s.a.row, s.a.col, text(c.b), batch(s.b), s.b.row, s.b.col,
      precision_text(s.precision));
}

}  // namespace

std::string print(const Kernel& kernel) {
  std::string out = header(kernel);
  int depth = 1;
  for (size_t i = 0; i < kernel.code.size(); ++i) {
    const Instr& instr = kernel.code[i];
    if (instr.kind == Kind::LoopEnd) --depth;
    out += std::string(static_cast<size_t>(2 * depth), ' ');
    if (has_value(instr.kind)) out += fmt::format("%{} {} = ", i, ir::name(instr.dtype));
    out += text(kernel, instr) + "\n";
    if (instr.kind == Kind::LoopBegin) ++depth;
  }
  return out;
}

std::string print(const Plan& plan) {
  std::string out = fmt::format("plan {}, arena {} bytes\n", plan.name, plan.arena_bytes);
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    out += fmt::format("  input {} {} strides {}\n", i, ir::to_string(plan.inputs[i].type),
                       ir::to_string(plan.inputs[i].strides));
  for (size_t o = 0; o < plan.outputs.size(); ++o) {
    const PlanOutput& output = plan.outputs[o];
    out += fmt::format("  output {} {} strides {}", o, ir::to_string(output.type),
                       ir::to_string(output.strides));
    if (output.from_input >= 0) out += fmt::format(" is input {}", output.from_input);
    if (output.into_input >= 0) out += fmt::format(" into input {}", output.into_input);
    out += "\n";
  }
  for (const Step& step : plan.steps)
    out += "  " + std::visit([&](const auto& s) { return text(plan, s); }, step) + "\n";
  for (const Kernel& k : plan.kernels) out += print(k);
  for (size_t i = 0; i < plan.bodies.size(); ++i)
    out += fmt::format("body {}: {}", i, print(plan.bodies[i]));
  return out;
}

}  // namespace tandem::codegen
