"""Image files as Pillow writes them (an interlaced one as the PNG specification says), read by tests/training/data.

Writes tests/torch/data/: the files, and images.npz with what each must give, u8 [C,H,W]. Run by hand where Pillow is installed:

    python tests/torch/image_files.py
"""
import pathlib
import struct
import zlib

import numpy as np
from PIL import Image

FOLDER = pathlib.Path(__file__).parent / "data"
HEIGHT, WIDTH = 9, 13
RANDOM = np.random.default_rng(1)


def pixels(channels, dtype=np.uint8):
    return RANDOM.integers(0, np.iinfo(dtype).max, (HEIGHT, WIDTH, channels), dtype=dtype, endpoint=True)


def smooth():
    y, x = np.mgrid[:HEIGHT * 3, :WIDTH * 3]
    return np.stack([x * 6, y * 9, 128 + 100 * np.sin(x / 5)], axis=-1).astype(np.uint8)


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def interlaced(image):
    """Adam7: seven smaller images, one behind the other."""
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    rows = b"".join(b"\0" + row.tobytes() for y, x, dy, dx in passes for row in image[y::dy, x::dx] if row.size)
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def main():
    FOLDER.mkdir(exist_ok=True)
    expected = {}

    def png(name, image, array):
        image.save(FOLDER / f"{name}.png")
        expected[name] = array.transpose(2, 0, 1)

    gray, alpha, rgb, rgba = (pixels(n) for n in (1, 2, 3, 4))
    png("gray", Image.fromarray(gray[..., 0], "L"), gray)
    png("gray_alpha", Image.fromarray(alpha, "LA"), alpha)
    png("rgb", Image.fromarray(rgb, "RGB"), rgb)
    png("rgba", Image.fromarray(rgba, "RGBA"), rgba)
    bits = gray[..., 0] > 127
    png("bits", Image.fromarray(bits), bits[..., None].astype(np.uint8) * 255)
    deep = pixels(1, np.uint16)
    png("deep", Image.fromarray(deep[..., 0]), np.round(deep / 257).astype(np.uint8))
    palette = Image.fromarray(rgb, "RGB").quantize(11)
    png("palette", palette, np.asarray(palette.convert("RGB")))
    (FOLDER / "interlaced.png").write_bytes(interlaced(rgb))
    expected["interlaced"] = rgb.transpose(2, 0, 1)

    picture = Image.fromarray(smooth())
    for name, image, options in [("jpeg", picture, {}), ("progressive", picture, {"progressive": True}),
                                 ("jpeg_gray", picture.convert("L"), {}), ("cmyk", picture.convert("CMYK"), {})]:
        image.save(FOLDER / f"{name}.jpg", quality=90, **options)
        if name != "cmyk":
            array = np.asarray(Image.open(FOLDER / f"{name}.jpg"))
            expected[name] = (array[..., None] if array.ndim == 2 else array).transpose(2, 0, 1)
    expected["rgb_as_gray"] = np.asarray(Image.fromarray(rgb, "RGB").convert("L"))[None]
    np.savez_compressed(FOLDER / "images.npz", **{name: np.ascontiguousarray(array) for name, array in expected.items()})


main()
