"""Files of tensors as NumPy, ml_dtypes, safetensors and PyTorch write them, read by tests/training/io.

Writes tests/torch/files/. Every array is 0, 1, 2, ... in its dtype (of bool: odd numbers are true), [2, 3] unless its name says otherwise.
Run by hand where these are installed:

    python tests/torch/tensor_files.py
"""
import json
import pathlib

import ml_dtypes
import numpy as np
import torch
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).parent / "files"
NUMPY = {"f64": np.float64, "f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "i64": np.int64, "i32": np.int32, "i16": np.int16,
         "i8": np.int8, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32}
TORCH = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64, "i32": torch.int32,
         "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8}


def numbers(shape=(2, 3), dtype=np.float32):
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


def numpy_files():
    arrays = {name: numbers(dtype=dtype) for name, dtype in NUMPY.items()} | {"bool": numbers() % 2 == 1, "scalar": numbers((), np.float64)}
    np.savez(FOLDER / "stored.npz", **arrays)
    np.savez_compressed(FOLDER / "deflated.npz", **arrays)
    np.save(FOLDER / "fortran.npy", np.asfortranarray(numbers((2, 3, 4))))
    np.save(FOLDER / "big_endian.npy", numbers(dtype=">i4"))
    np.save(FOLDER / "big_unsigned.npy", numbers(dtype=">u2"))
    np.save(FOLDER / "empty.npy", numbers((0, 3)))
    for version in (1, 2, 3):
        with open(FOLDER / f"version{version}.npy", "wb") as file:
            np.lib.format.write_array(file, numbers((5,)), version=(version, 0))
    np.save(FOLDER / "structured.npy", np.zeros(2, dtype=[("a", "f4"), ("b", "i4")]))
    np.save(FOLDER / "object.npy", np.array([1, "a"], dtype=object), allow_pickle=True)
    np.save(FOLDER / "complex.npy", np.zeros(2, np.complex64))
    np.save(FOLDER / "text.npy", np.array(["a", "bc"]))


def safetensors_files():
    tensors = {name: torch.arange(6).reshape(2, 3).to(dtype) for name, dtype in TORCH.items()}
    tensors |= {"bool": torch.arange(6).reshape(2, 3) % 2 == 1, "scalar": torch.tensor(0.0), "empty": torch.zeros(0, 3)}
    save_file(tensors, FOLDER / "torch.safetensors", {"format": "pt", "note": "é"})
    names = sorted(tensors)
    parts = [names[:5], names[5:]]
    sharded = FOLDER / "sharded"
    sharded.mkdir(exist_ok=True)
    weight_map = {}
    for i, part in enumerate(parts):
        name = f"model-{i + 1:05}-of-{len(parts):05}.safetensors"
        save_file({n: tensors[n] for n in part}, sharded / name, {"format": "pt"})
        weight_map |= {n: name for n in part}
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (sharded / "model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")


def main():
    FOLDER.mkdir(exist_ok=True)
    numpy_files()
    safetensors_files()


main()
