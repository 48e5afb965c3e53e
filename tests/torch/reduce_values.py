"""What PyTorch gives, and its first and second gradients, for the calls of tests/ops/reduce_values.inc.

Writes tests/torch/reduce_values.tsv: call, kind of x, dtype and sizes of the result, its elements, the gradient g for x of the sum of the
elements times 1, 2, 3, ..., and the gradient of the sum of g's squares (`none` where PyTorch has none). Run by hand where PyTorch is installed:

    python tests/torch/reduce_values.py
"""
import math
import pathlib
import re
import warnings
from collections import namedtuple

import torch

HERE = pathlib.Path(__file__).parent
DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32, "u8": torch.uint8, "boolean": torch.bool}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
NAN, INF = math.nan, math.inf


def distinct(*sizes):
    """No two alike, of both signs: (7 k + 3) mod 29 over 10, less 1.4."""
    return torch.tensor([(7 * k + 3) % 29 / 10 - 1.4 for k in range(math.prod(sizes))], dtype=torch.float64).view(sizes)


def tied(dtype):
    return torch.tensor([3, 0, 3, 1, 0, 2, 1, 2, 3, 1, 3, 0]).view(3, 4).to(dtype)


KINDS = {
    "NUMBER": lambda: distinct(), "LINE": lambda: distinct(7), "MATRIX": lambda: distinct(3, 4), "CUBE": lambda: distinct(2, 3, 4),
    "EMPTY": lambda: distinct(0, 3), "ZEROS": lambda: torch.tensor([[0.5, 0, -1.5, 2], [0, 0, 0.75, 0], [1.25, 0, 3, -0.5]], dtype=torch.float64),
    "SPECIAL": lambda: torch.tensor([1, 2, NAN, -1, INF, 2, -INF, 0, -0.0, 2, -3, 0.5], dtype=torch.float64),
    "INTS": lambda: tied(torch.int64), "BYTES": lambda: tied(torch.uint8), "FLAGS": lambda: tied(torch.bool),
    "HALVES": lambda: tied(torch.bfloat16), "SINGLES": lambda: tied(torch.float32),
}
Unique = namedtuple("Unique", "values inverse counts")
MinMax = namedtuple("MinMax", "min max")


def quantile(function):
    return lambda x, q, dim=None, keepdim=False, how="linear": function(x, q, dim, keepdim, interpolation=how)


def with_dx(function):
    return lambda y, x=1, dim=-1: function(y, x, dim=dim) if torch.is_tensor(x) else function(y, dx=x, dim=dim)


def norm(x, p=2, dims=None, keepdim=False):
    if p == "fro" or dims is None and not keepdim:
        return torch.norm(x, p, dims, keepdim) if dims else torch.norm(x, p)
    return torch.norm(x, p, dims, keepdim)


class At(tuple):
    at = tuple.__getitem__


def in_dtype(function):
    """With the dtype by position, as in C++; a product has one dimension."""
    def call(x, dims=None, *rest):
        dims = dims[0] if isinstance(dims, list) and function is torch.prod else dims
        return function(x, dims, *rest[:-1], dtype=rest[-1]) if rest and isinstance(rest[-1], torch.dtype) else function(x, *([] if dims is None else [dims]), *rest)
    return call


WINDOWS = dict.fromkeys("bartlett blackman cosine hann hamming nuttall".split(), ()) | {"exponential": ["center", "tau"], "gaussian": ["std"], "general_hamming": ["alpha"], "kaiser": ["beta"], "general_cosine": ["a"]}


def window(name, *names):
    return lambda n, *rest: getattr(torch.signal.windows, name)(n, **dict(zip([*names, "sym", "dtype"], rest)))


