#!/usr/bin/env python3
"""Programs of derivatives and control flow against the same in JAX: ./dev test-jax [NAME...].

jax_programs writes a line for each of its programs, with inputs and results, eager and compiled, in f64 (jax_programs.cpp). Here each name has the function that
says the same in JAX; all results must agree to 1e-9 of the largest.
"""
import argparse
import json
import os
import subprocess
import sys

os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

TOLERANCE = 1e-9
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


# --- functions that are differentiated


def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def mlp(m, x):
    w1, b1, w2 = m
    return jnp.tanh(x @ w1 + b1) @ w2


def mlp_loss(m, x):
    return jnp.mean(mlp(m, x) ** 2)


def logistic(w, x):
    return jnp.mean(jax.nn.softplus(-(x @ w)))


@jax.custom_vjp
def clipped_gradient(x):
    return x * x


clipped_gradient.defvjp(lambda x: (x * x, x), lambda x, g: (jnp.clip(2 * x * g, -1, 1),))


@jax.custom_jvp
def log1p_exp(x):
    return jnp.log(1 + jnp.exp(x))


@log1p_exp.defjvp
def log1p_exp_jvp(primals, tangents):
    return log1p_exp(primals[0]), tangents[0] * jax.nn.sigmoid(primals[0])


# --- derivatives


@program
def grad_mlp(w1, b1, w2, x):
    return jax.grad(mlp_loss)((w1, b1, w2), x)


@program
def value_and_grad_of_two(a, b):
    value, (ga, gb) = jax.value_and_grad(lambda a, b: jax.nn.logsumexp(a * b), argnums=(0, 1))(a, b)
    return value, ga, gb


@program
def aux(a):
    (value, besides), gradient = jax.value_and_grad(lambda a: (jnp.sum(jnp.sin(a)), a * a), has_aux=True)(a)
    return value, besides, gradient


@program
def second_derivative(x):
    slope = jax.grad(lambda x: jnp.sum(jnp.tanh(x) * jnp.exp(x)))
    return jax.grad(lambda x: jnp.sum(slope(x)))(x)


@program
def third_derivative(x):
    return jax.grad(jax.grad(jax.grad(lambda x: jnp.sin(x) * jnp.exp(x))))(x)


@program
def grad_through_grad(w1, b1, w2, x):
    return jax.grad(lambda m: jnp.sum(jax.grad(mlp_loss, argnums=1)(m, x) ** 2))((w1, b1, w2))


@program
def jvp_softmax(x, v):
    return jax.jvp(lambda x: jax.nn.softmax(x, 1), (x,), (v,))


@program
def jvp_of_two(a, b, u, v):
    return jax.jvp(lambda a, b: jnp.sin(a @ b), (a, b), (u, v))[1]


@program
def jvp_of_jvp(x, u, v):
    def along(x):
        return jax.jvp(lambda x: jnp.cumsum(x**3), (x,), (u,))[1]

    return jax.jvp(along, (x,), (v,))[1]


@program
def vjp_layer_norm(x, g):
    def f(x):
        return (x - x.mean(1, keepdims=True)) / jnp.sqrt(x.var(1, keepdims=True) + 1e-5)

    return jax.vjp(f, x)[1](g)


@program
def vjp_of_two_results(x, g, h):
    return jax.vjp(lambda x: (jnp.sin(x), jnp.prod(x)), x)[1]((g, h))


@program
def linearize(x, u, v):
    y, push = jax.linearize(lambda x: x * jnp.sum(jnp.cos(x)), x)
    return y, push(u), push(v)


@program
def jacrev(w, x):
    return jax.jacrev(lambda w, x: jnp.tanh(w @ x), argnums=(0, 1))(w, x)


@program
def jacfwd(w, x):
    return jax.jacfwd(lambda x: jnp.tanh(w @ x))(x)


@program
def jacrev_of_jacfwd(x):
    return jax.jacrev(jax.jacfwd(lambda x: jnp.outer(x, jnp.exp(x))))(x)


