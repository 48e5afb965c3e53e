"""Which writes PyTorch refuses because what is written and an operand share memory.

Writes tests/torch/overlaps.tsv: a call, then for each way in which w (written) and x (read) lie in one memory `refused`, `done`, or
`-` where the call has another error. tests/e2e/views/overlaps_test.cpp makes the same calls. Run by hand where PyTorch is installed:

    python tests/torch/overlaps.py
"""
import pathlib
import warnings

import torch

HERE = pathlib.Path(__file__).parent
FLOAT, INT, BOOL = torch.float64, torch.int64, torch.bool

# Of memory of 40 ones.
PLACES = {
    "same": lambda m, w: w,
    "alias": lambda m, w: w.view(3, 3),
    "shifted": lambda m, w: m[3:12].view(3, 3),
    "apart": lambda m, w: m[9:18].view(3, 3),
    "gapped": lambda m, w: m.as_strided((3, 3), (6, 2), 0),
    "transposed": lambda m, w: w.t(),
    "repeated": lambda m, w: w[0].expand(3, 3),
    "row": lambda m, w: w[0],
    "element": lambda m, w: w[0, 0],
    "converted": lambda m, w: m.view(torch.int64)[3:12].view(3, 3) if m.dtype == FLOAT else m[3:12].view(torch.float64).view(3, 3),
}


def ones(w, *sizes, dtype=None):
    return torch.ones(sizes or (3, 3), dtype=dtype or w.dtype)


def in_place(name):
    return lambda w, x: getattr(w, name)(x)


def row(x):
    return x[0] if x.dim() == 2 else x


def out_of(op):
    return lambda w, x: op(x, ones(w), out=w)


def unary_out(op, *more):
    return lambda w, x: op(x, *more, out=w)


