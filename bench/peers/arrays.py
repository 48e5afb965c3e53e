"""Arrays in files that every contender reads."""
import json
import struct

import numpy as np


def save(arrays, path):
    """Writes the safetensors format: u64 header length, JSON header, then the raw little-endian data."""
    kinds = {"float32": "F32", "int64": "I64"}
    header, at = {}, 0
    for k, a in arrays.items():
        header[k] = {"dtype": kinds[str(a.dtype)], "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for a in arrays.values():
            f.write(np.ascontiguousarray(a).tobytes())


def load(path):
    kinds = {"F32": np.float32, "I64": np.int64}
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(n)), f.read()
    return {k: np.frombuffer(data[h["data_offsets"][0]:h["data_offsets"][1]], kinds[h["dtype"]]).reshape(h["shape"]).copy()
            for k, h in header.items() if k != "__metadata__"}
