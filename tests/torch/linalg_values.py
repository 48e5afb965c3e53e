"""What PyTorch gives, and its first and second gradients, for the calls of tests/ops/linalg_values.inc.

Writes tests/torch/linalg_values.tsv: call, kind of x, dtype and sizes of the result, its elements, the gradient g for x of the sum of the
elements times 1, 2, 3, ..., and the gradient of the sum of g's squares (`none` where PyTorch has none). Run by hand where PyTorch is installed:

    python tests/torch/linalg_values.py
"""
import math
import pathlib
import re
import warnings
from collections import namedtuple

import torch

HERE = pathlib.Path(__file__).parent
DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32, "boolean": torch.bool}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def distinct(*sizes):
    """No two alike, of both signs: (7 k + 3) mod 29 over 10, less 1.4."""
    return torch.tensor([(7 * k + 3) % 29 / 10 - 1.4 for k in range(math.prod(sizes))], dtype=torch.float64).view(sizes)


def square(*sizes):
    return distinct(*sizes) + 2 * torch.eye(sizes[-1], dtype=torch.float64)


def whole(dtype):
    return torch.tensor([3, 0, 3, 1, 0, 2, 1, 2, 3, 1, 3, 0]).view(3, 4).to(dtype)


KINDS = {
    "NUMBER": lambda: distinct(), "LINE": lambda: distinct(4), "MATRIX": lambda: distinct(3, 4), "CUBE": lambda: distinct(2, 3, 4),
    "SQUARE": lambda: square(3, 3), "BATCH": lambda: square(2, 3, 3), "TALL": lambda: distinct(4, 2), "WIDE": lambda: distinct(2, 2, 4),
    "EMPTY": lambda: distinct(0, 3), "NONE": lambda: distinct(2, 0, 0), "ZERO": lambda: distinct(0, 3, 3),
    "INTS": lambda: whole(torch.int64), "SINGLES": lambda: whole(torch.float32), "HALVES": lambda: whole(torch.bfloat16),
}


def einsum(first, *rest):
    if isinstance(first, str):
        return torch.einsum(first, rest[0])
    flat = [part for term in first for part in term]
    return torch.einsum(*flat, *([rest[0][0]] if rest else []))


def with_scales(name):
    return lambda self, a, b, scales={}: getattr(torch, name)(self, a, b, **scales)


HELPERS = {
    "dict": dict, "true": True, "false": False, "INFINITY": math.inf, "ellipsis": ..., **DTYPES, "einsum": einsum,
    **{name: with_scales(name) for name in ("addmm", "addbmm", "baddbmm", "addmv", "addr")},
    "tensordot": lambda a, b, dims=2, other=None: torch.tensordot(a, b, dims if other is None else (dims, other)),
    "chain_matmul": lambda ms: torch.chain_matmul(*ms), "bilinear": torch.nn.functional.bilinear,
    "vander": lambda x, n=None, increasing=False: torch.vander(x, n, increasing),
    "linalg_vecdot": lambda x, y, dim=-1: torch.linalg.vecdot(x, y, dim=dim),
    "linalg_cross": lambda x, y, dim=-1: torch.linalg.cross(x, y, dim=dim),
    "linalg_vander": lambda x, n=None: torch.linalg.vander(x, N=n),
    "linalg_multi_dot": torch.linalg.multi_dot,
    "cdist": lambda x, y, p=2.0, mode="use_mm_for_euclid_dist_if_necessary": torch.cdist(x, y, p, mode),
}
Result = namedtuple("Result", "result info")
Factors = namedtuple("Factors", "lu pivots")
Pair = namedtuple("Pair", "q r")
Values = namedtuple("Values", "u s vh v")
Lu = namedtuple("Lu", "p l u")


def svd(x, full=True):
    u, s, vh = torch.linalg.svd(x, full)
    return Values(u, s, vh, vh.transpose(-2, -1))


