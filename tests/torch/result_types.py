"""Dtypes, sizes and aliases of ATen's results on the calls of tests/ops/result_types.inc.

Writes tests/torch/result_types.tsv. A row is a call, a layout of x (and what y or n is), the sizes of the
result, and for each dtype of x the result's dtype, with `=` if the result is x itself and `~` if it lies in
x's memory. `-` is an error, `?` where ATen has no overload or no kernel, which says nothing about the
rule. Calls of the same results share a row. Run by hand where PyTorch is installed:

    python tests/torch/result_types.py
"""
import pathlib
import re
import warnings
from collections import defaultdict, namedtuple

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16,
          "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8,
          "bool": torch.bool}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
NUMBERS = {"true": True, "2": 2, "0.5": 0.5}

LAYOUTS = {
    "matrix": lambda d: torch.ones(2, 3, dtype=d),
    "transposed": lambda d: torch.ones(3, 2, dtype=d).t(),
    "gapped": lambda d: torch.ones(2, 6, dtype=d)[:, ::2],
    "line": lambda d: torch.ones(3, dtype=d),
    "row": lambda d: torch.ones(1, 3, dtype=d),
    "scalar": lambda d: torch.ones((), dtype=d),
    "empty": lambda d: torch.ones(0, 3, dtype=d),
}
PAIRS = {"matrix, matrix": ("matrix", "matrix"), "matrix, scalar": ("matrix", "scalar"), "scalar, matrix": ("scalar", "matrix")}

# What PyTorch spells or orders otherwise; a name with _of is a helper below.
SPELLED = {
    "shift_left": "bitwise_left_shift", "shift_right": "bitwise_right_shift", "shift_left_": "bitwise_left_shift_",
    "shift_right_": "bitwise_right_shift_", "addcmul": "addcmul_of", "addcdiv": "addcdiv_of", "addcmul_": "addcmul_in", "log_sigmoid": "logsigmoid",
    "matrix_transpose": "mT_of", "to": "to_dtype", "std": "std_of", "var": "var_of", "layer_norm": "norm_of",
    "pad": "pad_of", "view": "view_of", "permute": "permute_of", "expand": "expand_of", "slice": "slice_of",
    "squeeze": "squeeze_of", "slice_scatter": "slice_scatter_of", "one_hot": "one_hot_of", "unfold": "unfold_of",
    "view_as": "view_as_of", "reshape_as": "reshape_as_of", "expand_as": "expand_as_of", "alias": "alias_of",
    "index_put": "index_put_of", "dropout": "dropout_of", "mse_loss": "mse_of", "l1_loss": "l1_of", "binary_cross_entropy_with_logits": "bce_of", "embedding": "embedding_of",
    "prod": "prod_of", "copy_": "copy_of", "unflatten": "unflatten_of", "Located": "just", "any": "any_of", "all": "all_of",
    "div": "div_of", "divide": "divide_of", "add": "add_of", "sub": "sub_of", "rsub": "rsub_of", "round": "round_of",
    "softmin": "softmin_of", "rrelu": "rrelu_of", "polygamma": "polygamma_of", "tanhshrink": "tanhshrink_of",
    "sum": "sum_of", "aminmax": "aminmax_of", "var_mean": "var_mean_of", "std_mean": "std_mean_of", "native_layer_norm": "norm_statistics_of", "split_with_sizes": "split_with_sizes_of",
}


def over_dims(op):
    """Of any number of dims, though ATen's takes one: no dims means all."""
    def call(x, dims=(), keepdim=False):
        return op(x) if len(dims) == 0 else op(x, dims[0], keepdim)
    return call


def slice_of(x, dim, start=None, end=None, step=1):
    return torch.ops.aten.slice.Tensor(x, dim, start, end, step)


def slice_at(start=None, end=None, step=None):
    return slice(start, end, step)


def named(fields, values):
    return namedtuple("Results", fields)(*values)


