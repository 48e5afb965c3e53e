"""The functions of cases.cpp in PyTorch, by the same names, and a worker that times them as tandem-ops does."""
import os
import sys
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 2)))
randn, rand, randint = torch.randn, torch.rand, torch.randint

square = lambda: [randn(1024, 1024)]
positive = lambda: [rand(1024, 1024) + 0.1]
two = lambda: [randn(1024, 1024), randn(1024, 1024) + 3]
three = lambda: [randn(1024, 1024) for _ in range(3)]
row = lambda: [randn(1024, 1024), randn(1024)]
masked = lambda: [randn(1024, 1024) > 0, randn(1024, 1024), randn(1024, 1024)]
factors = lambda: [randn(512, 512), randn(512, 512)]
batches = lambda: [randn(32, 128, 64), randn(32, 64, 128)]
layer = lambda: [randn(256, 1024), randn(512, 1024), randn(512)]
norm = lambda: [randn(1024, 1024), randn(1024), randn(1024)]
images = lambda: [randn(8, 64, 56, 56)]
channels = lambda: [randn(8, 64, 56, 56), randn(64), randn(64)]
conv = lambda: [randn(8, 32, 32, 32), randn(64, 32, 3, 3), randn(64)]
depthwise = lambda: [randn(8, 64, 56, 56), randn(64, 1, 3, 3), randn(64)]
line = lambda: [randn(8, 64, 512), randn(64, 64, 3), randn(64)]
transposed = lambda: [randn(8, 32, 16, 16), randn(32, 32, 4, 4), randn(32)]
heads = lambda: [randn(2, 8, 128, 64) for _ in range(3)]
logits = lambda: [randn(512, 1024), randint(0, 1024, (512,))]
chances = lambda: [randn(1024, 1024), rand(1024, 1024)]
table = lambda: [randn(10000, 128), randint(0, 10000, (32, 128))]
rows = lambda: [randn(1024, 1024), randint(0, 1024, (512,))]
places = lambda: [randn(1024, 1024), randint(0, 1024, (1024, 512))]
added = lambda: [randn(1024, 1024), randint(0, 1024, (1024, 512)), randn(1024, 512)]

CASES = {
    "add": (two, lambda x, y: x + y), "sub_scaled": (two, lambda x, y: torch.sub(x, y, alpha=0.5)), "mul": (two, lambda x, y: x * y),
    "div": (two, lambda x, y: x / y), "mul_number": (square, lambda x: x * 0.5), "add_row": (row, lambda x, y: x + y),
    "maximum": (two, torch.maximum), "pow": (positive, lambda x: x**1.7), "square": (square, torch.square), "sqrt": (positive, torch.sqrt),
    "exp": (square, torch.exp), "log": (positive, torch.log), "sin": (square, torch.sin), "tanh": (square, torch.tanh),
    "sigmoid": (square, torch.sigmoid), "erf": (square, torch.erf), "abs": (square, torch.abs),
    "clamp": (square, lambda x: torch.clamp(x, -0.5, 0.5)), "where": (masked, torch.where), "gt": (two, lambda x, y: x > y),
    "addcmul": (three, lambda x, y, z: torch.addcmul(x, y, z, value=0.5)), "masked_fill": (masked, lambda m, x, y: x.masked_fill(m, 0)),
    "relu": (square, F.relu), "leaky_relu": (square, F.leaky_relu), "gelu": (square, F.gelu), "silu": (square, F.silu),
    "softplus": (square, F.softplus), "hardswish": (square, F.hardswish), "dropout": (square, lambda x: F.dropout(x, 0.1)),
    "sum": (square, torch.sum), "sum_rows": (square, lambda x: x.sum(1)), "sum_columns": (square, lambda x: x.sum(0)),
    "mean": (square, lambda x: x.mean(1)), "var": (square, lambda x: x.var(1)), "amax": (square, lambda x: x.amax(1)),
    "argmax": (square, lambda x: x.argmax(1)), "norm": (square, lambda x: x.norm()), "softmax": (square, lambda x: x.softmax(1)),
    "log_softmax": (square, lambda x: x.log_softmax(1)), "logsumexp": (square, lambda x: x.logsumexp(1)),
    "cumsum": (square, lambda x: x.cumsum(1)), "sort": (square, lambda x: x.sort(1).values), "topk": (square, lambda x: x.topk(16).values),
    "matmul": (factors, torch.matmul), "bmm": (batches, torch.matmul), "linear": (layer, F.linear),
    "attention": (heads, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
    "layer_norm": (norm, lambda x, w, b: F.layer_norm(x, (1024,), w, b)), "rms_norm": (norm, lambda x, w, b: F.rms_norm(x, (1024,), w)),
    "batch_norm": (channels, lambda x, w, b: F.batch_norm(x, None, None, w, b, True)),
    "group_norm": (channels, lambda x, w, b: F.group_norm(x, 8, w, b)),
    "conv2d": (conv, lambda x, w, b: F.conv2d(x, w, b, padding=1)),
    "conv2d_depthwise": (depthwise, lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=64)),
    "conv1d": (line, lambda x, w, b: F.conv1d(x, w, b, padding=1)),
    "conv_transpose2d": (transposed, lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1)),
    "max_pool2d": (images, lambda x: F.max_pool2d(x, 2)), "avg_pool2d": (images, lambda x: F.avg_pool2d(x, 2)),
    "adaptive_avg_pool2d": (images, lambda x: F.adaptive_avg_pool2d(x, 1)),
    "interpolate_bilinear": (images, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
    "interpolate_nearest": (images, lambda x: F.interpolate(x, scale_factor=2)),
    "cross_entropy": (logits, F.cross_entropy), "mse_loss": (two, F.mse_loss),
    "bce_with_logits": (chances, F.binary_cross_entropy_with_logits), "smooth_l1_loss": (two, F.smooth_l1_loss),
    "cat": (two, lambda x, y: torch.cat((x, y), 1)), "stack": (two, lambda x, y: torch.stack((x, y))),
    "transpose": (square, lambda x: x.T.contiguous()), "flip": (square, lambda x: x.flip(1)), "roll": (square, lambda x: x.roll(100, 1)),
    "pad": (square, lambda x: F.pad(x, (3, 3, 3, 3))), "tril": (square, torch.tril), "embedding": (table, lambda w, i: F.embedding(i, w)),
    "index_select": (rows, lambda x, i: x.index_select(0, i)), "gather": (places, lambda x, i: x.gather(1, i)),
    "scatter_add": (added, lambda x, i, v: x.scatter_add(1, i, v)),
}


def serve():
    prepared = None
    for text in sys.stdin:
        name, _, direction, count = text.split()
        if prepared is None or prepared[0] != name:
            inputs, call = CASES[name][0](), CASES[name][1]
            prepared = name, inputs, call, torch.randn(call(*inputs).shape)
        _, inputs, call, weight = prepared
        leaves = [x.detach().requires_grad_() if x.is_floating_point() else x for x in inputs]
        wanted = [x for x in leaves if x.requires_grad]
        for _ in range(int(count)):
            start = time.perf_counter()
            if direction == "backward":
                torch.autograd.grad(call(*leaves), wanted, weight, allow_unused=True)
            else:
                call(*inputs)
            print(f"{(time.perf_counter() - start) * 1e3:.6f}")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
