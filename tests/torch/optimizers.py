"""What PyTorch's optimizers do in 20 steps, for tests/training/optim; Lion and LAMB by their papers' formulas in NumPy.

Writes optimizers.tsv (optimizer, options of the first group, of the second or -, the parameters after all steps), lbfgs.tsv (options, the
parameters after each step), schedules.tsv (schedule, the learning rates of two groups at each step, and the first one's momentum or beta1)
and optimizer_states.npz (of each optimizer's second case, state and parameters at step 10 by name, lists of numbers as vectors). Parameters and gradients are formulas
that the tests have too; all in f64. Run by hand where PyTorch is installed:

    python tests/torch/optimizers.py
"""
import pathlib

import numpy as np
import torch

FOLDER = pathlib.Path(__file__).parent
STEPS = 20
SHAPES = ((3, 4), (5,), (), (4, 2))
MATRICES = ((3, 4), (5, 2), (2, 2), (4, 2))

CASES = {
    "SGD": ["", "lr=0.1 momentum=0.9", "lr=0.1 momentum=0.9 nesterov=1 weight_decay=0.1", "lr=0.1 momentum=0.8 dampening=0.3",
            "lr=0.05 weight_decay=0.2 maximize=1", "lr=0.1 momentum=0.9|lr=0.01 momentum=0.5 maximize=1"],
    "Adam": ["", "lr=0.1 beta1=0.8 beta2=0.95 eps=0.01", "lr=0.1 weight_decay=0.1 amsgrad=1", "lr=0.1 weight_decay=0.1 decoupled_weight_decay=1",
             "lr=0.1 maximize=1", "lr=0.1 amsgrad=1|lr=0.02 beta1=0.5 weight_decay=0.3"],
    "AdamW": ["", "lr=0.1 weight_decay=0.3 amsgrad=1", "lr=0.1 maximize=1|lr=0.01 weight_decay=0"],
    "NAdam": ["", "lr=0.1 weight_decay=0.1 momentum_decay=0.1", "lr=0.1 weight_decay=0.1 decoupled_weight_decay=1", "lr=0.1 maximize=1|beta1=0.5"],
    "RAdam": ["", "lr=0.1 weight_decay=0.1", "lr=0.1 weight_decay=0.1 decoupled_weight_decay=1 beta2=0.9", "lr=0.1 maximize=1|beta1=0.5"],
    "RMSprop": ["", "lr=0.1 alpha=0.9 eps=0.01 weight_decay=0.1", "lr=0.02 centered=1", "lr=0.02 momentum=0.9 centered=1",
                "lr=0.02 momentum=0.9 maximize=1|lr=0.1 momentum=0"],
    "Adagrad": ["", "lr=0.1 lr_decay=0.1 weight_decay=0.1", "lr=0.1 initial_accumulator_value=0.5 eps=0.001", "lr=0.1 maximize=1|lr_decay=0.5"],
    "Adadelta": ["", "lr=0.5 rho=0.8 eps=0.001 weight_decay=0.1", "maximize=1|lr=0.1 rho=0.5"],
    "Adamax": ["", "lr=0.1 beta1=0.8 beta2=0.9 eps=0.01 weight_decay=0.1", "lr=0.1 maximize=1|lr=0.01 beta2=0.5"],
    "Muon": ["lr=0.02", "lr=0.02 nesterov=0 momentum=0.8 weight_decay=0.3", "lr=0.01 adjust_lr=1 ns_steps=3"],
    "Lion": ["", "lr=0.01 beta1=0.8 beta2=0.95 weight_decay=0.1", "lr=0.01 maximize=1|lr=0.002 weight_decay=0.5"],
    "LAMB": ["", "lr=0.1 weight_decay=0.1 eps=0.001", "lr=0.1 maximize=1|lr=0.02 weight_decay=0"],
}


def starts(shapes):
    sizes = [int(np.prod(shape)) for shape in shapes]
    return [np.cos(np.arange(n) * 0.7 + k).reshape(shape) for k, (n, shape) in enumerate(zip(sizes, shapes))]


def gradient(p, step, k):
    """None where parameter k has none in this step."""
    if (k == 1 and step % 3 == 1) or (k == 2 and step < 2):
        return None
    return p * 0.3 + (np if isinstance(p, np.ndarray) else torch).sin(p * 1.7 + step + k)


# --- Lion and LAMB


class Formula:
    def __init__(self, groups, **defaults):
        self.param_groups = [{"lr": self.LR, "betas": self.BETAS, "weight_decay": self.DECAY, "maximize": False, "eps": 1e-6} | defaults | g for g in groups]
        self.state = {}

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    g = p.grad.numpy() * (-1 if group["maximize"] else 1)
                    state = self.state.setdefault(p, {"t": 0, "m": np.zeros(p.shape), "v": np.zeros(p.shape)})
                    p.data = torch.from_numpy(np.asarray(self.update(p.detach().numpy(), g, state, group)))


