#!/usr/bin/env python3
"""Every function of PyTorch's OpInfo database that is here, against PyTorch on the database's own samples: ./dev test-torch [NAME...].

opinfo_calls reads a line of JSON for each call: {"tensors": [{dtype, sizes, data, grad, gap}], "overloads": [{number, arguments}], "twice", "compiled"}, and writes
one: {"eager": {results, grads, seconds}, "compiled": ...}, {"error", "code"}, {"mismatch"} or {"failed"}. Gradients are of the sum of all results, each element
times 1 to 7 over 7, second ones of the sum of the first ones' squares. Compared: values, dtypes, sizes; of f64 both gradients; writing forms; what PyTorch refuses.
"""
import argparse
import json
import math
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import defaultdict

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests/torch"))
from opinfo import database  # noqa: E402
from spelling import Skip, rewritten, spelled  # noqa: E402

NAMES = {torch.float64: "f64", torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.int64: "i64", torch.int32: "i32", torch.int16: "i16",
         torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool"}
TRIED = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool]
TOLERANCE = {"f64": 1e-7, "f32": 1e-4, "bf16": 2e-2, "f16": 4e-3}
IGNORED = {"device", "layout", "memory_format", "pin_memory", "generator", "out"}
RENAMED = {"input": ["self", "x1"], "dim": ["dims"], "size": ["sizes"], "shape": ["sizes"], "dims": ["dim"], "repeats": ["repeats"], "p": ["norm_type", "p"], "inplace": [],
           "axis": ["dim"], "correction": ["correction"], "output_size": ["output_size"], "eps": ["eps"], "lambd": ["lambd"], "indices_or_sections": ["sections", "indices"], "M": ["n"], "N": ["n"], "UPLO": ["uplo"], "min_val": ["min"], "max_val": ["max"], "num_classes": ["classes"],
           "ord": ["ord", "p"]}


class Notes:
    """What differences.tsv says of a function."""

    def __init__(self):
        lines = (HERE / "differences.tsv").read_text().splitlines()
        self.rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
        self.met = set()

    def of(self, name, label):
        """How it is compared: {what: its value}."""
        for wanted in (label, name):
            found = [what.partition(": ") for row, what, _ in self.rows if row == wanted and not what.startswith("differs: ")]
            if found:
                return {what: value for what, _, value in found}
        return {}

    def explains(self, name, label, text):
        """Why this differs, if a row says it."""
        for i, (row, what, why) in enumerate(self.rows):
            if row in (name, label, "*") and what.startswith("differs: ") and what.removeprefix("differs: ") in text:
                self.met.add(i)
                return why
        return None

    def unmet(self, names):
        return [f"{row}: {what}" for i, (row, what, _) in enumerate(self.rows) if what.startswith("differs: ") and i not in self.met and row in names]


def numbers(t):
    def one(v):
        return v if not isinstance(v, float) or math.isfinite(v) else "nan" if v != v else "inf" if v > 0 else "-inf"
    flat = t.detach().flatten()
    return [one(v) for v in (flat.double() if t.is_floating_point() else flat.long()).tolist()]


class Encoder:
    def __init__(self, gap=False):
        self.tensors, self.originals, self.gap = [], [], gap

    def tensor(self, t):
        if t.dtype not in NAMES or t.layout != torch.strided or t.device.type != "cpu":
            raise Skip(f"{t.dtype} {t.layout} {t.device}")
        self.tensors.append({"dtype": NAMES[t.dtype], "sizes": list(t.shape), "data": numbers(t), "grad": t.requires_grad, "gap": self.gap and t.dim() > 0})
        self.originals.append(t)
        return {"t": len(self.tensors) - 1}

    def value(self, v):
        if torch.is_tensor(v):
            return self.tensor(v)
        if isinstance(v, torch.dtype):
            if v not in NAMES:
                raise Skip(str(v))
            return {"dtype": NAMES[v]}
        if isinstance(v, (list, tuple)):
            return [self.value(e) for e in v]
        if isinstance(v, float) and not math.isfinite(v):
            return {"float": "nan" if v != v else "inf" if v > 0 else "-inf"}
        if v is None or isinstance(v, (bool, int, float, str)):
            return v
        raise Skip(type(v).__name__)


