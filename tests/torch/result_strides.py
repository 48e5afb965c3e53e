"""How PyTorch lays out fresh results: operators over operands of many layouts.

Writes tests/torch/result_strides.tsv: operator, layouts of its operands, layout of its result (`sizes@strides`,
a `none` for no dimensions). tests/ops/result_strides_test.cpp walks it. Run by hand where PyTorch is installed:

    python tests/torch/result_strides.py
"""
import pathlib

import torch
import torch.nn.functional as F

# Sizes and strides in elements: contiguous, permuted, with gaps, expanded, with dimensions of size 1.
LAYOUTS = [
    ((), ()),
    ((5,), (1,)), ((5,), (2,)), ((5,), (0,)), ((1,), (7,)),
    ((3, 4), (4, 1)), ((3, 4), (1, 3)), ((3, 4), (8, 2)), ((3, 4), (2, 6)), ((3, 4), (6, 1)), ((3, 4), (1, 5)),
    ((3, 4), (0, 1)), ((3, 4), (1, 0)), ((3, 4), (0, 0)), ((3, 4), (2, 2)),
    ((3, 1), (1, 1)), ((3, 1), (1, 3)), ((1, 4), (1, 1)), ((1, 4), (4, 1)), ((1, 4), (4, 2)),
    ((3, 3), (1, 3)), ((3, 3), (3, 3)),
    ((2, 3, 4), (12, 4, 1)), ((2, 3, 4), (1, 2, 6)), ((2, 3, 4), (12, 1, 3)), ((2, 3, 4), (4, 8, 1)),
    ((2, 3, 4), (1, 8, 2)), ((2, 3, 4), (30, 1, 5)), ((2, 3, 4), (0, 4, 1)), ((2, 3, 4), (0, 1, 3)),
    ((2, 3, 4), (1, 0, 2)), ((2, 3, 4), (3, 1, 0)), ((2, 1, 4), (1, 2, 2)), ((2, 1, 4), (4, 1, 1)),
    ((1, 3, 1), (1, 1, 3)),
    ((2, 3, 4, 5), (60, 20, 5, 1)), ((2, 3, 4, 5), (60, 1, 15, 3)), ((2, 3, 4, 5), (1, 40, 10, 2)),
    ((2, 3, 4, 5), (20, 40, 1, 4)), ((2, 3, 4, 5), (100, 2, 25, 5)), ((2, 1, 4, 5), (20, 1, 5, 1)),
    ((2, 3, 1, 1), (3, 1, 3, 3)), ((2, 3, 1, 5), (15, 1, 15, 3)),
]


def make(layout, dtype=torch.float32):
    sizes, strides = layout
    span = 1 + sum(max(n - 1, 0) * s for n, s in zip(sizes, strides))
    return torch.arange(span).to(dtype).as_strided(sizes, strides)


def ones_of(x):
    return torch.ones(x.shape, dtype=torch.int64)


def index(n):
    return torch.zeros(n, dtype=torch.int64)


def has_elements(x):
    return x.numel() > 0


def rank(least, most=4):
    return lambda x: has_elements(x) and least <= x.dim() <= most