HELPERS = {
    "mT_of": lambda x: x.mT, "to_dtype": lambda x, d: x.to(d), "just": lambda x: x,
    "std_of": lambda x, dims=None: torch.std(x, dim=dims, correction=1),
    "var_of": lambda x, dims=None: torch.var(x, dim=dims, correction=1),
    "norm_of": lambda x, sizes, w=None, b=None: F.layer_norm(x, sizes, w, b),
    "pad_of": lambda x, p, *how: F.pad(x, p, *how) if isinstance([*how, 0][0], str) else torch.constant_pad_nd(x, p, *how),
    "view_of": lambda x, to: x.view(to), "permute_of": lambda x, d: x.permute(d),
    "expand_of": lambda x, s: x.expand(s), "slice_of": slice_of,
    "squeeze_of": lambda x, *dims: x.squeeze(*dims),
    "slice_scatter_of": lambda x, y, d: torch.slice_scatter(x, y, d),
    "one_hot_of": lambda x, n: F.one_hot(x, n), "unfold_of": lambda x, *a: x.unfold(*a),
    "view_as_of": lambda x, y: x.view_as(y), "reshape_as_of": lambda x, y: x.reshape_as(y),
    "expand_as_of": lambda x, y: x.expand_as(y), "alias_of": lambda x: torch.ops.aten.alias(x),
    "index_put_of": lambda x, i, v, add=False: torch.index_put(x, i, v if torch.is_tensor(v) else torch.tensor(v).to(x.dtype), add),
    "dropout_of": lambda x, p=0.5, train=True: F.dropout(x, p, train),
    "mse_of": lambda x, y, r="mean": torch._C._nn.mse_loss(x, y, {"none": 0, "mean": 1}[r]),
    "l1_of": lambda x, y: torch.mean(torch.abs(x - y)),
    "bce_of": lambda x, y: torch.binary_cross_entropy_with_logits(x, y, None, None, 1),
    "embedding_of": lambda w, i: F.embedding(i, w),
    "prod_of": over_dims(torch.prod), "any_of": over_dims(torch.any), "all_of": over_dims(torch.all),
    "sum_of": over_dims(torch.sum),
    "aminmax_of": lambda x, dim=None, keepdim=False: torch.aminmax(x, dim=dim, keepdim=keepdim),
    "var_mean_of": lambda x, dims=None, correction=1, keepdim=False: named(
        "var mean", torch.var_mean(x, dim=dims, correction=correction, keepdim=keepdim)),
    "std_mean_of": lambda x, dims=None, correction=1, keepdim=False: named(
        "std mean", torch.std_mean(x, dim=dims, correction=correction, keepdim=keepdim)),
    "norm_statistics_of": lambda *a: named("result mean rstd", torch.native_layer_norm(*a)),
    "div_of": lambda x, y, mode=None: torch.div(x, y, rounding_mode=mode), "divide_of": lambda x, y, mode=None: torch.divide(x, y, rounding_mode=mode),
    "add_of": lambda x, y, alpha=1: torch.add(x, y, alpha=alpha), "sub_of": lambda x, y, alpha=1: torch.sub(x, y, alpha=alpha),
    "rsub_of": lambda x, y, alpha=1: torch.rsub(x, y, alpha=alpha), "round_of": lambda x, decimals=0: torch.round(x, decimals=decimals),
    "softmin_of": lambda x, dim: F.softmin(x, dim), "rrelu_of": lambda x: F.rrelu(x), "polygamma_of": lambda n, x: torch.polygamma(n, x),
    "tanhshrink_of": lambda x: F.tanhshrink(x),
    "addcmul_of": lambda x, a, b, v=1: torch.addcmul(x, a, b, value=v),
    "addcdiv_of": lambda x, a, b, v=1: torch.addcdiv(x, a, b, value=v),
    "addcmul_in": lambda x, a, b, v=1: x.addcmul_(a, b, value=v),
    "copy_of": lambda x, y: x.copy_(y if torch.is_tensor(y) else torch.tensor(y)),
    "unflatten_of": lambda x, d, s: x.unflatten(d, s),
    "split_with_sizes_of": torch.split_with_sizes,
    "true": True, "false": False, "boolean": torch.bool, **{n: d for n, d in DTYPES.items() if n != "bool"},
}
HELPERS.update({  # functions of lists, or of dtypes and options that PyTorch takes by name
    "block_diag": lambda tensors: torch.block_diag(*tensors), "broadcast_tensors": lambda tensors: torch.broadcast_tensors(*tensors),
    "meshgrid": lambda tensors, indexing="ij": torch.meshgrid(tensors, indexing=indexing),
    "zeros_like": lambda x, dtype=None: torch.zeros_like(x, dtype=dtype), "full_like": lambda x, n, dtype=None: torch.full_like(x, n, dtype=dtype),
    "repeat_interleave": lambda x, n, dim=None, size=None: torch.repeat_interleave(x, n, dim=dim, output_size=size),
    "linspace": lambda a, b, n, dtype=torch.float32: torch.linspace(a, b, n, dtype=dtype),
    "logspace": lambda a, b, n, base=10, dtype=torch.float32: torch.logspace(a, b, n, base=base, dtype=dtype),
    "index": lambda x, places: x[tuple(places)], "Slice": slice_at, "newaxis": None, "ellipsis": Ellipsis,
})
OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floor_divide": "//", "remainder": "%", "pow": "**",
             "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "shift_left": "<<", "shift_right": ">>",
             "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class Names(dict):
    """Functions by the name that Tandem has for them."""
    def __missing__(self, name):
        for module in (torch, torch.special, F, torch._C._nn):
            if hasattr(module, name):
                return getattr(module, name)
        if hasattr(torch.Tensor, name):
            return lambda x, *args: getattr(x, name)(*args)
        raise TypeError("no overload: " + name)


