"""The forwards of science.py in JAX."""
import jax
import jax.numpy as jnp

import science
from jax_models import conv, cross_entropy
from jax_networks import linear


def attend(q, k, v, bias, scale):
    scores = jnp.einsum("...qd,...kd->...qk", q, k) * scale + bias
    return jnp.einsum("...qk,...kd->...qd", jax.nn.softmax(scores), v)


def biased_attention(p, d):
    return attend(p["p.q"], p["p.k"], p["p.v"], p["p.bias"][d["buckets"]].transpose(2, 0, 1)[None], 1.0)


def windows(p, d):
    m = science.WINDOWS
    B, S, w, C = m["batch"], m["image"] // m["window"], m["window"], m["channels"]
    x = jnp.roll(p["p.x"], (-3, -3), (1, 2)).reshape(B, S, w, S, w, C).swapaxes(2, 3).reshape(B, S * S, w * w, C)
    q, k, v = (z.reshape(B, S * S, w * w, m["heads"], -1).swapaxes(2, 3) for z in jnp.split(linear(p, x, "qkv"), 3, -1))
    y = attend(q, k, v, d["mask"][:, None], q.shape[-1] ** -0.5).swapaxes(2, 3).reshape(x.shape)
    y = linear(p, y, "proj").reshape(B, S, S, w, w, C).swapaxes(2, 3).reshape(p["p.x"].shape)
    return p["p.x"] + jnp.roll(y, (3, 3), (1, 2))


def segmentation(p, d):
    x = jax.nn.relu(conv(d["x"], p["p.k1"], 2, 1))
    x = jax.nn.relu(conv(x, p["p.k2"], 2, 1))
    x = jnp.concatenate([jax.nn.relu(conv(x, p[f"p.d{i}"], padding=i, dilation=i)) for i in (1, 2, 4)], 1)
    y = conv(x, p["p.k3"])
    y = jax.image.resize(y, (*y.shape[:2], 4 * y.shape[2], 4 * y.shape[3]), "bilinear")
    return cross_entropy(y.transpose(0, 2, 3, 1).reshape(-1, y.shape[1]), d["t"].reshape(-1))


def video(p, d):
    x = jax.nn.relu(conv(d["x"], p["p.k1"], padding=1))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2, 2), (1, 1, 2, 2, 2), "VALID")
    x = jax.nn.relu(conv(x, p["p.k2"], padding=1)).mean((2, 3, 4))
    return cross_entropy(linear(p, x, "fc"), d["t"])


def physics(p, d):
    def u(x, t):
        y = jnp.stack([x, t])
        for i in range(4):
            y = linear(p, y, f"l{i}")
            y = jnp.tanh(y) if i < 3 else y
        return y[0]

    def error(x, t):
        u_x, u_t = jax.grad(u, (0, 1))(x, t)
        return u_t + u(x, t) * u_x - 0.01 * jax.grad(jax.grad(u))(x, t)
    return jnp.square(jax.vmap(error)(d["x"][:, 0], d["t"][:, 0])).mean()


def ode(p, d):
    h = 1 / science.ODE_STEPS
    f = lambda x: linear(p, jnp.tanh(linear(p, x, "l0")), "l1")

    def step(x, _):
        k1 = f(x)
        k2 = f(x + h / 2 * k1)
        k3 = f(x + h / 2 * k2)
        return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(x + h * k3)), None
    x, _ = jax.lax.scan(step, d["x"], None, science.ODE_STEPS)
    return jnp.square(x - d["y"]).mean()


def gaussian_process(p, d):
    x = d["x"] / p["p.lengths"]
    distance = jnp.square(x[:, None] - x[None]).sum(-1)
    kernel = jnp.exp(p["p.scale"]) * jnp.exp(-0.5 * distance) + jnp.exp(p["p.noise"]) * jnp.eye(len(x))
    factor = jnp.linalg.cholesky(kernel)
    return 0.5 * (d["y"] * jax.scipy.linalg.cho_solve((factor, True), d["y"])).sum() + jnp.log(jnp.diagonal(factor)).sum()


def bodies(p, d):
    x, m = p["p.x"], d["mass"]
    away = jnp.square(x[:, None] - x[None]).sum(-1)
    return -0.5 * (m[:, None] * m[None] * jax.lax.rsqrt(away + 0.01)).sum()


def hessian(p, d):
    return jax.hessian(lambda x: jnp.tanh(jnp.tanh(x @ p["p.w1"]) @ p["p.w2"]).sum())(d["x"])


def forward(name, p, d):
    """The result of a row that is here."""
    return {"biased_attention": biased_attention, "windows": windows, "segmentation": segmentation, "video": video, "physics": physics,
            "ode": ode, "gaussian_process": gaussian_process, "bodies": bodies, "hessian": hessian}[name](p, d)
