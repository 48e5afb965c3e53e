"""The forwards of networks.py in PyTorch."""
import torch
import torch.nn.functional as F

import networks
from torch_models import resnet18


def linear(p, x, k):
    return x @ p[f"p.{k}.w"] + p[f"p.{k}.b"]


def layer_norm(p, x, k):
    return F.layer_norm(x, (x.shape[-1],), p[f"p.{k}.w"], p[f"p.{k}.b"])


def heads_of(x, heads):
    B, T, C = x.shape
    return x.view(B, T, heads, C // heads).transpose(1, 2)


def attention(p, x, block, heads, mask=None):
    q, k, v = (heads_of(z, heads) for z in linear(p, x, f"{block}.qkv").chunk(3, -1))
    y = F.scaled_dot_product_attention(q, k, v, mask)
    return linear(p, y.transpose(1, 2).reshape(x.shape), f"{block}.proj")


def mlp(p, x, block):
    return linear(p, F.gelu(linear(p, x, f"{block}.fc")), f"{block}.fc2")


def resnet18_eval(p, d):
    return resnet18(p, d["x"], lambda x, k, p: F.batch_norm(x, d[f"{k}.mean"], d[f"{k}.var"], p[f"p.{k}.w"], p[f"p.{k}.b"]))


def bert_eval(p, d):
    m = networks.BERT
    mask = (d["attended"] != 0)[:, None, None, :]
    x = layer_norm(p, F.embedding(d["tokens"], p["p.wte"]) + p["p.wpe"], "ln")
    for i in range(m["layers"]):
        x = layer_norm(p, x + attention(p, x, f"h{i}", m["heads"], mask), f"h{i}.ln1")
        x = layer_norm(p, x + mlp(p, x, f"h{i}"), f"h{i}.ln2")
    return linear(p, x[:, 0], "head")


def decode(p, d):
    m = networks.DECODE
    x = F.embedding(d["token"], p["p.wte"])[None] + p["p.wpe"][d["position"]]
    mask = torch.arange(m["tokens"]) <= d["position"]
    for i in range(m["layers"]):
        q, k, v = (heads_of(z, m["heads"]) for z in linear(p, layer_norm(p, x, f"h{i}.ln1"), f"h{i}.qkv").chunk(3, -1))
        keys, values = (d[f"cache.{kind}{i}"].index_copy_(2, d["position"], z) for kind, z in (("k", k), ("v", v)))
        y = F.scaled_dot_product_attention(q, keys, values, mask[None])
        x = x + linear(p, y.transpose(1, 2).reshape(x.shape), f"h{i}.proj")
        x = x + mlp(p, layer_norm(p, x, f"h{i}.ln2"), f"h{i}")
    return layer_norm(p, x, "lnf")[:, 0] @ p["p.wte"].T


def vit(p, d):
    m = networks.VIT
    patches = F.conv2d(d["x"], p["p.patch"], stride=m["patch"]).flatten(2).transpose(1, 2)
    x = torch.cat([p["p.class"].expand(m["batch"], -1, -1), patches], 1) + p["p.wpe"]
    for i in range(m["layers"]):
        x = x + attention(p, layer_norm(p, x, f"h{i}.ln1"), f"h{i}", m["heads"])
        x = x + mlp(p, layer_norm(p, x, f"h{i}.ln2"), f"h{i}")
    return F.cross_entropy(linear(p, layer_norm(p, x[:, 0], "lnf"), "head"), d["t"])


def vae(p, d):
    h = F.relu(F.conv2d(d["x"], p["p.k1"], stride=2, padding=1))
    h = F.relu(F.conv2d(h, p["p.k2"], stride=2, padding=1)).flatten(1)
    mean, log_variance = linear(p, h, "mean"), linear(p, h, "log_variance")
    z = mean + d["noise"] * torch.exp(0.5 * log_variance)
    h = F.relu(linear(p, z, "up")).view(-1, 64, 7, 7)
    h = F.relu(F.conv_transpose2d(h, p["p.k3"], stride=2, padding=1))
    logits = F.conv_transpose2d(h, p["p.k4"], stride=2, padding=1)
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).mean()
    return F.binary_cross_entropy_with_logits(logits, d["x"]) + divergence


def graph(p, d):
    x = d["x"]
    for i in range(2):
        h = linear(p, x, f"l{i}")
        x = torch.zeros_like(h).index_add(0, d["target"], h[d["source"]] * d["weight"]) + h
        x = F.relu(x) if i == 0 else x
    return F.cross_entropy(x, d["t"])


def gru(p):
    weights = [p[f"p.{k}_l0{way}"] for way in ("", "_reverse") for k in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    zero = torch.zeros(2, p["p.x"].shape[1], weights[1].shape[1])
    return torch.gru(p["p.x"], zero, weights, True, 1, 0.0, True, True, False)[0]


def convnext(p):
    c = p["p.x"].shape[1]
    x = F.conv2d(p["p.x"], p["p.k"], p["p.b"], padding=3, groups=c).permute(0, 2, 3, 1)
    x = linear(p, F.gelu(linear(p, layer_norm(p, x, "ln"), "fc")), "fc2") * p["p.scale"]
    return p["p.x"] + x.permute(0, 3, 1, 2)


def wavenet(p):
    x, skips = p["p.x"], 0
    for i, dilation in enumerate(networks.DILATIONS):
        a, b = F.conv1d(F.pad(x, (dilation, 0)), p[f"p.h{i}.k"], p[f"p.h{i}.b"], dilation=dilation).chunk(2, 1)
        h = torch.tanh(a) * torch.sigmoid(b)
        skips = skips + F.conv1d(h, p[f"p.h{i}.skip"])
        x = x + F.conv1d(h, p[f"p.h{i}.rest"])
    return F.relu(skips) + x


def experts(p):
    """Each expert chooses its tokens."""
    x, n = p["p.x"], networks.EXPERTS["experts"]
    chosen, rows = torch.softmax(x @ p["p.router"], -1).T.topk(networks.EXPERTS["capacity"])
    y = torch.bmm(F.gelu(torch.bmm(x[rows], p["p.w1"])), p["p.w2"]) * chosen[:, :, None]
    return x.index_add(0, rows.flatten(), y.flatten(0, 1))


def contrastive(p):
    logits = p["p.scale"].exp() * F.normalize(p["p.a"], dim=-1) @ F.normalize(p["p.b"], dim=-1).T
    labels = torch.arange(len(logits))
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2


def forward_of(name, p, d):
    """f(p) of a row that is here."""
    of_data = {"resnet18_eval": resnet18_eval, "bert_eval": bert_eval, "decode": decode, "vit": vit, "vae": vae, "graph": graph}
    if name in of_data:
        return lambda p: of_data[name](p, d)
    return {"gru": gru, "convnext": convnext, "wavenet": wavenet, "experts": experts, "contrastive": contrastive}[name]