@program
def jacfwd_of_jacrev_of_jacfwd(x):
    return jax.jacfwd(jax.jacrev(jax.jacfwd(lambda x: jnp.sin(x) * jnp.prod(x))))(x)


@program
def hessian_rosenbrock(x):
    return jax.hessian(rosenbrock)(x)


@program
def hessian_logistic(w, x):
    return jax.hessian(logistic)(w, x)


@program
def hvp(x, v):
    return rosenbrock(x), jax.jvp(jax.grad(rosenbrock), (x,), (v,))[1]


@program
def gauss_newton_product(w, x, v):
    def f(w):
        return jnp.tanh(x @ w)

    return jax.vjp(f, w)[1](jax.jvp(f, (w,), (v,))[1])


@program
def vmap_in_dims(a, b):
    return jax.vmap(jnp.outer, in_axes=(None, 1), out_axes=2)(a[1], b)


@program
def vmap_of_vmap(a, b):
    def distance(a, b):
        return jnp.sqrt(jnp.sum((a - b) ** 2))

    return jax.vmap(jax.vmap(distance, (None, 0)), (0, None))(a, b)


@program
def vmap_argsort(x):
    return jax.vmap(lambda x: (jnp.cumsum(jnp.sort(x)), jnp.argsort(x).astype(float)))(x)


@program
def per_sample_gradients(w1, b1, w2, x):
    return jax.vmap(jax.grad(mlp_loss), (None, 0))((w1, b1, w2), x[:, None])


@program
def per_sample_gradients_conv(w, x):
    def loss(w, x):
        return jnp.sum(jax.nn.relu(lax.conv(x[None], w, (1, 1), "VALID")) ** 2)

    return jax.vmap(jax.grad(loss), (None, 0))(w, x)


@program
def grad_of_vmap(xs, w):
    return jax.grad(lambda w: jnp.sum(jnp.log(jax.vmap(lambda x: jax.nn.sigmoid(x @ w))(xs))))(w)


@program
def vmap_of_jvp(xs, v):
    return jax.vmap(lambda x: jax.jvp(jnp.prod, (x,), (v,))[1])(xs)


@program
def jvp_of_vmap(x, v):
    return jax.jvp(jax.vmap(lambda x: x / jnp.sqrt(jnp.sum(x * x))), (x,), (v,))[1]


@program
def vmap_of_hessian(x):
    return jax.vmap(jax.hessian(rosenbrock))(x)


@program
def jacrev_of_vmap(x):
    return jax.jacrev(jax.vmap(jnp.prod))(x)


@program
def laplacian(x):
    return jax.vmap(lambda x: jnp.trace(jax.hessian(lambda x: jnp.exp(-jnp.sum(x * x)) * x[0])(x)))(x)


@program
def pinn_residual(w, v, ts):
    def loss(w, v):
        def u(t):
            return jnp.sum(jnp.tanh(w * t) * v)

        return jnp.mean(jax.vmap(lambda t: jax.grad(jax.grad(u))(t) + u(t))(ts) ** 2)

    return jax.grad(loss, argnums=(0, 1))(w, v)


@program
def custom_vjp(x):
    return jax.grad(lambda x: jnp.sum(clipped_gradient(x) * x))(x)


@program
def custom_jvp(x):
    return jax.jvp(log1p_exp, (x * 100,), (jnp.ones_like(x),))[1], jax.grad(lambda x: jnp.sum(log1p_exp(x)))(x)


@program
def stop_gradient(x):
    return jax.grad(lambda x: jnp.sum(x * (x + lax.stop_gradient(jnp.round(x * 3) - x))))(x)


@program
def checkpoint(w, x):
    layer = jax.checkpoint(lambda w, x: jnp.sin(w @ jnp.tanh(x)))
    return jax.grad(lambda w, x: jnp.sum(layer(w, layer(w, layer(w, x)))), argnums=(0, 1))(w, x)


