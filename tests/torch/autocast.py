"""Dtypes of PyTorch's results under autocast on a CPU, of the calls of tests/training/mixed/autocast_dtypes_test.cpp.

Writes tests/torch/autocast.tsv: a call, then the dtype of its first result where its floating operands a, b and c are f32 f32 f32, bf16 bf16 bf16,
f32 bf16 f32, bf16 f32 bf16, f16 f16 f16, f64 f64 f64, each for regions of bf16 and of f16; `-` where PyTorch refuses. Run by hand where PyTorch is installed:

    python tests/torch/autocast.py
"""
import pathlib
import warnings

import torch
import torch.nn.functional as F

warnings.simplefilter("ignore")
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}
NAMES = {dtype: name for name, dtype in DTYPES.items()} | {torch.int64: "i64", torch.bool: "bool"}
OPERANDS = ["f32 f32 f32", "bf16 bf16 bf16", "f32 bf16 f32", "bf16 f32 bf16", "f16 f16 f16", "f64 f64 f64"]
L = torch.linalg


def t(d, *sizes):
    return torch.arange(1, 1 + torch.Size(sizes).numel()).remainder(7).div(8).view(sizes).to(d)


def square(d):
    return torch.eye(3).mul(2).add(0.25).to(d)


def labels(*sizes):
    return torch.zeros(sizes, dtype=torch.int64)


