"""The forwards of science.py in PyTorch."""
import torch
import torch.nn.functional as F

import science
from torch_networks import linear


def biased_attention(p, d):
    bias = p["p.bias"][d["buckets"]].permute(2, 0, 1)[None]
    return F.scaled_dot_product_attention(p["p.q"], p["p.k"], p["p.v"], bias, scale=1.0)


def windows(p, d):
    m = science.WINDOWS
    B, S, w, C = m["batch"], m["image"] // m["window"], m["window"], m["channels"]
    x = p["p.x"].roll((-3, -3), (1, 2)).view(B, S, w, S, w, C).transpose(2, 3).reshape(B, S * S, w * w, C)
    q, k, v = (z.view(B, S * S, w * w, m["heads"], -1).transpose(2, 3) for z in linear(p, x, "qkv").chunk(3, -1))
    y = F.scaled_dot_product_attention(q, k, v, d["mask"][:, None]).transpose(2, 3).reshape(x.shape)
    y = linear(p, y, "proj").view(B, S, S, w, w, C).transpose(2, 3).reshape(p["p.x"].shape)
    return p["p.x"] + y.roll((3, 3), (1, 2))


def segmentation(p, d):
    x = F.relu(F.conv2d(d["x"], p["p.k1"], stride=2, padding=1))
    x = F.relu(F.conv2d(x, p["p.k2"], stride=2, padding=1))
    x = torch.cat([F.relu(F.conv2d(x, p[f"p.d{i}"], padding=i, dilation=i)) for i in (1, 2, 4)], 1)
    return F.cross_entropy(F.interpolate(F.conv2d(x, p["p.k3"]), scale_factor=4, mode="bilinear"), d["t"])


def video(p, d):
    x = F.max_pool3d(F.relu(F.conv3d(d["x"], p["p.k1"], padding=1)), 2)
    x = F.relu(F.conv3d(x, p["p.k2"], padding=1)).mean((2, 3, 4))
    return F.cross_entropy(linear(p, x, "fc"), d["t"])


def physics(p, d):
    """Burgers' equation, u_t + u u_x = 0.01 u_xx."""
    x, t = d["x"].requires_grad_(), d["t"].requires_grad_()
    u = torch.cat([x, t], 1)
    for i in range(4):
        u = linear(p, u, f"l{i}")
        u = torch.tanh(u) if i < 3 else u
    u_x, u_t = torch.autograd.grad(u.sum(), (x, t), create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
    return (u_t + u * u_x - 0.01 * u_xx).square().mean()


def ode(p, d):
    """A network's flow for a time of 1, by Runge and Kutta's method."""
    x, h = d["x"], 1 / science.ODE_STEPS
    f = lambda x: linear(p, torch.tanh(linear(p, x, "l0")), "l1")
    for _ in range(science.ODE_STEPS):
        k1 = f(x)
        k2 = f(x + h / 2 * k1)
        k3 = f(x + h / 2 * k2)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(x + h * k3))
    return (x - d["y"]).square().mean()


def gaussian_process(p, d):
    """The negative log likelihood of observations."""
    x = d["x"] / p["p.lengths"]
    distance = (x[:, None] - x[None]).square().sum(-1)
    kernel = p["p.scale"].exp() * torch.exp(-0.5 * distance) + p["p.noise"].exp() * torch.eye(len(x))
    factor = torch.linalg.cholesky(kernel)
    return 0.5 * (d["y"] * torch.cholesky_solve(d["y"], factor)).sum() + factor.diagonal().log().sum()


def bodies(p, d):
    """The potential energy of masses, softened."""
    x, m = p["p.x"], d["mass"]
    away = (x[:, None] - x[None]).square().sum(-1)
    return -0.5 * (m[:, None] * m[None] * torch.rsqrt(away + 0.01)).sum()


def hessian(p, d):
    return torch.func.hessian(lambda x: torch.tanh(torch.tanh(x @ p["p.w1"]) @ p["p.w2"]).sum())(d["x"])


def forward_of(name, p, d):
    """f(p) of a row that is here."""
    row = {"biased_attention": biased_attention, "windows": windows, "segmentation": segmentation, "video": video, "physics": physics,
           "ode": ode, "gaussian_process": gaussian_process, "bodies": bodies, "hessian": hessian}[name]
    return lambda p: row(p, d)
