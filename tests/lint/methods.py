#!/usr/bin/env python3
"""Methods of Tensor and free functions are even: for every writing form x.op_() there are x.op() and op(x), and what ATen has as a method is one."""
import pathlib
import re
import sys

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "runtime/include/tandem"

# Where the functions are.
HEADERS = ["ops.h", "indexing.h", "ops/shapes.h", "ops/reductions.h", "ops/sorting.h", "ops/linalg.h"]

# Writing forms that have no other: they say what memory holds or is.
WRITES_ONLY = {"copy", "fill", "zero", "uniform", "normal", "fill_diagonal", "resize", "resize_as", "set", "cauchy", "exponential", "geometric", "log_normal", "random"}
# Functions that ATen has no method for.
FUNCTIONS_ONLY = set(
    "dropout layer_norm cross_entropy nll_loss mse_loss l1_loss binary_cross_entropy_with_logits linear scaled_dot_product_attention pad "
    "embedding one_hot matrix_transpose native_layer_norm std_mean var_mean glu softmin softshrink tanhshrink rsub atleast_1d atleast_2d atleast_3d "
    "trapezoid trapz cumulative_trapezoid vector_norm matrix_norm norm_of_name matrix_norm_of_name bincount_static masked_select_static unique_static unique_consecutive_static embedding_bag searchsorted bucketize isin normal "
    "tensordot bilinear vander cdist vecdot inv solve solve_triangular svdvals eigvalsh pinv matrix_rank cond tensorinv tensorsolve householder_product "
    "gradient combinations unravel_index".split())  # (x.where(condition, other); x.mT())
# Methods of this kind without a function.
METHODS_ONLY = set("contiguous mT mH H T new_empty new_full new_zeros new_ones".split())


NAME = r"X\((\w+)(?:, \w+)?\)"  # of a row X(op) or X(name, op)


def listed(text, name):
    body = re.search(r"#define " + name + r"\(X\)((?:.*\\\n)*.*)", text).group(1)
    inner = re.findall(r"TANDEM_\w+_OPS", body)
    return set(re.findall(NAME, body)).union(*(listed(text, i) for i in inner)) if inner else set(re.findall(NAME, body))


# The lists of op_lists.h: what is both a function and a method, what has a writing form.
WRITING = """UNARY_IN_PLACE_OPS BINARY_IN_PLACE_OPS COMPARISON_OPS MADE_UNARY_IN_PLACE MADE_BINARY_IN_PLACE UNARY_ALIASES BINARY_ALIASES""".split()
BOTH = WRITING + "UNARY_OPS BINARY_OPS MADE_UNARY MADE_BINARY".split()


def main():
    lists = (INCLUDE / "op_lists.h").read_text()
    both = set().union(*(listed(lists, f"TANDEM_{kind}") for kind in BOTH))
    writing = set().union(*(listed(lists, f"TANDEM_{kind}") for kind in WRITING))
    methods_text = (INCLUDE / "tensor_methods.inc").read_text()
    methods = both | set(re.findall(r"^  (?:Tensor|bool|std::vector<Tensor>|ValuesAndIndices|Unique|MinMax|StdMean|VarMean|NormAndStatistics) (\w+)\(", methods_text, re.M))
    writing |= set(re.findall(r"^  const Tensor& (\w+)_\(", methods_text, re.M))
    functions_text = "".join((INCLUDE / name).read_text() for name in HEADERS)
    of_tensor = r"^TANDEM_API (?:Tensor|bool|std::vector<Tensor>|ValuesAndIndices|Unique|MinMax|StdMean|VarMean|NormAndStatistics) (\w+)\(\s*(?:int64_t \w+, )?const (?:Tensor|Located)& "
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