# Of the operands' dtypes.
CALLS = {
    "matmul": lambda a, b, c: torch.matmul(t(a, 2, 3), t(b, 3, 4)),
    "mm": lambda a, b, c: torch.mm(t(a, 2, 3), t(b, 3, 4)),
    "bmm": lambda a, b, c: torch.bmm(t(a, 2, 2, 3), t(b, 2, 3, 4)),
    "linear": lambda a, b, c: F.linear(t(a, 2, 3), t(b, 4, 3), t(c, 4)),
    "addmm": lambda a, b, c: torch.addmm(t(c, 2, 4), t(a, 2, 3), t(b, 3, 4)),
    "addbmm": lambda a, b, c: torch.addbmm(t(c, 2, 4), t(a, 2, 2, 3), t(b, 2, 3, 4)),
    "baddbmm": lambda a, b, c: torch.baddbmm(t(c, 2, 2, 4), t(a, 2, 2, 3), t(b, 2, 3, 4)),
    "vecdot": lambda a, b, c: L.vecdot(t(a, 2, 3), t(b, 2, 3)),
    "einsum": lambda a, b, c: torch.einsum("ij,jk->ik", t(a, 2, 3), t(b, 3, 4)),
    "tensordot": lambda a, b, c: torch.tensordot(t(a, 2, 3), t(b, 3, 4), 1),
    "inner": lambda a, b, c: torch.inner(t(a, 2, 3), t(b, 4, 3)),
    "chain_matmul": lambda a, b, c: torch.chain_matmul(t(a, 2, 3), t(b, 3, 4), t(c, 4, 2)),
    "multi_dot": lambda a, b, c: L.multi_dot([t(a, 2, 3), t(b, 3, 4), t(c, 4, 2)]),
    "conv1d": lambda a, b, c: F.conv1d(t(a, 1, 2, 5), t(b, 3, 2, 2), t(c, 3)),
    "conv2d": lambda a, b, c: F.conv2d(t(a, 1, 2, 5, 5), t(b, 3, 2, 2, 2), t(c, 3)),
    "conv2d same": lambda a, b, c: F.conv2d(t(a, 1, 2, 5, 5), t(b, 3, 2, 2, 2), t(c, 3), padding="same"),
    "conv3d": lambda a, b, c: F.conv3d(t(a, 1, 2, 5, 5, 5), t(b, 3, 2, 2, 2, 2), t(c, 3)),
    "conv_transpose1d": lambda a, b, c: F.conv_transpose1d(t(a, 1, 2, 5), t(b, 2, 3, 2), t(c, 3)),
    "conv_transpose2d": lambda a, b, c: F.conv_transpose2d(t(a, 1, 2, 5, 5), t(b, 2, 3, 2, 2), t(c, 3)),
    "conv_transpose3d": lambda a, b, c: F.conv_transpose3d(t(a, 1, 2, 5, 5, 5), t(b, 2, 3, 2, 2, 2), t(c, 3)),
    "prelu": lambda a, b, c: F.prelu(t(a, 2, 3), t(b, 3)),
    "scaled_dot_product_attention": lambda a, b, c: F.scaled_dot_product_attention(t(a, 2, 3, 4), t(b, 2, 5, 4), t(c, 2, 5, 4)),
    "avg_pool3d": lambda a, b, c: F.avg_pool3d(t(a, 1, 1, 4, 4, 4), 2),
    "avg_pool2d": lambda a, b, c: F.avg_pool2d(t(a, 1, 1, 4, 4), 2),
    "max_pool3d": lambda a, b, c: F.max_pool3d(t(a, 1, 1, 4, 4, 4), 2),
    "max_pool2d": lambda a, b, c: F.max_pool2d(t(a, 1, 1, 4, 4), 2),
    "adaptive_avg_pool3d": lambda a, b, c: F.adaptive_avg_pool3d(t(a, 1, 1, 4, 4, 4), 2),
    "adaptive_avg_pool2d": lambda a, b, c: F.adaptive_avg_pool2d(t(a, 1, 1, 4, 4), 2),
    "adaptive_max_pool3d": lambda a, b, c: F.adaptive_max_pool3d(t(a, 1, 1, 4, 4, 4), 2),
    "max_unpool2d": lambda a, b, c: F.max_unpool2d(t(a, 1, 1, 1, 1), labels(1, 1, 1, 1), 2),
    "max_unpool3d": lambda a, b, c: F.max_unpool3d(t(a, 1, 1, 1, 1, 1), labels(1, 1, 1, 1, 1), 2),
    "grid_sample": lambda a, b, c: F.grid_sample(t(a, 1, 1, 3, 3), t(b, 1, 2, 2, 2), align_corners=False),
    "pad reflect": lambda a, b, c: F.pad(t(a, 1, 3, 3), (1, 1), "reflect"),
    "pad reflect 2d": lambda a, b, c: F.pad(t(a, 1, 3, 3), (1, 1, 1, 1), "reflect"),
    "pad reflect 3d": lambda a, b, c: F.pad(t(a, 1, 1, 3, 3, 3), (1, 1, 1, 1, 1, 1), "reflect"),
    "pad replicate": lambda a, b, c: F.pad(t(a, 1, 3, 3), (1, 1), "replicate"),
    "pad replicate 3d": lambda a, b, c: F.pad(t(a, 1, 1, 3, 3, 3), (1, 1, 1, 1, 1, 1), "replicate"),
    "pad circular": lambda a, b, c: F.pad(t(a, 1, 3, 3), (1, 1), "circular"),
    "pad constant": lambda a, b, c: F.pad(t(a, 3, 3), (1, 1)),
    "prod": lambda a, b, c: torch.prod(t(a, 2, 3)),
    "prod of a dim": lambda a, b, c: torch.prod(t(a, 2, 3), 1),
    "sum": lambda a, b, c: torch.sum(t(a, 2, 3)),
    "cumsum": lambda a, b, c: torch.cumsum(t(a, 2, 3), 0),
    "quantile": lambda a, b, c: torch.quantile(t(a, 2, 3), 0.3),
    "quantile of a tensor": lambda a, b, c: torch.quantile(t(a, 2, 3), t(b, 2)),
    "nanquantile": lambda a, b, c: torch.nanquantile(t(a, 2, 3), 0.3),
    "cdist": lambda a, b, c: torch.cdist(t(a, 2, 3), t(b, 4, 3)),
    "trace": lambda a, b, c: torch.trace(t(a, 3, 3)),
    "cholesky": lambda a, b, c: L.cholesky(square(a)),
    "cholesky_ex": lambda a, b, c: L.cholesky_ex(square(a))[0],
    "cholesky_inverse": lambda a, b, c: torch.cholesky_inverse(square(a)),
    "cholesky_solve": lambda a, b, c: torch.cholesky_solve(t(a, 3, 2), square(b)),
    "inv": lambda a, b, c: L.inv(square(a)),
    "inv_ex": lambda a, b, c: L.inv_ex(square(a))[0],
    "inverse": lambda a, b, c: torch.inverse(square(a)),
    "pinverse": lambda a, b, c: torch.pinverse(square(a)),
    "solve": lambda a, b, c: L.solve(square(a), t(b, 3, 2)),
    "triangular_solve": lambda a, b, c: torch.triangular_solve(t(a, 3, 2), square(b))[0],
    "tensorinv": lambda a, b, c: L.tensorinv(square(a), ind=1),
    "tensorsolve": lambda a, b, c: L.tensorsolve(square(a), t(b, 3)),
    "lstsq": lambda a, b, c: L.lstsq(square(a), t(b, 3, 2))[0],
    "svd": lambda a, b, c: L.svd(square(a))[1],
    "svdvals": lambda a, b, c: L.svdvals(square(a)),
    "eigh": lambda a, b, c: L.eigh(square(a))[0],
    "eigvalsh": lambda a, b, c: L.eigvalsh(square(a)),
    "qr": lambda a, b, c: L.qr(square(a))[0],
    "geqrf": lambda a, b, c: torch.geqrf(square(a))[0],
    "householder_product": lambda a, b, c: L.householder_product(square(a), t(b, 3)),
    "ormqr": lambda a, b, c: torch.ormqr(square(a), t(b, 3), square(c)),
    "cond": lambda a, b, c: L.cond(square(a)),
    "cond of a norm": lambda a, b, c: L.cond(square(a), 1),
    "mse_loss": lambda a, b, c: F.mse_loss(t(a, 2, 3), t(b, 2, 3)),
    "l1_loss": lambda a, b, c: F.l1_loss(t(a, 2, 3), t(b, 2, 3)),
    "smooth_l1_loss": lambda a, b, c: F.smooth_l1_loss(t(a, 2, 3), t(b, 2, 3)),
    "huber_loss": lambda a, b, c: F.huber_loss(t(a, 2, 3), t(b, 2, 3)),
    "nll_loss": lambda a, b, c: F.nll_loss(t(a, 2, 3), labels(2)),
    "cross_entropy": lambda a, b, c: F.cross_entropy(t(a, 2, 3), labels(2)),
    "cross_entropy of probabilities": lambda a, b, c: F.cross_entropy(t(a, 2, 3), t(b, 2, 3)),
    "binary_cross_entropy": lambda a, b, c: F.binary_cross_entropy(t(a, 2, 3), t(b, 2, 3)),
    "binary_cross_entropy_with_logits": lambda a, b, c: F.binary_cross_entropy_with_logits(t(a, 2, 3), t(b, 2, 3)),
    "binary_cross_entropy_with_logits weighted": lambda a, b, c: F.binary_cross_entropy_with_logits(t(a, 2, 3), t(b, 2, 3), t(c, 3)),
    "kl_div": lambda a, b, c: F.kl_div(t(a, 2, 3), t(b, 2, 3), reduction="sum"),
    "poisson_nll_loss": lambda a, b, c: F.poisson_nll_loss(t(a, 2, 3), t(b, 2, 3)),
    "hinge_embedding_loss": lambda a, b, c: F.hinge_embedding_loss(t(a, 2, 3), t(b, 2, 3)),
    "soft_margin_loss": lambda a, b, c: F.soft_margin_loss(t(a, 2, 3), t(b, 2, 3)),
    "margin_ranking_loss": lambda a, b, c: F.margin_ranking_loss(t(a, 3), t(b, 3), t(c, 3)),
    "cosine_embedding_loss": lambda a, b, c: F.cosine_embedding_loss(t(a, 2, 3), t(b, 2, 3), labels(2) + 1),
    "triplet_margin_loss": lambda a, b, c: F.triplet_margin_loss(t(a, 2, 3), t(b, 2, 3), t(c, 2, 3)),
    "multi_margin_loss": lambda a, b, c: F.multi_margin_loss(t(a, 2, 3), labels(2)),
    "multilabel_margin_loss": lambda a, b, c: F.multilabel_margin_loss(t(a, 2, 3), labels(2, 3)),
    "cat": lambda a, b, c: torch.cat([t(a, 2, 3), t(b, 2, 3)]),
    "stack": lambda a, b, c: torch.stack([t(a, 2, 3), t(b, 2, 3)]),
    "index_copy": lambda a, b, c: torch.index_copy(t(a, 2, 3), 0, torch.tensor([1]), t(b, 1, 3)),
    "add": lambda a, b, c: t(a, 2, 3) + t(b, 2, 3),
    "softmax": lambda a, b, c: torch.softmax(t(a, 2, 3), 1),
    "log_softmax": lambda a, b, c: torch.log_softmax(t(a, 2, 3), 1),
    "layer_norm": lambda a, b, c: F.layer_norm(t(a, 2, 3), (3,)),
    "gelu": lambda a, b, c: F.gelu(t(a, 2, 3)),
    "exp": lambda a, b, c: torch.exp(t(a, 2, 3)),
    "norm": lambda a, b, c: torch.norm(t(a, 2, 3)),
    "mean": lambda a, b, c: torch.mean(t(a, 2, 3)),
    "mv": lambda a, b, c: torch.mv(t(a, 2, 3), t(b, 3)),
    "dot": lambda a, b, c: torch.dot(t(a, 3), t(b, 3)),
    "outer": lambda a, b, c: torch.outer(t(a, 3), t(b, 3)),
    "addmm_": lambda a, b, c: t(c, 2, 4).addmm_(t(a, 2, 3), t(b, 3, 4)),
    "matmul out": lambda a, b, c: torch.matmul(t(a, 2, 3), t(b, 3, 4), out=t(c, 2, 4)),
    "embedding": lambda a, b, c: F.embedding(labels(2), t(a, 2, 3)),
}


def dtype_of(call, operands, region):
    try:
        with torch.autocast("cpu", dtype=region):
            return NAMES[call(*(DTYPES[name] for name in operands.split())).dtype]
    except RuntimeError:
        return "-"


def main():
    lines = ["# Made by autocast.py.", "call\t" + "\t".join(f"{region}: {operands}" for region in ("bf16", "f16") for operands in OPERANDS)]
    for name, call in CALLS.items():
        lines.append("\t".join([name, *(dtype_of(call, operands, DTYPES[region]) for region in ("bf16", "f16") for operands in OPERANDS)]))
    (pathlib.Path(__file__).parent / "autocast.tsv").write_text("\n".join(lines) + "\n")


main()
