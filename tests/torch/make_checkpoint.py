"""A small convolutional network, trained by PyTorch on the digits 0 to 4: examples/data/digits_0_4.safetensors, which examples/finetune.cpp loads.

Run by hand where PyTorch and safetensors are installed:

    python tests/torch/make_checkpoint.py
"""
import gzip
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

DATA = pathlib.Path(__file__).parents[2] / "examples" / "data"


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24)
        self.conv2, self.norm2 = nn.Conv2d(24, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.conv3, self.norm3 = nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        return F.max_pool2d(F.relu(self.norm3(self.conv3(x))), 2).flatten(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.head = Trunk(), nn.Linear(128, 5)

    def forward(self, x):
        return self.head(self.trunk(x))


def digits():
    with gzip.open(DATA / "digits.csv.gz", "rt") as file:
        table = torch.tensor(np.loadtxt(file, delimiter=","), dtype=torch.float32)
    table = table[table[:, -1] < 5]
    return table[:, :-1].reshape(-1, 1, 8, 8) / 16, table[:, -1].long()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x, y = digits()
    train, test = slice(0, 700), slice(700, None)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-2)
    for _ in range(250):
        batch = torch.randint(700, (64,))
        loss = F.cross_entropy(net(x[train][batch]), y[train][batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    accuracy = (net(x[test]).argmax(1) == y[test]).float().mean()
    path = DATA / "digits_0_4.safetensors"
    save_file(net.state_dict(), path, {"format": "pt"})
    print(f"{path.name}: {accuracy:.3f} of {len(y[test])} digits that were held out, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
