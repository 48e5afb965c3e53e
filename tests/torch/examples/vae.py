"""examples/vae.cpp in PyTorch."""
import argparse

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, random_split

PIXELS, LATENT, HIDDEN = 64, 8, 256


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(PIXELS, HIDDEN)
        self.mean = nn.Linear(HIDDEN, LATENT)
        self.log_var = nn.Linear(HIDDEN, LATENT)
        self.decode = nn.Linear(LATENT, HIDDEN)
        self.pixels = nn.Linear(HIDDEN, PIXELS)

    def decoded(self, z):
        return self.pixels(F.relu(self.decode(z)))

    def loss(self, x):
        """Minus the evidence lower bound of images [n, 64], in nats per image."""
        h = F.relu(self.encode(x))
        mean, log_var = self.mean(h), self.log_var(h)
        z = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        reconstruction = F.binary_cross_entropy_with_logits(self.decoded(z), x, reduction="sum")
        divergence = -0.5 * torch.sum(1 + log_var - mean ** 2 - log_var.exp())
        return (reconstruction + divergence) / len(x)


def write_picture(path, digits):
    """Eight rows of eight digits as a PGM file."""
    rows = digits.view(8, 8, 8, 8).transpose(1, 2).reshape(64, 64)
    with open(path, "wb") as file:
        file.write(b"P5 64 64 255\n" + (rows * 255).byte().numpy().tobytes())


def train(a):
    torch.manual_seed(a.seed)
    images = torch.from_numpy(np.loadtxt(a.data, delimiter=",", dtype=np.float32)[:, :PIXELS] / 16)
    training, held_out = random_split(images, [0.8, 0.2])
    vae = Vae()
    loader = DataLoader(training, batch_size=64, shuffle=True, drop_last=True)
    optimizer = torch.optim.Adam(vae.parameters(), lr=1e-3)
    for epoch in range(a.epochs):
        for x in loader:
            loss = vae.loss(x)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if not a.quiet and epoch % 10 == 9:
            print(f"{epoch + 1}/{a.epochs}  loss {loss.item():.4f}")
    with torch.no_grad():
        write_picture(a.out, torch.sigmoid(vae.decoded(torch.randn(64, LATENT))))
        return sum(vae.loss(x).item() for x in DataLoader(held_out, batch_size=len(held_out)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Trains a variational autoencoder of handwritten digits.")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", default="examples/data/digits.csv.gz")
    parser.add_argument("--out", default="vae.pgm", help="picture of digits drawn from the prior")
    parser.add_argument("--quiet", action="store_true")
    print(f"held-out bound: {train(parser.parse_args()):.2f} nats per image")
