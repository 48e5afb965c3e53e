"""examples/pinn.cpp in PyTorch."""
import argparse
import math

import torch
from torch import nn

DIFFUSION = 0.2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, x, t):
        """x, t [n, 1] -> u [n, 1]"""
        return self.layers(torch.cat((x, t), 1))


def residual(net, x, t):
    """u_t - k u_xx"""
    x, t = x.detach().requires_grad_(), t.detach().requires_grad_()
    u_x, u_t = torch.autograd.grad(net(x, t).sum(), (x, t), create_graph=True)
    u_xx, = torch.autograd.grad(u_x.sum(), x, create_graph=True)
    return u_t - DIFFUSION * u_xx


def exact(x, t):
    return torch.exp(t * (-DIFFUSION * math.pi ** 2)) * torch.sin(x * math.pi)


def loss_of(net, x, t):
    """At random points inside, at the start and at both ends."""
    zero, one = torch.zeros_like(x), torch.ones_like(x)
    equation = residual(net, x, t).square().mean()
    start = (net(x, zero) - torch.sin(x * math.pi)).square().mean()
    ends = (net(zero, t).square() + net(one, t).square()).mean()
    return equation + start + ends


@torch.no_grad()
def relative_error(net):
    """|net - exact| / |exact| over a grid."""
    x, t = (g.reshape(-1, 1) for g in torch.meshgrid(torch.linspace(0, 1, 101), torch.linspace(0, 1, 101), indexing="ij"))
    u = exact(x, t)
    return (torch.norm(net(x, t) - u) / torch.norm(u)).item()


def train(a):
    torch.manual_seed(1)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=a.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=a.steps)
    for step in range(a.steps):
        loss = loss_of(net, torch.rand(a.points, 1), torch.rand(a.points, 1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if not a.quiet and step % (a.steps // 10 or 1) == 0:
            print(f"{step}/{a.steps}  loss {loss.item():.3e}")
    return relative_error(net)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Solves the heat equation by a physics-informed network.")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--points", type=int, default=256)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--quiet", action="store_true")
    print(f"relative error against the exact solution: {train(parser.parse_args()):.2e}")
