"""What PyTorch computes, and its gradients, for the calls of tests/ops/pointwise_values.inc.

Writes tests/torch/pointwise_values.tsv: call, x, (y,) the result and, by operand, the gradient of the sum of all results (`none` where
PyTorch has none; `?` where it is a matter of its arithmetic). Run by hand where PyTorch is installed:

    python tests/torch/pointwise_values.py
"""
import itertools
import pathlib
import re
import warnings

import torch

import result_types

HERE = pathlib.Path(__file__).parent
NAN, INF = float("nan"), float("inf")
NUMBERS = [NAN, INF, -INF, 0.0, -0.0, 0.25, -0.25, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 2.5, -2.75, 7.25, -7.25, 12.0, -12.5, 90.0, -20.0, 1e-3, 1e-30]
PAIRS = list(itertools.product([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0], repeat=2))
INTEGERS = [(x, y) for x in (0, 1, 2, 12, -12, 18, -7, 100, -2**62) for y in (1, 2, 3, -4, -9, 18, 30)]


# Calls and an x at which PyTorch is not near the true value, and whether that is so of the result.
TRIGAMMA = {str(x): False for x in NUMBERS}  # has an error of 6e-10; the true values are in special_functions.tsv
ODD = {
    "digamma(x)": TRIGAMMA, "special::psi(x)": TRIGAMMA, "polygamma(0, x)": TRIGAMMA,
    "special::i1(x)": {"nan": False}, "special::i1e(x)": {"nan": False}, "special::log_ndtr(x)": {"-inf": False},
    "polygamma(2, x)": {"inf": True}, "polygamma(3, x)": {"inf": True}, "mvlgamma(x, 1)": {"-0.0": False},
}


def calls():
    for line in (HERE.parent / "ops/pointwise_values.inc").read_text().splitlines():
        if not line.startswith("//"):
            yield from re.findall(r"\b(UNARY|BINARY|INTEGERS)\((.*?)\)(?= (?:UNARY|BINARY|INTEGERS)\(|$)", line)


def operands(kind):
    if kind == "UNARY":
        return [torch.tensor(NUMBERS, dtype=torch.float64, requires_grad=True)]
    if kind == "BINARY":
        return [torch.tensor(column, dtype=torch.float64, requires_grad=True) for column in zip(*PAIRS)]
    return [torch.tensor(column) for column in zip(*INTEGERS)]


def gradients(result, inputs):
    if not result.requires_grad:
        return [None] * len(inputs)
    try:
        return torch.autograd.grad(result.sum(), inputs, allow_unused=True)
    except RuntimeError:
        return [None] * len(inputs)


def rows(kind, call):
    inputs = operands(kind)
    names = result_types.Names(result_types.HELPERS, **dict(zip("xy", inputs)))
    result = eval(result_types.translated(call), {}, names)
    found = gradients(result, inputs)
    for i in range(len(inputs[0])):
        odd = ODD.get(call, {}).get(str(inputs[0][i].item()))
        value = "?" if odd else str(result[i].item())
        slopes = ["none" if g is None else "?" if odd is not None else str(g[i].item()) for g in found]
        yield [call, *(str(x[i].item()) for x in inputs), value, *slopes]


def main():
    warnings.simplefilter("ignore")
    lines = ["\t".join(row) for kind, call in calls() for row in rows(kind, call)]
    (HERE / "pointwise_values.tsv").write_text("\n".join(lines) + "\n")


main()
