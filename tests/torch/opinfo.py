"""Names of PyTorch's OpInfo database that have a real dtype.

Writes tests/torch/opinfo.txt, which tests/lint/operators.py compares with docs/operators.md. Run by hand where PyTorch is installed:

    python tests/torch/opinfo.py
"""
import pathlib
import sys
import types
import unittest
import warnings


def database():
    """The database; without expecttest, which only PyTorch's own test classes need, too."""
    warnings.simplefilter("ignore")
    try:
        import expecttest  # noqa: F401
    except ModuleNotFoundError:
        sys.modules["expecttest"] = types.ModuleType("expecttest")
        sys.modules["expecttest"].TestCase = unittest.TestCase
    from torch.testing._internal.common_methods_invocations import op_db
    return op_db


def main():
    names = {op.name for op in database() if any(not dtype.is_complex for dtype in op.dtypes)}
    pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(sorted(names)) + "\n")


if __name__ == "__main__":
    main()
