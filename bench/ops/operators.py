"""The functions of cases.cpp in PyTorch, by the same names, and a worker that times them as tandem-ops does."""
import os
import sys
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 2)))
randn, rand, randint = torch.randn, torch.rand, torch.randint

sides = (1024, 1024)  # of the matrices that most functions are given
square = lambda: [randn(*sides)]
positive = lambda: [rand(*sides) + 0.1]
two = lambda: [randn(*sides), randn(*sides) + 3]
three = lambda: [randn(*sides) for _ in range(3)]
row = lambda: [randn(*sides), randn(sides[1])]
masked = lambda: [randn(*sides) > 0, randn(*sides), randn(*sides)]
factors = lambda: [randn(512, 512), randn(512, 512)]
batches = lambda: [randn(32, 128, 64), randn(32, 64, 128)]
layer = lambda: [randn(256, 1024), randn(512, 1024), randn(512)]
norm = lambda: [randn(*sides), randn(sides[1]), randn(sides[1])]
images = lambda: [randn(8, 64, 56, 56)]
channels = lambda: [randn(8, 64, 56, 56), randn(64), randn(64)]
conv = lambda: [randn(8, 32, 32, 32), randn(64, 32, 3, 3), randn(64)]
depthwise = lambda: [randn(8, 64, 56, 56), randn(64, 1, 3, 3), randn(64)]
line = lambda: [randn(8, 64, 512), randn(64, 64, 3), randn(64)]
transposed = lambda: [randn(8, 32, 16, 16), randn(32, 32, 4, 4), randn(32)]
heads = lambda: [randn(2, 8, 128, 64) for _ in range(3)]
logits = lambda: [randn(sides[0] // 2, sides[1]), randint(0, sides[1], (sides[0] // 2,))]
chances = lambda: [randn(*sides), rand(*sides)]
table = lambda: [randn(10000, 128), randint(0, 10000, (32, 128))]
rows = lambda: [randn(*sides), randint(0, sides[0], (sides[0] // 2,))]
places = lambda: [randn(*sides), randint(0, sides[1], (sides[0], sides[1] // 2))]
added = lambda: [randn(*sides), randint(0, sides[1], (sides[0], sides[1] // 2)), randn(sides[0], sides[1] // 2)]
fractions = lambda: [rand(*sides) * 1.8 - 0.9]
fractions_up = lambda: [rand(*sides)]
weights = lambda: [rand(512, 1024)]
integers = lambda: [randint(0, 1000, sides), randint(0, 1000, sides)]
digits = lambda: [randint(0, 100, (256, 1024))]
numbers = lambda: [randint(0, 1000, (100000,))]
numbers_few = lambda: [randint(0, 1000, (1024,))]
halves = lambda: [randn(*sides).bfloat16(), randn(*sides).bfloat16()]
half = lambda: [randn(*sides).bfloat16()]
doubles = lambda: [randn(*sides).double()]
cube = lambda: [randn(64, 128, 128)]
masks = lambda: [randn(*sides) > 0]
sorted = lambda: [randn(10000).sort().values, randn(100000)]
tested = lambda: [randint(0, 10000, (100000,)), randint(0, 10000, (1000,))]
long_rows = lambda: [randn(1000000), randn(1000000)]
short_rows = lambda: [randn(1024), randn(1024)]
row_alone = lambda: [randn(1024)]
one_row = lambda: [randn(1, 1024), randn(1024, 1024)]
few_rows = lambda: [randn(8, 1024), randn(1024, 1024)]
half_factors = lambda: [randn(512, 512).bfloat16(), randn(512, 512).bfloat16()]
double_factors = lambda: [randn(512, 512).double(), randn(512, 512).double()]
tall = lambda: [randn(100000, 16), randn(16, 16)]
small_batches = lambda: [randn(4096, 8, 8), randn(4096, 8, 8)]
added_batches = lambda: [randn(32, 128, 128), randn(32, 128, 64), randn(32, 64, 128)]
joined = lambda: [randn(32, 64, 64), randn(32, 64, 64), randn(32, 64)]
little = lambda: [randn(32, 32), randn(32, 32)]
points = lambda: [randn(1000, 16), randn(1000, 16)]
pairs = lambda: [randn(128, 64), randn(128, 64), randn(32, 64, 64)]
definite = lambda: [definite_matrix(256, 256)]
many_definite = lambda: [definite_matrix(256, 16, 16)]
equations = lambda: [definite_matrix(256, 256), randn(256, 64)]
generators = lambda: [randn(64, 64) * 0.1]
conv_1x1 = lambda: [randn(8, 64, 28, 28), randn(256, 64, 1, 1), randn(256)]
first_layer = lambda: [randn(4, 3, 112, 112), randn(64, 3, 7, 7), randn(64)]
conv_5x5 = lambda: [randn(4, 32, 28, 28), randn(32, 32, 5, 5), randn(32)]
conv_grouped = lambda: [randn(8, 64, 28, 28), randn(64, 16, 3, 3), randn(64)]
depthwise_5x5 = lambda: [randn(8, 64, 28, 28), randn(64, 1, 5, 5), randn(64)]
line_depthwise = lambda: [randn(8, 64, 512), randn(64, 1, 7), randn(64)]
line_alone = lambda: [randn(8, 64, 2048)]
volume_conv = lambda: [randn(2, 16, 16, 16, 16), randn(32, 16, 3, 3, 3), randn(32)]
volumes = lambda: [randn(4, 16, 32, 32, 32)]
columns = lambda: [randn(4, 288, 3136)]
sampled = lambda: [randn(4, 32, 56, 56), rand(4, 56, 56, 2) * 2 - 1]
bags = lambda: [randn(10000, 128), randint(0, 10000, (128, 32))]
spoken = lambda: [randn(100, 16, 50).log_softmax(2), randint(1, 50, (16, 20))]
heads_flat = lambda: [randn(4, 256, 8, 64)]
indexed = lambda: [randn(*sides), randint(0, sides[0], (100000,)), randint(0, sides[1], (100000,))]
put_pairs = lambda: [randn(*sides), randint(0, sides[0], (100000,)), randint(0, sides[1], (100000,)), randn(100000)]
added_rows = lambda: [randn(*sides), torch.randperm(sides[0] // 2), randn(sides[0] // 2, sides[1])]
graph = lambda: [randn(5000, 64), randint(0, 5000, (50000, 1)), randn(50000, 64)]


def definite_matrix(*sizes):
    x = randn(*sizes)
    return x @ x.mT + 10 * torch.eye(sizes[-1])


small_two = lambda: [randn(32, 32), randn(32, 32)]
small_layer = lambda: [randn(8, 32), randn(32, 32), randn(32)]
small_logits = lambda: [randn(8, 10), randint(0, 10, (8,))]
small_table = lambda: [randn(100, 16), randint(0, 100, (8,))]
small_conv = lambda: [randn(1, 4, 8, 8), randn(4, 4, 3, 3), randn(4)]
small_equations = lambda: [definite_matrix(8, 8), randn(8, 2)]
small_heads = lambda: [randn(1, 2, 8, 16)]
above_one = lambda: [rand(*sides) + 1.1]
shifts = lambda: [randint(0, 1000, sides), randint(0, 8, sides)]
two_positive = lambda: [rand(*sides) + 0.1, rand(*sides) + 0.1]
two_masks = lambda: [randn(*sides) > 0, randn(*sides) > 0]
zeta_arguments = lambda: [rand(256, 1024) + 1.5, rand(256, 1024) + 0.5]
digits_line = lambda: [randint(0, 3, (100000,))]
edges = lambda: [randn(100000), randn(100).sort().values]
taken = lambda: [randn(*sides), randint(0, 1000000, (100000,)), randn(100000)]
space = lambda: [randn(100000, 3), randn(100000, 3)]
added_layer = lambda: [randn(512), randn(256, 1024), randn(1024, 512)]
added_vector = lambda: [randn(sides[0]), randn(*sides), randn(sides[1])]
added_outer = lambda: [randn(*sides), randn(sides[0]), randn(sides[1])]
summed_batches = lambda: [randn(128, 128), randn(32, 128, 64), randn(32, 64, 128)]
tensors = lambda: [randn(64, 32, 16), randn(32, 16, 64)]
chain = lambda: [randn(256, 32), randn(32, 512), randn(512, 64)]
little_matrix = lambda: [randn(128, 128) * 0.1]
tall_matrix = lambda: [randn(256, 64), randn(256, 8)]
short_labels = lambda: [rand(512, 100), randint(0, 100, (512,))]
many_labels = lambda: [randn(512, 100), randint(0, 2, (512, 100))]
signs = lambda: [randn(*sides), randn(*sides), randn(*sides).sign()]
sign_of_rows = lambda: [randn(*sides), randn(*sides), randn(sides[0]).sign()]
chances_of_chances = lambda: [rand(*sides) * 0.98 + 0.01, rand(*sides)]
measured = lambda: [randn(*sides), randn(*sides), rand(*sides) + 0.1]
few_points = lambda: [randn(500, 16)]
line_transposed = lambda: [randn(8, 64, 256), randn(64, 32, 4), randn(32)]
volume_transposed = lambda: [randn(2, 16, 8, 8, 8), randn(16, 16, 4, 4, 4), randn(16)]
angles = lambda: [randn(8, 2, 3)]
half_heads = lambda: [*(randn(2, 8, 128, 64).bfloat16() for _ in range(3))]
masked_heads = lambda: [*(randn(2, 8, 128, 64) for _ in range(3)), randn(128, 128)]
one_query = lambda: [randn(2, 8, 1, 64), randn(2, 8, 1024, 64), randn(2, 8, 1024, 64)]
half_rows = lambda: [randn(*sides), randn(sides[0] // 2, sides[1])]
table_of_halves = lambda: [randn(*sides).bfloat16(), randn(sides[1]).bfloat16(), randn(sides[1]).bfloat16()]
small_row = lambda: [randn(32, 32), randn(32)]

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
    "layer_norm": (norm, lambda x, w, b: F.layer_norm(x, (sides[1],), w, b)), "rms_norm": (norm, lambda x, w, b: F.rms_norm(x, (sides[1],), w)),
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
    "floor": (square, torch.floor), "remainder": (two, torch.remainder), "fmod": (two, torch.fmod), "atan2": (two, torch.atan2),
    "hypot": (two, torch.hypot), "lerp": (three, torch.lerp), "logaddexp": (two, torch.logaddexp), "xlogy": (chances, torch.xlogy),
    "lgamma": (positive, torch.lgamma), "digamma": (positive, torch.digamma), "erfinv": (fractions, torch.erfinv), "i0": (square, torch.i0),
    "nan_to_num": (square, torch.nan_to_num), "elu": (square, F.elu), "mish": (square, F.mish), "log_sigmoid": (square, F.logsigmoid),
    "hardtanh": (square, F.hardtanh), "prelu": (row, F.prelu), "glu": (square, F.glu), "bitwise_and": (integers, torch.bitwise_and),
    "add_integers": (integers, lambda x, y: x + y), "add_bf16": (halves, lambda x, y: x + y), "gelu_bf16": (half, F.gelu),
    "exp_f64": (doubles, torch.exp), "tanh_f64": (doubles, torch.tanh), "to_bf16": (square, lambda x: x.bfloat16()),
    "add_transposed": (two, lambda x, y: x + y.T), "exp_of_every_other": (square, lambda x: torch.exp(x[..., ::2])),
    "prod": (square, lambda x: x.prod(1)), "std": (square, lambda x: x.std(1)), "sum_middle": (cube, lambda x: x.sum(1)),
    "sum_outer": (cube, lambda x: x.sum((0, 2))), "sum_bf16": (half, lambda x: x.sum(1)), "var_columns": (square, lambda x: x.var(0)),
    "amax_columns": (square, lambda x: x.amax(0)), "argmax_columns": (square, lambda x: x.argmax(0)),
    "softmax_columns": (square, lambda x: x.softmax(0)), "any_rows": (masks, lambda m: m.any(1)),
    "count_nonzero": (square, torch.count_nonzero), "nansum": (square, torch.nansum), "norm_p1": (square, lambda x: x.norm(1, 1)),
    "median": (square, lambda x: x.median(1).values), "median_of_all": (square, torch.median),
    "kthvalue": (square, lambda x: x.kthvalue(100).values), "mode": (digits, lambda x: x.mode().values),
    "quantile": (square, lambda x: x.quantile(0.3, 1)), "cumprod": (square, lambda x: x.cumprod(1)),
    "cummax": (square, lambda x: x.cummax(1).values), "logcumsumexp": (square, lambda x: x.logcumsumexp(1)),
    "cumsum_columns": (square, lambda x: x.cumsum(0)), "diff": (square, torch.diff), "sort_columns": (square, lambda x: x.sort(0).values),
    "argsort_integers": (digits, torch.argsort), "topk_columns": (square, lambda x: x.topk(16, 0).values),
    "histc": (square, lambda x: x.histc(100, -3, 3)), "bincount": (numbers, lambda x: x.bincount(minlength=1000)),
    "searchsorted": (sorted, torch.searchsorted), "unique": (numbers, torch.unique), "isin": (tested, torch.isin), "mv": (row, torch.mv),
    "vector_matrix": (row, lambda x, v: v @ x), "dot": (long_rows, torch.dot), "outer": (short_rows, torch.outer),
    "linear_of_one": (one_row, F.linear), "linear_of_few": (few_rows, F.linear), "matmul_bf16": (half_factors, torch.matmul),
    "matmul_f64": (double_factors, torch.matmul), "matmul_tall": (tall, torch.matmul), "bmm_small": (small_batches, torch.matmul),
    "baddbmm": (added_batches, torch.baddbmm), "einsum": (joined, lambda x, y, z: torch.einsum("bij,bkj,bk->bi", x, y, z)),
    "kron": (little, torch.kron), "cdist": (points, torch.cdist), "cdist_p1": (points, lambda x, y: torch.cdist(x, y, 1)),
    "cosine_similarity": (two, F.cosine_similarity), "bilinear": (pairs, F.bilinear), "cholesky": (definite, torch.linalg.cholesky),
    "inverse": (definite, torch.inverse), "det": (definite, lambda x: torch.det(x * 0.004)), "solve": (equations, torch.linalg.solve),
    "solve_triangular": (equations, lambda a, b: torch.linalg.solve_triangular(a, b, upper=False)),
    "qr": (definite, lambda x: torch.linalg.qr(x).R), "eigh": (definite, lambda x: torch.linalg.eigh(x).eigenvalues),
    "svdvals": (definite, torch.linalg.svdvals), "matrix_exp": (generators, torch.matrix_exp),
    "cholesky_of_many": (many_definite, torch.linalg.cholesky), "inverse_of_many": (many_definite, torch.inverse),
    "instance_norm": (channels, lambda x, w, b: F.instance_norm(x, None, None, w, b)),
    "local_response_norm": (images, lambda x: F.local_response_norm(x, 5)), "normalize": (square, F.normalize),
    "conv2d_1x1": (conv_1x1, F.conv2d), "conv2d_strided": (conv, lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1)),
    "conv2d_dilated": (conv, lambda x, w, b: F.conv2d(x, w, b, padding=2, dilation=2)),
    "conv2d_first": (first_layer, lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=3)),
    "conv2d_5x5": (conv_5x5, lambda x, w, b: F.conv2d(x, w, b, padding=2)),
    "conv2d_grouped": (conv_grouped, lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=4)),
    "conv2d_depthwise_5x5": (depthwise_5x5, lambda x, w, b: F.conv2d(x, w, b, padding=2, groups=64)),
    "conv1d_dilated": (line, lambda x, w, b: F.conv1d(x, w, b, padding=4, dilation=4)),
    "conv1d_depthwise": (line_depthwise, lambda x, w, b: F.conv1d(x, w, b, padding=3, groups=64)),
    "conv3d": (volume_conv, lambda x, w, b: F.conv3d(x, w, b, padding=1)), "max_pool1d": (line_alone, lambda x: F.max_pool1d(x, 2)),
    "max_pool2d_3x3": (images, lambda x: F.max_pool2d(x, 3, stride=2, padding=1)), "max_pool3d": (volumes, lambda x: F.max_pool3d(x, 2)),
    "avg_pool3d": (volumes, lambda x: F.avg_pool3d(x, 2)), "avg_pool2d_3x3": (images, lambda x: F.avg_pool2d(x, 3, stride=1, padding=1)),
    "adaptive_max_pool2d": (images, lambda x: F.adaptive_max_pool2d(x, 7)), "lp_pool2d": (images, lambda x: F.lp_pool2d(x, 2, 2)),
    "im2col": (images, lambda x: F.unfold(x, 3, padding=1)), "fold": (columns, lambda x: F.fold(x, 56, 3, padding=1)),
    "pixel_shuffle": (images, lambda x: F.pixel_shuffle(x, 2)),
    "grid_sample": (sampled, lambda x, g: F.grid_sample(x, g, align_corners=False)),
    "interpolate_bicubic": (images, lambda x: F.interpolate(x, scale_factor=2, mode="bicubic")),
    "interpolate_area": (images, lambda x: F.interpolate(x, 28, mode="area")), "embedding_bag": (bags, lambda w, i: F.embedding_bag(i, w)),
    "nll_loss": (logits, F.nll_loss), "kl_div": (chances, lambda x, y: F.kl_div(x, y, reduction="mean")), "huber_loss": (two, F.huber_loss),
    "triplet_margin_loss": (three, F.triplet_margin_loss), "ctc_loss": (spoken, lambda p, t: F.ctc_loss(p, t, (100,) * 16, (20,) * 16)),
    "repeat": (square, lambda x: x.repeat(2, 2)), "repeat_interleave": (square, lambda x: x.repeat_interleave(2, 1)),
    "rot90": (square, torch.rot90), "permute": (cube, lambda x: x.permute(2, 0, 1).contiguous()),
    "heads_swapped": (heads_flat, lambda x: x.transpose(1, 2).contiguous()),
    "split_and_joined": (square, lambda x: torch.cat(x.chunk(4, 1), 0)), "one_hot": (numbers_few, lambda i: F.one_hot(i, 1000)),
    "diag": (row_alone, torch.diag), "index_rows": (rows, lambda x, i: x[i]), "index_pairs": (indexed, lambda x, i, j: x[i, j]),
    "masked_select": (masked, lambda m, x, y: x.masked_select(m)), "masked_scatter": (masked, lambda m, x, y: x.masked_scatter(m, y)),
    "nonzero": (masks, torch.nonzero), "index_add": (added_rows, lambda x, i, y: x.index_add(0, i, y)),
    "index_copy": (added_rows, lambda x, i, y: x.index_copy(0, i, y)),
    "index_put_accumulate": (put_pairs, lambda x, i, j, v: x.index_put((i, j), v, accumulate=True)),
    "scatter": (added, lambda x, i, v: x.scatter(1, i, v)),
    "scatter_reduce_amax": (added, lambda x, i, v: x.scatter_reduce(1, i, v, "amax")),
    "scatter_add_rows": (graph, lambda x, i, v: x.scatter_add(0, i.expand(-1, 64), v)),
    "take_along_dim": (places, lambda x, i: torch.take_along_dim(x, i, 1)), "randn": (row_alone, lambda x: randn(1024, 1024)),
    "rand": (row_alone, lambda x: rand(1024, 1024)), "randperm": (row_alone, lambda x: torch.randperm(1000000)),
    "bernoulli": (fractions_up, torch.bernoulli), "multinomial": (weights, lambda x: x.multinomial(10, True)),
    "add_small": (small_two, lambda x, y: x + y), "mul_number_small": (small_two, lambda x, y: x * 0.5),
    "exp_small": (small_two, lambda x, y: torch.exp(x)), "sum_small": (small_two, lambda x, y: x.sum()),
    "softmax_small": (small_two, lambda x, y: x.softmax(1)), "matmul_small": (small_two, lambda x, y: x @ y.T),
    "linear_small": (small_layer, F.linear), "layer_norm_small": (small_layer, lambda x, w, b: F.layer_norm(x, (32,), b, b)),
    "gelu_small": (small_two, lambda x, y: F.gelu(x)), "cat_small": (small_two, lambda x, y: torch.cat((x, y))),
    "index_small": (small_two, lambda x, y: x[3]), "transpose_small": (small_two, lambda x, y: x.T.contiguous()),
    "cross_entropy_small": (small_logits, F.cross_entropy), "embedding_small": (small_table, lambda w, i: F.embedding(i, w)),
    "conv2d_small": (small_conv, lambda x, w, b: F.conv2d(x, w, b, padding=1)),
    "max_pool2d_small": (small_conv, lambda x, w, b: F.max_pool2d(x, 2)), "where_small": (small_two, lambda x, y: torch.where(x > 0, x, y)),
    "topk_small": (small_two, lambda x, y: x.topk(3).values), "sort_small": (small_two, lambda x, y: x.sort().values),
    "cumsum_small": (small_two, lambda x, y: x.cumsum(1)), "var_small": (small_two, lambda x, y: x.var(1)),
    "mse_loss_small": (small_two, F.mse_loss), "solve_small": (small_equations, torch.linalg.solve),
    "attention_small": (small_heads, lambda x: F.scaled_dot_product_attention(x, x, x)),
    "neg": (square, torch.neg), "sign": (square, torch.sign), "round": (square, torch.round), "exp2": (square, torch.exp2),
    "expm1": (square, torch.expm1), "cos": (square, torch.cos), "tan": (square, torch.tan), "atan": (square, torch.atan),
    "sinh": (square, torch.sinh), "cosh": (square, torch.cosh), "asinh": (square, torch.asinh), "erfc": (square, torch.erfc),
    "frac": (square, torch.frac), "sinc": (square, torch.sinc), "deg2rad": (square, torch.deg2rad), "log1p": (positive, torch.log1p),
    "log10": (positive, torch.log10), "rsqrt": (positive, torch.rsqrt), "reciprocal": (positive, torch.reciprocal),
    "asin": (fractions, torch.asin), "acos": (fractions, torch.acos), "atanh": (fractions, torch.atanh), "acosh": (above_one, torch.acosh),
    "logit": (fractions_up, torch.logit), "bitwise_not": (integers, lambda x, y: torch.bitwise_not(x)), "logical_not": (square, torch.logical_not),
    "isnan": (square, torch.isnan), "signbit": (square, torch.signbit), "angle": (square, torch.angle), "relu6": (square, F.relu6),
    "selu": (square, F.selu), "hardsigmoid": (square, F.hardsigmoid), "softsign": (square, F.softsign),
    "floor_divide": (two, torch.floor_divide), "minimum": (two, torch.minimum), "fmax": (two, torch.fmax),
    "copysign": (two, torch.copysign), "heaviside": (two, torch.heaviside), "nextafter": (two, torch.nextafter),
    "logaddexp2": (two, torch.logaddexp2), "eq": (integers, torch.eq), "float_power": (two_positive, torch.float_power),
    "ldexp": (two, torch.ldexp), "igamma": (two_positive, torch.igamma), "gcd": (integers, torch.gcd), "lcm": (integers, torch.lcm),
    "shift_left": (shifts, torch.bitwise_left_shift), "bitwise_xor": (integers, torch.bitwise_xor),
    "logical_and": (two_masks, torch.logical_and), "div_integers": (shifts, lambda x, y: x / (y + 1)),
    "remainder_integers": (shifts, lambda x, y: x % (y + 1)), "to_i64": (square, lambda x: x.long()),
    "add_column": (square, lambda x: x + x[:, :1]), "fill_of_slice": (square, lambda x: torch.slice_scatter(x, x[:512] * 2, 0, 256, 768)),
    "entr": (positive, torch.special.entr), "erfcx": (square, torch.special.erfcx), "i0e": (square, torch.special.i0e),
    "i1": (square, torch.special.i1), "i1e": (square, torch.special.i1e), "log_ndtr": (square, torch.special.log_ndtr),
    "ndtri": (fractions_up, torch.special.ndtri), "ndtr": (square, torch.special.ndtr), "xlog1py": (chances, torch.special.xlog1py),
    "zeta": (zeta_arguments, torch.special.zeta), "max_of_all": (square, torch.max), "min_rows": (square, lambda x: x.min(1).values),
    "aminmax": (square, lambda x: x.aminmax().max), "all": (masks, torch.all), "nanmean": (square, torch.nanmean),
    "trace": (square, torch.trace), "msort": (square, torch.msort), "nanmedian": (square, lambda x: x.nanmedian(1).values),
    "nanquantile": (square, lambda x: x.nanquantile(0.3, 1)), "renorm": (square, lambda x: x.renorm(2, 0, 5)), "dist": (two, torch.dist),
    "cov": (square, torch.cov), "corrcoef": (square, torch.corrcoef), "vector_norm": (square, lambda x: torch.linalg.vector_norm(x, 2, 0)),
    "matrix_norm_1": (square, lambda x: torch.linalg.matrix_norm(x, 1)), "var_of_all": (square, torch.var),
    "mean_of_images": (images, lambda x: x.mean((2, 3))), "sum_integers": (integers, lambda x, y: x.sum()),
    "cummin": (square, lambda x: x.cummin(1).values), "cumsum_integers": (integers, lambda x, y: x.cumsum(1)),
    "gradient": (square, lambda x: torch.gradient(x)[0]), "trapezoid": (square, torch.trapezoid),
    "cumulative_trapezoid": (square, lambda x: torch.cumulative_trapezoid(x)),
    "histogram": (square, lambda x: torch.histogram(x, 100).hist), "unique_consecutive": (digits_line, torch.unique_consecutive),
    "argwhere": (masks, torch.argwhere), "bucketize": (edges, torch.bucketize),
    "sort_descending": (square, lambda x: x.sort(1, True).values), "sort_line": (edges, lambda x, y: x.sort().values),
    "topk_of_line": (edges, lambda x, y: x.topk(100).values), "addmm": (added_layer, torch.addmm), "addbmm": (summed_batches, torch.addbmm),
    "addmv": (added_vector, torch.addmv), "addr": (added_outer, torch.addr), "inner": (layer, lambda x, w, b: torch.inner(x, w)),
    "tensordot": (tensors, torch.tensordot), "multi_dot": (chain, lambda x, y, z: torch.linalg.multi_dot([x, y, z])),
    "vecdot": (two, torch.linalg.vecdot), "matrix_power": (little_matrix, lambda x: torch.matrix_power(x, 5)),
    "cross": (space, torch.linalg.cross), "einsum_outer": (two, lambda x, y: torch.einsum("ij,kj->ik", x, y)),
    "matmul_transposed": (factors, lambda x, y: x.T @ y), "matmul_integers": (digits, lambda x: x @ x.T),
    "linear_bf16": (table_of_halves, lambda x, b, c: F.linear(x, x, b)), "slogdet": (definite, lambda x: torch.slogdet(x).logabsdet),
    "pinv": (tall_matrix, lambda x, y: torch.linalg.pinv(x)), "lstsq": (tall_matrix, lambda x, y: torch.linalg.lstsq(x, y).solution),
    "lu_factor": (definite, lambda x: torch.linalg.lu_factor(x).LU), "cholesky_solve": (equations, lambda a, b: torch.cholesky_solve(b, a)),
    "cholesky_inverse": (definite, torch.cholesky_inverse), "svd": (definite, lambda x: torch.linalg.svd(x, False).S),
    "eigvalsh": (definite, torch.linalg.eigvalsh), "matrix_rank": (definite, torch.linalg.matrix_rank),
    "solve_of_many": (many_definite, lambda x: torch.linalg.solve(x, x)),
    "eigh_of_many": (many_definite, lambda x: torch.linalg.eigh(x).eigenvalues), "svd_lowrank": (square, lambda x: torch.svd_lowrank(x)[1]),
    "binary_cross_entropy": (chances_of_chances, F.binary_cross_entropy), "gaussian_nll_loss": (measured, F.gaussian_nll_loss),
    "poisson_nll_loss": (chances, F.poisson_nll_loss), "soft_margin_loss": (two, lambda x, y: F.soft_margin_loss(x, y.detach())),
    "multi_margin_loss": (short_labels, F.multi_margin_loss), "multilabel_margin_loss": (many_labels, F.multilabel_margin_loss),
    "multilabel_soft_margin_loss": (chances, F.multilabel_soft_margin_loss), "margin_ranking_loss": (signs, F.margin_ranking_loss),
    "hinge_embedding_loss": (signs, lambda x, y, s: F.hinge_embedding_loss(x, s)),
    "cosine_embedding_loss": (sign_of_rows, F.cosine_embedding_loss), "pairwise_distance": (two, F.pairwise_distance),
    "pdist": (few_points, F.pdist), "cross_entropy_smoothed": (logits, lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1)),
    "conv_transpose1d": (line_transposed, lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, padding=1)),
    "conv_transpose3d": (volume_transposed, lambda x, w, b: F.conv_transpose3d(x, w, b, stride=2, padding=1)),
    "fractional_max_pool2d": (images, lambda x: F.fractional_max_pool2d(x, 3, 24)),
    "avg_pool1d": (line_alone, lambda x: F.avg_pool1d(x, 4)), "adaptive_avg_pool2d_7": (images, lambda x: F.adaptive_avg_pool2d(x, 7)),
    "adaptive_avg_pool3d": (volumes, lambda x: F.adaptive_avg_pool3d(x, 4)),
    "affine_grid": (angles, lambda t: F.affine_grid(t, (8, 3, 224, 224), align_corners=False)),
    "interpolate_linear": (line_alone, lambda x: F.interpolate(x, scale_factor=2, mode="linear")),
    "interpolate_trilinear": (volumes, lambda x: F.interpolate(x, scale_factor=2, mode="trilinear")),
    "interpolate_down": (images, lambda x: F.interpolate(x, 28, mode="bilinear")),
    "pixel_unshuffle": (images, lambda x: F.pixel_unshuffle(x, 2)), "channel_shuffle": (images, lambda x: F.channel_shuffle(x, 4)),
    "alpha_dropout": (square, lambda x: F.alpha_dropout(x, 0.5, True)), "feature_dropout": (images, F.dropout2d),
    "batch_norm_eval": (channels, lambda x, w, b: F.batch_norm(x, w.detach(), w.detach().abs(), w, b)),
    "layer_norm_bf16": (table_of_halves, lambda x, w, b: F.layer_norm(x, (sides[1],), w, b)), "softmax_bf16": (half, lambda x: x.softmax(1)),
    "attention_bf16": (half_heads, F.scaled_dot_product_attention),
    "attention_masked": (masked_heads, lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m.detach())),
    "attention_of_one": (one_query, F.scaled_dot_product_attention),
    "pad_reflected": (images, lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect")),
    "pad_replicated": (images, lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate")),
    "pad_circular": (images, lambda x: F.pad(x, (1, 1, 1, 1), mode="circular")), "take": (taken, lambda x, i, v: x.take(i)),
    "put": (taken, lambda x, i, v: x.put(i, v, True)), "index_fill": (rows, lambda x, i: x.index_fill(0, i, 0.5)),
    "index_columns": (rows, lambda x, i: x[:, i]), "slice_scatter": (half_rows, lambda x, y: torch.slice_scatter(x, y, 0, 256, 768)),
    "diag_embed": (square, lambda x: torch.diag_embed(x[:16])), "diagonal_sum": (square, lambda x: torch.diagonal(x).sum()),
    "triu": (square, lambda x: x.triu(1)), "tril_indices": (row_alone, lambda x: torch.tril_indices(1024, 1024)),
    "meshgrid": (short_rows, lambda x, y: torch.meshgrid(x, y, indexing="ij")[0].contiguous()),
    "cartesian_prod": (short_rows, torch.cartesian_prod), "combinations": (row_alone, torch.combinations),
    "vander": (row_alone, lambda x: torch.vander(x, 64)), "linspace": (row_alone, lambda x: torch.linspace(0, 1, 1000000)),
    "arange": (row_alone, lambda x: torch.arange(1000000)), "tile": (square, lambda x: x.tile(1, 3)),
    "expand_contiguous": (row_alone, lambda x: x.expand(1024, 1024).contiguous()),
    "unfold_windows": (square, lambda x: x.unfold(1, 16, 8).contiguous()), "flip_rows": (square, lambda x: x.flip(0)),
    "unbind_and_stacked": (square, lambda x: torch.stack(x[:32].unbind(), 1)),
    "cat_columns_of_many": (square, lambda x: torch.cat((x, x, x, x), 1)),
    "scatter_rows": (rows, lambda x, i: x.index_copy(0, torch.arange(512), x[i])), "hstack": (two, lambda x, y: torch.hstack((x, y))),
    "normal": (square, lambda x: torch.normal(x, 2.0)), "randint": (row_alone, lambda x: torch.randint(0, 1000, (1024, 1024))),
    "exponential": (square, lambda x: x.clone().exponential_()), "add_row_small": (small_row, lambda x, y: x + y),
    "div_small": (small_two, lambda x, y: x / y), "sum_rows_small": (small_two, lambda x, y: x.sum(1)),
    "amax_small": (small_two, lambda x, y: x.amax(1)), "argmax_small": (small_two, lambda x, y: x.argmax(1)),
    "relu_small": (small_two, lambda x, y: F.relu(x)), "dropout_small": (small_two, lambda x, y: F.dropout(x, 0.1)),
    "clone_small": (small_two, lambda x, y: x.clone()), "zeros_small": (small_two, lambda x, y: torch.zeros(32, 32)),
    "randn_small": (small_two, lambda x, y: randn(32, 32)), "slice_and_add_small": (small_two, lambda x, y: x[:16] + y[16:]),
    "view_small": (small_two, lambda x, y: x.view(4, 8, 32).transpose(0, 1).reshape(8, 128)),
    "item_small": (small_two, lambda x, y: torch.full((1,), x[0, 0].item())),
    "einsum_small": (small_two, lambda x, y: torch.einsum("ij,kj->ik", x, y)), "norm_small": (small_two, lambda x, y: x.norm()),
    "log_softmax_small": (small_logits, lambda x, t: x.log_softmax(1)),
    "gather_small": (small_logits, lambda x, t: x.gather(1, t.unsqueeze(1))),
    "one_hot_small": (small_logits, lambda x, t: F.one_hot(t, 10)),
    "batch_norm_small": (small_layer, lambda x, w, b: F.batch_norm(x, None, None, b, b, True)),
    "inverse_small": (small_equations, lambda a, b: torch.inverse(a)),
    "bce_with_logits_small": (small_two, lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid().detach())),
}


DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}


def prepared(name, dtype):
    inputs, call = CASES[name][0](), CASES[name][1]
    inputs = [x.to(dtype) if x.dtype == torch.float32 else x for x in inputs]
    result = call(*inputs)
    return name, inputs, call, torch.randn(result.shape).to(result.dtype)


def times(inputs, call, weight, direction, count):
    leaves = [x.detach().requires_grad_() if x.is_floating_point() else x for x in inputs]
    wanted = [x for x in leaves if x.requires_grad]
    for _ in range(count):
        start = time.perf_counter()
        if direction == "backward":
            torch.autograd.grad(call(*leaves), wanted, weight, allow_unused=True)
        else:
            call(*inputs)
        yield (time.perf_counter() - start) * 1e3


def serve(dtype):
    case = None
    for text in sys.stdin:
        name, _, direction, count = text.split()
        try:
            if case is None or case[0] != name:
                case = prepared(name, dtype)
            for ms in times(*case[1:], direction, int(count)):
                print(f"{ms:.6f}")
        except RuntimeError:  # of this dtype there is none
            print("nan")
        sys.stdout.flush()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sides = tuple(map(int, sys.argv[2].split("x")))
    serve(DTYPES[sys.argv[1] if len(sys.argv) > 1 else "f32"])
