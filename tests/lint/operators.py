#!/usr/bin/env python3
"""docs/operators.md is what the op table and the public headers say; every function of PyTorch's OpInfo database stands in it.

    operators.py             compares
    operators.py --update    writes the file anew
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, NOTES = ROOT / "docs/operators.md", ROOT / "docs/opinfo.tsv"
HEADERS = "ops.h ops/shapes.h indexing.h ops/reductions.h ops/sorting.h ops/networks.h ops/linalg.h ops/quantized.h ops/out_forms.h ops/special.h generator.h".split()
RESULT = r"(?:const Tensor&|Tensor|bool|void|std::vector<Tensor>|ValuesAndIndices|Unique|[A-Z]\w+)"
DECLARATION = re.compile(r"^(?:TANDEM_API|METHOD) (?P<result>" + RESULT + r") (?P<name>\w+)\((?P<parameters>.*)\)(?: const)?$")

# What a row's shape rule says of dtypes (ir/ops.def); of others the file says what their operations take.
DTYPES = {
    "same": "all", "same_number": "all but bool", "same_integral": "integers, bool", "same_integer": "integers", "same_float": "floats; integers as f32",
    "whole": "floats; integers as they are", "with_integer": "all", "same_bool": "all, as bool", "compare": "all", "where": "all", "convert": "all", "bitcast": "all",
    "test": "all", "scan": "all but bool", "scan_float": "floats", "each_float": "floats", "matrix": "all", "masked_fill": "all", "addcmul": "all but bool", "copy": "all",
    "reduce_sum": "all", "reduce_extremum": "all", "reduce_index": "all", "reduce_bool": "bool", "reduce_float": "floats", "reduce_floats": "floats", "dim_float": "floats; integers as f32",
}


def without_includes(path):
    return re.sub(r"^\s*#\s*include.*$", "", path.read_text(), flags=re.M)


def preprocessed(*paths):
    """The headers alone with their lists written out; comments are kept."""
    text = "\n".join(without_includes(p) for p in paths if p.exists())
    done = subprocess.run(["c++", "-E", "-C", "-P", "-x", "c++", "-w", "-"], input=text, capture_output=True, text=True, check=True)
    return done.stdout


def functions_of(text):
    """(namespace, result, name, parameters, comment) of each declaration."""
    namespaces, comment = [], []
    text = re.sub(r"(TANDEM_API (?:\"[^\"]*\"|[^;\"])*?);", lambda m: re.sub(r"\s+", " ", m[1]) + ";\n", text)
    for line in (line.strip() for line in text.splitlines()):
        if line.startswith("///"):
            comment.append(line[3:].strip())
            continue
        if space := re.match(r"namespace ([\w:]+) \{", line):
            namespaces.append(space[1])
        elif re.match(r"\}\s*// namespace", line):
            namespaces.pop()
        for part in line.split(";"):
            found = DECLARATION.match(part.strip())
            if found:
                yield "::".join(namespaces), found["result"], found["name"], found["parameters"], " ".join(comment)
        if line and not line.startswith("//"):
            comment = [] if not line.endswith(",") else comment


def tidy(parameters):
    kept = re.sub(r"(?:, )?SourceLocation at = SourceLocation::current\(\)", "", parameters).strip()
    kept = re.sub(r"const ([A-Z]\w+|std::vector<\w+>)& ", r"\1 ", kept)
    return re.sub(r"std::(optional|string_view|vector|span)", r"\1", kept).replace("Located", "Tensor|Number").replace("|", r"\|")


# Functions that are no operators: of the random generator.
STATE = {"manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state", "default_generator"}


class Operator:
    def __init__(self):
        self.signatures, self.comment, self.out, self.in_place, self.method = [], "", False, False, False


def operators():
    """By name, with a namespace where it is not tandem's."""
    include = ROOT / "runtime/include/tandem"
    named = {}
    for space, result, name, parameters, comment in functions_of(preprocessed(include / "op_lists.h", *(include / h for h in HEADERS))):
        space = space.removeprefix("tandem").removeprefix("::")
        prefix = space + "::" if space else ""
        if name.endswith("_of_name") or name.startswith("operator") or space == "detail":
            continue
        if name.endswith("_out"):
            named.setdefault(prefix + name[:-4], Operator()).out = True
        elif name.endswith("_") and result == "const Tensor&":
            named.setdefault(prefix + name[:-1], Operator()).in_place = True
        elif name not in STATE:
            operator = named.setdefault(prefix + name, Operator())
            signature = f"{prefix}{name}({tidy(parameters)})" + ("" if result == "Tensor" else f" → {result}")
            if signature not in operator.signatures:
                operator.signatures.append(signature)
            operator.comment = operator.comment or comment
    methods = preprocessed(include / "op_lists.h", include / "tensor_methods.inc")
    methods = re.sub(r"\n\s+(?=[^\n]*\n?)", " ", methods)
    for result, name in re.findall(r"(const Tensor&|Tensor|bool|std::vector<Tensor>|ValuesAndIndices|Unique|MinMax) (\w+)\((?!\))?", methods):
        writes = name.endswith("_") and result == "const Tensor&"
        plain = name[:-1] if writes else name
        if plain == "operator":
            continue
        operator = named.setdefault(plain, Operator())
        operator.method = operator.method or not writes
        operator.in_place = operator.in_place or writes
        if not operator.signatures:
            operator.signatures = [f"x.{plain}{'_' if writes else ''}(...)"]
    return {name: o for name, o in named.items() if o.signatures}