class Lion(Formula):
    LR, BETAS, DECAY = 1e-4, (0.9, 0.99), 0

    @staticmethod
    def update(p, g, s, group):
        (b1, b2), lr = group["betas"], group["lr"]
        c = b1 * s["m"] + (1 - b1) * g
        s["m"] = b2 * s["m"] + (1 - b2) * g
        return p - lr * (np.sign(c) + group["weight_decay"] * p)


class LAMB(Formula):
    LR, BETAS, DECAY = 1e-3, (0.9, 0.999), 0.01

    @staticmethod
    def update(p, g, s, group):
        (b1, b2), lr = group["betas"], group["lr"]
        s["t"] += 1
        s["m"] = b1 * s["m"] + (1 - b1) * g
        s["v"] = b2 * s["v"] + (1 - b2) * g * g
        m, v = s["m"] / (1 - b1 ** s["t"]), s["v"] / (1 - b2 ** s["t"])
        r = m / (np.sqrt(v) + group["eps"]) + group["weight_decay"] * p
        size, length = np.linalg.norm(p), np.linalg.norm(r)
        return p - lr * (size / length if size > 0 and length > 0 else 1) * r


# --- optimizers

KINDS = dict.fromkeys(("nesterov", "amsgrad", "centered", "decoupled_weight_decay", "maximize"), lambda v: v == "1") | {"ns_steps": int,
         "adjust_lr": lambda v: ("original", "match_rms_adamw")[int(v)]}


def options(text, betas):
    out = {key: KINDS.get(key, float)(value) for key, value in (item.split("=") for item in text.split())}
    given = out.pop("beta1", None), out.pop("beta2", None)
    if given != (None, None):
        out["betas"] = tuple(g if g is not None else b for g, b in zip(given, betas))
    if "adjust_lr" in out:
        out["adjust_lr_fn"] = out.pop("adjust_lr")
    return out


def make(name, case, parameters):
    cls = {"Lion": Lion, "LAMB": LAMB}.get(name) or getattr(torch.optim, name)
    texts = case.split("|")
    betas = (0.9, 0.99) if name == "Lion" else (0.9, 0.999)
    first = options(texts[0], betas)
    groups = [parameters] if len(texts) == 1 else [parameters[:2], parameters[2:]]
    # The second group's beta is beside the first's, not the default.
    others = options(texts[-1], first.get("betas", betas)) if len(texts) > 1 else {}
    return cls([{"params": g} | (others if i else {}) for i, g in enumerate(groups)], **first)


def flat(parameters):
    return " ".join(repr(float(v)) for p in parameters for v in p.detach().numpy().ravel())


def state_of(optimizer):
    saved = optimizer.state_dict()
    out = {}
    for number, state in saved["state"].items():
        out |= {f"state.{number}.{key}": torch.as_tensor(value).numpy().copy() for key, value in state.items() if value is not None}
    for number, group in enumerate(saved["param_groups"]):
        out |= {f"param_groups.{number}.{key}": np.asarray(value) for key, value in group.items() if isinstance(value, (bool, int, float, tuple, list))}
    return out


def run(name, case, states):
    parameters = [torch.from_numpy(np.asarray(p)) for p in starts(MATRICES if name == "Muon" else SHAPES)]
    optimizer = make(name, case, parameters)
    for step in range(STEPS):
        if step == 10:
            if name not in ("Lion", "LAMB", "Muon") and case == CASES[name][1]:
                prefix = name + "/"
                states |= {prefix + key: value for key, value in state_of(optimizer).items()}
                states |= {f"{prefix}parameters.{k}": p.numpy().copy() for k, p in enumerate(parameters)}
            for group in optimizer.param_groups:
                group["lr"] *= 0.5
        for k, p in enumerate(parameters):
            p.grad = gradient(p, step, k)
        optimizer.step()
    return flat(parameters)


def optimizers():
    states, lines = {}, []
    for name, cases in CASES.items():
        for case in cases:
            first, _, second = case.partition("|")
            lines.append("\t".join((name, first, second or "-", run(name, case, states))))
    (FOLDER / "optimizers.tsv").write_text("\n".join(lines) + "\n")
    np.savez_compressed(FOLDER / "optimizer_states.npz", **states)


# --- LBFGS

LBFGS_CASES = ["lr=0.1", "lr=0.5 history_size=3", "strong_wolfe=1", "strong_wolfe=1 max_iter=4 history_size=2"]


