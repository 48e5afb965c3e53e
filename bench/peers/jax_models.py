"""The forwards of models.py in JAX."""
import jax
import jax.numpy as jnp

import models


def attend_to(q, k, v, mask=None, causal=False):
    """Of [batch, heads, tokens, channels]."""
    t = lambda x: x.swapaxes(1, 2)
    return t(jax.nn.dot_product_attention(t(q), t(k), t(v), mask=mask, is_causal=causal))


def attend(q, k, v):
    return attend_to(q, k, v, causal=True)


def rotate(x, d):
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * d["cos"] - b * d["sin"], b * d["cos"] + a * d["sin"]], -1)


def rms_norm(x, w):
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * w


def llama(p, d):
    m, x = models.LLAMA, p["p.x"]
    B, T, C = x.shape
    heads = lambda y: y.reshape(B, T, -1, C // m["heads"]).swapaxes(1, 2)
    for i in range(m["layers"]):
        w = lambda k: p[f"p.h{i}.{k}"]
        n = rms_norm(x, w("ln1"))
        y = attend(rotate(heads(n @ w("q")), d), rotate(heads(n @ w("k")), d), heads(n @ w("v")))
        x = x + y.swapaxes(1, 2).reshape(B, T, C) @ w("o")
        n = rms_norm(x, w("ln2"))
        x = x + (jax.nn.silu(n @ w("gate")) * (n @ w("up"))) @ w("down")
    return x


def conv(x, k, stride=1, padding=0, groups=1, dilation=1):
    """Of images or volumes."""
    dims = x.ndim - 2
    spatial = "DHW"[-dims:]
    return jax.lax.conv_general_dilated(x, k, (stride,) * dims, [(padding,) * 2] * dims, rhs_dilation=(dilation,) * dims,
                                        feature_group_count=groups, dimension_numbers=("NC" + spatial, "OI" + spatial, "NC" + spatial))


def max_pool(x, window, stride, padding=0):
    pads = [(0, 0), (0, 0), (padding,) * 2, (padding,) * 2]
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, window, window), (1, 1, stride, stride), pads)


def normalized(x, axes):
    m = x.mean(axes, keepdims=True)
    return (x - m) * jax.lax.rsqrt(jnp.square(x - m).mean(axes, keepdims=True) + 1e-5)


def batch_norm(p, x, k):
    return normalized(x, (0, 2, 3)) * p[f"p.{k}.w"][:, None, None] + p[f"p.{k}.b"][:, None, None]


def group_norm(x, groups, w, b):
    y = normalized(x.reshape(x.shape[0], groups, -1), 2).reshape(x.shape)
    return y * w[:, None, None] + b[:, None, None]


def unet(p):
    stage = lambda x, i: jax.nn.silu(group_norm(conv(x, p[f"p.k{i}"], padding=1), 8, p[f"p.w{i}"], p[f"p.b{i}"]))
    down = stage(p["p.x"], 1)
    inner = stage(max_pool(down, 2, 2), 2)
    return stage(jnp.concatenate([inner.repeat(2, 2).repeat(2, 3), down], 1), 3)


def mobile(p):
    wide = jax.nn.relu6(batch_norm(p, conv(p["p.x"], p["p.k1"]), "bn1"))
    mixed = jax.nn.relu6(batch_norm(p, conv(wide, p["p.k2"], padding=1, groups=192), "bn2"))
    return p["p.x"] + batch_norm(p, conv(mixed, p["p.k3"]), "bn3")


def cross_entropy(logits, t):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), t[:, None], 1).mean()


def resnet18(p, x, bn):
    x = max_pool(jax.nn.relu(bn(p, conv(x, p["p.k"], 2, 3), "bn")), 3, 2, 1)
    for i, (_, _, shrinks) in enumerate(models.RESNET):
        h = jax.nn.relu(bn(p, conv(x, p[f"p.h{i}.k1"], 2 if shrinks else 1, 1), f"h{i}.bn1"))
        y = bn(p, conv(h, p[f"p.h{i}.k2"], 1, 1), f"h{i}.bn2")
        x = jax.nn.relu(y + (bn(p, conv(x, p[f"p.h{i}.k0"], 2), f"h{i}.bn0") if shrinks else x))
    return x.mean((2, 3)) @ p["p.fc.w"] + p["p.fc.b"]


def lstm(p):
    inputs = p["p.x"] @ p["p.weight_ih_l0"].T + p["p.bias_ih_l0"] + p["p.bias_hh_l0"]

    def step(state, gates):
        h, c = state
        i, f, g, o = jnp.split(gates + h @ p["p.weight_hh_l0"].T, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h
    zero = jnp.zeros((p["p.x"].shape[1], p["p.weight_hh_l0"].shape[1]), jnp.float32)
    return jax.lax.scan(step, (zero, zero), inputs)[1]


def perceptron(p, x, k):
    return jax.nn.relu(x @ p[f"p.{k}.w0"] + p[f"p.{k}.b0"]) @ p[f"p.{k}.w1"] + p[f"p.{k}.b1"]


def dlrm(p, d):
    bottom = perceptron(p, d["x"], "bottom")
    z = jnp.stack([bottom] + [p[f"p.table{i}"][d[f"indices{i}"]].sum(1) for i in range(models.DLRM["tables"])], 1)
    pairs = (z @ z.swapaxes(1, 2)).reshape(z.shape[0], -1)[:, d["pairs"]]
    x = perceptron(p, jnp.concatenate([bottom, pairs], 1), "top")[:, 0]
    return (jnp.logaddexp(x, 0) - x * d["y"]).mean()


def forward(name, p, d):
    """The result of a row that is here."""
    if name in models.ATTENTION_SIZES:
        return attend(p["p.q"], p["p.k"], p["p.v"])
    return {
        "rotary": lambda: rotate(p["p.x"], d),
        "swiglu": lambda: jax.nn.silu(p["p.x"] @ p["p.gate"]) * (p["p.x"] @ p["p.up"]),
        "llama": lambda: llama(p, d),
        "batch_norm": lambda: batch_norm(p, p["p.x"], "bn"),
        "group_norm_silu": lambda: jax.nn.silu(group_norm(p["p.x"], 32, p["p.w"], p["p.b"])),
        "mobile": lambda: mobile(p),
        "unet": lambda: unet(p),
        "resnet18": lambda: cross_entropy(resnet18(p, d["x"], batch_norm), d["t"]),
        "lstm": lambda: lstm(p),
        "dlrm": lambda: dlrm(p, d),
        "topk": lambda: jax.lax.top_k(p["p.x"], 50)[0],
        "sort": lambda: jnp.sort(p["p.x"]),
    }[name]()
