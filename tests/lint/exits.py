#!/usr/bin/env python3
"""Finds static objects that exit() destroys, which detached threads may still use: exits.py LIBRARY.a...

Objects that live as long as the process are made with `new` and never destroyed. The pool's Closer is meant to run.
"""
import subprocess
import sys

ALLOWED = {"thread_pool.cpp.o"}


def main():
    found = []
    for library in sys.argv[1:]:
        listing = subprocess.run(["nm", "--undefined-only", library], capture_output=True, text=True, check=True).stdout
        member = ""
        for line in listing.splitlines():
            if line.endswith(":"):
                member = line[:-1]
            elif line.split()[-1:] == ["__cxa_atexit"] and member not in ALLOWED:
                found.append(f"{library}: {member} registers a destructor with __cxa_atexit")
    print("\n".join(found) or "exit destroys nothing that threads may use")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
