"""A tiny GPT-2 in Hugging Face's format, briefly trained on examples/data/austen.txt, and its greedy continuation of a prompt.

Writes tests/torch/gpt2/: config.json, model.safetensors (with the causal masks that published files have too), vocab.json, merges.txt; and
expected.txt, the prompt and what follows, by a forward pass of all tokens for each new one. examples/gpt2.cpp must print the same.
Run by hand where PyTorch and safetensors are installed:

    python tests/torch/make_gpt2.py
"""
import collections
import json
import math
import pathlib
import re

import torch
from safetensors.torch import save_file
from torch.nn import functional as F

FOLDER = pathlib.Path(__file__).parent / "gpt2"
TEXT = pathlib.Path(__file__).parents[2] / "examples" / "data" / "austen.txt"
CONFIG = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new", "n_layer": 2, "n_head": 4, "n_embd": 32,
          "n_positions": 64, "n_ctx": 64, "vocab_size": 400, "layer_norm_epsilon": 1e-5}
PROMPT = "It is a truth universally"
NEW_TOKENS = 32
# GPT-2's pattern for text in ASCII: contractions, words, numbers and the rest with a space before them, blanks.
PIECES = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")


def byte_names():
    """A printable character for each byte: itself if it is one, else the next from 256 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    names = {b: chr(b) for b in printable}
    for n, b in enumerate(b for b in range(256) if b not in names):
        names[b] = chr(256 + n)
    return names


def merged(word, pair):
    out = []
    for symbol in word:
        if out and (out[-1], symbol) == pair:
            out[-1] += symbol
        else:
            out.append(symbol)
    return tuple(out)


class Tokenizer:
    """Byte-pair encoding, learnt from a text."""

    def __init__(self, text, size):
        self.names = byte_names()
        self.merges = []
        words = collections.Counter(self.spelt(piece) for piece in PIECES.findall(text))
        for _ in range(size - 257):
            pairs = collections.Counter()
            for word, count in words.items():
                for pair in zip(word, word[1:]):
                    pairs[pair] += count
            best = max(pairs, key=lambda pair: (pairs[pair], pair))
            self.merges.append(best)
            words = collections.Counter({merged(word, best): count for word, count in words.items()})
        symbols = [*(self.names[b] for b in sorted(self.names, key=lambda b: ord(self.names[b]))), *("".join(m) for m in self.merges)]
        self.vocabulary = {symbol: i for i, symbol in enumerate([*symbols, "<|endoftext|>"])}
        self.symbols = {i: symbol for symbol, i in self.vocabulary.items()}

    def spelt(self, piece):
        return tuple(self.names[b] for b in piece.encode())

    def encode(self, text):
        known, tokens = {}, []
        for piece in PIECES.findall(text):
            if piece not in known:
                word = self.spelt(piece)
                for pair in self.merges:
                    word = merged(word, pair)
                known[piece] = [self.vocabulary[symbol] for symbol in word]
            tokens += known[piece]
        return tokens

    def decode(self, tokens):
        bytes_of = {name: b for b, name in self.names.items()}
        return bytes(bytes_of[c] for t in tokens for c in self.symbols[t]).decode()


def initial_weights():
    c, layers = CONFIG["n_embd"], CONFIG["n_layer"]

    def weight(*sizes, scale=0.05):
        return torch.nn.Parameter(torch.randn(sizes) * scale)

    def affine(name, *sizes):
        return {name + ".weight": weight(*sizes), name + ".bias": torch.nn.Parameter(torch.zeros(sizes[-1]))}

    def norm(name):
        return {name + ".weight": torch.nn.Parameter(torch.ones(c)), name + ".bias": torch.nn.Parameter(torch.zeros(c))}

    weights = {"wte.weight": weight(CONFIG["vocab_size"], c), "wpe.weight": weight(CONFIG["n_positions"], c)}
    for i in range(layers):
        h = f"h.{i}."
        weights |= norm(h + "ln_1") | affine(h + "attn.c_attn", c, 3 * c) | affine(h + "attn.c_proj", c, c) | norm(h + "ln_2")
        weights |= affine(h + "mlp.c_fc", c, 4 * c) | affine(h + "mlp.c_proj", 4 * c, c)
    return weights | norm("ln_f")


def logits(weights, tokens):
    """tokens [n, t] -> [n, t, vocabulary]."""
    c, heads, eps = CONFIG["n_embd"], CONFIG["n_head"], CONFIG["layer_norm_epsilon"]

    def affine(x, name):
        return x @ weights[name + ".weight"] + weights[name + ".bias"]

    def norm(x, name):
        return F.layer_norm(x, (c,), weights[name + ".weight"], weights[name + ".bias"], eps)

    n, t = tokens.shape
    x = weights["wte.weight"][tokens] + weights["wpe.weight"][:t]
    for i in range(CONFIG["n_layer"]):
        h = f"h.{i}."
        q, k, v = (p.view(n, t, heads, c // heads).transpose(1, 2) for p in affine(norm(x, h + "ln_1"), h + "attn.c_attn").split(c, 2))
        scores = (q @ k.transpose(2, 3)) / math.sqrt(c // heads)
        scores = scores.masked_fill(torch.ones(t, t).triu(1).bool(), -math.inf)
        x = x + affine((scores.softmax(3) @ v).transpose(1, 2).reshape(n, t, c), h + "attn.c_proj")
        x = x + affine(F.gelu(affine(norm(x, h + "ln_2"), h + "mlp.c_fc"), approximate="tanh"), h + "mlp.c_proj")
    return norm(x, "ln_f") @ weights["wte.weight"].T


def train(weights, tokens, steps=2500):
    optimizer = torch.optim.AdamW(weights.values(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, steps)
    for _ in range(steps):
        starts = torch.randint(len(tokens) - 65, (16,))
        window = torch.stack([tokens[s : s + 65] for s in starts])
        loss = F.cross_entropy(logits(weights, window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return loss.item()


def continuation(weights, tokens):
    """Greedy; no choice may be a close one, which roundings decide."""
    for _ in range(NEW_TOKENS):
        best = logits(weights, torch.tensor([tokens]))[0, -1].topk(2)
        assert best.values[0] - best.values[1] > 1e-3, "a close choice: take another prompt"
        tokens = [*tokens, best.indices[0].item()]
    return tokens


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    text = TEXT.read_text()
    tokenizer = Tokenizer(text, CONFIG["vocab_size"])
    weights = initial_weights()
    loss = train(weights, torch.tensor(tokenizer.encode(text)))
    with torch.no_grad():
        tokens = continuation(weights, tokenizer.encode(PROMPT))
    FOLDER.mkdir(exist_ok=True)
    positions = CONFIG["n_positions"]
    masks = {f"h.{i}.attn.bias": torch.ones(positions, positions).tril()[None, None] for i in range(CONFIG["n_layer"])}
    save_file({name: w.detach().contiguous() for name, w in (weights | masks).items()}, FOLDER / "model.safetensors", {"format": "pt"})
    (FOLDER / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    (FOLDER / "vocab.json").write_text(json.dumps(tokenizer.vocabulary) + "\n")
    (FOLDER / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in tokenizer.merges))
    (FOLDER / "expected.txt").write_text(tokenizer.decode(tokens) + "\n")
    print(f"loss {loss:.3f}\n{tokenizer.decode(tokens)}")


if __name__ == "__main__":
    main()
