#!/usr/bin/env python3
"""Walks the recipes of ir/README.md: the files that name an op, which stands for all of its kind, are those that its row says, each once."""
import fnmatch
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRODUCT = "ir machine functionalize autodiff batching decomps partition codegen runtime tools".split()
SUFFIXES = {".cpp", ".h", ".def", ".inc"}
# The forms in which rules and users call it, and what was measured of it.
APART = ["ir/build/builder*", "runtime/ops/*.cpp", "runtime/include/tandem/ops.h", "runtime/include/tandem/tensor_methods.inc", "codegen/cost/shipped_costs.inc"]
MOST = {"pointwise primitive": 8, "composite": 5}


def rows():
    """(kind, example, globs, number) of each row of the table."""
    text = (ROOT / "ir/README.md").read_text()
    for kind, example, touched, number in re.findall(r"^\| (?:an? )([\w ]+) \| `(\w+)` \| (.*) \| (\d+) \|$", text, re.M):
        yield kind, example, re.findall(r"`([\w/*.]+)`", touched), int(number)


def files_naming(op):
    word = re.compile(r"(?<![A-Za-z0-9])(?:vjp_|jvp_|batch_)?" + op + r"\b")
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and word.search(path.read_text()):
                yield path.relative_to(ROOT).as_posix()


def problems_of(kind, example, globs, number):
    named = list(files_naming(example))
    for glob in globs:
        found = fnmatch.filter(named, glob)
        if len(found) != 1:
            yield f"{kind}: {glob}: expected one file that names {example}, got {found}"
    for path in named:
        if not any(fnmatch.fnmatch(path, glob) for glob in globs + APART):
            yield f"{kind}: {path} names {example}; expected only {', '.join(globs)}"
    if number != len(globs) or number > MOST.get(kind, number):
        yield f"{kind}: {len(globs)} files, said to be {number}; expected at most {MOST.get(kind, number)}"


def main():
    recipes = list(rows())
    problems = [f"ir/README.md: no recipe for a {kind}" for kind in MOST if kind not in [row[0] for row in recipes]]
    problems += [problem for row in recipes for problem in problems_of(*row)]
    for problem in problems:
        print(problem)
    if not problems:
        print(f"{len(recipes)} recipes name the files that they touch")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
