#!/usr/bin/env python3
"""Prints lines per folder, the fullest folders, the longest files and functions, and how long <tandem/tandem.h> and the operators take
to parse. With --check, only which folders and files of the product are larger than they may be.

Function bodies are found by their indentation, so by clang-format.
"""
import collections
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["ir", "machine", "functionalize", "autodiff", "batching", "decomps", "partition", "codegen", "runtime", "tools", "bench", "examples", "tests"]
PRODUCT = FOLDERS[:FOLDERS.index("tools")]
SHOWN = 15
MOST_FILES, MOST_LINES = 25, 500  # of a folder; of a file of the product
# The last but one: a call, one of whose arguments is a lambda.
NOT_A_FUNCTION = re.compile(r"(namespace|struct|class|enum|union|extern|if|for|while|switch|do|else|try|catch|return)\b|#|//|[a-z_]\w*\(|[^(]* = ")

ENDS_BEFORE_A_FUNCTION = re.compile(r"^\s*$|^\s*(//|#)|[;{}:>]$")


def functions_of(lines):
    """Yields (lines, first line's number, its text) for each function definition, at most one class deep."""
    for i, line in enumerate(lines):
        if not line.endswith("{"):
            continue
        start = i
        while start > 0 and not ENDS_BEFORE_A_FUNCTION.search(lines[start - 1]):
            start -= 1
        signature = " ".join(text.strip() for text in lines[start:i + 1])
        indent = lines[start][:len(lines[start]) - len(lines[start].lstrip())]
        if "(" not in signature or len(indent) > 2 or NOT_A_FUNCTION.match(signature):
            continue
        end = next((j for j in range(i + 1, len(lines)) if lines[j].startswith(indent + "}")), i)
        yield end - start + 1, start + 1, signature


def including(headers):
    return "".join(f"#include <{header}>\n" for header in headers)


def parse_seconds(includes, sources):
    """The least CPU time of g++ over each source, of five runs in turns."""
    def once(source):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(["g++", "-std=c++20", "-fsyntax-only", *(f"-I{i}" for i in includes), "-x", "c++", "-"], input=source, check=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [min(times) for times in zip(*([once(source) for source in sources] for _ in range(5)))]


def print_parse_time():
    """Of the public header, of the standard headers alone that it includes, and of these with tensors and operators."""
    with tempfile.TemporaryDirectory() as folder:
        public = pathlib.Path(folder) / "tandem/ir"
        public.mkdir(parents=True)
        for path in (ROOT / "ir").rglob("*"):
            if path.suffix in (".h", ".def"):
                os.symlink(path, public / path.name)
        includes = [ROOT / "runtime/include", folder]
        command = ["g++", "-std=c++20", "-M", *(f"-I{i}" for i in includes), "-x", "c++", "-"]
        used = subprocess.run(command, input=including(["tandem/tandem.h"]), check=True, capture_output=True, text=True).stdout
        standard = sorted(set(re.findall(r"/c\+\+/\d+/([a-z_]+)(?=\s)", used)))
        families = sorted(f"tandem/ops/{path.name}" for path in (ROOT / "runtime/include/tandem/ops").glob("*.h"))
        operators = standard + ["tandem/tensor.h", "tandem/ops.h", *families]
        whole, some, alone = parse_seconds(includes, [including(x) for x in (["tandem/tandem.h"], operators, standard)])
    print(f"\nparsing <tandem/tandem.h>: {whole:.2f} s, of which its {len(standard)} standard headers {alone:.2f} s, "
          f"tensors and operators {some - alone:.2f} s (CPU time of g++; all beyond the standard headers at most 0.50)")


def print_functions(whose, functions):
    lengths = sorted(length for length, _ in functions)
    print(f"\nlongest of the {len(lengths)} functions of {whose} (median {lengths[len(lengths) // 2]}, p90 {lengths[len(lengths) * 9 // 10]})")
    for length, text in sorted(functions, reverse=True)[:SHOWN]:
        print(f"{length:7}  {text}")


def sources():
    """(name, lines) of each source."""
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".h", ".cpp", ".def"):
                yield path.relative_to(ROOT).as_posix(), path.read_text().splitlines()


def folder_of(name):
    return name.split("/")[0]


def check(sizes, files_of):
    """Whether a folder or file is too large; says which."""
    problems = [f"{folder}: {count} files; expected at most {MOST_FILES}" for folder, count in files_of.items() if count > MOST_FILES]
    problems += [f"{name}: {lines} lines; expected at most {MOST_LINES}" for lines, name in sizes
                 if folder_of(name) in PRODUCT and lines > MOST_LINES]
    print("\n".join(problems) or f"no folder above {MOST_FILES} files, no file of the product above {MOST_LINES} lines")
    return bool(problems)


def print_sizes(sizes, files_of):
    lines_of = collections.Counter()
    for lines, name in sizes:
        lines_of[folder_of(name)] += lines
    print("lines per folder")
    for folder in FOLDERS:
        print(f"{lines_of[folder]:7}  {folder}")
    print(f"{lines_of.total():7}  in all\n\nmost files in a folder")
    for folder, count in files_of.most_common(5):
        print(f"{count:7}  {folder}")
    print("\nlongest files")
    for length, name in sorted(sizes, reverse=True)[:SHOWN]:
        print(f"{length:7}  {name}")


def main():
    files = list(sources())
    sizes = [(len(lines), name) for name, lines in files]
    files_of = collections.Counter(name.rpartition("/")[0] for _, name in sizes)
    if sys.argv[1:] == ["--check"]:
        return check(sizes, files_of)
    print_sizes(sizes, files_of)
    functions = [(length, f"{name}:{line}  {text}") for name, lines in files for length, line, text in functions_of(lines)]
    product = [f for f in functions if folder_of(f[1]) in PRODUCT]
    print_functions("the product", product)
    print_functions("tools, benchmarks, examples, tests", sorted(set(functions) - set(product)))
    print_parse_time()
    return False


if __name__ == "__main__":
    sys.exit(main())
