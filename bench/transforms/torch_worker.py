"""PyTorch contender: torch.func and autograd, eagerly or under torch.compile. usage: torch_worker.py eager|compile WORKLOAD DATA.safetensors"""
import math
import os
import sys

import torch
import torch.nn.functional as F
from torch.func import grad, hessian, vmap

import workloads

from worker import serve
from workloads import mlp, parameters

mode, name, path = sys.argv[1:4]
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 2)))
maybe_compile = torch.compile if mode == "compile" else lambda f: f


def load():
    return {k: torch.from_numpy(a) for k, a in workloads.load(path).items()}


def lstm(d):
    p = {k: v.requires_grad_() for k, v in parameters(d).items()}
    t, n, i, h = workloads.LSTM.values()
    zeros = torch.zeros(n, h)

    def by_layer(x):
        state = zeros[None], zeros[None]
        return torch._VF.lstm(x, state, (p["p.w_ih"], p["p.w_hh"], p["p.b_ih"], p["p.b_hh"]), True, 1, 0.0, False, False, False)[0]

    def by_steps(x):
        h, c, outputs = zeros, zeros, []
        for gates in F.linear(x, p["p.w_ih"], p["p.b_ih"]):
            i, f, g, o = (gates + F.linear(h, p["p.w_hh"], p["p.b_hh"])).chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(h)
        return torch.stack(outputs)

    loss_of = maybe_compile(lambda x: (by_layer if name == "lstm_scan" else by_steps)(x).square().mean())

    def step():
        loss = loss_of(d["x"])
        return [loss, *torch.autograd.grad(loss, [p[k] for k in sorted(p)])]
    return step


def newton(d):
    @maybe_compile
    def next_of(x):
        f = x - d["e"] * torch.sin(x) - d["m"]
        return x - f / (1 - d["e"] * torch.cos(x)), f.abs().max()

    def step():
        x, error = d["m"], math.inf
        while error > workloads.NEWTON["tolerance"]:
            x, error = next_of(x)
            error = error.item()
        return [x]
    return step


def langevin(d):
    eps = workloads.LANGEVIN["step_size"]

    @maybe_compile
    def moved(x):
        return x - eps * (x * x * x - x) + math.sqrt(2 * eps) * torch.randn_like(x)

    def step():
        x = d["x"]
        for _ in range(workloads.LANGEVIN["steps"]):
            x = moved(x)
        return [((x * x).mean() - 1).abs() < 0.5]
    return step


def cross_entropy(logits, t):
    return -F.log_softmax(logits, -1).gather(-1, t[None])[0]


def cnn(p, x):
    for k in ("p.k0", "p.k1"):
        x = F.max_pool2d(torch.relu(F.conv2d(x, p[k], padding=1)), 2)
    return x.flatten(1) @ p["p.w2"]


def per_sample(d):
    model = (lambda p, x: mlp(p, x, torch.relu)) if name == "per_sample_mlp" else lambda p, x: cnn(p, x[None])[0]
    each = maybe_compile(vmap(grad(lambda p, x, t: cross_entropy(model(p, x), t)), (None, 0, 0)))

    def step():
        g = each(parameters(d), d["x"], d["t"])
        return [g[k] for k in sorted(g)]
    return step


def flat(p):
    return torch.cat([p[k].flatten() for k in sorted(p)])


def unflat(v, like):
    out, at = {}, 0
    for k in sorted(like):
        out[k] = v[at:at + like[k].numel()].view(like[k].shape)
        at += like[k].numel()
    return out


def hessian_step(d):
    p = parameters(d)
    of = maybe_compile(hessian(lambda v: (mlp(unflat(v, p), d["x"], torch.tanh) - d["t"]).square().mean()))
    return lambda: [of(flat(p))]


def pinn(d):
    p = parameters(d)

    def residual(p, z):
        u = lambda z: mlp(p, z, torch.tanh)[0]
        du = grad(u)
        first = du(z)
        second = grad(lambda z: du(z)[0])(z)[0]
        return first[1] + u(z) * first[0] - workloads.VISCOSITY * second

    loss = lambda p, x: vmap(residual, (None, 0))(p, x).square().mean()
    of = maybe_compile(torch.func.grad_and_value(loss))

    def step():
        g, value = of(p, d["x"])
        return [value] + [g[k] for k in sorted(g)]
    return step


BUILD = dict(lstm_scan=lstm, lstm_unrolled=lstm, newton=newton, langevin=langevin, per_sample_mlp=per_sample, per_sample_cnn=per_sample,
             hessian=hessian_step, pinn=pinn)
serve(load, BUILD[name], lambda result: [float(v.detach().double().abs().mean()) for v in result])
