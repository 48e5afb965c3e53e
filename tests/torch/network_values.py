"""What PyTorch gives, and its gradients, for the calls of tests/ops/network_values.inc.

Writes tests/torch/network_values.tsv: operands, call, and of the result, of each gradient and of each second gradient its sizes and two sums of
its elements with different weights (`-` where there is none, `?` where PyTorch has no formula, or one that gives NaN). The gradients are of the result's first such sum, the second gradients of theirs.
Run by hand where PyTorch is installed:

    python tests/torch/network_values.py
"""
import pathlib
import re
import warnings

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
FLOATS = "xwbyz"


def made(name, sizes, below):
    n = torch.arange(int(torch.tensor(sizes).prod()) if sizes else 1)
    k = FLOATS.find(name)
    if name == "m":
        return (n % 3 != 1).view(sizes)
    if name in "ij":
        return ((n * 7 + 3) % below).view(sizes)
    return (((n * 37 + k * 11) % 101 - 50).double() / 16).view(sizes)


def operands(text):
    out = {}
    for word in text.split():
        name, sizes = word.split(":")
        sizes, _, below = sizes.partition("<")
        out[name] = made(name, [int(s) for s in sizes.split(",") if s], int(below or 1))
    return out


def weighted(t):
    n = torch.arange(t.numel())
    flat = t.reshape(-1).double()
    return [(flat * ((n * 13) % 17 + 1)).sum(), (flat * ((n * 5) % 23 - 11)).sum()]


def digest(t):
    if t is None or isinstance(t, str):
        return t or "-"
    return str(list(t.shape)).replace(" ", "") + ":" + ":".join(f"{float(s):.15g}" for s in weighted(t.detach()))


def python(call):
    call = re.sub(r"(?<![\w.])\.(\w+) = ", r"\1=", call)
    call = re.sub(r"\{(?=\w+=)((?:[^{}]|\{[^{}]*\})*)\}", r"\1", call)
    call = call.replace("{}", "None").replace("{", "(").replace("}", ",)").replace(",,)", ",)")
    for a, b in {"true": "True", "false": "False"}.items():
        call = re.sub(rf"\b{a}\b", b, call)
    return call


class Pair:
    def __init__(self, pair):
        self.values, self.indices = pair


def paired(f):
    return lambda *a, **k: Pair(f(*a, **k))


def lp_pool3d(x, p, size, **options):
    return F.lp_pool3d(x, float(p), size, **options)


def max_unpool(f):
    def call(x, indices, size, **options):
        if "output_size" in options:
            options["output_size"] = list(options["output_size"])
        return f(x, indices, size, **options)
    return call


def fractional(f):
    def call(x, size, output_size=None, output_ratio=None, random_samples=None):
        ratio = output_ratio * random_samples.shape[2] if output_ratio and len(output_ratio) == 1 else output_ratio
        return f(x, size, output_size, ratio, _random_samples=random_samples)
    return call


def with_running(norm, x, mean, var, w, b, training, momentum):
    mean, var = mean.detach().clone(), var.detach().clone()
    result = norm(x, mean, var, w, b, training, momentum)
    return torch.cat([result.flatten(), mean, var])


def channels(norm):
    return lambda x, mean=None, var=None, w=None, b=None, *rest: norm(x, mean, var, w, b, *rest)


def interpolate(x, size=None, scale_factor=None, recompute_scale_factor=None, **options):
    scale_factor = scale_factor if scale_factor is None or len(scale_factor) > 1 else scale_factor[0]
    return F.interpolate(x, size, scale_factor, recompute_scale_factor=recompute_scale_factor, **options)


def multilabel_margin_loss(x, y, reduction="mean"):
    return F.multilabel_margin_loss(x, y.clamp(-1), reduction=reduction)


def optional(f, *names):
    """Those that come behind by position, in our order."""
    return lambda x, y, *rest, **options: f(x, y, **{**dict(zip(names, rest)), **options})


def attention(q, k, v, **options):
    return F.scaled_dot_product_attention(q, k, v, **options)


