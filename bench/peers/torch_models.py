"""The forwards of models.py in PyTorch."""
import torch
import torch.nn.functional as F

import models


def attend(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])


def rotate(x, d):
    a, b = x.chunk(2, -1)
    return torch.cat([a * d["cos"] - b * d["sin"], b * d["cos"] + a * d["sin"]], -1)


def llama(p, d):
    m, x = models.LLAMA, p["p.x"]
    B, T, C = x.shape
    heads = lambda y: y.view(B, T, -1, C // m["heads"]).transpose(1, 2)
    for i in range(m["layers"]):
        w = lambda k: p[f"p.h{i}.{k}"]
        n = F.rms_norm(x, (C,), w("ln1"), 1e-5)
        y = attend(rotate(heads(n @ w("q")), d), rotate(heads(n @ w("k")), d), heads(n @ w("v")))
        x = x + y.transpose(1, 2).reshape(B, T, C) @ w("o")
        n = F.rms_norm(x, (C,), w("ln2"), 1e-5)
        x = x + (F.silu(n @ w("gate")) * (n @ w("up"))) @ w("down")
    return x


def batch_norms(p):
    """Of each layer with weights p.*.w and p.*.b, with running statistics of its own."""
    stats = {k: (torch.zeros(len(v)), torch.ones(len(v))) for k, v in p.items() if k.endswith(".w") and v.dim() == 1}
    return lambda x, k, p: F.batch_norm(x, *stats[f"p.{k}.w"], p[f"p.{k}.w"], p[f"p.{k}.b"], True)


def unet(p):
    stage = lambda x, i: F.silu(F.group_norm(F.conv2d(x, p[f"p.k{i}"], padding=1), 8, p[f"p.w{i}"], p[f"p.b{i}"], 1e-5))
    down = stage(p["p.x"], 1)
    inner = stage(F.max_pool2d(down, 2), 2)
    return stage(torch.cat([F.interpolate(inner, scale_factor=2), down], 1), 3)


def mobile(p, bn):
    wide = F.relu6(bn(F.conv2d(p["p.x"], p["p.k1"]), "bn1", p))
    mixed = F.relu6(bn(F.conv2d(wide, p["p.k2"], padding=1, groups=192), "bn2", p))
    return p["p.x"] + bn(F.conv2d(mixed, p["p.k3"]), "bn3", p)


def resnet18(p, x, bn):
    x = F.max_pool2d(F.relu(bn(F.conv2d(x, p["p.k"], stride=2, padding=3), "bn", p)), 3, 2, 1)
    for i, (_, _, shrinks) in enumerate(models.RESNET):
        h = F.relu(bn(F.conv2d(x, p[f"p.h{i}.k1"], stride=2 if shrinks else 1, padding=1), f"h{i}.bn1", p))
        y = bn(F.conv2d(h, p[f"p.h{i}.k2"], padding=1), f"h{i}.bn2", p)
        x = F.relu(y + (bn(F.conv2d(x, p[f"p.h{i}.k0"], stride=2), f"h{i}.bn0", p) if shrinks else x))
    return x.mean((2, 3)) @ p["p.fc.w"] + p["p.fc.b"]


def lstm(p):
    w = [p[f"p.{k}"] for k in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")]
    zero = torch.zeros(1, p["p.x"].shape[1], w[1].shape[1])
    return torch.lstm(p["p.x"], (zero, zero), w, True, 1, 0.0, True, False, False)[0]


def perceptron(p, x, k):
    return F.relu(x @ p[f"p.{k}.w0"] + p[f"p.{k}.b0"]) @ p[f"p.{k}.w1"] + p[f"p.{k}.b1"]


def dlrm(p, d):
    bottom = perceptron(p, d["x"], "bottom")
    z = torch.stack([bottom] + [F.embedding_bag(d[f"indices{i}"], p[f"p.table{i}"], mode="sum") for i in range(models.DLRM["tables"])], 1)
    pairs = (z @ z.transpose(1, 2)).flatten(1)[:, d["pairs"]]
    return F.binary_cross_entropy_with_logits(perceptron(p, torch.cat([bottom, pairs], 1), "top").squeeze(1), d["y"])


def forward_of(name, p, d):
    """f(p), or None for a row that is not here."""
    bn = batch_norms(p)
    if name in models.ATTENTION_SIZES:
        return lambda p: attend(p["p.q"], p["p.k"], p["p.v"])
    return {
        "rotary": lambda p: rotate(p["p.x"], d),
        "swiglu": lambda p: F.silu(p["p.x"] @ p["p.gate"]) * (p["p.x"] @ p["p.up"]),
        "llama": lambda p: llama(p, d),
        "batch_norm": lambda p: bn(p["p.x"], "bn", p),
        "group_norm_silu": lambda p: F.silu(F.group_norm(p["p.x"], 32, p["p.w"], p["p.b"], 1e-5)),
        "mobile": lambda p: mobile(p, bn),
        "unet": unet,
        "resnet18": lambda p: F.cross_entropy(resnet18(p, d["x"], bn), d["t"]),
        "lstm": lstm,
        "dlrm": lambda p: dlrm(p, d),
        "topk": lambda p: p["p.x"].topk(50).values,
        "sort": lambda p: p["p.x"].sort().values,
    }.get(name)
