"""What PyTorch's _int_mm and _weight_int8pack_mm give, for tests/ops/functions/int8_test.cpp.

Writes tests/torch/int8_products.tsv: m, n, k, and of each product two sums of its elements with different weights.
Run by hand where PyTorch is installed:

    python tests/torch/int8_products.py
"""
import pathlib

import torch

SIZES = [(1, 1, 1), (1, 16, 32), (3, 7, 19), (8, 33, 64), (20, 48, 100), (17, 5, 257)]


def bytes_of(rows, columns):
    return ((torch.arange(rows * columns) * 37 + 11) % 256 - 128).to(torch.int8).view(rows, columns)


def floats_of(*sizes):
    n = torch.arange(int(torch.tensor(sizes).prod()))
    return ((n * 37 % 101 - 50) / 32).view(sizes)


def digest(t):
    n, flat = torch.arange(t.numel()), t.reshape(-1).double()
    return [f"{float(s):.12g}" for s in ((flat * ((n * 13) % 17 + 1)).sum(), (flat * ((n * 5) % 23 - 11)).sum())]


def main():
    rows = []
    for m, n, k in SIZES:
        integers = torch._int_mm(bytes_of(m, k), bytes_of(n, k).t())
        weighed = torch._weight_int8pack_mm(floats_of(m, k), bytes_of(n, k), floats_of(n))
        rows.append("\t".join([str(m), str(n), str(k), *digest(integers), *digest(weighed)]))
    (pathlib.Path(__file__).parent / "int8_products.tsv").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