def rosenbrock(parameters):
    x = torch.cat([p.reshape(-1) for p in parameters])
    return (10 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def lbfgs():
    lines = []
    for case in LBFGS_CASES:
        given = {k: float(v) for k, v in (item.split("=") for item in case.split())}
        if given.pop("strong_wolfe", 0):
            given["line_search_fn"] = "strong_wolfe"
        given |= {k: int(given[k]) for k in ("max_iter", "history_size") if k in given}
        parameters = [torch.tensor([-1.2, 1.0, 0.5], dtype=torch.float64, requires_grad=True), torch.tensor([[0.3], [-0.4]], dtype=torch.float64, requires_grad=True)]
        optimizer = torch.optim.LBFGS(parameters, **given)

        def closure():
            optimizer.zero_grad()
            loss = rosenbrock(parameters)
            loss.backward()
            return loss

        for _ in range(4):
            optimizer.step(closure)
            lines.append(f"{case}\t{flat(parameters)}")
    (FOLDER / "lbfgs.tsv").write_text("\n".join(lines) + "\n")


# --- schedules

S = torch.optim.lr_scheduler
SCHEDULES = {
    "step": lambda o: S.StepLR(o, 3, 0.5),
    "multi_step": lambda o: S.MultiStepLR(o, [2, 5, 5, 11], 0.5),
    "exponential": lambda o: S.ExponentialLR(o, 0.9),
    "cosine": lambda o: S.CosineAnnealingLR(o, 6, 0.01),
    "cosine_restarts": lambda o: S.CosineAnnealingWarmRestarts(o, 3, 2, 0.001),
    "one_cycle": lambda o: S.OneCycleLR(o, 1.0, 25),
    "one_cycle_of_three": lambda o: S.OneCycleLR(o, [1.0, 0.5], 25, pct_start=0.4, anneal_strategy="linear", three_phase=True, div_factor=10, final_div_factor=100,
                                                 base_momentum=0.7, max_momentum=0.9),
    "one_cycle_of_adam": lambda o: S.OneCycleLR(o, 1.0, epochs=5, steps_per_epoch=5),
    "linear": lambda o: S.LinearLR(o, 0.1, 0.9, 7),
    "constant": lambda o: S.ConstantLR(o, 0.25, 4),
    "polynomial": lambda o: S.PolynomialLR(o, 12, 2.0),
    "lambda": lambda o: S.LambdaLR(o, [lambda e: 0.95 ** e, lambda e: 1 / (1 + e)]),
    "multiplicative": lambda o: S.MultiplicativeLR(o, lambda e: 0.9 + 0.01 * e),
    "cyclic": lambda o: S.CyclicLR(o, 0.01, 0.1, 4),
    "cyclic_triangular2": lambda o: S.CyclicLR(o, [0.01, 0.02], [0.1, 0.3], 3, 5, mode="triangular2", base_momentum=0.6, max_momentum=0.95),
    "cyclic_exponential": lambda o: S.CyclicLR(o, 0.01, 0.1, 4, mode="exp_range", gamma=0.95, cycle_momentum=False),
    "warm_up": lambda o: S.SequentialLR(o, [S.LinearLR(o, 0.01, 1.0, 5), S.CosineAnnealingLR(o, 15)], [5]),
    "sequential": lambda o: S.SequentialLR(o, [S.ConstantLR(o, 0.1, 3), S.ExponentialLR(o, 0.9), S.StepLR(o, 2, 0.5), S.CosineAnnealingWarmRestarts(o, 4)], [3, 8, 14]),
    "chained": lambda o: S.ChainedScheduler([S.ConstantLR(o, 0.1, 4), S.ExponentialLR(o, 0.9)]),
    "plateau": lambda o: S.ReduceLROnPlateau(o, factor=0.5, patience=2, cooldown=1, min_lr=[0.01, 0.002]),
    "plateau_of_most": lambda o: S.ReduceLROnPlateau(o, mode="max", factor=0.1, patience=1, threshold=0.1, threshold_mode="abs"),
}


def metric(step):
    return float(np.cos(step * 0.9) + 1 / (1 + step))


def schedules():
    lines = []
    for name, make_schedule in SCHEDULES.items():
        parameters = [torch.zeros(2), torch.zeros(3)]
        groups = [{"params": [parameters[0]], "lr": 0.2}, {"params": [parameters[1]], "lr": 0.04}]
        optimizer = torch.optim.Adam(groups) if name == "one_cycle_of_adam" else torch.optim.SGD(groups, momentum=0.5)
        schedule = make_schedule(optimizer)
        values = []
        for step in range(25):
            optimizer.step()
            first, second = optimizer.param_groups
            values += [first["lr"], second["lr"], first["betas"][0] if "betas" in first else first["momentum"]]
            if step < 24:
                schedule.step(*([metric(step)] if "plateau" in name else []))
        lines.append(name + "\t" + " ".join(repr(float(v)) for v in values))
    (FOLDER / "schedules.tsv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)  # of counts and products too
    optimizers()
    lbfgs()
    schedules()
