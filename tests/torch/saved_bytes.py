"""What PyTorch saves for backward on the programs of `./dev bench partition`.

Writes tests/torch/saved_bytes.tsv: program, bytes of distinct storages that eager saves beyond inputs
and parameters, bytes of saved inputs and parameters, bytes beyond these that its min-cut saves. Run by
hand where PyTorch is installed:

    python tests/torch/saved_bytes.py
"""
import pathlib

import torch
import torch.nn.functional as F


def rand(*shape):
    return torch.randn(*shape, requires_grad=True)


def ten_cosines():
    x = rand(1024, 1024)

    def run():
        y = x
        for _ in range(10):
            y = torch.cos(y)
        return y.sum()

    return [x], run


def mlp():
    x, t = torch.randn(256, 512), torch.randint(0, 512, (256,))
    w, b = [rand(512, 512) for _ in range(3)], [rand(512) for _ in range(3)]

    def run():
        y = x
        for i in range(3):
            y = y @ w[i] + b[i]
            if i < 2:
                y = F.relu(y)
        return F.cross_entropy(y, t)

    return [x, t, *w, *b], run


def block_parameters(c):
    return dict(
        ln1w=rand(c), ln1b=rand(c), qkvw=rand(c, 3 * c), qkvb=rand(3 * c), projw=rand(c, c), projb=rand(c),
        ln2w=rand(c), ln2b=rand(c), fcw=rand(c, 4 * c), fcb=rand(4 * c), fc2w=rand(4 * c, c), fc2b=rand(c))