@program
def writes_in_place(x):
    def f(x):
        y = 2 * x
        y = y.at[1].mul(x[0])
        return jnp.sum(y.at[:, 1:].set(jnp.sin(y[:, 1:])) ** 2)

    return jax.grad(f)(x), jax.hessian(f)(x)


@program
def gather_scatter(x):
    places = jnp.array([0, 2, 2, 4, 1, 2])
    return jax.grad(lambda x: jnp.sum(jnp.exp(jnp.zeros((5, 3)).at[places].add(x[places] ** 2))))(x * 0.3)


@program
def solve_and_logdet(a, b):
    def f(a, b):
        s = a @ a.T + jnp.eye(3)
        return jnp.sum(jnp.linalg.solve(s, b)) + jnp.linalg.slogdet(s)[1]

    return jax.grad(f, argnums=(0, 1))(a, b)


@program
def cholesky(a):
    def f(a):
        return jnp.sum(jnp.sin(jnp.linalg.cholesky(a @ a.T + jnp.eye(3))))

    return jax.grad(f)(a), 2 * jax.grad(f)(a)


@program
def functional_call(w, b, x):
    return jax.grad(lambda w, b: jnp.sum((x @ w.T + b) ** 2), argnums=(0, 1))(w, b)


# --- control flow


def rnn_loss(w, u, h, xs):
    def body(state, x):
        following = jnp.tanh(w @ state + u @ x)
        return following, following**2

    last, ys = lax.scan(body, h, xs)
    return jnp.sum(last) + jnp.mean(ys)


def newton_root(a):
    return lax.while_loop(lambda x: jnp.abs(x * x - a) > 1e-10, lambda x: (x + a / x) / 2, a + 1)


def leaky(x):
    return lax.cond(jnp.sum(x) > 0, lambda t: t * jnp.sin(t), lambda t: 0.1 * jnp.exp(t), x)


def power_by_loop(x):
    return lax.fori_loop(0, 5, lambda _, p: p * x, jnp.ones_like(x))


def oscillator_end(start, stiffness):
    def slope(s):
        return jnp.stack([s[1], -stiffness * s[0]])

    h = 0.1

    def step(_, s):
        k1 = slope(s)
        k2 = slope(s + h / 2 * k1)
        k3 = slope(s + h / 2 * k2)
        k4 = slope(s + h * k3)
        return s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return lax.fori_loop(0, 20, step, start)


@program
def cond(x):
    return leaky(x), leaky(-x)


@program
def grad_of_cond(x):
    slope = jax.grad(lambda x: jnp.sum(leaky(x)))
    return slope(x), slope(-x)


@program
def cond_in_cond(x):
    def f(x):
        return lax.cond(x[0] > 0, lambda: lax.cond(x[1] > 0, lambda: jnp.sum(jnp.sin(x)), lambda: jnp.prod(x)), lambda: jnp.sum(x * x))

    return f(x), jax.grad(f)(x), jax.grad(f)(-x), f(x[::-1])


@program
def switch_case(x):
    branches = [lambda x: jnp.sum(jnp.sin(x)), lambda x: jnp.sum(x * x), jnp.prod]
    results = []
    for i in [-1, 0, 1, 2, 7]:
        results += [lax.switch(i, branches, x), jax.grad(lambda x, i=i: lax.switch(i, branches, x))(x)]
    return results


@program
def newton_by_while(a):
    return newton_root(a * a + 2)


@program
def collatz(a):
    def step(s):
        n, steps = s
        return jnp.where(n % 2 == 0, n / 2, 3 * n + 1), steps + 1

    return lax.while_loop(lambda s: s[0] != 1, step, (jnp.floor(a * 0) + 27, 0.0))


@program
def factorial_by_fori(a):
    return lax.fori_loop(1, 11, lambda i, p: p * i, a)