class Ours:
    """The callables of the program, and what its calls give."""

    def __init__(self, program):
        self.program = program
        self.by_name = defaultdict(list)
        listed = json.loads(subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout)
        for number, (name, parameters) in enumerate(listed):
            words = parameters.split()
            self.by_name[name].append((number, [w.strip("[]") for w in words], [w for w in words if not w.startswith("[")]))

    def of_sample(self, op, name, sample, encoder):
        """The overloads that may take a sample."""
        ending, positional, named = spelled(op, [sample.input, *sample.args], sample.kwargs, name.endswith("_"))
        positional = [encoder.value(v) for v in positional]
        named = {k: encoder.value(v) for k, v in named.items() if k not in IGNORED}
        found = self.overloads(name + ending, positional, named)
        if not found:
            raise Skip(f"no overload has these arguments: {len(positional)}, {', '.join(sorted(named))}")
        return found

    def overloads(self, name, positional, named):
        """Those that leave out the fewest flags that are False come first."""
        found = []
        for number, parameters, required in self.by_name[name]:
            arguments = {p: v for p, v in zip(parameters, positional) if v is not None or p in required}
            fits, left_out = len(positional) <= len(parameters), 0
            for key, value in self.renamed(named, parameters):
                spelled = next((k for k in [key, *RENAMED.get(key, [])] if k in parameters and k not in arguments), None)
                fits = fits and (spelled is not None or value is None or value is False)
                left_out += spelled is None and value is False
                if spelled and (value is not None or spelled in required):
                    arguments[spelled] = value
            if fits and all(r in arguments for r in required):
                found.append((left_out, {"number": number, "arguments": arguments}))
        return [overload for _, overload in sorted(found, key=lambda f: f[0])]

    @staticmethod
    def renamed(named, parameters):
        """unbiased is a correction of one or none."""
        for key, value in named.items():
            yield ("correction", 1 if value else 0) if key == "unbiased" and "correction" in parameters else (key, value)

    def run(self, calls):
        """One result for each call; what ends the program fails its own call alone."""
        results = []
        while len(results) < len(calls):
            with tempfile.TemporaryDirectory() as folder:
                given, made = pathlib.Path(folder) / "in", pathlib.Path(folder) / "out"
                given.write_text("\n".join(json.dumps(c) for c in calls[len(results):]) + "\n")
                status = subprocess.run([self.program, given, made]).returncode
                results += [json.loads(line) for line in made.read_text().splitlines()]
                if status != 0:
                    results.append({"failed": f"the program ended with {status}"})
        return results[:len(calls)]


def name_here(name, by_name):
    base = name.removeprefix("nn.functional.").removeprefix("special.").removeprefix("linalg.")
    spelled = [name.replace(".", "::"), base, "special::" + base, "linalg::" + base, {"logsigmoid": "log_sigmoid", "unfold": "im2col"}.get(base)]
    if name.startswith("nn.functional.") and base == "unfold":
        spelled = ["im2col"]
    return next((s for s in spelled if s in by_name), None)


def flat_results(result):
    if torch.is_tensor(result):
        return [result]
    if isinstance(result, (list, tuple)):
        return [t for r in result for t in flat_results(r)]
    return [torch.tensor(result)] if isinstance(result, (bool, int, float)) else []


def weighted_sum(results, signs, most):
    parts = []
    for t in results[:most]:
        t = t.abs() if signs else t
        if t.requires_grad and t.numel() > 0:
            weights = ((torch.arange(t.numel()) % 7 + 1).to(t.dtype) / 7).view(t.shape)
            parts.append((t * weights).sum())
    return sum(parts) if parts else None


