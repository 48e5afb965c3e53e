#!/usr/bin/env python3
"""The classes of characters that GPT-2's split of text tells apart, as the table unicode_classes.inc.

    unicode_classes.py    writes the file beside this one

Each row is where a run of one class begins: the code point times 4, plus 1 for letters (L*), 2 for numbers (N*), 3 for white space.
"""
import pathlib
import unicodedata

# The property White_Space, which unicodedata does not have.
SPACES = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}


def class_of(code):
    return 3 if code in SPACES else {"L": 1, "N": 2}.get(unicodedata.category(chr(code))[0], 0)


def main():
    runs, last = [], None
    for code in range(0x110000):
        if class_of(code) != last:
            last = class_of(code)
            runs.append(f"{4 * code + last:#x},")
    lines, line = [], ""
    for run in runs:
        if len(line) + len(run) > 98:
            lines.append(line)
            line = ""
        line += (" " if line else "") + run
    header = f"// Made by unicode_classes.py from Unicode {unicodedata.unidata_version}.\n"
    (pathlib.Path(__file__).parent / "unicode_classes.inc").write_text(header + "\n".join([*lines, line]) + "\n")


main()
