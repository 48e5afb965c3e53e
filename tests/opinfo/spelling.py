"""How the database's samples are written here: SPELLINGS has a function for each that differs, from (positional, named) as PyTorch takes them to ours, or Skip."""
import torch


class Skip(Exception):
    """Nothing of ours takes this sample, by no fault of the function."""


def as_list(positional, named):
    """Any number of tensors, or what stands for a list."""
    return [flat(positional)], named


def flat(values):
    return [e for v in values for e in (flat(v) if isinstance(v, (list, tuple)) else [v])]


def swapped(positional, named):
    return [positional[1], positional[0], *positional[2:]], named


def unbiased(positional, named):
    """A bool alone is a correction of one or none."""
    if len(positional) > 1 and isinstance(positional[1], bool):
        return positional[:1], {**named, "correction": int(positional[1])}
    if len(positional) > 2 and isinstance(positional[2], bool):
        return positional[:2], {**named, "correction": int(positional[2]), **({"keepdim": positional[3]} if len(positional) > 3 else {})}
    return positional, named


def kept_sizes(positional, named):
    """None is -1 here."""
    def one(v):
        return [-1 if e is None else e for e in v] if isinstance(v, (list, tuple)) else v
    return [positional[0], *(one(v) for v in positional[1:])], {k: one(v) for k, v in named.items()}


def with_numbers(positional, named):
    """0-d tensors as numbers, but the first."""
    def one(v):
        return v.item() if torch.is_tensor(v) and v.dim() == 0 and not v.requires_grad else v
    return [positional[0], *(one(v) for v in positional[1:])], {k: one(v) for k, v in named.items()}


def sizes_in_a_list(positional, named):
    return ([positional[0], list(positional[1:])] if len(positional) > 2 else positional), named


def dtype_alone(positional, named):
    """x.to(dtype): of several forms."""
    dtypes = [v for v in [*positional[1:], *named.values()] if isinstance(v, torch.dtype)]
    if not dtypes:
        raise Skip("no dtype")
    return [positional[0], dtypes[0]], {}


def from_zero(positional, named):
    return ([0, *positional] if len(positional) == 2 else positional), named


def side(positional, named):
    named = {k: v for k, v in named.items() if v is not None}
    where = named.pop("side", None)
    return positional, {**named, "right": True} if where == "right" else named


def pairs_of_dims(positional, named):
    dims = positional[2] if len(positional) > 2 else named.get("dims")
    if isinstance(dims, (list, tuple)) and len(dims) == 2 and not isinstance(dims[0], int):
        return positional[:2], {"dims_self": list(dims[0]), "dims_other": list(dims[1])}
    return positional, named


def lengths(positional, named):
    return [positional[0], positional[1], *(v.tolist() if torch.is_tensor(v) else v for v in positional[2:])], named


def reduced(positional, named):
    """Vectors that complete a basis are free where there are several."""
    rows, columns = positional[0].shape[-2:]
    is_full = named.get("full_matrices", True) if "some" not in named else not named["some"]
    if is_full and abs(rows - columns) > 1:
        raise Skip("vectors that complete a basis")
    return positional, named


def with_pivots(positional, named):
    if not named.pop("pivot", True):
        raise Skip("without pivots, which PyTorch refuses too")
    return positional, named


def no_tuple(positional, named):
    if named.pop("as_tuple", False):
        raise Skip("as_tuple: the columns of one tensor here")
    return positional, named


def given_classes(positional, named):
    return positional, {k: v for k, v in named.items() if v != -1}


def dims_from_one(positional, named):
    return positional, {{"dim1": "dim0", "dim2": "dim1"}.get(k, k): v for k, v in named.items()}


def in_dtype(positional, named):
    """The overload with a dtype takes all."""
    if named.get("dtype") is None:
        return positional, named
    if len(positional) < 2 and "dim" not in named:
        positional = [*positional, []]
    return positional, named if len(positional) > 2 else {"keepdim": False, **named}


def all_three(positional, named):
    """All three results are given, not those that flags ask for; they are in order."""
    flags = ("sorted", "return_inverse", "return_counts")
    return positional, {k: v for k, v in named.items() if k not in flags}