@program
def grad_of_fori(x):
    return power_by_loop(x), jax.grad(lambda x: jnp.sum(power_by_loop(x)))(x)


@program
def cumsum_by_scan(xs):
    return lax.scan(lambda total, x: (total + x, total + x), jnp.zeros(2), xs)


@program
def scan_in_reverse(rewards):
    def f(rewards):
        def step(value, r):
            return r + 0.9 * value, r + 0.9 * value

        return lax.scan(step, 0.0, rewards, reverse=True)[1]

    return f(rewards), jax.grad(lambda r: jnp.sum(f(r) ** 2))(rewards)


@program
def rnn(w, u, h, xs):
    value, gradients = jax.value_and_grad(rnn_loss, argnums=(0, 1, 2, 3))(w, u, h, xs)
    return value, *gradients


@program
def scan_of_structures(a, b):
    def f(a, b):
        def step(s, x):
            first, second = s[0] + x[0] * s[1], s[1] * jnp.cos(x[1])
            return (first, second), jnp.sum(first) * second

        (first, second), ys = lax.scan(step, (jnp.zeros(2), 1.0), (a, b))
        return jnp.sum(first) + second + jnp.sum(ys**2)

    return f(a, b), *jax.grad(f, argnums=(0, 1))(a, b)


@program
def scan_without_inputs(a):
    def f(r):
        def step(x, _):
            return r * x * (1 - x), r * x * (1 - x)

        return lax.scan(step, 0.3, None, length=8)[1]

    r = 2.5 + a * 0.1
    return f(r), jax.grad(lambda t: jnp.sum(f(t)))(r)


@program
def map(xs):
    def f(xs):
        return lax.map(lambda x: jax.nn.softmax(x) * jnp.sum(x), xs)

    return f(xs), jax.grad(lambda x: jnp.sum(f(x) ** 2))(xs)


@program
def scan_in_scan(table):
    def f(table):
        def row(carry, xs):
            last, ys = lax.scan(lambda c, x: (jnp.sin(c + x), jnp.sin(c + x) * x), carry, xs)
            return last, jnp.sum(ys)

        last, ys = lax.scan(row, 0.1, table)
        return last * jnp.sum(ys)

    return f(table), jax.grad(f)(table)


@program
def cond_in_scan(xs):
    def f(xs):
        def step(s, x):
            following = lax.cond(x > 0, lambda: s + x * x, lambda: s * jnp.cos(x))
            return following, following

        return jnp.sum(lax.scan(step, 1.0, xs)[1])

    return f(xs), jax.grad(f)(xs)


@program
def while_in_scan(xs):
    def step(s, x):
        root = newton_root(x * x + 1)
        return s + root, root

    return lax.scan(step, 0.0, xs)


@program
def integer_carry(xs):
    def f(xs):
        def step(s, x):
            return (s[0] + 1, s[1] + x / (s[0] + 1)), None

        return lax.scan(step, (0, 0.0), xs)[0][1]

    return f(xs), jax.grad(f)(xs)


@program
def runge_kutta(start, a):
    stiffness = 1 + a * a
    return oscillator_end(start, stiffness), *jax.grad(lambda s, k: jnp.sum(oscillator_end(s, k) ** 2), argnums=(0, 1))(start, stiffness)


@program
def kalman(zs, noise):
    def likelihood(zs, noise):
        def step(s, z):
            spread = s[1] + 0.1
            total = spread + jnp.exp(noise)
            gain, off = spread / total, z - s[0]
            return (s[0] + gain * off, (1 - gain) * spread), -0.5 * (jnp.log(total) + off * off / total)

        return jnp.sum(lax.scan(step, (0.0, 1.0), zs)[1])

    return likelihood(zs, noise), *jax.grad(likelihood, argnums=(0, 1))(zs, noise)


@program
def bisection(a):
    def halve(s):
        middle = (s[0] + s[1]) / 2
        left = middle**3 - 2 - a * a > 0
        return jnp.where(left, s[0], middle), jnp.where(left, middle, s[1])

    return lax.while_loop(lambda s: s[1] - s[0] > 1e-9, halve, (0.0, 4.0))


