"""What the scripts that time steps side by side have in common: the data of a row, the processes that take its steps, and whether their
numbers agree. A contender is a worker that speaks the protocol of README.md; this folder has the peers' workers and the workloads."""
import json
import os
import pathlib
import statistics
import subprocess

WORKERS = pathlib.Path(__file__).resolve().parent
PEERS = {"torch-eager": ["torch_worker.py", "eager"], "torch-compile": ["torch_worker.py", "compile"],
         "torch-compile-max": ["torch_worker.py", "compile-max"], "jax": ["jax_worker.py"]}


class Contender:
    """A worker that has taken its first steps. Its caches lie in `scratch`, in a folder of its name."""

    def __init__(self, name, command, scratch, log, threads=2, preexec=None):
        n = str(threads)
        env = dict(os.environ, OMP_NUM_THREADS=n, MKL_NUM_THREADS=n, NPROC=n, TORCHINDUCTOR_CACHE_DIR=str(scratch / name),
                   TANDEM_CACHE_DIR=str(scratch / name))  # NPROC: JAX's pool
        self.name, self.rounds = name, []
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=env, preexec_fn=preexec)
        self.ready = self.read("ready")

    def read(self, event):
        for line in self.p.stdout:
            if line.startswith("{") and json.loads(line).get("event") == event:
                return json.loads(line)
        raise RuntimeError(f"{self.name}: ended before '{event}' (exit {self.p.wait()})")

    def run(self, steps):
        """The milliseconds of each step."""
        self.p.stdin.write(f"run {steps}\n")
        self.p.stdin.flush()
        return self.read("ran")["ms"]

    def warm(self, seconds):
        """Learns how many steps fill a round of so many seconds."""
        self.steps = steps_that_fill(seconds, statistics.median(self.run(3)))

    def take_turn(self):
        """A round, of which the median step counts."""
        self.rounds.append(statistics.median(self.run(self.steps)))

    def quit(self):
        self.p.stdin.write("quit\n")
        self.p.stdin.flush()
        self.bye = self.read("bye")
        self.p.wait(timeout=30)


def peer_commands(names, python, workers=WORKERS):
    """The commands of the peers in a list with commas, by name."""
    return {name: [python, str(workers / PEERS[name][0]), *PEERS[name][1:]] for name in names.split(",") if name}


def make_data(workload, path, python, workers=WORKERS):
    """Writes the tensors of a row. The peers' python does so: it is the one that has NumPy."""
    program = "import sys; sys.path.insert(0, sys.argv[1]); import workloads as w; w.save(w.make(sys.argv[2]), sys.argv[3])"
    subprocess.run([python, "-c", program, str(workers), workload, str(path)], check=True)


def steps_that_fill(seconds, ms, least=3, most=2000):
    """How many steps of so many milliseconds make a round."""
    return max(least, min(most, int(seconds * 1e3 / max(ms, 1e-3))))


def agree(a, b, tolerance=2e-3):
    """Beside a step's largest gradient small ones count as zeros: they cancel but for rounding. (The first number is the loss.)"""
    def same_step(x, y):
        least = [1e-4] + [1e-4 * max([1.0, *map(abs, y[1:])])] * len(y[1:])
        return len(x) == len(y) and all(abs(u - v) <= tolerance * max(low, abs(u), abs(v)) for u, v, low in zip(x, y, least))
    return len(a) == len(b) and all(map(same_step, a, b))