HELPERS = {
    "dict": dict, "true": True, "false": False, "INFINITY": INF, **DTYPES,
    "nansum": lambda x, dims=None, keepdim=False: torch.nansum(x, dims, keepdim), "nanmean": lambda x, dims=None, keepdim=False: torch.nanmean(x, dims, keepdim),
    "sum_to_size": lambda x, sizes: x.sum_to_size(sizes or ()), "cumsum": lambda x, dim, dtype=None: torch.cumsum(x, dim, dtype=dtype),
    "diff": lambda x, n=1, dim=-1, before=None, after=None: torch.diff(x, n, dim, before, after),
    "trapezoid": with_dx(torch.trapezoid), "trapz": with_dx(torch.trapezoid), "cumulative_trapezoid": with_dx(torch.cumulative_trapezoid),
    "quantile": quantile(torch.quantile), "nanquantile": quantile(torch.nanquantile), "norm": norm,
    "linalg_vector_norm": lambda x, p=2, dims=None, keepdim=False: torch.linalg.vector_norm(x, p, dims, keepdim),
    "linalg_matrix_norm": lambda x, p="fro", dims=(-2, -1), keepdim=False: torch.linalg.matrix_norm(x, p, dims, keepdim),
    "cov": lambda x, c=1, f=None, a=None: torch.cov(x, correction=c, fweights=f, aweights=a),
    "histc": lambda x, bins, low=0, high=0: torch.histc(x, bins, low, high),
    "unique": lambda x, dim=None: Unique(*torch.unique(x.detach(), return_inverse=True, return_counts=True, dim=dim)),
    "unique_consecutive": lambda x, dim=None: Unique(*torch.unique_consecutive(x.detach(), return_inverse=True, return_counts=True, dim=dim)),
    "sort": lambda x, dim=-1, descending=False, stable=True: torch.sort(x, dim=dim, descending=descending, stable=True),
    "argsort": lambda x, dim=-1, descending=False, stable=True: torch.argsort(x, dim=dim, descending=descending, stable=True),
    "searchsorted": lambda s, x, options={}: torch.searchsorted(s, x, **options), "bucketize": lambda x, s, options={}: torch.bucketize(x, s, **options),
    "isin": lambda x, y, unique=False, invert=False: torch.isin(x, y, assume_unique=unique, invert=invert),
    "one_hot": torch.nn.functional.one_hot, "put": lambda x, i, y, add=False: x.put(i, y, add),
    "embedding": lambda x, i, options={}: torch.nn.functional.embedding(i, x, **options),
    "embedding_bag": lambda x, i, options={}: torch.nn.functional.embedding_bag(i, x, **options),
    "scatter_reduce": lambda x, dim, i, src, how, include_self=True: x.scatter_reduce(dim, i, src, how, include_self=include_self),
    "index_reduce": lambda x, dim, i, src, how, include_self=True: x.index_reduce(dim, i, src, how, include_self=include_self),
    "scatter": lambda x, dim, i, src, how: torch.scatter(x, dim, i, src, reduce=how), "index_add": lambda x, dim, i, src, alpha: x.index_add(dim, i, src, alpha=alpha),
    "special_zeta": torch.special.zeta,
    "linalg_norm": torch.linalg.norm, "gradient": lambda x, spacing=1, o={}: At(torch.gradient(x, spacing=spacing, dim=o.get("dims"), edge_order=o.get("edge_order", 1))),
    "histogram": lambda x, bins, o={}: torch.histogram(x, bins, **o), "histogramdd": lambda x, bins, o={}: torch.histogramdd(x, bins, **o),
    **{op: in_dtype(getattr(torch, op)) for op in ("sum", "mean", "prod", "softmax", "log_softmax")}, "softmin": in_dtype(torch.nn.functional.softmin),
    **{f"window_{name}": window(name, *names) for name, names in WINDOWS.items()},
    "bincount": lambda x, w=None, least=0: torch.bincount(x, w, least),
}


def with_keyword(name, key):
    """The method with its option by position, as in C++."""
    method = getattr(torch.Tensor, name)
    setattr(torch.Tensor, name, lambda x, dim, i, src, *rest: method(x, dim, i, src, *rest[:-1], **({key: rest[-1]} if rest else {})))


with_keyword("index_reduce_", "include_self"), with_keyword("index_add_", "alpha"), with_keyword("scatter_", "reduce")
torch.Tensor.slice = lambda x, dim, start, end: x[(slice(None),) * dim + (slice(start, end),)]


class Names(dict):
    def __missing__(self, name):
        return getattr(torch, name)


def calls():
    kinds = "|".join(KINDS)
    for line in (HERE.parent / "ops/reduce_values.inc").read_text().splitlines():
        if not line.startswith("//"):
            yield from re.findall(rf"\b({kinds})\((.*?)\)(?= (?:{kinds})\(|$)", line)


def translated(call):
    call = call.replace("linalg::", "linalg_").replace("special::", "special_").replace("signal::windows::", "window_").replace("{}", "None")
    call = re.sub(r"\{(\.[^}]*)\}", lambda m: "dict(" + re.sub(r"\.(\w+) = ", r"\1=", m[1]) + ")", call)
    return call.replace("{", "[").replace("}", "]")


def texts(t):
    def text(v):
        return repr(v) if isinstance(v, float) and not (math.isfinite(v) and v.is_integer() and abs(v) < 1e15) else str(int(v))
    return " ".join(text(v) for v in t.flatten().double().tolist()) or "-"


def gradients(result, x):
    weights = (torch.arange(result.numel(), dtype=torch.float64) + 1).view(result.shape)
    zeros = torch.zeros_like(x)  # what an undefined gradient stands for
    first = torch.autograd.grad((result * weights).sum(), x, create_graph=True, allow_unused=True)[0]
    first = zeros if first is None else first
    if not first.requires_grad:
        return texts(first), "none"
    second = torch.autograd.grad((first * first).sum(), x, allow_unused=True)[0]
    return texts(first.detach()), "none" if second is None else texts(second + zeros)


def row(kind, call):
    x = KINDS[kind]()
    if x.dtype == torch.float64:
        x.requires_grad_()
    w = torch.tensor([1, 2, 1.0, 3], dtype=torch.float64)
    names = Names(HELPERS, x=x, w=w, n=torch.tensor([2, 1, 3, 1]), i=torch.tensor([3, -1, 0]), j=torch.tensor([[0, 2], [1, 0], [2, 2]]))
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
    (HERE / "reduce_values.tsv").write_text("\n".join(rows) + "\n")


main()