def rows():
    """The op table: class, level and shape rule by name."""
    row = re.compile(r"^OP\((\w+),\s*(\w+),\s*(\w+),\s*\"([^\"]*)\",\s*\"([^\"]*)\",\s*(\w+),\s*([\w |]+),\s*(\w+)\)", re.M)
    found = row.finditer((ROOT / "ir/ops.def").read_text())
    return {m[1]: {"level": m[3].lower(), "rule": m[6]} for m in found if m[2] != "Control"}


def gradient_kinds():
    rules = "\n".join(p.read_text() for p in sorted((ROOT / "autodiff").glob("vjp_*.cpp")))
    kinds = {name: "none: constant almost everywhere" for name in re.findall(r"vjp_(\w+) = kZeroGradient", rules)}
    kinds |= {name: "not differentiable, as in ATen" for name in re.findall(r"vjp_(\w+)\s*\{\.kind = VjpRule::Kind::NotDifferentiable", rules)}
    kinds |= {name: "any order; not by the first, as in ATen" for name in re.findall(r"vjp_(\w+) =\s*of_second\(", rules)}
    return kinds


def aliases():
    """Second names, of which the table knows the first."""
    text = (ROOT / "runtime/include/tandem/op_lists.h").read_text()
    return dict(re.findall(r"X\((\w+), (\w+)\)", text))


# Functions whose row has another name.
ROW_OF = {"max": "max_with_indices", "min": "min_with_indices", "to": "convert", "div": "div", "layer_norm": "native_layer_norm"}


def described(name, operator, table, kinds, second):
    base = name.split("::")[-1]
    row_name = next((n for n in (base, second.get(base, ""), ROW_OF.get(base, "")) if n in table), None)
    if row_name is None:
        made, dtypes, gradient = "composite", "those of its operations", "that of its operations"
    else:
        row = table[row_name]
        made, dtypes = row["level"], DTYPES.get(row["rule"], "those of its definition")
        gradient = kinds.get(row_name, "any order")
    forms = [form for form, has in (("method", operator.method), ("`_`", operator.in_place), ("`_out`", operator.out)) if has]
    signatures = "<br>".join(f"`{s}`" for s in operator.signatures)
    return f"| {signatures} | {dtypes} | {gradient} | {made} | {', '.join(forms) or '-'} | {operator.comment.replace('|', chr(92) + '|')} |"


# --- the OpInfo database

def known():
    """Of docs/opinfo.tsv: what an entry is here, or why it is absent."""
    return dict(line.split("\t") for line in NOTES.read_text().splitlines() if line and not line.startswith("#"))


def found(name, named):
    base = name.removeprefix("nn.functional.").removeprefix("special.").removeprefix("linalg.")
    spelled = [base, name.replace(".", "::"), "special::" + base, "linalg::" + base, base.rstrip("_"), {"logsigmoid": "log_sigmoid"}.get(base, base)]
    return next((s for s in spelled if s in named), None)


def opinfo_lines(named, problems):
    notes = known()
    patterns = {key: text for key, text in notes.items() if key.endswith("*")}
    for name in (ROOT / "tests/torch/opinfo.txt").read_text().split():
        note = notes.get(name) or next((text for key, text in patterns.items() if name.startswith(key[:-1])), None)
        here = found(name, named) if note is None else None
        if note is None and here is None:
            problems.append(f"{name} of PyTorch's OpInfo is neither a function nor in docs/opinfo.tsv")
        yield f"| {name} | {note or f'`{here}`'} |"


def without_present(named):
    """docs/opinfo.tsv without what it calls absent and what is there."""
    def stays(line):
        name, _, note = line.partition("\t")
        return not (note.startswith("absent") and not name.endswith("*") and found(name, named))
    text = NOTES.read_text()
    return "".join(line for line in text.splitlines(keepends=True) if stays(line))


HEAD = """# Operators

Made by `tests/lint/operators.py --update` of `ir/ops.def`, `autodiff/` and the public headers. Names, defaults and results are ATen's unless the last column says
otherwise. A primitive is computed by one kernel; a composite is made of others, when it is called or when a graph is decomposed. `_`: writes its first tensor;
`_out`: writes a given tensor, which comes first. Dtypes: floats are f64, f32, bf16 and f16. Complex tensors, and with them FFT, are out of scope.

"""


def page(problems):
    named, table, kinds, second = operators(), rows(), gradient_kinds(), aliases()
    lines = ["| function | dtypes | gradient | is | forms | |", "|---|---|---|---|---|---|"]
    lines += [described(name, named[name], table, kinds, second) for name in sorted(named)]
    lines += ["", "## PyTorch's OpInfo database", "", "Its functions that have a real dtype, and what they are here.", "", "| OpInfo | |", "|---|---|"]
    return HEAD + "\n".join(lines + list(opinfo_lines(named, problems))) + "\n"


def main():
    problems = []
    notes = without_present(operators())
    if "--update" in sys.argv:
        NOTES.write_text(notes)
    elif NOTES.read_text() != notes:
        problems.append("docs/opinfo.tsv calls absent what is there; run tests/lint/operators.py --update")
    text = page(problems)
    if "--update" in sys.argv:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        problems.append("docs/operators.md is not what the headers say; run tests/lint/operators.py --update")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
