"""The data of whole networks of other kinds: inference, graphs, experts."""
import math

import models

BERT = dict(batch=8, tokens=128, layers=4, channels=256, heads=4, vocabulary=8000)
DECODE = dict(tokens=512, position=300, layers=6, channels=512, heads=8, vocabulary=32000)
VIT = dict(batch=16, image=64, patch=8, layers=4, channels=192, heads=3, classes=10)
GRAPH = dict(nodes=10000, edges=80000, channels=(64, 64, 16))
EXPERTS = dict(tokens=1024, channels=256, experts=8, capacity=256, hidden=512)
DILATIONS = [1, 2, 4, 8, 16, 32]  # of wavenet's layers

INFERENCE = ["resnet18_eval", "bert_eval", "decode"]
TRAINED_BY_SGD = ["vit", "vae", "graph"]
NAMES = [*INFERENCE, *TRAINED_BY_SGD, "gru", "convnext", "wavenet", "experts", "contrastive"]


def encoder(matrix, ones, zeros, layers, c):
    """Weights of transformer blocks: norms, attention, and two linear layers."""
    d = {}
    for i in range(layers):
        for norm in ("ln1", "ln2"):
            d |= {f"p.h{i}.{norm}.w": ones(c), f"p.h{i}.{norm}.b": zeros(c)}
        for linear, a, b in (("qkv", c, 3 * c), ("proj", c, c), ("fc", c, 4 * c), ("fc2", 4 * c, c)):
            d |= {f"p.h{i}.{linear}.w": matrix(a, b), f"p.h{i}.{linear}.b": zeros(b)}
    return d


def make(name, np, randn, labels, zeros, ones):
    """Arrays of row `name`, or None if it is none of these. What starts with `cache.` is written by a step."""
    weight = lambda *shape: randn(*shape, scale=1 / math.sqrt(math.prod(shape[1:])))  # of a convolution
    matrix = lambda a, b: randn(a, b, scale=1 / math.sqrt(a))
    linear = lambda layer, a, b: {f"p.{layer}.w": matrix(a, b), f"p.{layer}.b": zeros(b)}
    norm = lambda layer, c: {f"p.{layer}.w": ones(c), f"p.{layer}.b": zeros(c)}
    if name == "resnet18_eval":
        trained = lambda layer, c: norm(layer, c) | {f"{layer}.mean": randn(c, scale=.1), f"{layer}.var": 1 + np.abs(randn(c, scale=.3))}
        d = {"x": randn(1, 3, 224, 224), **models.resnet18(weight, trained)}
        return d | linear("fc", 512, 1000) | {"g": randn(1, 1000)}
    if name == "bert_eval":
        m = BERT
        c = m["channels"]
        lengths = m["tokens"] // 2 + labels(m["tokens"] // 2 + 1, m["batch"])  # at least half are no padding
        return {"tokens": labels(m["vocabulary"], m["batch"], m["tokens"]),
                "attended": (np.arange(m["tokens"]) < lengths[:, None]).astype(np.int64), "p.wte": randn(m["vocabulary"], c),
                "p.wpe": randn(m["tokens"], c), **norm("ln", c), **encoder(matrix, ones, zeros, m["layers"], c), **linear("head", c, 2),
                "g": randn(m["batch"], 2)}
    if name == "decode":
        m = DECODE
        c = m["channels"]
        d = {"token": labels(m["vocabulary"], 1), "position": np.array([m["position"]]), "p.wte": randn(m["vocabulary"], c, scale=.1),
             "p.wpe": randn(m["tokens"], c, scale=.1), **norm("lnf", c), **encoder(matrix, ones, zeros, m["layers"], c),
             "g": randn(1, m["vocabulary"])}
        for i in range(m["layers"]):
            d |= {f"cache.{kind}{i}": randn(1, m["heads"], m["tokens"], c // m["heads"]) for kind in "kv"}
        return d
    if name == "vit":
        m = VIT
        c, patches = m["channels"], (m["image"] // m["patch"]) ** 2
        return {"x": randn(m["batch"], 3, m["image"], m["image"]), "t": labels(m["classes"], m["batch"]),
                "p.patch": weight(c, 3, m["patch"], m["patch"]), "p.class": randn(1, 1, c, scale=.02),
                "p.wpe": randn(patches + 1, c, scale=.02), **encoder(matrix, ones, zeros, m["layers"], c), **norm("lnf", c),
                **linear("head", c, m["classes"])}
    if name == "vae":
        return {"x": labels(2, 64, 1, 28, 28).astype(np.float32), "noise": randn(64, 20), "p.k1": weight(32, 1, 4, 4),
                "p.k2": weight(64, 32, 4, 4), **linear("mean", 64 * 49, 20), **linear("log_variance", 64 * 49, 20),
                **linear("up", 20, 64 * 49), "p.k3": randn(64, 32, 4, 4, scale=.06), "p.k4": randn(32, 1, 4, 4, scale=.09)}
    if name == "graph":
        m = GRAPH
        source, target = labels(m["nodes"], m["edges"]), labels(m["nodes"], m["edges"])
        degree = np.bincount(target, minlength=m["nodes"]) + 1
        d = {"x": randn(m["nodes"], m["channels"][0]), "t": labels(m["channels"][-1], m["nodes"]), "source": source, "target": target,
             "weight": (1 / np.sqrt(degree[source] * degree[target])).astype(np.float32)[:, None]}
        for i, (a, b) in enumerate(zip(m["channels"], m["channels"][1:])):
            d |= linear(f"l{i}", a, b)
        return d
    if name == "gru":
        t, n, a, c = 64, 32, 128, 128
        d = {"p.x": randn(t, n, a), "g": randn(t, n, 2 * c)}
        for way in ("", "_reverse"):
            d |= {f"p.weight_ih_l0{way}": randn(3 * c, a, scale=1 / 16), f"p.weight_hh_l0{way}": randn(3 * c, c, scale=1 / 16),
                  f"p.bias_ih_l0{way}": zeros(3 * c), f"p.bias_hh_l0{way}": zeros(3 * c)}
        return d
    if name == "convnext":
        c = 96
        return {"p.x": randn(8, c, 32, 32), "p.k": weight(c, 1, 7, 7), "p.b": zeros(c), **norm("ln", c), **linear("fc", c, 4 * c),
                **linear("fc2", 4 * c, c), "p.scale": randn(c, scale=.1), "g": randn(8, c, 32, 32)}
    if name == "wavenet":
        n, c, t = 8, 64, 2048
        d = {"p.x": randn(n, c, t), "g": randn(n, c, t)}
        for i in range(len(DILATIONS)):
            d |= {f"p.h{i}.k": weight(2 * c, c, 2), f"p.h{i}.b": zeros(2 * c), f"p.h{i}.skip": weight(c, c, 1), f"p.h{i}.rest": weight(c, c, 1)}
        return d
    if name == "experts":
        m = EXPERTS
        c, n, h = m["channels"], m["experts"], m["hidden"]
        return {"p.x": randn(m["tokens"], c), "p.router": matrix(c, n), "p.w1": randn(n, c, h, scale=1 / math.sqrt(c)),
                "p.w2": randn(n, h, c, scale=1 / math.sqrt(h)), "g": randn(m["tokens"], c)}
    if name == "contrastive":
        return {"p.a": randn(512, 512), "p.b": randn(512, 512), "p.scale": np.array(2.5, np.float32)}
    return None

