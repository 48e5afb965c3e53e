"""JAX contender: every step under one jit. usage: jax_worker.py WORKLOAD DATA.safetensors"""
import math
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp

import workloads

from worker import serve
from workloads import mlp, parameters

name, path = sys.argv[1:3]


def load():
    return {k: jnp.asarray(a) for k, a in workloads.load(path).items()}


def lstm(p, x):
    t, n, i, h = workloads.LSTM.values()

    def cell(carry, gates):
        h, c = carry
        i, f, g, o = jnp.split(gates + h @ p["p.w_hh"].T + p["p.b_hh"], 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((n, h))
    unroll = t if name == "lstm_unrolled" else 1
    return jnp.square(jax.lax.scan(cell, (zeros, zeros), x @ p["p.w_ih"].T + p["p.b_ih"], unroll=unroll)[1]).mean()


def newton(e, m):
    f = lambda x: x - e * jnp.sin(x) - m
    goes_on = lambda s: s[1] > workloads.NEWTON["tolerance"]
    body = lambda s: (s[0] - f(s[0]) / (1 - e * jnp.cos(s[0])), jnp.abs(f(s[0])).max())
    return jax.lax.while_loop(goes_on, body, (m, jnp.float32(jnp.inf)))[0]


def langevin(x, key):
    eps = workloads.LANGEVIN["step_size"]

    def body(i, s):
        x, key = s
        key, now = jax.random.split(key)
        return x - eps * (x * x * x - x) + math.sqrt(2 * eps) * jax.random.normal(now, x.shape), key

    x, key = jax.lax.fori_loop(0, workloads.LANGEVIN["steps"], body, (x, key))
    return jnp.abs((x * x).mean() - 1) < 0.5, key


def cnn(p, x):
    for k in ("p.k0", "p.k1"):
        x = jax.nn.relu(jax.lax.conv_general_dilated(x, p[k], (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return x.reshape(x.shape[0], -1) @ p["p.w2"]


def sample_loss(p, x, t):
    logits = mlp(p, x, jax.nn.relu) if name == "per_sample_mlp" else cnn(p, x[None])[0]
    return -jax.nn.log_softmax(logits)[t]


def flat(p):
    return jnp.concatenate([p[k].ravel() for k in sorted(p)])


def unflat(v, like):
    out, at = {}, 0
    for k in sorted(like):
        out[k] = v[at:at + like[k].size].reshape(like[k].shape)
        at += like[k].size
    return out


def residual(p, z):
    u = lambda z: mlp(p, z, jnp.tanh)[0]
    first = jax.grad(u)(z)
    second = jax.grad(lambda z: jax.grad(u)(z)[0])(z)[0]
    return first[1] + u(z) * first[0] - workloads.VISCOSITY * second


def listed(tree):
    return [tree[k] for k in sorted(tree)]


def build(d):
    p = parameters(d)
    if name in ("lstm_scan", "lstm_unrolled", "pinn"):
        loss = lstm if name != "pinn" else lambda p, x: jnp.square(jax.vmap(residual, (None, 0))(p, x)).mean()
        f = jax.jit(jax.value_and_grad(loss))

        def step():
            value, g = jax.block_until_ready(f(p, d["x"]))
            return [value] + listed(g)
        return step
    if name == "newton":
        f = jax.jit(newton)
        return lambda: [jax.block_until_ready(f(d["e"], d["m"]))]
    if name == "langevin":
        f, key = jax.jit(langevin), [jax.random.PRNGKey(1)]

        def step():
            fits, key[0] = jax.block_until_ready(f(d["x"], key[0]))
            return [fits]
        return step
    if name == "hessian":
        f = jax.jit(jax.hessian(lambda v: jnp.square(mlp(unflat(v, p), d["x"], jnp.tanh) - d["t"]).mean()))
        return lambda: [jax.block_until_ready(f(flat(p)))]
    f = jax.jit(jax.vmap(jax.grad(sample_loss), (None, 0, 0)))
    return lambda: listed(jax.block_until_ready(f(p, d["x"], d["t"])))


serve(load, build, lambda result: [float(jnp.abs(v.astype(jnp.float32)).mean()) for v in result])