def condition_first(positional, named):
    return [positional[1], positional[0], *positional[2:]], named


SPELLINGS = {
    "where": condition_first,
    **dict.fromkeys(["broadcast_tensors", "block_diag", "meshgrid", "cartesian_prod", "atleast_1d", "atleast_2d", "atleast_3d"], as_list),
    **dict.fromkeys(["einsum", "polygamma", "special.polygamma"], swapped),
    **dict.fromkeys(["var", "std", "var_mean", "std_mean"], unbiased),
    **dict.fromkeys(["nn.functional.adaptive_avg_pool2d", "nn.functional.adaptive_avg_pool3d", "nn.functional.adaptive_max_pool2d", "nn.functional.adaptive_max_pool3d"], kept_sizes),
    **dict.fromkeys(["linspace", "logspace", "narrow", "normal"], with_numbers),
    **dict.fromkeys(["linalg.lu", "linalg.lu_factor", "linalg.lu_factor_ex"], with_pivots),
    **dict.fromkeys(["sum", "prod", "mean"], in_dtype),
    **dict.fromkeys(["diagonal", "linalg.diagonal"], dims_from_one),
    "linalg.svd": reduced, "svd": reduced,
    **dict.fromkeys(["unique", "unique_consecutive"], all_three),
    "sum_to_size": sizes_in_a_list, "to": dtype_alone, "randint": from_zero, "searchsorted": side, "tensordot": pairs_of_dims, "nn.functional.ctc_loss": lengths,
    "nonzero": no_tuple, "nn.functional.one_hot": given_classes,
}


def spelled(op, positional, named, in_place):
    """(name's ending, positional, named): pools that return indices have a name of their own."""
    ending = ""
    named = {k.removeprefix("_"): v for k, v in named.items()}
    if "max_pool" in op.name and "unpool" not in op.name:
        adaptive = "adaptive" in op.name
        indices = named.pop("return_indices", False) or (adaptive and len(positional) > 2 and positional[2])
        positional = positional[:2] if adaptive else positional
        ending = "_with_indices" if indices else ""
    if op.variant_test_name == "tensor_overload":
        if any(torch.is_tensor(v) and v.dim() > 0 for v in positional):
            raise Skip("a tensor of dimensions for a number")
        positional = [v.item() if torch.is_tensor(v) else v for v in positional]
    if op.name in SPELLINGS and not (in_place and SPELLINGS[op.name] is swapped) and not (op.name.startswith("atleast") and len(positional) == 1):
        if not (op.name == "meshgrid" and not torch.is_tensor(positional[0])):
            positional, named = SPELLINGS[op.name](list(positional), named)
    return ending, positional, named


def stable(op, sample):
    """Where elements are equal, PyTorch's order is any without it."""
    return op, with_kwargs(sample, stable=True, **dict(zip(["dim", "descending"], sample.args)), args=())


def all_of_unique(op, sample):
    return op, with_kwargs(sample, return_inverse=True, return_counts=True)


def of_product(op, sample):
    """A function of two tensors that is pinv of their product."""
    product = (sample.input @ sample.args[0].mT).detach().requires_grad_(sample.input.requires_grad)
    return torch.linalg.pinv, type(sample)(product)


def of_triangle(op, sample):
    """PyTorch's gradient is not 0 where nothing is read."""
    def of_what_is_read(*tensors, upper=False):
        return op(*tensors[:-1], tensors[-1].triu() if upper else tensors[-1].tril(), upper=upper)
    return of_what_is_read, sample


def with_kwargs(sample, args=None, **named):
    return type(sample)(sample.input, args=sample.args if args is None else args, kwargs={**sample.kwargs, **named})


REWRITTEN = {"sort": stable, "argsort": stable, "unique": all_of_unique, "unique_consecutive": all_of_unique, "linalg.pinv.singular": of_product,
             "cholesky_inverse": of_triangle, "cholesky_solve": of_triangle}


def rewritten(label, op, sample):
    """PyTorch's function and a sample of it, as they are compared."""
    return REWRITTEN[label](op, sample) if label in REWRITTEN else (op, sample)
