#!/usr/bin/env python3
"""Methods of Tensor and free functions are even: for every writing form x.op_() there are x.op() and op(x), and what ATen has as a method is one."""
import pathlib
import re
import sys

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "runtime/include/tandem"

# Writing forms that have no other: they say what memory holds or is.
WRITES_ONLY = {"copy", "fill", "zero", "uniform", "normal", "fill_diagonal", "resize", "set"}
# Functions that ATen has no method for.
FUNCTIONS_ONLY = set(
    "dropout layer_norm cross_entropy nll_loss mse_loss l1_loss binary_cross_entropy_with_logits linear scaled_dot_product_attention pad "
    "embedding one_hot matrix_transpose native_layer_norm std_mean var_mean".split())  # (x.where(condition, other); x.mT())
# Methods of this kind without a function.
METHODS_ONLY = {"contiguous", "mT"}


def listed(text, name):
    body = re.search(r"#define " + name + r"\(X\)((?:.*\\\n)*.*)", text).group(1)
    inner = re.findall(r"TANDEM_\w+_OPS", body)
    return set(re.findall(r"X\((\w+)\)", body)).union(*(listed(text, i) for i in inner)) if inner else set(re.findall(r"X\((\w+)\)", body))


def main():
    lists = (INCLUDE / "op_lists.h").read_text()
    both = set().union(*(listed(lists, f"TANDEM_{kind}_OPS") for kind in ["UNARY_IN_PLACE", "UNARY", "BINARY_IN_PLACE", "BINARY"]))
    writing = set().union(*(listed(lists, f"TANDEM_{kind}_OPS") for kind in ["UNARY_IN_PLACE", "BINARY_IN_PLACE", "COMPARISON"]))
    methods_text = (INCLUDE / "tensor_methods.inc").read_text()
    methods = both | set(re.findall(r"^  (?:Tensor|std::vector<Tensor>|ValuesAndIndices|MinMax|StdMean|VarMean|NormAndStatistics) (\w+)\(", methods_text, re.M))
    writing |= set(re.findall(r"^  const Tensor& (\w+)_\(", methods_text, re.M))
    functions_text = (INCLUDE / "ops.h").read_text()
    of_tensor = r"^TANDEM_API (?:Tensor|std::vector<Tensor>|ValuesAndIndices|MinMax|StdMean|VarMean|NormAndStatistics) (\w+)\(\s*const (?:Tensor|Located)& "
    functions = both | set(re.findall(of_tensor, functions_text, re.M))
    functions -= {name for name in functions if name.endswith("_like")}
    problems = [f"x.{op}_() has no x.{op}()" for op in sorted(writing - methods - WRITES_ONLY)]
    problems += [f"x.{op}_() has no {op}(x)" for op in sorted(writing - functions - WRITES_ONLY)]
    problems += [f"{op}(x) has no x.{op}()" for op in sorted(functions - methods - FUNCTIONS_ONLY)]
    problems += [f"x.{op}() has no {op}(x)" for op in sorted(methods - functions - METHODS_ONLY)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