def block(p, x, heads, dropout):
    b, t, c = x.shape
    h = F.layer_norm(x, (c,), p["ln1w"], p["ln1b"])
    qkv = (h @ p["qkvw"] + p["qkvb"]).split(c, dim=2)
    q, k, v = (s.view(b, t, heads, c // heads).transpose(1, 2) for s in qkv)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    y = y.transpose(1, 2).reshape(b, t, c) @ p["projw"] + p["projb"]
    x = x + (F.dropout(y, dropout) if dropout else y)
    h = F.layer_norm(x, (c,), p["ln2w"], p["ln2b"])
    y = F.gelu(h @ p["fcw"] + p["fcb"], approximate="tanh") @ p["fc2w"] + p["fc2b"]
    return x + (F.dropout(y, dropout) if dropout else y)


def one_block(batch, time, channels, heads, dropout):
    x, p = rand(batch, time, channels), block_parameters(channels)
    return [x, *p.values()], lambda: block(p, x, heads, dropout).sum()


def nanogpt():
    layers, heads, c, t, batch, vocab = 4, 4, 128, 64, 8, 65
    tokens, targets = torch.randint(0, vocab, (batch, t)), torch.randint(0, vocab, (batch, t))
    wte, wpe, lnw, lnb = rand(vocab, c), rand(t, c), rand(c), rand(c)
    blocks = [block_parameters(c) for _ in range(layers)]

    def run():
        x = F.embedding(tokens, wte) + wpe
        for p in blocks:
            x = block(p, x, heads, 0)
        logits = F.layer_norm(x, (c,), lnw, lnb) @ wte.t()
        return F.cross_entropy(logits.view(-1, vocab), targets.view(-1))

    return [tokens, targets, wte, wpe, lnw, lnb, *(v for p in blocks for v in p.values())], run


def conv_bn():
    x, w = rand(8, 32, 32, 32), [rand(32, 32, 3, 3) for _ in range(2)]
    g, b = [rand(32) for _ in range(2)], [rand(32) for _ in range(2)]

    def layer(y, i):
        return F.batch_norm(F.conv2d(y, w[i], padding=1), None, None, g[i], b[i], training=True)

    return [x, *w, *g, *b], lambda: F.relu(layer(F.relu(layer(x, 0)), 1) + x).sum()


def ln_gelu():
    x, w, b = rand(2048, 1024), rand(1024), rand(1024)
    return [x, w, b], lambda: F.gelu(F.layer_norm(x, (1024,), w, b), approximate="tanh").sum()


def product_sum():
    a, b, c, x, y, z = (rand(1024, 1024) for _ in range(6))
    return [a, b, c, x, y, z], lambda: ((a * c) * x + b * y + ((a * b) * c) * z).sum()


def matmul_cos():
    x, w = rand(512, 512), [rand(512, 512) for _ in range(5)]

    def run():
        y = x
        for m in w:
            y = torch.cos(y @ m)
        return y.sum()

    return [x, *w], run


def focal():
    logits, target = rand(2048, 8000), torch.randint(0, 8000, (2048, 1))

    def run():
        logp = torch.log_softmax(logits, 1).gather(1, target)
        return (-(1 - logp.exp()).square() * logp).mean()

    return [logits, target], run


def rms_norm(x, w):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * w


def rotated(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def llama_block():
    b, t, c, heads, hidden = 4, 128, 256, 4, 688
    x, cos, sin = rand(b, t, c), torch.randn(t, c // heads), torch.randn(t, c // heads)
    n1, n2, wq, wk, wv, wo = rand(c), rand(c), rand(c, c), rand(c, c), rand(c, c), rand(c, c)
    gate, up, down = rand(c, hidden), rand(c, hidden), rand(hidden, c)

    def run():
        h = rms_norm(x, n1)
        q, k, v = ((h @ w).view(b, t, heads, c // heads).transpose(1, 2) for w in (wq, wk, wv))
        y = F.scaled_dot_product_attention(rotated(q, cos, sin), rotated(k, cos, sin), v, is_causal=True)
        y = x + y.transpose(1, 2).reshape(b, t, c) @ wo
        h = rms_norm(y, n2)
        return (y + (F.silu(h @ gate) * (h @ up)) @ down).sum()

    return [x, cos, sin, n1, n2, wq, wk, wv, wo, gate, up, down], run


def lstm():
    steps, batch, c = 16, 32, 128
    x, wx, wh, bias = torch.randn(steps, batch, c), rand(c, 4 * c), rand(c, 4 * c), rand(4 * c)

    def run():
        h = s = torch.zeros(batch, c)
        hs = []
        for i in range(steps):
            f, u, g, o = (x[i] @ wx + h @ wh + bias).split(c, dim=1)
            s = torch.sigmoid(f) * s + torch.sigmoid(u) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(s)
            hs.append(h)
        return torch.stack(hs).square().mean()

    return [x, wx, wh, bias], run


def weight_norm():
    x, v, g = rand(256, 512), [rand(512, 512) for _ in range(2)], [rand(512, 1) for _ in range(2)]

    def run():
        y = x
        for direction, length in zip(v, g):
            w = direction * (length / direction.square().sum(1, keepdim=True).sqrt())
            y = F.gelu(y @ w.t())
        return y.sum()

    return [x, *v, *g], run


PROGRAMS = dict(
    ten_cosines=ten_cosines, mlp=mlp, block_dropout=lambda: one_block(4, 128, 256, 4, 0.1), nanogpt=nanogpt,
    gpt2_block=lambda: one_block(1, 256, 768, 12, 0), conv_bn=conv_bn, ln_gelu=ln_gelu,
    product_sum=product_sum, matmul_cos=matmul_cos, focal=focal, llama_block=llama_block, lstm=lstm,
    weight_norm=weight_norm)


def saved_bytes(inputs, run):
    known = {t.untyped_storage().data_ptr() for t in inputs}
    storages = {}

    def pack(t):
        s = t.untyped_storage()
        storages[s.data_ptr()] = (s.nbytes(), t)
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = run()
    own = sum(n for p, (n, _) in storages.items() if p not in known)
    given = sum(n for p, (n, _) in storages.items() if p in known)
    result.backward()
    return own, given


def main():
    torch.manual_seed(0)
    from min_cut_sets import min_cut_bytes  # which reads PROGRAMS

    lines = [f"# PyTorch {torch.__version__.split('+')[0]}: program, bytes saved eagerly, of inputs and parameters, by min-cut"]
    for name, make in PROGRAMS.items():
        own, given = saved_bytes(*make())
        lines.append(f"{name}\t{own}\t{given}\t{min_cut_bytes(make()[1])}")
    pathlib.Path(__file__).with_suffix(".tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
