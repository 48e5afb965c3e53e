"""The data of layers, blocks and small networks: of each row a function of the makers in workloads.py."""
import math

ATTENTION_SIZES = {  # batch, heads, heads of keys, tokens, channels of a head
    "attention_128": (16, 8, 8, 128, 64),
    "attention_512": (4, 8, 8, 512, 64),
    "attention_1024": (2, 8, 8, 1024, 64),
    "attention_4096": (1, 4, 4, 4096, 64),
    "attention_grouped": (2, 8, 2, 1024, 64),
}
LLAMA = dict(batch=4, tokens=128, layers=4, channels=256, heads=8, key_heads=2, hidden=688)
DLRM = dict(tables=8, rows=20000, channels=32, bag=16, batch=256, features=13)
RESNET = [(64, 64, False), (64, 64, False), (64, 128, True), (128, 128, False), (128, 256, True), (256, 256, False),
          (256, 512, True), (512, 512, False)]  # of a block: channels before and after, and whether it halves the image
NAMES = [*ATTENTION_SIZES, "rotary", "swiglu", "llama", "batch_norm", "group_norm_silu", "mobile", "unet", "resnet18",
         "lstm", "dlrm", "topk", "sort"]


def angles(np, tokens, channels):
    """Cosines and sines [tokens, channels / 2] of rotary positions."""
    turns = np.arange(tokens)[:, None] * 10000.0 ** (-np.arange(0, channels, 2) / channels)
    return {"cos": np.cos(turns).astype(np.float32), "sin": np.sin(turns).astype(np.float32)}


def resnet18(weight, norm):
    """Weights of the convolutions, and what `norm(layer, channels)` gives of each norm."""
    d = {"p.k": weight(64, 3, 7, 7), **norm("bn", 64)}
    for i, (a, b, shrinks) in enumerate(RESNET):
        d |= {f"p.h{i}.k1": weight(b, a, 3, 3), **norm(f"h{i}.bn1", b), f"p.h{i}.k2": weight(b, b, 3, 3), **norm(f"h{i}.bn2", b)}
        if shrinks:
            d |= {f"p.h{i}.k0": weight(b, a, 1, 1), **norm(f"h{i}.bn0", b)}
    return d


def make(name, np, randn, labels, zeros, ones):
    """Arrays of row `name`, or None if it is none of these."""
    weight = lambda *shape: randn(*shape, scale=1 / math.sqrt(math.prod(shape[1:])))  # of a convolution
    matrix = lambda a, b: randn(a, b, scale=1 / math.sqrt(a))
    norm = lambda layer, c: {f"p.{layer}.w": ones(c), f"p.{layer}.b": zeros(c)}
    if name in ATTENTION_SIZES:
        b, h, hk, t, d = ATTENTION_SIZES[name]
        return {"p.q": randn(b, h, t, d), "p.k": randn(b, hk, t, d), "p.v": randn(b, hk, t, d), "g": randn(b, h, t, d)}
    if name == "rotary":
        return {"p.x": randn(8, 8, 512, 64), "g": randn(8, 8, 512, 64), **angles(np, 512, 64)}
    if name == "swiglu":
        return {"p.x": randn(512, 512), "p.gate": matrix(512, 1376), "p.up": matrix(512, 1376), "g": randn(512, 1376)}
    if name == "llama":
        c, head = LLAMA["channels"], LLAMA["channels"] // LLAMA["heads"]
        x = (LLAMA["batch"], LLAMA["tokens"], c)
        d = {"p.x": randn(*x), "g": randn(*x), **angles(np, LLAMA["tokens"], head)}
        for i in range(LLAMA["layers"]):
            d |= {f"p.h{i}.ln1": ones(c), f"p.h{i}.ln2": ones(c), f"p.h{i}.q": matrix(c, c), f"p.h{i}.o": matrix(c, c),
                  f"p.h{i}.k": matrix(c, head * LLAMA["key_heads"]), f"p.h{i}.v": matrix(c, head * LLAMA["key_heads"]),
                  f"p.h{i}.gate": matrix(c, LLAMA["hidden"]), f"p.h{i}.up": matrix(c, LLAMA["hidden"]),
                  f"p.h{i}.down": matrix(LLAMA["hidden"], c)}
        return d
    if name == "batch_norm":
        return {"p.x": randn(32, 64, 56, 56), **norm("bn", 64), "g": randn(32, 64, 56, 56)}
    if name == "group_norm_silu":
        return {"p.x": randn(16, 128, 32, 32), "p.w": ones(128), "p.b": zeros(128), "g": randn(16, 128, 32, 32)}
    if name == "mobile":
        return {"p.x": randn(8, 32, 56, 56), "p.k1": weight(192, 32, 1, 1), **norm("bn1", 192), "p.k2": weight(192, 1, 3, 3),
                **norm("bn2", 192), "p.k3": weight(32, 192, 1, 1), **norm("bn3", 32), "g": randn(8, 32, 56, 56)}
    if name == "unet":
        d = {"p.x": randn(4, 32, 64, 64), "g": randn(4, 32, 64, 64)}
        for i, (a, b) in enumerate([(32, 32), (32, 64), (96, 32)], 1):
            d |= {f"p.k{i}": weight(b, a, 3, 3), f"p.w{i}": ones(b), f"p.b{i}": zeros(b)}
        return d
    if name == "resnet18":
        d = {"x": randn(16, 3, 64, 64), "t": labels(10, 16), **resnet18(weight, norm)}
        return d | {"p.fc.w": randn(512, 10, scale=.01), "p.fc.b": zeros(10)}
    if name == "lstm":
        t, n, a, c = 64, 32, 128, 256
        return {"p.x": randn(t, n, a), "p.weight_ih_l0": randn(4 * c, a, scale=1 / 16), "p.weight_hh_l0": randn(4 * c, c, scale=1 / 16),
                "p.bias_ih_l0": zeros(4 * c), "p.bias_hh_l0": zeros(4 * c), "g": randn(t, n, c)}
    if name == "dlrm":
        c, vectors = DLRM["channels"], DLRM["tables"] + 1
        rows, columns = np.tril_indices(vectors, -1)
        d = {"x": randn(DLRM["batch"], DLRM["features"]), "y": labels(2, DLRM["batch"]).astype(np.float32),
             "pairs": rows * vectors + columns}
        for i in range(DLRM["tables"]):
            d[f"p.table{i}"] = randn(DLRM["rows"], c, scale=.1)
            d[f"indices{i}"] = labels(DLRM["rows"], DLRM["batch"], DLRM["bag"])
        for part, sizes in (("bottom", (DLRM["features"], 64, c)), ("top", (c + len(rows), 64, 1))):
            for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
                d |= {f"p.{part}.w{i}": matrix(a, b), f"p.{part}.b{i}": zeros(b)}
        return d
    if name == "topk":
        return {"p.x": randn(64, 32000), "g": randn(64, 50)}
    if name == "sort":
        return {"p.x": randn(256, 8192), "g": randn(256, 8192)}
    return None