def translated(call):
    """A call of C++ as Python."""
    reverse = re.fullmatch(r"(\w+)\(n, x\)", call)
    if reverse and reverse[1] in OPERATORS:
        return f"n {OPERATORS[reverse[1]]} x"
    if call.startswith("clamp(x, {}"):
        call = call.replace("{}", "None")
    call = call.replace("special::", "")
    call = call.replace("Slice{}", "Slice()").replace("{}, ", "None, ")
    call = re.sub(r"Slice\{(.*?)\}", lambda m: f"Slice({m[1]})", call)
    call = re.sub(r"(?<=[(, ])\.(\w+) = ", r"\1=", call)
    call = call.replace("{", "[").replace("}", "]")
    call = re.sub(r"\.at\((\d)\)", r"[\1]", call)
    call = re.sub(r"\.(mT|mH|H|T)\(\)", r".\1", call).replace("x.sizes()", "x.shape").replace("x.dtype()", "x.dtype")
    call = call.replace("y.dtype()", "y.dtype")
    call = re.sub(r"\b(x|y|at)\.(slice|where)\(", lambda m: f"{m[2]}({m[1]}, " if m[2] == "slice" else f"{m[1]}.{m[2]}(", call)
    call = call.replace("x.mT.slice(1, 0, 1)", "x.mT[:, 0:1]")
    call = re.sub(r"^x\.(\w+_)\((.*)\)$", lambda m: f"{m[1]}(x, {m[2]})" if m[2] else f"{m[1]}(x)", call)
    return re.sub(r"(?<![.\w])(\w+)\(", lambda m: SPELLED.get(m[1], m[1]) + "(", call)


def outcome(call, x, **others):
    """(sizes, dtype and alias) of what the call gives."""
    at = torch.zeros(x.shape, dtype=torch.int64)
    mask = torch.ones(x.shape, dtype=torch.bool)
    names = Names(HELPERS, x=x, at=at, mask=mask, i=torch.tensor([0]), **others)
    try:
        result = eval(translated(call), {"__builtins__": {}}, names)
    except (TypeError, NotImplementedError) as error:
        UNKNOWN[call].add(str(error)[:120])
        return None, "?"
    except (RuntimeError, IndexError, ValueError) as error:
        if "not implemented for" in str(error):
            UNKNOWN[call].add(str(error)[:120])
            return None, "?"
        REFUSED[call].add(str(error)[:120])
        return None, "-"
    alias = "=" if result is x else "~" if torch._C._is_alias_of(result, x) else ""
    return list(result.shape), NAMES[result.dtype] + alias