INDEX = dict(dtype=INT)
CALLS = {
    **{f"{op}_": (FLOAT, in_place(f"{op}_")) for op in (
        "add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "atan2", "logical_and", "logical_or", "logical_xor", "hypot",
        "copysign", "xlogy", "nextafter", "heaviside", "float_power", "eq", "ne", "lt", "le", "gt", "ge", "clamp_min", "clamp_max", "copy")},
    **{f"{op}_": (INT, in_place(f"{op}_")) for op in ("bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm")},
    "fill_": (FLOAT, in_place("fill_")),
    "lerp_ end": (FLOAT, lambda w, x: w.lerp_(x, 0.5)),
    "lerp_ weight": (FLOAT, lambda w, x: w.lerp_(ones(w), x)),
    "addcmul_ tensor1": (FLOAT, lambda w, x: w.addcmul_(x, ones(w))),
    "addcmul_ tensor2": (FLOAT, lambda w, x: w.addcmul_(ones(w), x)),
    "addcdiv_ tensor2": (FLOAT, lambda w, x: w.addcdiv_(ones(w), x)),
    "masked_fill_ mask": (BOOL, lambda w, x: w.masked_fill_(x, True)),
    "masked_fill_ value": (FLOAT, lambda w, x: w.masked_fill_(ones(w, dtype=BOOL), x)),
    "addmm_ mat1": (FLOAT, lambda w, x: w.addmm_(x, ones(w))),
    "index_add_ index": (INT, lambda w, x: w.index_add_(0, row(x), ones(w))),
    "index_add_ src": (FLOAT, lambda w, x: w.index_add_(0, ones(w, 3, **INDEX), x)),
    "index_copy_ index": (INT, lambda w, x: w.index_copy_(0, row(x), ones(w))),
    "index_copy_ src": (FLOAT, lambda w, x: w.index_copy_(0, ones(w, 3, **INDEX), x)),
    "index_fill_ index": (INT, lambda w, x: w.index_fill_(0, row(x), 2)),
    "index_fill_ value": (FLOAT, lambda w, x: w.index_fill_(0, ones(w, 3, **INDEX), x)),
    "scatter_ index": (INT, lambda w, x: w.scatter_(0, x, ones(w))),
    "scatter_ src": (FLOAT, lambda w, x: w.scatter_(0, ones(w, **INDEX), x)),
    "scatter_add_ index": (INT, lambda w, x: w.scatter_add_(0, x, ones(w))),
    "scatter_add_ src": (FLOAT, lambda w, x: w.scatter_add_(0, ones(w, **INDEX), x)),
    "index_put_ index": (INT, lambda w, x: w.index_put_((row(x),), ones(w))),
    "index_put_ values": (FLOAT, lambda w, x: w.index_put_((ones(w, 3, **INDEX),), x)),
    "index_put_ mask": (BOOL, lambda w, x: w.index_put_((x,), ones(w, 1))),
    "masked_scatter_ mask": (BOOL, lambda w, x: w.masked_scatter_(x, ones(w))),
    "masked_scatter_ src": (FLOAT, lambda w, x: w.masked_scatter_(ones(w, dtype=BOOL), x)),
    **{f"{op}_out": (FLOAT, out_of(getattr(torch, op))) for op in ("add", "mul", "pow", "maximum", "eq", "logaddexp", "matmul", "mm")},
    **{f"{op}_out": (FLOAT, unary_out(getattr(torch, op))) for op in ("neg", "exp", "sqrt", "logical_not")},
    "sum_out": (FLOAT, lambda w, x: torch.sum(x, (1,), keepdim=False, out=w[:, 0])),
    "amax_out": (FLOAT, lambda w, x: torch.amax(x, (1,), out=w[:, 0])),
    "where_out": (FLOAT, lambda w, x: torch.where(ones(w, dtype=BOOL), x, ones(w), out=w)),
    "clamp_out": (FLOAT, unary_out(torch.clamp, 0, 1)),
    "lerp_out": (FLOAT, lambda w, x: torch.lerp(x, ones(w), 0.5, out=w)),
    "addcmul_out": (FLOAT, lambda w, x: torch.addcmul(x, ones(w), ones(w), out=w)),
    "addcdiv_out": (FLOAT, lambda w, x: torch.addcdiv(x, ones(w), ones(w), out=w)),
    "tril_out": (FLOAT, unary_out(torch.tril)),
    "softmax_out": (FLOAT, lambda w, x: torch.softmax(x, 0, out=w)),
    "log_softmax_out": (FLOAT, lambda w, x: torch.log_softmax(x, 0, out=w)),
    "addmm_out self": (FLOAT, lambda w, x: torch.addmm(x, ones(w), ones(w), out=w)),
    "addmm_out mat1": (FLOAT, lambda w, x: torch.addmm(ones(w), x, ones(w), out=w)),
    "cat_out": (FLOAT, lambda w, x: torch.cat((x[:2] if x.dim() == 2 else x, ones(w, 1, 3)), 0, out=w)),
    "stack_out": (FLOAT, lambda w, x: torch.stack((row(x), ones(w, 3), ones(w, 3)), 0, out=w)),
    "index_select_out self": (FLOAT, lambda w, x: torch.index_select(x, 0, ones(w, 3, **INDEX), out=w)),
    "index_select_out index": (INT, lambda w, x: torch.index_select(ones(w), 0, row(x), out=w)),
    "gather_out self": (FLOAT, lambda w, x: torch.gather(x, 0, ones(w, **INDEX), out=w)),
    "gather_out index": (INT, lambda w, x: torch.gather(ones(w), 0, x, out=w)),
    "index_add_out self": (FLOAT, lambda w, x: torch.index_add(x, 0, ones(w, 3, **INDEX), ones(w), out=w)),
    "index_add_out src": (FLOAT, lambda w, x: torch.index_add(ones(w), 0, ones(w, 3, **INDEX), x, out=w)),
    "scatter_add_out self": (FLOAT, lambda w, x: torch.scatter_add(x, 0, ones(w, **INDEX), ones(w), out=w)),
    "scatter_add_out src": (FLOAT, lambda w, x: torch.scatter_add(ones(w), 0, ones(w, **INDEX), x, out=w)),
    "scatter_out self": (FLOAT, lambda w, x: torch.scatter(x, 0, ones(w, **INDEX), ones(w), out=w)),
    "scatter_out src": (FLOAT, lambda w, x: torch.scatter(ones(w), 0, ones(w, **INDEX), x, out=w)),
    "index_copy_out src": (FLOAT, lambda w, x: torch.index_copy(ones(w), 0, ones(w, 3, **INDEX), x, out=w)),
}


def verdict(call, dtype, place):
    memory = torch.ones(40, dtype=dtype)
    w = memory[:9].view(3, 3)
    try:
        x = place(memory, w)
        call(w, x)
        return "done"
    except (RuntimeError, IndexError, TypeError, UserWarning) as error:
        return "refused" if "single memory location" in str(error) else "-"


def main():
    warnings.simplefilter("error")  # it resizes what has other sizes
    lines = ["call\t" + "\t".join(PLACES)]
    for name, (dtype, call) in CALLS.items():
        lines.append(name + "\t" + "\t".join(verdict(call, dtype, place) for place in PLACES.values()))
    (HERE / "overlaps.tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
