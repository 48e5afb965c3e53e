"""What PyTorch gives as the gradient of every operand: a gradient, zeros, None, or an error.

Writes tests/torch/gradient_kinds.tsv: case, then for each input
  grad      a gradient that is not all zeros
  zeros     zeros
  none      None: no path leads there
  constant  the result does not require grad
  refuses   an error, forward or backward
Inputs are the vectors below; of several results only the last one is differentiated. The cases are
those of tests/ops/gradient_kinds_test.cpp. Run by hand where PyTorch is installed:

    python tests/torch/gradient_kinds.py
"""
import pathlib

import torch
import torch.nn.functional as F

UNARY = """neg abs sign floor ceil round trunc exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan
asin acos atan sinh cosh tanh asinh acosh atanh erf erfc sigmoid logical_not bitwise_not relu relu6 selu silu mish
hardsigmoid hardswish logit square frac lgamma digamma erfinv i0 deg2rad rad2deg sinc""".split()
UNARY_ONLY = "softsign log_sigmoid isnan isinf isfinite angle signbit isneginf isposinf".split()
BINARY = """add sub mul div floor_divide remainder fmod pow atan2 maximum minimum logical_and logical_or logical_xor
bitwise_and bitwise_or bitwise_xor shift_left shift_right hypot copysign xlogy gcd heaviside nextafter lcm ldexp float_power""".split()
BINARY_ONLY = "eq ne lt le gt ge logaddexp logaddexp2 fmax fmin".split()
NAMES = {"log_sigmoid": F.logsigmoid, "shift_left": torch.bitwise_left_shift, "shift_right": torch.bitwise_right_shift,
         "relu6": F.relu6, "silu": F.silu, "mish": F.mish, "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish,
         "softsign": F.softsign}
IN_PLACE = {"relu6": lambda y: F.relu6(y, inplace=True), "silu": lambda y: F.silu(y, inplace=True),
            "mish": lambda y: F.mish(y, inplace=True), "hardsigmoid": lambda y: F.hardsigmoid(y, inplace=True),
            "hardswish": lambda y: F.hardswish(y, inplace=True), "selu": lambda y: F.selu(y, inplace=True),
            "shift_left": lambda y, b: y.bitwise_left_shift_(b), "shift_right": lambda y, b: y.bitwise_right_shift_(b)}
MASK = torch.tensor([True, False, True])
INDEX = torch.tensor([0, 0])


def written(write):
    def run(x, *others):
        y = x * 1
        write(y, *others)
        return y
    return run


def without_grad(write):
    def run(x, *others):
        y = x * 1
        with torch.no_grad():
            write(y, *others)
        return y
    return run


def view_of_written(x, b):
    y = x * 1
    v = y[:2]
    v.copy_(b[:2])
    return v


def all_of_written(x, b):
    y = x * 1
    v = y.view(3, 1)
    v.copy_(b.view(3, 1))
    return v * 1


def twice(x, b):
    y = x * 1
    y.zero_()
    y.copy_(b)
    return y


def without_grad_in_between(x, b):
    y = x * 1
    y.zero_()
    with torch.no_grad():
        y.fill_(2)
    return y * b