def expected(op, sample, originals, twice, how):
    """Results, gradients and second gradients of PyTorch."""
    results = flat_results(op(sample.input, *sample.args, **sample.kwargs))
    out = {"results": results, "grads": None, "seconds": None}
    wanted = [t for t in originals if t.requires_grad]
    total = weighted_sum(results, how.signs, how.summed)
    if not wanted or total is None:
        return out
    first = torch.autograd.grad(total, wanted, create_graph=twice, allow_unused=True)
    out["grads"] = first
    if twice:
        try:
            squares = [(g * g).sum() for g in first if g is not None and g.requires_grad]
            if squares:
                out["seconds"] = torch.autograd.grad(sum(squares), wanted, allow_unused=True)
        except (RuntimeError, NotImplementedError):
            pass  # PyTorch has none
    return out


def differs(ours, theirs, what, only_shape=False, zeros_for_none=False, signs=False, dtypes=(), wide=False):
    """What is wrong with ours, or nothing; `dtypes`: of what both were computed from."""
    if theirs is None or ours is None:
        if zeros_for_none:
            there = theirs if ours is None else ours["data"]
            values = there.flatten().tolist() if torch.is_tensor(there) else there or []
            return None if all(v == 0 or v != v or v == "nan" for v in values) else f"{what}: one is undefined, the other is not zero"
        return None if theirs is None and ours is None else f"{what}: one is undefined"
    if theirs.dtype not in NAMES:
        return None
    is_rounded = wide and ours["dtype"] == "u8" and theirs.dtype == torch.float64
    if ours["dtype"] != NAMES[theirs.dtype] and not is_rounded:
        return f"{what}: dtype {ours['dtype']}, not {NAMES[theirs.dtype]}"
    if ours["sizes"] != list(theirs.shape):
        return f"{what}: sizes {ours['sizes']}, not {list(theirs.shape)}"
    if only_shape:
        return None
    if is_rounded:  # to the nearest byte; f32 places among 270 elements change 255 by up to 0.004
        theirs, wanted = theirs.clamp(0, 255), torch.tensor(ours["data"], dtype=torch.float64).view(theirs.shape)
        theirs = torch.where((theirs - wanted).abs() < 0.505, wanted, theirs.round()).to(torch.uint8)
    have = torch.tensor([float(v) if isinstance(v, str) else v for v in ours["data"]], dtype=torch.float64 if theirs.is_floating_point() else torch.int64)
    want = theirs.detach().flatten().to(have.dtype)
    if signs:
        have, want = have.abs(), want.abs()
    if not theirs.is_floating_point():
        wrong = have != want
    else:
        tolerance = max(TOLERANCE[d] for d in [ours["dtype"], *dtypes] if d in TOLERANCE)
        finite = want[want.isfinite()]
        scale = finite.abs().max().item() if finite.numel() else 0
        wrong = ~torch.isclose(have, want, rtol=tolerance, atol=tolerance * min(1 + scale, 1e6), equal_nan=True)
    if not wrong.any():
        return None
    at = wrong.nonzero()[0].item()
    return f"{what}: {have[at].item()} at {at}, not {want[at].item()}"


def wrong_with(result, want, how, call):
    """The first difference between a result of the program and PyTorch's."""
    if "error" in result:
        return "an Error: " + result["error"]
    ours = result["results"][:how.given]
    if len(ours) != len(want["results"]):
        return f"{len(ours)} results, not {len(want['results'])}"
    dtypes = [t["dtype"] for t in call["tensors"]]
    for i, (a, b) in enumerate(zip(ours, want["results"])):
        if problem := differs(a, b, f"result {i}", how.random or (how.ties and i == 1), signs=how.signs, dtypes=dtypes, wide=how.wide):
            return problem
    if how.ties and (problem := wrong_places(*ours, want)):
        return problem
    for kind in ("grads", "seconds"):
        if how.random or result[kind] is None or want[kind] is None:
            continue
        for i, (a, b) in enumerate(zip(result[kind], want[kind])):
            if problem := differs(a, b, f"{kind} {i}", zeros_for_none=True, dtypes=dtypes):
                return problem
    return None


