"""The data of `./dev bench transforms`: derivatives of every kind, and loops. One safetensors file feeds all contenders; and what is the same Python for all."""
import math
import pathlib
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
from arrays import load, save  # noqa: E402, F401, for the workers

NAMES = ["lstm_scan", "lstm_unrolled", "newton", "langevin", "per_sample_mlp", "per_sample_cnn", "hessian", "pinn"]
LSTM = dict(steps=256, batch=32, inputs=64, hidden=64)
LANGEVIN = dict(steps=1000, step_size=0.01)
NEWTON = dict(tolerance=1e-6)
MLPS = {"per_sample_mlp": (64, [784, 128, 10]), "hessian": (64, [8, 16, 1]), "pinn": (1024, [2, 32, 32, 1])}
VISCOSITY = 0.01


def make(name):
    """Arrays of workload `name`. Names that start with `p.` are differentiated."""
    rng = np.random.default_rng(20261125)
    randn = lambda *shape, scale=1.0: rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)
    uniform = lambda *shape, scale=1.0: rng.uniform(-scale, scale, shape).astype(np.float32)
    if name in ("lstm_scan", "lstm_unrolled"):
        t, n, i, h = LSTM.values()
        scale = 1 / math.sqrt(h)
        return {"x": randn(t, n, i), "p.w_ih": uniform(4 * h, i, scale=scale), "p.w_hh": uniform(4 * h, h, scale=scale),
                "p.b_ih": uniform(4 * h, scale=scale), "p.b_hh": uniform(4 * h, scale=scale)}
    if name == "newton":  # Kepler's equation e sin x + m = x, eccentricities and anomalies
        return {"e": rng.uniform(0, 0.9, 100_000).astype(np.float32), "m": rng.uniform(0, 3, 100_000).astype(np.float32)}
    if name == "langevin":
        return {"x": randn(256, 64)}
    if name in MLPS:
        batch, sizes = MLPS[name]
        d = {f"p.{k}{i}": randn(*s, scale=1 / math.sqrt(a)) for i, (a, b) in enumerate(zip(sizes, sizes[1:]))
             for k, s in (("w", (a, b)), ("b", (b,)))}
        d["x"] = randn(batch, sizes[0])
        if name == "per_sample_mlp":
            d["t"] = rng.integers(0, sizes[-1], batch, dtype=np.int64)
        if name == "hessian":
            d["t"] = randn(batch, 1)
        return d
    if name == "per_sample_cnn":
        return {"x": randn(32, 1, 28, 28), "t": rng.integers(0, 10, 32, dtype=np.int64), "p.k0": randn(8, 1, 3, 3, scale=.3),
                "p.k1": randn(16, 8, 3, 3, scale=.1), "p.w2": randn(16 * 7 * 7, 10, scale=.05)}
    raise SystemExit(f"unknown workload {name}; known: {', '.join(NAMES)}")


def parameters(d):
    """What is differentiated."""
    return {k: v for k, v in d.items() if k.startswith("p.")}


def mlp(p, x, act):
    """Of any framework's arrays."""
    n = sum(k.startswith("p.w") for k in p)
    for i in range(n):
        x = x @ p[f"p.w{i}"] + p[f"p.b{i}"]
        x = act(x) if i + 1 < n else x
    return x