HELPERS |= {
    "spd": lambda x: x @ x.transpose(-2, -1) + torch.eye(x.shape[-2], dtype=x.dtype), "sym": lambda x: x + x.transpose(-2, -1),
    "cholesky": lambda x, upper=False: torch.linalg.cholesky(x, upper=upper),
    "linalg_cholesky": lambda x, upper=False: torch.linalg.cholesky(x, upper=upper),
    "linalg_cholesky_ex": lambda x: Result(*torch.linalg.cholesky_ex(x)), "linalg_solve_ex": lambda a, b: Result(*torch.linalg.solve_ex(a, b)),
    "cholesky_inverse": lambda x, upper=False: torch.cholesky_inverse(x, upper=upper), "cholesky_solve": lambda b, x, upper=False: torch.cholesky_solve(b, x, upper),
    "linalg_solve": lambda a, b, left=True: torch.linalg.solve(a, b, left=left), "linalg_inv": torch.linalg.inv, "linalg_inv_ex": lambda x: Result(*torch.linalg.inv_ex(x)),
    "linalg_det": torch.linalg.det, "linalg_slogdet": torch.linalg.slogdet, "linalg_solve_triangular": lambda a, b, o: torch.linalg.solve_triangular(a, b, **o),
    "linalg_lu_factor": lambda x: Factors(*torch.linalg.lu_factor(x)), "linalg_lu": lambda x: Lu(*torch.linalg.lu(x)), "lu_unpack": lambda a, p: Lu(*torch.lu_unpack(a, p)),
    "linalg_lu_solve": lambda a, p, b, o={}: torch.linalg.lu_solve(a, p, b, **o), "linalg_qr": lambda x, mode="reduced": Pair(*torch.linalg.qr(x, mode)),
    "linalg_svd": svd, "linalg_svdvals": torch.linalg.svdvals, "linalg_eigvalsh": lambda x, uplo="L": torch.linalg.eigvalsh(x, UPLO=uplo), "linalg_eigh": torch.linalg.eigh,
    "linalg_pinv": lambda x, o={}: torch.linalg.pinv(x, **o), "linalg_matrix_rank": lambda x, o={}: torch.linalg.matrix_rank(x, **o),
    "linalg_lstsq": lambda a, b, rcond=None, driver=None: torch.linalg.lstsq(a, b, rcond, driver=driver), "linalg_tensorinv": torch.linalg.tensorinv,
    "linalg_tensorsolve": torch.linalg.tensorsolve, "linalg_householder_product": torch.linalg.householder_product,
    "linalg_cond": lambda x, p=None: torch.linalg.cond(x, p), "linalg_matrix_power": torch.linalg.matrix_power,
    "linalg_matrix_norm": lambda x, p="fro", dims=(-2, -1), keepdim=False: torch.linalg.matrix_norm(x, p, dims, keepdim),
}
torch.Tensor.qr = lambda x: Pair(*torch.linalg.qr(x))
torch.Tensor.svd = lambda x: svd(x, False)
for name in ("addmm", "addbmm", "baddbmm", "addmv", "addr"):
    plain = getattr(torch.Tensor, name + "_")
    setattr(torch.Tensor, name + "_", lambda self, a, b, scales={}, plain=plain: plain(self, a, b, **scales))
torch.Tensor.slice = lambda x, dim, start, end: x[(slice(None),) * dim + (slice(start, end),)]
torch.Tensor.mT = lambda x: x.transpose(-2, -1)
torch.Tensor.sum = lambda x, dims=None, keepdim=False: torch.sum(x) if dims is None else torch.sum(x, dims, keepdim)


class Names(dict):
    def __missing__(self, name):
        return getattr(torch, name)


def calls():
    kinds = "|".join(KINDS)
    for line in (HERE.parent / "ops/linalg_values.inc").read_text().splitlines():
        if not line.startswith("//"):
            yield from re.findall(rf"\b({kinds})\((.*?)\)(?= (?:{kinds})\(|$)", line)


def translated(call):
    call = call.replace("linalg::", "linalg_")
    call = re.sub(r"\{(\.[^}]*)\}", lambda m: "dict(" + re.sub(r"\.(\w+) = ", r"\1=", m[1]) + ")", call)
    return call.replace("{", "[").replace("}", "]")


def texts(t):
    def text(v):
        return repr(v) if isinstance(v, float) and not (math.isfinite(v) and v.is_integer() and abs(v) < 1e15) else str(int(v))
    return " ".join(text(float(f"{v:.13g}")) for v in t.flatten().double().tolist()) or "-"


def gradients(result, x):
    weights = (torch.arange(result.numel(), dtype=torch.float64) + 1).view(result.shape)
    zeros = torch.zeros_like(x)  # what an undefined gradient stands for
    first = torch.autograd.grad((result * weights).sum(), x, create_graph=True, allow_unused=True)[0]
    first = zeros if first is None else first
    if not first.requires_grad:
        return texts(first), "none"
    try:
        second = torch.autograd.grad((first * first).sum(), x, allow_unused=True)[0]
    except (RuntimeError, NotImplementedError):  # some have no second gradient
        return texts(first.detach()), "none"
    return texts(first.detach()), "none" if second is None else texts(second + zeros)


def row(kind, call):
    x = KINDS[kind]()
    if x.dtype == torch.float64:
        x.requires_grad_()
    u, v = torch.tensor([1, -2, 0.5], dtype=torch.float64), torch.tensor([1.5, -0.5, 2, 1], dtype=torch.float64)
    names = Names(HELPERS, x=x, u=u, v=v, y=distinct(4, 2), z=distinct(2, 4, 3), k=torch.arange(1, 9).view(4, 2))
    result = eval(translated(call), {}, names)
    first, second = gradients(result, x) if result.requires_grad else ("none", "none")
    return [call, kind, NAMES[result.dtype], str(list(result.shape)).replace(" ", ""), texts(result.detach()), first, second]


def main():
    warnings.simplefilter("ignore")
    rows, failed = [], []
    for kind, call in calls():
        try:
            rows.append("\t".join(row(kind, call)))
        except Exception as error:
            failed.append(f"{kind}({call}) as {translated(call)}: {error}")
    if failed:
        raise SystemExit("\n".join(failed))
    (HERE / "linalg_values.tsv").write_text("\n".join(rows) + "\n")


main()
