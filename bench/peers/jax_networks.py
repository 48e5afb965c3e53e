"""The forwards of networks.py in JAX."""
import jax
import jax.numpy as jnp

import networks
from jax_models import attend_to, conv, cross_entropy, resnet18


def linear(p, x, k):
    return x @ p[f"p.{k}.w"] + p[f"p.{k}.b"]


def layer_norm(p, x, k):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5) * p[f"p.{k}.w"] + p[f"p.{k}.b"]


def gelu(x):
    return jax.nn.gelu(x, approximate=False)


def heads_of(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def attention(p, x, block, heads, mask=None):
    q, k, v = (heads_of(z, heads) for z in jnp.split(linear(p, x, f"{block}.qkv"), 3, -1))
    return linear(p, attend_to(q, k, v, mask).swapaxes(1, 2).reshape(x.shape), f"{block}.proj")


def mlp(p, x, block):
    return linear(p, gelu(linear(p, x, f"{block}.fc")), f"{block}.fc2")


def resnet18_eval(p, d):
    def bn(p, x, k):
        scale = p[f"p.{k}.w"] * jax.lax.rsqrt(d[f"{k}.var"] + 1e-5)
        return x * scale[:, None, None] + (p[f"p.{k}.b"] - d[f"{k}.mean"] * scale)[:, None, None]
    return resnet18(p, d["x"], bn)


def bert_eval(p, d):
    m = networks.BERT
    mask = (d["attended"] != 0)[:, None, None, :]
    x = layer_norm(p, p["p.wte"][d["tokens"]] + p["p.wpe"], "ln")
    for i in range(m["layers"]):
        x = layer_norm(p, x + attention(p, x, f"h{i}", m["heads"], mask), f"h{i}.ln1")
        x = layer_norm(p, x + mlp(p, x, f"h{i}"), f"h{i}.ln2")
    return linear(p, x[:, 0], "head")


def decode(p, d):
    """The result, and the caches as they are then."""
    m, caches = networks.DECODE, {}
    x = p["p.wte"][d["token"]][None] + p["p.wpe"][d["position"]]
    mask = (jnp.arange(m["tokens"]) <= d["position"])[None, None, None]
    for i in range(m["layers"]):
        q, k, v = (heads_of(z, m["heads"]) for z in jnp.split(linear(p, layer_norm(p, x, f"h{i}.ln1"), f"h{i}.qkv"), 3, -1))
        for kind, z in (("k", k), ("v", v)):
            name = f"cache.{kind}{i}"
            caches[name] = jax.lax.dynamic_update_slice_in_dim(d[name], z, d["position"][0], 2)
        y = attend_to(q, caches[f"cache.k{i}"], caches[f"cache.v{i}"], mask)
        x = x + linear(p, y.swapaxes(1, 2).reshape(x.shape), f"h{i}.proj")
        x = x + mlp(p, layer_norm(p, x, f"h{i}.ln2"), f"h{i}")
    return layer_norm(p, x, "lnf")[:, 0] @ p["p.wte"].T, caches


def vit(p, d):
    m = networks.VIT
    patches = conv(d["x"], p["p.patch"], m["patch"])
    patches = patches.reshape(*patches.shape[:2], -1).swapaxes(1, 2)
    x = jnp.concatenate([jnp.broadcast_to(p["p.class"], (m["batch"], 1, m["channels"])), patches], 1) + p["p.wpe"]
    for i in range(m["layers"]):
        x = x + attention(p, layer_norm(p, x, f"h{i}.ln1"), f"h{i}", m["heads"])
        x = x + mlp(p, layer_norm(p, x, f"h{i}.ln2"), f"h{i}")
    return cross_entropy(linear(p, layer_norm(p, x[:, 0], "lnf"), "head"), d["t"])


def conv_transpose(x, k):
    """Of stride 2, a window of 4 and a padding of 1: the gradient of such a convolution."""
    turned = jnp.flip(k, (2, 3)).swapaxes(0, 1)
    return jax.lax.conv_general_dilated(x, turned, (1, 1), [(2, 2)] * 2, lhs_dilation=(2, 2), dimension_numbers=("NCHW", "OIHW", "NCHW"))


def vae(p, d):
    h = jax.nn.relu(conv(d["x"], p["p.k1"], 2, 1))
    h = jax.nn.relu(conv(h, p["p.k2"], 2, 1)).reshape(len(h), -1)
    mean, log_variance = linear(p, h, "mean"), linear(p, h, "log_variance")
    z = mean + d["noise"] * jnp.exp(0.5 * log_variance)
    h = jax.nn.relu(linear(p, z, "up")).reshape(-1, 64, 7, 7)
    logits = conv_transpose(jax.nn.relu(conv_transpose(h, p["p.k3"])), p["p.k4"])
    divergence = -0.5 * (1 + log_variance - jnp.square(mean) - jnp.exp(log_variance)).mean()
    return (jnp.logaddexp(logits, 0) - logits * d["x"]).mean() + divergence


def graph(p, d):
    x = d["x"]
    for i in range(2):
        h = linear(p, x, f"l{i}")
        x = jnp.zeros_like(h).at[d["target"]].add(h[d["source"]] * d["weight"]) + h
        x = jax.nn.relu(x) if i == 0 else x
    return cross_entropy(x, d["t"])


def gru(p):
    def one_way(way):
        w = lambda k: p[f"p.{k}_l0{way}"]

        def step(h, inputs):
            r, z, n = jnp.split(inputs, 3, -1)
            hr, hz, hn = jnp.split(h @ w("weight_hh").T + w("bias_hh"), 3, -1)
            r, z = jax.nn.sigmoid(r + hr), jax.nn.sigmoid(z + hz)
            h = (1 - z) * jnp.tanh(n + r * hn) + z * h
            return h, h
        zero = jnp.zeros((p["p.x"].shape[1], w("weight_hh").shape[1]), jnp.float32)
        return jax.lax.scan(step, zero, p["p.x"] @ w("weight_ih").T + w("bias_ih"), reverse=way != "")[1]
    return jnp.concatenate([one_way(""), one_way("_reverse")], -1)


def convnext(p):
    x = conv(p["p.x"], p["p.k"], padding=3, groups=p["p.x"].shape[1]) + p["p.b"][:, None, None]
    x = layer_norm(p, x.transpose(0, 2, 3, 1), "ln")
    return p["p.x"] + (linear(p, gelu(linear(p, x, "fc")), "fc2") * p["p.scale"]).transpose(0, 3, 1, 2)


def conv1d(x, k, dilation=1):
    """Of what came before."""
    pads = [(dilation * (k.shape[2] - 1), 0)]
    return jax.lax.conv_general_dilated(x, k, (1,), pads, rhs_dilation=(dilation,), dimension_numbers=("NCH", "OIH", "NCH"))


def wavenet(p):
    x, skips = p["p.x"], 0
    for i, dilation in enumerate(networks.DILATIONS):
        a, b = jnp.split(conv1d(x, p[f"p.h{i}.k"], dilation) + p[f"p.h{i}.b"][:, None], 2, 1)
        h = jnp.tanh(a) * jax.nn.sigmoid(b)
        skips = skips + conv1d(h, p[f"p.h{i}.skip"])
        x = x + conv1d(h, p[f"p.h{i}.rest"])
    return jax.nn.relu(skips) + x


def experts(p):
    x = p["p.x"]
    chosen, rows = jax.lax.top_k(jax.nn.softmax(x @ p["p.router"]).T, networks.EXPERTS["capacity"])
    y = gelu(x[rows] @ p["p.w1"]) @ p["p.w2"] * chosen[:, :, None]
    return x.at[rows.reshape(-1)].add(y.reshape(-1, x.shape[1]))


def contrastive(p):
    unit = lambda x: x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-12)
    logits = jnp.exp(p["p.scale"]) * unit(p["p.a"]) @ unit(p["p.b"]).T
    labels = jnp.arange(len(logits))
    return (cross_entropy(logits, labels) + cross_entropy(logits.T, labels)) / 2


def forward(name, p, d):
    """The result of a row that is here."""
    of_data = {"resnet18_eval": resnet18_eval, "bert_eval": bert_eval, "decode": decode, "vit": vit, "vae": vae, "graph": graph}
    if name in of_data:
        return of_data[name](p, d)
    return {"gru": gru, "convnext": convnext, "wavenet": wavenet, "experts": experts, "contrastive": contrastive}[name](p)