def wrong_places(values, places, want):
    """Where elements are equal any may be chosen: the values must be at the places."""
    x, dim = want["input"], want["dim"]
    shape = list(want["results"][1].shape)
    at = torch.tensor(places["data"], dtype=torch.int64).view(shape)
    if x.dim() == 0 or at.numel() == 0:
        return None if not at.any() else "result 1: beyond the only element"
    at = at if at.dim() == x.dim() else at.unsqueeze(dim)
    there = numbers(torch.take_along_dim(x, at, dim))
    return None if there == numbers(want["results"][0]) else "result 1: elsewhere than result 0"


class How:
    """How one sample of a function is compared: what differences.tsv says, as it is for this sample."""

    def __init__(self, said, sample, dtype):
        self.signs, self.ties, self.random = ("signs" in said, "ties" in said, "random" in said)
        if said.get("random"):
            key, default = said["random"].split("=")
            self.random = bool(sample.kwargs.get(key, float(default)))
        self.wide = "wide" in said and dtype in (torch.bfloat16, torch.float16, torch.uint8)
        self.given = int(said["results"]) if "results" in said else None
        self.summed = int(said["sums"]) if "sums" in said else self.given


def in_wide(sample, op):
    """What PyTorch computes in f32 of a sample of halves, rounded to its dtype; of bytes in f64, not rounded."""
    dtype = sample.input.dtype
    computed, rounded_to = (torch.float64, torch.float64) if dtype == torch.uint8 else (torch.float32, dtype)
    wide = sample.transform(lambda t: t.to(computed) if torch.is_tensor(t) and t.dtype == dtype else t)
    return lambda *_, **__: [t.to(rounded_to) for t in flat_results(op(wide.input, *wide.args, **wide.kwargs))]


def dim_of(name, sample):
    """Along which dimension topk, kthvalue and mode look."""
    at = 0 if name == "mode" else 1
    return sample.kwargs.get("dim", sample.args[at] if len(sample.args) > at else -1)


class Function:
    """One entry of the database, and what came of its samples."""

    def __init__(self, op, name, label, notes):
        self.op, self.name, self.label, self.notes = op, name, label, notes
        self.how = notes.of(op.name, label)
        self.cases, self.failures, self.skipped, self.explained = [], [], defaultdict(int), []
        self.refusals = []

    def add(self, sample, dtype, index, ours, name, twice, in_place=False):
        try:
            encoder = Encoder(gap=index % 3 == 2 and not self.name.startswith("as_strided"))
            op = self.op.inplace_variant if in_place else self.op
            op, sample = rewritten(self.label, op, sample)
            overloads = ours.of_sample(self.op, name, sample, encoder)
            if in_place:
                sample = sample.transform(lambda t: t.detach().clone() if torch.is_tensor(t) else t)
                for t in encoder.tensors:
                    t["grad"] = False
            how = How(self.how, sample, dtype)
            want = expected(in_wide(sample, op) if how.wide else op, sample, [] if in_place else encoder.originals, twice and not in_place, how)
            if how.ties:
                want |= {"input": sample.input.detach(), "dim": dim_of(self.op.name, sample)}
        except Skip as reason:
            self.skipped[str(reason)] += 1
            return
        except Exception as error:  # PyTorch refuses its own sample, mostly in place
            self.refusals.append((str(error)[:150], {"tensors": encoder.tensors, "overloads": overloads}))
            return
        call = {"tensors": encoder.tensors, "overloads": overloads, "twice": twice and not in_place, "signs": how.signs, "compiled": index < 2 and not in_place}
        if how.summed:
            call["summed"] = how.summed
        self.cases.append((f"{name} {NAMES[dtype]} sample {index}", call, want, how))

    def fail(self, text):
        if why := self.notes.explains(self.op.name, self.label, text):
            self.explained.append(f"{text}: {why}")
        else:
            self.failures.append(text)

    def judge(self, results):
        for (label, call, want, how), result in zip(self.cases, results):
            if "mismatch" in result:
                self.skipped[result["mismatch"][:60]] += 1
            elif "failed" in result:
                self.fail(f"{label}: {result['failed']}")
            elif "error" in result:
                self.fail(f"{label}: an Error: {result['error']}")
            else:
                for form in ("eager", "compiled"):
                    if form in result and not ("trace" in str(result[form].get("code", "")).lower()):
                        if problem := wrong_with(result[form], want, how, call):
                            self.fail(f"{label}, {form}: {problem}")
                            break