def cases():
    for op in UNARY + UNARY_ONLY:
        yield op, NAMES.get(op) or getattr(torch, op), 1
    for op in UNARY:
        if op in ("asinh", "acosh", "atanh", "logical_not"):  # refused, and passed on to what is gone
            continue
        yield op + "_", written(IN_PLACE.get(op) or (lambda y, op=op: getattr(y, op + "_")())), 1
    for op in BINARY + BINARY_ONLY:
        yield op, NAMES.get(op) or getattr(torch, op), 2
    for op in BINARY:
        # No writing form in PyTorch; and of logical ops a gradient that passes on to what is gone.
        if op not in ("maximum", "minimum", "logical_and", "logical_or", "logical_xor"):
            yield op + "_", written(IN_PLACE.get(op) or (lambda y, b, op=op: getattr(y, op + "_")(b))), 2
    for op in "eq ne lt le gt ge".split():
        yield op + "_", written(lambda y, b, op=op: getattr(y, op + "_")(b)), 2
    yield "floor_divide_number", lambda a: a // 2, 1
    yield "floor_divide_of_number", lambda a: 2 // a, 1
    yield "floor_divide_beside", lambda a, b: [a // 2, b * 2], 2
    yield "floor_divide_partly", lambda a, b: (a.detach() // 2) * b, 2
    yield "where", lambda a, b: torch.where(MASK, a, b), 2
    yield "where_all", lambda a, b: torch.where(MASK | ~MASK, a, b), 2
    yield "masked_fill", lambda a, b: a.masked_fill(MASK, b.sum()), 2
    yield "masked_fill_", written(lambda y, b: y.masked_fill_(MASK, b.sum())), 2
    yield "clamp", lambda a: a.clamp(0.3, 0.6), 1
    yield "hardtanh", lambda a: F.hardtanh(a, 2, 3), 1
    yield "clamp_min", lambda a, b: a.clamp_min(b), 2
    yield "clamp_max", lambda a, b: a.clamp_max(b), 2
    yield "lerp", lambda a, b: torch.lerp(a, b, 0.5), 2
    yield "addcmul", lambda a, b: torch.addcmul(a, a, b), 2
    yield "addcdiv", lambda a, b: torch.addcdiv(b, a, b), 2
    yield "nan_to_num", lambda a: torch.nan_to_num(a), 1
    yield "clamp_both", lambda a, b: torch.clamp(a, a, b), 2
    yield "clamp_crossed", lambda a, b: torch.clamp(a, b, a), 2
    yield "isclose", torch.isclose, 2
    yield "div_trunc", lambda a, b: torch.div(a, b, rounding_mode="trunc"), 2
    yield "div_floor", lambda a, b: torch.div(a, b, rounding_mode="floor"), 2
    yield "round_decimals", lambda a: torch.round(a, decimals=1), 1
    yield "hardshrink", lambda a: F.hardshrink(a, 2), 1
    yield "softshrink", lambda a: F.softshrink(a, 2), 1
    yield "threshold", lambda a: F.threshold(a, 2, 3), 1
    yield "positive", torch.positive, 1
    yield "prelu", lambda a, b: F.prelu(-a, b[:1]), 2
    yield "prelu_unused", lambda a, b: F.prelu(a, b[:1]), 2
    yield "zeta_of_number", lambda a: torch.special.zeta(2.0, a), 1
    yield "zeta", lambda a, b: torch.special.zeta(b, a), 2
    yield "zeta_partly", lambda a, b: torch.special.zeta(b.detach(), a), 2
    yield "to_integers_and_back", lambda a: a.to(torch.int32).to(torch.float32), 1
    yield "to_f64", lambda a: a.to(torch.float64), 1
    yield "detach", lambda a: a.detach() * 2, 1
    yield "detach_partly", lambda a, b: a.detach() * b, 2
    yield "detach_and_not", lambda a: a.detach() * a, 1
    yield "zeros_like", lambda a: torch.zeros_like(a), 1
    for op in "sum prod mean amax amin var std any all argmax argmin".split():
        yield op, getattr(torch, op), 1
    yield "max", lambda a: torch.max(a, 0)[0], 1
    yield "min", lambda a: torch.min(a, 0, True)[0], 1
    yield "indices_of_max", lambda a: torch.max(a, 0)[1], 1
    yield "min_of_aminmax", lambda a: torch.aminmax(a)[0], 1
    yield "max_of_aminmax", lambda a: torch.aminmax(a, dim=0)[1], 1
    yield "var_of_var_mean", lambda a: torch.var_mean(a)[0], 1
    yield "mean_of_var_mean", lambda a: torch.var_mean(a)[1], 1
    yield "std_of_std_mean", lambda a: torch.std_mean(a)[0], 1
    yield "mean_of_std_mean", lambda a: torch.std_mean(a)[1], 1
    yield "layer_norm", lambda a, b: F.layer_norm(a, (3,), b).exp(), 2
    yield "layer_norm_without_weight", lambda a, b: F.layer_norm(a, (3,), None, b).exp(), 2
    # (Of the statistics of a norm PyTorch has no gradient.)
    yield "layer_norm_beside_rstd", lambda a, b: [None, torch.native_layer_norm(a, (3,), b, None, 1e-5)[0].exp()], 2
    yield "softmax", lambda a, b: torch.softmax(a, 0) * b, 2
    yield "logsumexp", lambda a: torch.logsumexp(a, 0), 1
    yield "cat", lambda a, b: torch.cat([a, b]), 2
    yield "cat_with_empty", lambda a, b: torch.cat([a, b[:0]]), 2
    yield "cat_of_empty", lambda a, b: torch.cat([a[:0], b[:0]]), 2
    yield "cat_with_filler", lambda a, b: torch.cat([a.view(1, 3), b[:0]], 1), 2
    yield "cat_with_empty_matrix", lambda a, b: torch.cat([a.view(3, 1), b.view(3, 1)[:, :0]], 1), 2
    yield "stack", lambda a, b: torch.stack([a, b]), 2
    yield "slice_of_nothing", lambda a: a[:0], 1
    yield "sum_of_nothing", lambda a: a[:0].sum(), 1
    yield "index_select", lambda a: a.index_select(0, INDEX), 1
    yield "gather", lambda a: a.gather(0, INDEX), 1
    yield "index_add", lambda a, b: a.index_add(0, INDEX, b[:2]), 2
    yield "scatter", lambda a, b: a.scatter(0, INDEX, b[:2]), 2
    yield "scatter_all", lambda a, b: a.scatter(0, torch.tensor([2, 1, 0]), b), 2
    yield "scatter_add", lambda a, b: a.scatter_add(0, INDEX, b[:2]), 2
    yield "index_copy", lambda a, b: a.index_copy(0, INDEX, b[:2]), 2
    yield "index_fill", lambda a, b: a.index_fill(0, INDEX, b.sum()), 2
    yield "index_put", lambda a, b: a.index_put((INDEX,), b[:2]), 2
    yield "take_nothing", lambda a: a.index_select(0, INDEX[:0]), 1
    yield "zero_", written(lambda y: y.zero_()), 1
    yield "fill_", written(lambda y: y.fill_(2)), 1
    yield "fill_with_tensor", written(lambda y, b: y.fill_(b.sum())), 2
    yield "copy_", written(lambda y, b: y.copy_(b)), 2
    yield "copy_of_constant", written(lambda y, b: y.copy_(b.detach())), 2
    yield "copy_to_view_of_all", written(lambda y, b: y[:].copy_(b)), 2
    yield "copy_to_part", written(lambda y, b: y[:2].copy_(b[:2])), 2
    yield "zero_part", written(lambda y: y[:2].zero_()), 1
    yield "zero_all_parts", written(lambda y: (y[:2].zero_(), y[2:].zero_())), 1
    yield "zero_transposed", written(lambda y: y.view(3, 1).t().zero_()), 1
    yield "uniform_", written(lambda y: y.uniform_()), 1
    yield "normal_", written(lambda y: y.normal_()), 1
    yield "index_fill_", written(lambda y: y.index_fill_(0, torch.tensor([0, 1, 2]), 1.0)), 1
    yield "zero_without_grad", without_grad(lambda y: y.zero_()), 1
    yield "copy_without_grad", without_grad(lambda y, b: y.copy_(b)), 2
    yield "zero_of_detached", written(lambda y: y.detach().zero_()), 1
    yield "view_of_written", view_of_written, 2
    yield "all_of_written", all_of_written, 2
    yield "written_twice", twice, 2
    yield "without_grad_in_between", without_grad_in_between, 2
    yield "sign_unused", lambda a, b: [torch.sign(a), b * 2], 2
    yield "sign_and_more", lambda a, b: [torch.sign(a), a * b], 2
    yield "sign_of_sqrt_of_zero", lambda a: torch.sign(torch.sqrt(a - a)), 1
    yield "zero_unused", lambda a, b: [written(lambda y: y.zero_())(a), b * 2], 2


def kinds(run, count):
    inputs = [torch.tensor(v, requires_grad=True) for v in ([0.25, 0.5, 0.75], [2.0, 3.0, 4.0])][:count]
    try:
        result = run(*inputs)
        result = result[-1] if isinstance(result, list) else result
        if not result.requires_grad:
            return ["constant"] * count
        grads = torch.autograd.grad(result.sum(), inputs, allow_unused=True)
    except RuntimeError:
        return ["refuses"] * count
    return ["none" if g is None else "zeros" if (g == 0).all() else "grad" for g in grads]


def main():
    rows = ["\t".join([name, *kinds(run, count)]) for name, run, count in cases()]
    pathlib.Path(__file__).with_suffix(".tsv").write_text("\n".join(rows) + "\n")


main()