# name: (what it computes, for which operands)
UNARY = dict(
    neg=(lambda x: -x, None),
    clone=(lambda x: x.clone(), None),
    relu=(F.relu, None),
    gelu=(F.gelu, None),
    square=(lambda x: x.square(), None),
    to_f64=(lambda x: x.to(torch.float64), None),
    isnan=(lambda x: x.isnan(), None),
    add_number=(lambda x: x + 1, None),
    less_number=(lambda x: x < 1, None),
    clamp=(lambda x: x.clamp(0, 1), None),
    nan_to_num=(lambda x: x.nan_to_num(), None),
    masked_fill=(lambda x: x.masked_fill(torch.ones(x.shape, dtype=torch.bool), 2.0), None),
    where=(lambda x: torch.where(torch.ones(x.shape, dtype=torch.bool), x, x), None),
    dropout=(lambda x: F.dropout(x, 0.5), None),
    empty_like=(torch.empty_like, None),
    zeros_like=(torch.zeros_like, None),
    full_like=(lambda x: torch.full_like(x, 2), None),
    randn_like=(torch.randn_like, None),
    contiguous_result=(lambda x: x.clone(memory_format=torch.contiguous_format), None),
    sum_first=(lambda x: x.sum(0), rank(1)),
    sum_last_keepdim=(lambda x: x.sum(-1, keepdim=True), rank(1)),
    mean_first=(lambda x: x.mean(0), rank(1)),
    amax_last=(lambda x: x.amax(-1), rank(1)),
    max_first=(lambda x: x.max(0).values, rank(1)),
    argmax_last=(lambda x: x.argmax(-1), rank(1)),
    any_first=(lambda x: (x > 0).any(0), rank(1)),
    var_first=(lambda x: x.var(0), rank(2)),
    std_last_keepdim=(lambda x: x.std(-1, keepdim=True), rank(2)),
    logsumexp_first=(lambda x: x.logsumexp(0), rank(1)),
    softmax_last=(lambda x: x.softmax(-1), rank(1)),
    log_softmax_first=(lambda x: x.log_softmax(0), rank(1)),
    layer_norm=(lambda x: F.layer_norm(x, x.shape[-1:]), rank(1)),
    tril=(lambda x: x.tril(), rank(2)),
    triu=(lambda x: x.triu(1), rank(2)),
    flip=(lambda x: x.flip(0), rank(1)),
    pad=(lambda x: F.pad(x, (1, 2)), rank(1)),
    reshape=(lambda x: x.reshape(-1), rank(1)),
    index_select=(lambda x: x.index_select(0, index(2)), rank(1)),
    gather=(lambda x: x.gather(0, index(x.shape)), rank(1)),
    scatter=(lambda x: x.scatter(0, index(x.shape), x), rank(1)),
    scatter_add=(lambda x: x.scatter_add(0, index(x.shape), x), rank(1)),
    index_add=(lambda x: x.index_add(0, index(x.shape[0]), x), rank(1)),
    index_copy=(lambda x: x.index_copy(0, torch.arange(x.shape[0]), x), rank(1)),
    index_fill=(lambda x: x.index_fill(0, index(1), 2), rank(1)),
    index_put=(lambda x: x.index_put((index(2),), torch.ones(())), rank(1)),
    masked_scatter=(lambda x: x.masked_scatter(torch.ones(x.shape, dtype=torch.bool), x), rank(1)),
    cat=(lambda x: torch.cat([x, x], 0), rank(1)),
    stack=(lambda x: torch.stack([x, x], 0), rank(0, 3)),  # (of images with channels last its layout is no rule)
    embedding=(lambda x: F.embedding(index(2), x), rank(2, 2)),
    slice_scatter=(lambda x: x.slice_scatter(torch.zeros_like(x[:1]), 0, 0, 1), rank(1)),
    select_scatter=(lambda x: x.select_scatter(torch.zeros_like(x[0]), 0, 0), rank(1)),
    diagonal_scatter=(lambda x: x.diagonal_scatter(torch.zeros_like(x.diagonal())), rank(2)),
    mse_loss=(lambda x: F.mse_loss(x, x, reduction="none"), None),
    linear=(lambda x: F.linear(x, torch.ones(6, x.shape[-1])), rank(1)),
    linear_bias=(lambda x: F.linear(x, torch.ones(6, x.shape[-1]), torch.ones(6)), rank(1)),
    matmul_matrix=(lambda x: x @ torch.ones(x.shape[-1], 6), rank(1)),
    matmul_vector=(lambda x: x @ torch.ones(x.shape[-1]), rank(1)),
    matmul_from_left=(lambda x: torch.ones(6, x.shape[-2]) @ x, rank(2)),
    matmul_batches=(lambda x: x @ x.mT, rank(2)),
    attention=(lambda x: F.scaled_dot_product_attention(x, x, x), rank(3)),
)
BINARY = dict(
    add=(lambda x, y: x + y, None),
    where_first=(lambda x, y: torch.where(x > 0, x, y), None),
)


def text(t):
    return ("x".join(map(str, t.shape)) or "none") + "@" + (",".join(map(str, t.stride())) or "none")


def is_dense(t):
    """Whether there are no gaps: the scatters of slices keep those of their operand, which Tandem does not."""
    inside_out = sorted((s, n) for n, s in zip(t.shape, t.stride()) if n > 1)
    expected = 1
    for stride, size in inside_out:
        if stride != expected:
            return False
        expected *= size
    return True


def broadcastable(a, b):
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b)))


def main():
    lines = [f"# PyTorch {torch.__version__.split('+')[0]}: operator, layouts of operands, layout of the result"]
    operands = [make(layout) for layout in LAYOUTS]
    for name, (compute, takes) in UNARY.items():
        for x in operands:
            if has_elements(x) and (takes is None or takes(x)) and is_dense(result := compute(x)):
                lines.append(f"{name}\t{text(x)}\t{text(result)}")
    for name, (compute, _) in BINARY.items():
        for x in operands:
            for y in operands:
                if broadcastable(x.shape, y.shape):
                    lines.append(f"{name}\t{text(x)} {text(y)}\t{text(compute(x, y))}")
    pathlib.Path(__file__).with_suffix(".tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