def samples_of(op, dtype, most):
    """At most so many, from all over the list."""
    signal.alarm(60)
    try:
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=dtype == torch.float64 and op.supports_autograd))
        return [samples[i * len(samples) // most] for i in range(most)] if len(samples) > most else samples
    except Exception:
        return []
    finally:
        signal.alarm(0)


def collect(function, ours, name, most):
    op = function.op
    for dtype in TRIED:
        if dtype not in op.dtypes:
            continue
        torch.manual_seed(7), random.seed(7)
        for index, sample in enumerate(samples_of(op, dtype, most if dtype == torch.float64 else most // 2)):
            twice = dtype == torch.float64 and op.supports_gradgrad
            function.add(sample, dtype, index, ours, name, twice)
            if op.inplace_variant and name + "_" in ours.by_name and dtype != torch.bfloat16:
                function.add(sample, dtype, index, ours, name + "_", False, in_place=True)


def refused(function, ours, name):
    """Where PyTorch has an error, there is one here: (how many, which not)."""
    if function.op.error_inputs_func is None:
        return
    for error in function.op.error_inputs("cpu"):
        if {"out", "layout"} & set(error.sample_input.kwargs):
            continue  # refused by the writing form; nothing is sparse
        try:
            encoder = Encoder()
            overloads = ours.of_sample(function.op, name, error.sample_input, encoder)
        except Skip:
            continue
        yield error.error_regex, {"tensors": encoder.tensors, "overloads": overloads}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program")
    arguments.add_argument("names", nargs="*")
    arguments.add_argument("--samples", type=int, default=60, help="of each function and dtype; half as many of dtypes other than f64")
    arguments.add_argument("--all", action="store_true", help="every failure, not the first of each function, and what nothing here takes")
    options = arguments.parse_intermixed_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    ours, notes = Ours(options.program), Notes()
    counts = defaultdict(int)
    names, stopped = set(), []
    signal.signal(signal.SIGINT, lambda *_: stopped.append(True))
    for op in database():
        if stopped:
            break
        label = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if options.names and op.name not in options.names:
            continue
        name = name_here(op.name, ours.by_name)
        if name is None or "skip" in notes.of(op.name, label):
            counts["not covered"] += 1
            continue
        names |= {op.name, label}
        function = Function(op, name, label, notes)
        collect(function, ours, name, options.samples)
        errors = [*refused(function, ours, name), *function.refusals]
        results = ours.run([call for _, call, _, _ in function.cases] + [call for _, call in errors])
        function.judge(results)
        for (error, _), result in zip(errors, results[len(function.cases):]):
            counts["errors asked for"] += 1
            if "eager" in result:
                function.fail(f"no error here, in PyTorch {error!r}")
            elif "failed" in result:
                function.fail(f"{result['failed']}, in PyTorch {error!r}")
        run = len(function.cases)
        counts["functions"] += run > 0
        counts["functions without a sample"] += run == 0
        if run == 0 and function.skipped:
            print(f"{label}: no sample is taken; {'; '.join(function.skipped)}"[:600], flush=True)
        counts["samples"] += run
        counts["samples that nothing here takes"] += sum(function.skipped.values())
        counts["failures"] += len(function.failures)
        counts["documented differences"] += len(function.explained)
        counts["functions that fail"] += bool(function.failures)
        for text in function.failures[:None if options.all else 1]:
            print(f"{label}: {len(function.failures)} of {run} fail; {text}"[:600], flush=True)
        if options.all:
            for text in function.explained:
                print(f"{label}: documented; {text}", flush=True)
            for text, times in function.skipped.items():
                print(f"{label}: {times} not taken; {text}", flush=True)
    for text in notes.unmet(names if options.names else names | {"*"}):
        print("differs no more:", text)
    print("; ".join(f"{key} {value}" for key, value in counts.items() if key != "failures"))
    print("failures:", counts["failures"] or "none")
    return 1 if counts["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
