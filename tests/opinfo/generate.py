#!/usr/bin/env python3
"""Writes the table of callables of the public headers: generate.py FOLDER PARTS."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/lint"))
import operators  # noqa: E402

INCLUDE = ROOT / "runtime/include/tandem"
TYPES = set("""Tensor Located Number double int64_t uint64_t int Dim bool std::string_view DType Shape Strides std::vector<Dim> std::vector<int64_t> std::vector<double> Tolerance DimList Spatial ConvPadding
    std::vector<Tensor> std::span<const Tensor> std::optional<Number> std::optional<double> std::optional<int64_t> std::optional<Dim> std::optional<bool> std::optional<DType>""".split("\n"))
TYPES = {t for line in TYPES for t in re.findall(r"std::span<const Tensor>|[\w:]+(?:<[\w:]+>)?", line)}


def split(text, separator=","):
    """At separators outside of brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "({[<" and text[i - 1:i + 1] != "<<"
        depth -= c in ")}]>"
        if c == separator and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in parts + [text[start:]] if p.strip()]


def option_structs():
    """Name -> [(type, field)]."""
    text = operators.preprocessed(INCLUDE / "tensor.h", *(INCLUDE / h for h in operators.HEADERS))
    text = re.sub(r"//[^\n]*", "", text)
    structs = {}
    for name, body in re.findall(r"struct (\w+Options|ScaledSum) \{(.*?)\n\s*\};", text, re.S):
        fields = []
        for statement in split(body.replace("\n", " "), ";"):
            found = re.match(r"((?:const )?[\w:]+(?:<[^>]*>)?) (.*)", statement)
            for declarator in split(found[2]):
                fields.append((found[1], re.match(r"\w+", declarator)[0]))
        structs[name] = fields
    return structs


def parameter(text):
    """(type, name, default or none)"""
    head, _, default = text.partition(" = ")
    found = re.match(r"(?:const )?(std::span<const Tensor>|[\w:]+(?:<[\w:]+>)?)&? (\w+)$", head.strip())
    return (found[1], found[2], default or None) if found else None


def callable_row(prefix, name, parameters, structs):
    texts = [t for t in split(parameters) if not t.startswith("SourceLocation")]
    parsed = [parameter(t) for t in texts]
    if any(p is None or not (p[0] in TYPES or p[0] in structs) for p in parsed):
        return None
    before, arguments, names = [], [], []
    for kind, argument, default in parsed:
        if kind in structs:
            before.append(f"{kind} {argument};")
            for field_kind, field in structs[kind]:
                if field_kind not in TYPES:
                    return None
                before.append(f'arguments.set("{field}", {argument}.{field});')
                names.append(f"[{field}]")
            arguments.append(argument)
            continue
        if default is not None:
            default = "DimList::every()" if default == "DimList::every()" else f"{kind}({default})" if default != "{}" else f"{kind}{{}}"
        before.append(f'const auto {argument} = arguments.get<{kind}>("{argument}"' + (f", {default});" if default else ");"))
        arguments.append(argument)
        names.append(f"[{argument}]" if default else argument)
    return prefix, name, before, arguments, names


def rows():
    structs = option_structs()
    for space, result, name, parameters, _ in operators.functions_of(operators.preprocessed(INCLUDE / "op_lists.h", *(INCLUDE / h for h in operators.HEADERS))):
        space = re.sub(r"^tandem(::)?", "", space)
        prefix = space + "::" if space else ""
        if name.endswith("_of_name"):  # what a template of text calls
            parameters = re.sub(r", const SourceLocation& at$", "", parameters)
            defaults = "{-2, -1}" if name.startswith("matrix") else "{}"
            parameters = parameters.replace("DimList& dims", f"DimList& dims = {defaults}").replace("bool keepdim", "bool keepdim = false")
            row = callable_row(prefix, name.removesuffix("_of_name"), parameters, structs)
            yield prefix + row[1], row[4], row[2], f"tandem::{prefix}{name}({', '.join(row[3])}, SourceLocation::current())"
            continue
        if name.endswith("_out") or name in operators.STATE or space == "detail" or (result == "const Tensor&" and name.endswith("_")):
            continue
        row = callable_row(prefix, name, parameters, structs)
        if row:
            prefix, name, before, arguments, names = row
            yield prefix + name, names, before, f"tandem::{prefix}{name}({', '.join(arguments)})"
    text = re.sub(r"\s+", " ", re.sub(r"//[^\n]*", "", operators.preprocessed(INCLUDE / "op_lists.h", INCLUDE / "tensor_methods.inc")))
    for name, parameters in re.findall(r"const Tensor& (\w+_)\(([^;]*?)\) const;", text):
        row = callable_row("", name, parameters, structs)
        if row:
            _, name, before, arguments, names = row
            yield name, ["self", *names], ['const Tensor self = arguments.get<Tensor>("self").clone();', *before], f"self.{name}({', '.join(arguments)})"


def main():
    folder, parts = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    all_rows = list(rows())
    for part in range(parts):
        lines = ['// Made by generate.py.', '#include "tests/opinfo/arguments.h"', "", "namespace tandem::opinfo {", "using namespace linalg;  // its options", "", f"extern const std::vector<Callable> kPart{part};", f"const std::vector<Callable> kPart{part} = {{"]
        for name, names, before, call in all_rows[part::parts]:
            lines.append(f'    {{"{name}", "{" ".join(names)}", [](Arguments& arguments) {{ {" ".join(before)} return results({call}); }}}},')
        (folder / f"calls_{part}.cpp").write_text("\n".join(lines + ["};", "", "}  // namespace tandem::opinfo"]) + "\n")
    externs = "".join(f"extern const std::vector<Callable> kPart{p};\n" for p in range(parts))
    adds = "".join(f"  all.insert(all.end(), kPart{p}.begin(), kPart{p}.end());\n" for p in range(parts))
    (folder / "calls.cpp").write_text('// Made by generate.py.\n#include "tests/opinfo/arguments.h"\n\nnamespace tandem::opinfo {\n\n' + externs
                                      + "\nstd::vector<Callable> callables() {\n  std::vector<Callable> all;\n" + adds + "  return all;\n}\n\n}  // namespace tandem::opinfo\n")


main()
