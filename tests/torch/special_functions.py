"""Values of special functions to the last bit, computed in 50 digits by mpmath, which PyTorch comes with.

Writes tests/torch/special_functions.tsv: function, arguments (numbers that f32 holds), value rounded to f64. Run by hand:

    python tests/torch/special_functions.py
"""
import pathlib
import random
import struct

import mpmath as mp

mp.mp.dps = 50
random.seed(5)


def single(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def spread(low, high, count=24):
    """Between low and high, by magnitude if they have one sign."""
    if low > 0:
        return [single(low * (high / low) ** random.random()) for _ in range(count)]
    return [single(low + (high - low) * random.random()) for _ in range(count)]


def quantile(p):
    return mp.sqrt(2) * mp.erfinv(2 * mp.mpf(p) - 1) if p > 1e-3 else -mp.findroot(lambda x: mp.log(mp.erfc(x / mp.sqrt(2)) / 2) - mp.log(p), mp.sqrt(-2 * mp.log(p)))


def log_ndtr(x):
    return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)


UNARY = {
    "lgamma": (mp.loggamma, spread(1e-30, 1) + spread(0.9, 3.1, 60) + spread(3, 9, 40) + spread(9, 1e30)),
    "lgamma_below": (lambda x: mp.log(abs(mp.gamma(x))), spread(-9, 0, 40)),
    "digamma": (mp.digamma, spread(1e-30, 1.2) + spread(1.8, 12, 60) + spread(12, 1e30)),
    "digamma_below": (mp.digamma, spread(-9, 0, 40)),
    "trigamma": (lambda x: mp.polygamma(1, x), spread(1e-10, 40, 60)),
    "trigamma_below": (lambda x: mp.polygamma(1, x), spread(-9, 0, 40)),
    "polygamma3": (lambda x: mp.polygamma(3, x), spread(1e-6, 40, 60)),
    "erfinv": (mp.erfinv, spread(-1, 1, 60) + spread(1e-30, 1) + [single(1 - 2.0**-k) for k in range(2, 24, 3)]),
    "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), spread(-20, 20, 60) + spread(1e-10, 20)),
    "ndtri": (quantile, spread(0, 1, 40) + spread(1e-35, 0.1, 30)),
    "ndtr": (lambda x: mp.erfc(-x / mp.sqrt(2)) / 2, spread(-12, 6, 40)),
    "log_ndtr": (log_ndtr, spread(-20, 8, 60)),
    "i0": (lambda x: mp.besseli(0, x), spread(-80, 80, 40) + spread(1e-5, 9)),
    "i0e": (lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), spread(-300, 300, 40) + spread(1e-5, 9)),
    "i1": (lambda x: mp.besseli(1, x), spread(-80, 80, 40) + spread(1e-5, 9)),
    "i1e": (lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), spread(-300, 300, 40) + spread(1e-5, 9)),
}
ZETA = list(zip(spread(1.01, 30, 80), spread(0.01, 60, 80)))
# Integers s beside numbers below 0.
ZETA_BELOW = list(zip([float(2 + k % 9) for k in range(40)], spread(-30, 0, 40)))


def zeta_below(s, q):
    """Terms until the arguments are positive, then the function itself."""
    s, q, total = mp.mpf(s), mp.mpf(q), mp.mpf(0)
    while q < 0:
        total, q = total + q**-s, q + 1
    return total + mp.zeta(s, q)


def incomplete_gamma(a, x, upper):
    return mp.gammainc(a, x, mp.inf, regularized=True) if upper else mp.gammainc(a, 0, x, regularized=True)


def near(a):
    """Where both incomplete gamma functions change."""
    return single(abs(a + 6 * random.gauss(0, 1) * a**0.5))


IGAMMA = [(a, x) for a in spread(1e-6, 3, 30) + spread(3, 190, 30) + spread(210, 3000, 30) for x in (near(a), single(a * random.uniform(0.05, 2)))]


def main():
    rows = [(name, x, "", f(mp.mpf(x))) for name, (f, points) in UNARY.items() for x in points]
    rows += [("zeta", s, q, mp.zeta(mp.mpf(s), mp.mpf(q))) for s, q in ZETA]
    rows += [("zeta_below", s, q, zeta_below(s, q)) for s, q in ZETA_BELOW]
    for a, x in IGAMMA:
        lower, upper = incomplete_gamma(mp.mpf(a), mp.mpf(x), False), incomplete_gamma(mp.mpf(a), mp.mpf(x), True)
        rows += [("igamma", a, x, lower)] * (lower > 1e-30) + [("igammac", a, x, upper)] * (upper > 1e-30)
    lines = ["\t".join([name, repr(x), repr(y) if y else "-", repr(float(value))]) for name, x, y, value in rows]
    pathlib.Path(__file__).with_suffix(".tsv").write_text("\n".join(lines) + "\n")


main()