def same(module, names):
    return {name: getattr(module, name) for name in names}


NAMES = {
    **same(torch, "sigmoid exp log cat tanh relu abs softmax log_softmax pixel_shuffle pixel_unshuffle channel_shuffle renorm square flatten alpha_dropout".split()),
    **{name: getattr(F, name) for name in dir(F) if not name.startswith("_")},
    **{f"{kind}max_pool{d}d_with_indices": paired(getattr(F, f"{kind}max_pool{d}d_with_indices")) for d in (1, 2, 3) for kind in ("", "adaptive_")},
    "with_running": with_running, "interpolate": interpolate, "im2col": F.unfold, "col2im": F.fold,
    "multi_margin_loss": optional(F.multi_margin_loss, "p", "margin", "weight", "reduction"),
    "multilabel_margin_loss": optional(F.multilabel_margin_loss, "reduction"),
    "multilabel_soft_margin_loss": optional(lambda x, y, weight=None, reduction="mean": F.multilabel_soft_margin_loss(x, y, weight, reduction=reduction), "weight", "reduction"),
    "binary_cross_entropy": optional(lambda x, y, weight=None, reduction="mean": F.binary_cross_entropy(x, y, weight, reduction=reduction), "weight", "reduction"),
    "kl_div": optional(F.kl_div, "reduction", "log_target"), "smooth_l1_loss": optional(F.smooth_l1_loss, "reduction", "beta"),
    "huber_loss": optional(F.huber_loss, "reduction", "delta"),
    "gaussian_nll_loss": lambda x, y, v, full=False, eps=1e-6, reduction="mean": F.gaussian_nll_loss(x, y, v, full=full, eps=eps, reduction=reduction),
    "poisson_nll_loss": lambda x, y, log_input=True, full=False, eps=1e-8, reduction="mean": F.poisson_nll_loss(x, y, log_input, full, eps=eps, reduction=reduction),
    "hinge_embedding_loss": optional(F.hinge_embedding_loss, "margin", "reduction"),
    "rms_norm": lambda x, sizes, w=None, eps=None: F.rms_norm(x, sizes, w, eps),
    "normalize": lambda x, p=2.0, dims=(1,): F.normalize(x, p, dims[0]),
    **{f"fractional_max_pool{d}d": fractional(getattr(F, f"fractional_max_pool{d}d")) for d in (2, 3)},
    **{f"fractional_max_pool{d}d_with_indices": paired(fractional(getattr(F, f"fractional_max_pool{d}d_with_indices"))) for d in (2, 3)},
    **{f"max_unpool{d}d": max_unpool(getattr(F, f"max_unpool{d}d")) for d in (1, 2, 3)},
}


def gradients(result, leaves):
    found = torch.autograd.grad(weighted(result)[0], leaves, create_graph=True, allow_unused=True)
    sums = [weighted(g)[1] for g in found if g is not None and g.requires_grad]
    try:
        second = torch.autograd.grad(sum(sums), leaves, allow_unused=True) if sums else [None] * len(leaves)
        second = ["?" if t is not None and t.isnan().any() else t for t in second]
    except RuntimeError:  # PyTorch has none
        second = ["?"] * len(leaves)
    return [*found, *second]


def row(words, call):
    given = operands(words)
    leaves = [given[name].requires_grad_() for name in FLOATS if name in given]
    result = eval(python(call), {}, {**NAMES, **given})
    cells = [words, call, digest(result)]
    if result.requires_grad:
        cells += [digest(t) for t in gradients(result, leaves)]
    return "\t".join(cells)


def main():
    warnings.simplefilter("ignore")
    rows = []
    for line in (HERE.parent / "ops/network_values.inc").read_text().splitlines():
        match = re.fullmatch(r'CASE\("(.*?)", (.*)\)', line)
        if match:
            try:
                rows.append(row(*match.groups()))
            except Exception as error:
                raise SystemExit(f"{line} as {python(match[2])}: {error}")
    (HERE / "network_values.tsv").write_text("\n".join(rows) + "\n")


main()
