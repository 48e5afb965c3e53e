"""The data of attention with biases, of dense predictions and volumes, and of programs that differentiate what is no network."""
import math

BIASED = dict(batch=4, heads=8, tokens=256, channels=64, buckets=32)
WINDOWS = dict(batch=4, image=56, window=7, channels=96, heads=3)
BODIES = 1024
ODE_STEPS = 16

INFERENCE = ["hessian"]
TRAINED_BY_SGD = ["segmentation", "video", "physics", "ode"]
NAMES = [*INFERENCE, *TRAINED_BY_SGD, "biased_attention", "windows", "gaussian_process", "bodies"]


def make(name, np, randn, labels, zeros, ones):
    """Arrays of row `name`, or None if it is none of these."""
    weight = lambda *shape: randn(*shape, scale=1 / math.sqrt(math.prod(shape[1:])))  # of a convolution
    linear = lambda layer, a, b: {f"p.{layer}.w": randn(a, b, scale=1 / math.sqrt(a)), f"p.{layer}.b": zeros(b)}
    if name == "biased_attention":
        m = BIASED
        shape, distance = (m["batch"], m["heads"], m["tokens"], m["channels"]), np.arange(m["tokens"])
        near = np.abs(distance[:, None] - distance)
        return {"p.q": randn(*shape, scale=.1), "p.k": randn(*shape), "p.v": randn(*shape), "p.bias": randn(m["buckets"], m["heads"]),
                "buckets": np.minimum(near, m["buckets"] - 1).astype(np.int64), "g": randn(*shape)}
    if name == "windows":
        m = WINDOWS
        c, size, count = m["channels"], m["window"] ** 2, (m["image"] // m["window"]) ** 2
        parts = np.zeros((m["image"], m["image"]))  # what lies beside what only since the image was rolled is told apart
        for i, (a, b) in enumerate([(0, 49), (49, 53), (53, 56)]):
            for j, (e, f) in enumerate([(0, 49), (49, 53), (53, 56)]):
                parts[a:b, e:f] = 3 * i + j
        parts = parts.reshape(8, 7, 8, 7).transpose(0, 2, 1, 3).reshape(count, size)
        apart = parts[:, :, None] != parts[:, None, :]
        x = (m["batch"], m["image"], m["image"], c)
        return {"p.x": randn(*x), "mask": np.where(apart, np.float32(-100), np.float32(0)), **linear("qkv", c, 3 * c), **linear("proj", c, c),
                "g": randn(*x)}
    if name == "segmentation":
        return {"x": randn(4, 3, 128, 128), "t": labels(8, 4, 128, 128), "p.k1": weight(32, 3, 3, 3), "p.k2": weight(64, 32, 3, 3),
                **{f"p.d{i}": weight(32, 64, 3, 3) for i in (1, 2, 4)}, "p.k3": weight(8, 96, 1, 1)}
    if name == "video":
        return {"x": randn(4, 3, 8, 56, 56), "t": labels(10, 4), "p.k1": weight(32, 3, 3, 3, 3), "p.k2": weight(64, 32, 3, 3, 3),
                **linear("fc", 64, 10)}
    if name == "physics":
        d = {"x": randn(2048, 1), "t": randn(2048, 1)}
        for i, (a, b) in enumerate([(2, 64), (64, 64), (64, 64), (64, 1)]):
            d |= linear(f"l{i}", a, b)
        return d
    if name == "ode":
        return {"x": randn(512, 2), "y": randn(512, 2), **linear("l0", 2, 64), **linear("l1", 64, 2)}
    if name == "gaussian_process":
        return {"x": randn(384, 4), "y": randn(384, 1), "p.lengths": ones(4), "p.noise": np.array(-1, np.float32),
                "p.scale": np.array(0, np.float32)}
    if name == "bodies":
        return {"p.x": randn(BODIES, 3), "mass": np.abs(randn(BODIES))}
    if name == "hessian":
        return {"x": randn(64), "p.w1": randn(64, 256, scale=1 / 8), "p.w2": randn(256, 256, scale=1 / 16), "g": randn(64, 64)}
    return None
