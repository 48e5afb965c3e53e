"""A small byte-level BPE as Hugging Face's tokenizers trains it, and what it makes of texts; read by tests/training/data.

Writes tests/torch/data/: vocab.json and merges.txt (GPT-2's files), tokenizer.json, and encoded.json: texts with their tokens. Run by hand
where tokenizers and tiktoken are installed:

    python tests/torch/tokenizer_files.py
"""
import json
import pathlib
import random
import unicodedata

import tiktoken
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/torch/data"
SPECIAL = "<|endoftext|>"
SPLIT = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""

TEXTS = [
    "", " ", "  ", "   a", "a   ", "a \n\n b\n", "\t\tx = 1\r\n\r\n  y", "Hello, world!", "It's we're I'll he'd they've I'm can't 's 'S 'l ''s", "don't' 'tis",
    "12345 3.14159 1,000,000 x2y3 ¼ Ⅷ ٣٤ 七 ²", "naïve café Ångström İstanbul ﬁne e\u0301", "你好，世界。日本語のテキスト 한국어", "🙂👩‍👩‍👧🇩🇪 👍🏽 a🙂b", "Привет, мир! שלום عالم",
    "\u00a0x\u2003y\u3000z\u2028w\u0085v\u1680u", "\x00\x01\x1c\x1d\x1f \x7f", "a\u200bb\ufeffc\u00add", "\U0010ffff\ue000\ufffe", "____ --- ... !!! ?!  ((a))",
    "SELECT * FROM t WHERE a='b';\n\tfor (int i = 0; i < 10; ++i) {}", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "the the  the   the", "x" + SPECIAL + "y" + SPECIAL + SPECIAL, "<|endof" + SPECIAL,
]


def random_texts():
    """Every kind of character beside every other."""
    draw = random.Random(1)
    codes = [c for c in range(0x20000) if unicodedata.category(chr(c)) not in ("Cs", "Cn")]
    for _ in range(150):
        kinds = [" ", "  ", "\n", "'", "'s", "a", "the", "1", ".", "\u00a0", "\u3000"]
        yield "".join(draw.choice(kinds) if draw.random() < 0.6 else chr(draw.choice(codes)) for _ in range(draw.randint(1, 24)))


def train():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    corpus = (ROOT / "examples/data/austen.txt").read_text()[:200000].split("\n\n") + TEXTS * 20
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=[SPECIAL], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def as_tiktoken(tokenizer):
    bytes_of = {char: byte for byte, char in zip(sorted(range(256), key=lambda b: (0 if 0x21 <= b <= 0x7e or b >= 0xa1 and b != 0xad else 1, b)),
                                                 [chr(b) for b in range(256) if 0x21 <= b <= 0x7e or b >= 0xa1 and b != 0xad] + [chr(0x100 + i) for i in range(68)])}
    model = json.loads(tokenizer.to_str())["model"]
    numbers, ranks = {}, {}
    singles = [t for t in model["vocab"] if len(t) == 1]
    merged = ["".join(m) if isinstance(m, list) else m.replace(" ", "") for m in model["merges"]]
    for rank, token in enumerate(singles + merged):
        spelled = bytes(bytes_of[c] for c in token)
        ranks[spelled], numbers[rank] = rank, model["vocab"][token]
    special = len(ranks)
    numbers[special] = model["vocab"][SPECIAL]
    encoding = tiktoken.Encoding("small", pat_str=SPLIT, mergeable_ranks=ranks, special_tokens={SPECIAL: special})
    return lambda text: [numbers[t] for t in encoding.encode(text, allowed_special="all")]


def main():
    tokenizer = train()
    tokenizer.model.save(str(FOLDER))
    tokenizer.save(str(FOLDER / "tokenizer.json"), pretty=False)
    second = as_tiktoken(tokenizer)
    encoded = []
    for text in [*TEXTS, *random_texts()]:
        tokens = tokenizer.encode(text).ids
        if tokens != second(text):  # they know different versions of Unicode
            print(f"tiktoken differs: {text!r}")
            continue
        encoded.append({"text": text, "tokens": tokens})
    lines = ",\n".join(json.dumps(row) for row in encoded)
    (FOLDER / "encoded.json").write_text(f"[\n{lines}\n]\n")
    print(len(encoded), "texts")


main()