@program
def mandelbrot(a, b):
    def step(_, s):
        x, y, count = s
        inside = x * x + y * y < 4
        return jnp.where(inside, x * x - y * y + a, x), jnp.where(inside, 2 * x * y + b, y), count + inside

    return lax.fori_loop(0, 30, step, (jnp.zeros(5), jnp.zeros(5), jnp.zeros(5)))[2]


@program
def writes_in_bodies(x):
    def f(x):
        def step(i, s):
            table, total = s
            table = (table + i).at[0].mul(0.5)
            return table, total + jnp.sum(jnp.sin(table))

        return lax.fori_loop(0, 4, step, (x, 0.0))[1]

    return f(x), jax.grad(f)(x)


@program
def jvp_of_scan(w, u, h, xs, v):
    return jax.jvp(lambda w: rnn_loss(w, u, h, xs), (w,), (v,))


@program
def jvp_of_while(a, v):
    return jax.jvp(newton_root, (a * a + 2,), (v,))[1]


@program
def jvp_of_cond(x, v):
    return jax.jvp(leaky, (x,), (v,))[1], jax.jvp(leaky, (-x,), (v,))[1]


@program
def hessian_of_scan(x):
    def f(x):
        last, ys = lax.scan(lambda s, t: (jnp.sin(s * t) + t, s * s), 0.5, x)
        return last * jnp.sum(ys)

    return jax.hessian(f)(x)


@program
def hessian_of_cond(x):
    curve = jax.hessian(lambda x: jnp.sum(leaky(x)))
    return curve(x), curve(-x)


@program
def vmap_of_scan(xs):
    def f(xs):
        return lax.scan(lambda s, x: (jnp.tanh(s + x), jnp.tanh(s + x) * x), 0.2, xs)[1]

    return jax.vmap(f)(xs)


@program
def vmap_of_cond(x):
    return jax.vmap(leaky)(x)


@program
def vmap_of_while(a):
    return jax.vmap(newton_root)(a * a + 1)


@program
def per_sample_gradients_of_scan(w, u, h, xs):
    return jax.vmap(jax.grad(rnn_loss), (None, None, None, 0))(w, u, h, xs)


# --- comparing


def array_of(spec):
    return np.array(spec["data"]).reshape(spec["sizes"])


def difference(wanted, got):
    """Why the results of one form are not those of JAX; None if they are."""
    if "failed" in got:
        return got["failed"]
    if len(wanted) != len(got):
        return f"{len(got)} results, expected {len(wanted)}"
    for i, (a, b) in enumerate(zip(wanted, map_list(array_of, got))):
        if a.shape != b.shape:
            return f"result {i} has sizes {b.shape}, expected {a.shape}"
        if not np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * max(1, np.abs(a).max(initial=0))):
            return f"result {i} differs by {np.abs(a - b).max()}: {b.ravel()[:6]}, expected {a.ravel()[:6]}"
    return None


def map_list(function, items):
    return [function(item) for item in items]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    lines = subprocess.run([arguments.command], check=True, capture_output=True, text=True).stdout.splitlines()
    runs = {run["name"]: run for run in map_list(json.loads, lines)}
    failures = sorted(set(runs) ^ set(PROGRAMS))
    for name in failures:
        print(f"{name}: only on one side")
    for name in arguments.names or [n for n in PROGRAMS if n in runs]:
        wanted = map_list(np.asarray, jax.tree_util.tree_leaves(PROGRAMS[name](*map_list(array_of, runs[name]["inputs"]))))
        for form in ("eager", "compiled"):
            if why := difference(wanted, runs[name][form]):
                failures.append(name)
                print(f"{name}, {form}: {why}")
    print(f"{len(runs)} programs, eager and compiled, beside JAX {jax.__version__}: {len(failures)} differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