UNKNOWN, REFUSED = defaultdict(set), defaultdict(set)


def row(call, make, **others):
    cells = [outcome(call, make(d), **others) for d in DTYPES.values()]
    sizes = next((str(s).replace(" ", "") for s, _ in cells if s is not None), "")
    return (sizes, *(c for _, c in cells))


def listed(text, macro):
    body = re.search(rf"#define {macro}\(X\)(.*?)\n(?=//|#|\n)", text, re.S)[1]
    return re.findall(r"X\((\w+)(?:, \w+)?\)", body)


def calls():
    """Lists of unary, binary and number calls."""
    text = (ROOT / "runtime/include/tandem/op_lists.h").read_text()
    names = listed(text, "TANDEM_UNARY_ALIASES"), listed(text, "TANDEM_BINARY_ALIASES")
    unary_in_place = listed(text, "TANDEM_UNARY_IN_PLACE_OPS") + listed(text, "TANDEM_MADE_UNARY_IN_PLACE") + names[0]
    binary_in_place = listed(text, "TANDEM_BINARY_IN_PLACE_OPS") + listed(text, "TANDEM_MADE_BINARY_IN_PLACE") + names[1]
    comparisons = listed(text, "TANDEM_COMPARISON_OPS")
    unary = unary_in_place + listed(text, "TANDEM_UNARY_OPS") + listed(text, "TANDEM_MADE_UNARY")
    binary = binary_in_place + comparisons + listed(text, "TANDEM_BINARY_OPS") + listed(text, "TANDEM_MADE_BINARY")
    out = {
        "UNARY": [f"{op}(x)" for op in unary] + [f"x.{op}_()" for op in unary_in_place],
        "BINARY": [f"{op}(x, y)" for op in binary] + [f"x.{op}_(y)" for op in binary_in_place + comparisons],
        "NUMBER": [f"{op}(x, n)" for op in binary] + [f"{op}(n, x)" for op in binary if op not in names[1]]
        + [f"x.{op}_(n)" for op in binary_in_place + comparisons],
    }
    for line in (ROOT / "tests/ops/result_types.inc").read_text().splitlines():
        for call in re.findall(r"\b(UNARY|BINARY|NUMBER)\((.*?)\)(?= (?:UNARY|BINARY|NUMBER)\(|$)", line):
            if not line.startswith("//"):
                out[call[0]].append(call[1])
    return out


def table():
    all_calls = calls()
    for call in all_calls["UNARY"]:
        matrix = row(call, LAYOUTS["matrix"])
        for layout, make in LAYOUTS.items():
            sizes, *cells = row(call, make)
            # No elements, no kernel: what ATen lacks one for, it takes when it is empty.
            if layout == "empty":
                cells = ["?" if known == "?" else cell for known, cell in zip(matrix[1:], cells)]
            yield call, layout, (sizes, *cells)
    for call in all_calls["BINARY"]:
        for form, (left, right) in PAIRS.items():
            for name, dtype in DTYPES.items():
                yield call, f"{form} {name}", row(call, LAYOUTS[left], y=LAYOUTS[right](dtype))
    for call in all_calls["NUMBER"]:
        for layout in ("matrix", "scalar"):
            for name, n in NUMBERS.items():
                yield call, f"{layout} {name}", row(call, LAYOUTS[layout], n=n)


def main():
    warnings.simplefilter("ignore")
    by_results = defaultdict(list)
    for call, form, results in table():
        by_results[(form, results)].append(call)
    lines = [f"# PyTorch {torch.__version__.split('+')[0]}: layout, sizes, result by x's dtype ({' '.join(DTYPES)}), calls"]
    lines += ["\t".join([form, results[0], " ".join(results[1:]), "; ".join(of)]) for (form, results), of in by_results.items()]
    (HERE / "result_types.tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
