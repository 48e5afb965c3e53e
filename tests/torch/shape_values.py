"""What PyTorch gives, and its gradients, for the calls of tests/ops/shape_values.inc.

Writes tests/torch/shape_values.tsv: call, kind of x, sizes of the result, its elements, and the gradient for x of the sum of the elements
times 1, 2, 3, ... (`none` where PyTorch has none). Run by hand where PyTorch is installed:

    python tests/torch/shape_values.py
"""
import math
import pathlib
import re
import warnings

import torch

import result_types

HERE = pathlib.Path(__file__).parent
SIZES = {"NUMBER": (), "LINE": (5,), "MATRIX": (3, 4), "CUBE": (2, 3, 4), "IMAGE": (1, 2, 3, 4), "EMPTY": (0, 3), "MASKED": (3, 4)}


def put(x, places, values):
    written = x.clone()
    written[tuple(places)] = values
    return written


HELPERS = {
    "written": put, "cartesian_prod": lambda tensors: torch.cartesian_prod(*tensors), "unravel_index": lambda i, sizes: tuple(torch.unravel_index(i, sizes)), "nonzero_static": lambda x, size, fill=-1: torch.nonzero_static(x, size=size, fill_value=fill),
}


def calls():
    kinds = "|".join(SIZES)
    for line in (HERE.parent / "ops/shape_values.inc").read_text().splitlines():
        if not line.startswith("//"):
            yield from re.findall(rf"\b({kinds})\((.*?)\)(?= (?:{kinds})\(|$)", line)


def translated(call):
    call = re.sub(r"(\w+(?:\[0\])*)\.slice\((.*?)\)", r"slice_of(\1, \2)", call)
    call = call.replace("index(x, {})", "index(x, [])").replace("pad(x, {}, ", "pad(x, [], ")
    return result_types.translated(call)


def texts(t):
    return " ".join(repr(v) if isinstance(v, int) or not float(v).is_integer() else str(int(v)) for v in t.flatten().double().tolist()) or "-"


def row(kind, call):
    sizes = SIZES[kind]
    x = (torch.arange(math.prod(sizes), dtype=torch.float64) + 1).view(sizes).requires_grad_()
    names = result_types.Names(result_types.HELPERS, x=x, mask=x.detach() % 3 == 0, i=torch.tensor([2, 0, -1]), j=torch.tensor([[0], [1]]),
                               n=torch.tensor([1, 0, 2]), **HELPERS)
    result = eval(translated(call), {}, names)
    gradient = "none"
    if result.requires_grad:
        weights = (torch.arange(result.numel(), dtype=torch.float64) + 1).view(result.shape)
        gradient = texts(torch.autograd.grad((result * weights).sum(), x)[0])
    return [call, kind, str(list(result.shape)).replace(" ", ""), texts(result.detach()), gradient]


def main():
    warnings.simplefilter("ignore")
    rows = []
    for kind, call in calls():
        try:
            rows.append("\t".join(row(kind, call)))
        except Exception as error:
            raise SystemExit(f"{kind}({call}) as {translated(call)}: {error}")
    (HERE / "shape_values.tsv").write_text("\n".join(rows) + "\n")


main()
