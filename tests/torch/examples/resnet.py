"""examples/resnet.cpp in PyTorch."""
import argparse
import pathlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split


def conv3x3(inputs, outputs, stride=1):
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.norm1 = conv3x3(inputs, outputs, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.norm2 = conv3x3(outputs, outputs), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if inputs != outputs or stride != 1:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = conv3x3(1, 32), nn.BatchNorm2d(32)
        self.blocks = nn.Sequential(Block(32, 32, 1), Block(32, 64, 2), Block(64, 128, 2))
        self.head = nn.Linear(128, 10)

    def forward(self, images):
        """images [n, 1, 8, 8] -> logits [n, 10]"""
        return self.head(self.blocks(F.relu(self.norm(self.stem(images)))).mean((2, 3)))


class Shifted(Dataset):
    """Images moved by up to a pixel."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        image, label = self.data[i]
        top, left = torch.randint(0, 3, (2,)).tolist()
        return F.pad(image, (1, 1, 1, 1))[:, top:top + 8, left:left + 8], label


def load(path):
    table = torch.from_numpy(np.loadtxt(path, delimiter=",", dtype=np.float32))
    return TensorDataset(table[:, :64].reshape(-1, 1, 8, 8) / 16, table[:, 64].long())


def accuracy(net, data):
    net.eval()
    with torch.no_grad():
        right = sum((net(x).argmax(1) == y).sum().item() for x, y in DataLoader(data, batch_size=128))
    net.train()
    return right / len(data)


def train(net, data, a):
    """Goes on from a checkpoint of the folder --run, epoch by epoch."""
    loader = DataLoader(Shifted(data), batch_size=a.batch, shuffle=True, drop_last=True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=a.epochs * len(loader))
    file = pathlib.Path(a.run or ".") / "checkpoint.pt"
    start = 0
    if a.run and file.exists():
        state = torch.load(file)
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        torch.set_rng_state(state["random"])
        start = state["epoch"]
    for epoch in range(start, a.epochs):
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
        if not a.quiet:
            print(f"{epoch + 1}/{a.epochs}  loss {loss.item():.4f}  lr {schedule.get_last_lr()[0]:.2e}")
        if a.run:
            file.parent.mkdir(parents=True, exist_ok=True)
            torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict(),
                        "random": torch.get_rng_state(), "epoch": epoch + 1}, file)


def main():
    parser = argparse.ArgumentParser(description="Trains a residual network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", default="examples/data/digits.csv.gz")
    parser.add_argument("--run", help="folder of a checkpoint, from which the run goes on")
    parser.add_argument("--quiet", action="store_true")
    a = parser.parse_args()
    torch.manual_seed(a.seed)
    training, held_out = random_split(load(a.data), [0.8, 0.2])
    net = ResNet()
    train(net, training, a)
    print(f"test accuracy {100 * accuracy(net, held_out):.2f}%")


if __name__ == "__main__":
    main()
