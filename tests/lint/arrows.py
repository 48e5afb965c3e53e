#!/usr/bin/env python3
"""Checks every #include of the repository against the arrows of the design. A file belongs to the longest folder that holds it."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PHASES = ["functionalize", "autodiff", "batching", "decomps", "partition", "codegen"]
LIBRARY = ["ir", "machine", *PHASES, "codegen/exec", "codegen/jit", "runtime"]
ANYTHING = LIBRARY + ["tools", "bench", "examples", "tests"]

# Folder -> the folders that it may include besides itself.
ARROWS = {
    "ir": [],
    "machine": ["ir"],
    **{phase: ["ir"] for phase in PHASES},
    "codegen": ["ir", "machine"],
    "codegen/exec": ["ir", "machine", "codegen"],
    "codegen/jit": ["ir", "machine", "codegen", "codegen/exec"],
    "runtime": ["ir", "machine", *PHASES, "codegen/exec", "codegen/jit"],
    "tools": LIBRARY,
    "bench": LIBRARY,
    "examples": LIBRARY,
    "tests": ANYTHING,
}

# What machine/ may know of ir/: errors, dtypes and buffers.
KNOWN_TO_MACHINE = ("ir/base/", "ir/dtype.h", "ir/buffer.h", "ir/half.h")

# Start of an included path -> the files that may include it (a path or a folder).
QUARANTINE = {
    "llvm": ["codegen/jit/"],
    "oneapi": ["machine/library/"],
    "dnnl": ["machine/library/"],
    "boost": ["partition/flow/min_cut.cpp"],
    "nlohmann": ["ir/", "tools/", "bench/", "examples/", "tests/"],
    "zlib": ["runtime/io/"],
    "png": ["runtime/io/"],
    "jpeglib": ["runtime/io/"],
    "jerror": ["runtime/io/"],
    "CLI": ["tools/", "bench/", "examples/", "tests/"],
    "gtest": ["tests/"],
    "gmock": ["tests/"],
    "benchmark": ["bench/"],
}
# <tandem/ir/NAME> -> the file of ir/, whichever of its folders that lies in.
PUBLIC = {f"tandem/ir/{p.name}": p.relative_to(ROOT).as_posix() for p in (ROOT / "ir").rglob("*") if p.suffix in (".h", ".def")}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def folder_of(path):
    return next((f for f in sorted(ARROWS, key=len, reverse=True) if path.startswith(f + "/")), None)


def target_of(source, path):
    """The repository path that an include means, or None for one of another library."""
    if path.startswith("tandem/"):
        return PUBLIC.get(path, "runtime/include/" + path)
    if (source.parent / path).is_file():
        return (source.parent / path).resolve().relative_to(ROOT).as_posix()
    return path if (ROOT / path).is_file() else None


def problems_of(source):
    name = source.relative_to(ROOT).as_posix()
    folder = folder_of(name)
    for quote, path in INCLUDE.findall(source.read_text()):
        target = target_of(source, path)
        if target is not None:
            to = folder_of(target)
            if to != folder and to not in ARROWS[folder]:
                yield f'{name}: {folder}/ must not include "{path}" of {to}/'
            if folder == "machine" and to == "ir" and not target.startswith(KNOWN_TO_MACHINE):
                yield f'{name}: "{path}" is more of ir/ than machine/ may know'
        elif quote == '"':
            yield f'{name}: "{path}" is no file of ours; use <> for other libraries'
        else:
            library = re.split(r"[/.-]", path)[0]
            if not name.startswith(tuple(QUARANTINE.get(library, [""]))):
                yield f"{name}: <{path}> belongs only in {', '.join(QUARANTINE[library])}"
            if folder == "ir" and library in ("fmt", "nlohmann") and name.endswith(".h"):
                yield f"{name}: <{path}> belongs only in .cpp files of ir/, because its headers are installed"


def main():
    sources = [p for f in ANYTHING for p in (ROOT / f).rglob("*") if p.suffix in (".h", ".cpp", ".def")]
    problems = sorted({problem for source in sources for problem in problems_of(source)})
    print("\n".join(problems) or "every include follows the arrows")
    return 1 if problems else 0


sys.exit(main())
