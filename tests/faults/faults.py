#!/usr/bin/env python3
"""Seeds the faults of faults.toml, one at a time, in a copy of the tree, and prints the first test that fails for each.

A fault that no test notices is printed as SURVIVED, and the exit status is 1 (2 if a fault does not fit the sources or does not
compile). Resumable: what is known for these very sources stands in build/faults/state.json and is not run again.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests/faults/faults.toml"
WORK = ROOT / "build/faults"
TREE = WORK / "tree"
BUILD = TREE / "build/dev"
STATE = WORK / "state.json"
TEST_SECONDS = 600


class Unfit(Exception):
    """A fault that cannot be judged: it does not apply, does not compile, or its test fails without it."""


def read_table():
    """The faults, each with the tests of its area unless it names its own."""
    table = tomllib.loads(TABLE.read_text())
    faults = table["fault"]
    for fault in faults:
        fault.setdefault("tests", table["areas"][fault["area"]])
    names = [fault["name"] for fault in faults]
    for name in names:
        if names.count(name) > 1:
            raise Unfit(f"{name}: the name is not unique")
    return faults


def seeded(fault):
    """The text of the fault's file with the fault in it."""
    text = (ROOT / fault["file"]).read_text()
    found = text.count(fault["old"])
    if found != 1:
        raise Unfit(f"{fault['name']}: its text stands {found} times in {fault['file']}; expected once")
    return text.replace(fault["old"], fault["new"])


# --- the copy of the tree

def sources():
    """Paths of all files that git tracks or would track."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    return sorted(p for p in listed.stdout.split("\0") if p and (ROOT / p).is_file())


def digest(paths):
    whole = hashlib.sha256()
    for path in paths:
        if not path.startswith("tests/faults/"):
            whole.update(path.encode() + b"\0" + hashlib.sha256((ROOT / path).read_bytes()).digest())
    return whole.hexdigest()


def copy_tree(paths):
    """Makes the copy equal to the sources; files that are equal keep their times, so that little is built again."""
    wanted = {TREE / path for path in paths}
    for old in TREE.rglob("*"):
        if old.is_file() and TREE / "build" not in old.parents and old not in wanted:
            old.unlink()
    for path in paths:
        write(path, (ROOT / path).read_bytes(), (ROOT / path).stat().st_mode)


def write(path, data, mode=None):
    to = TREE / path
    if to.is_file() and to.read_bytes() == data:
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(data)
    if mode is not None:
        to.chmod(mode)


def build(test):
    if not (BUILD / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", "dev"], cwd=TREE, check=True, stdout=subprocess.DEVNULL)
    command = ["cmake", "--build", str(BUILD), "-j", str(os.cpu_count()), "--target", f"test_{test}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Unfit(f"test_{test} does not build:\n" + "\n".join(done.stdout.splitlines()[-30:]))


# --- tests

def first_failure(test, only="*"):
    """The first test case of a binary that fails, crashes or hangs; none if all pass."""
    command = [str(BUILD / f"tests/test_{test}"), "--gtest_fail_fast", f"--gtest_filter={only}"]
    env = dict(os.environ, TANDEM_RETRACE="1")
    try:
        done = subprocess.run(command, cwd=BUILD, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=TEST_SECONDS)
        output, failed = done.stdout, done.returncode != 0
    except subprocess.TimeoutExpired as timeout:
        output, failed = timeout.stdout or b"", True
    if not failed:
        return None
    output = output.decode(errors="replace")
    reported = re.search(r"^\[  FAILED  \] ([^\s,]+)", output, re.MULTILINE)
    running = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
    return reported.group(1) if reported else running[-1] if running else "(at its start)"


def try_fault(fault):
    """The test that notices the fault, as "binary: case", or none. The case must pass without the fault."""
    write(fault["file"], seeded(fault).encode())
    try:
        caught = None
        for test in fault["tests"]:
            build(test)
            if case := first_failure(test):
                caught = (test, case)
                break
    finally:
        write(fault["file"], (ROOT / fault["file"]).read_bytes())
    if caught is None:
        return None
    test, case = caught
    build(test)
    if first_failure(test, case):
        raise Unfit(f"{test}: {case} fails without the fault too")
    return f"{test}: {case}"


# --- the command

def arguments():
    parser = argparse.ArgumentParser(prog="./dev faults", description=__doc__.split("\n\n")[0])
    parser.add_argument("--list", action="store_true", help="print the table and run nothing")
    parser.add_argument("--check", action="store_true", help="only see that every fault fits the sources")
    parser.add_argument("--only", action="append", metavar="NAME|AREA", help="these alone; may be repeated")
    parser.add_argument("--quick", action="store_true", help="the few that are marked as quick")
    parser.add_argument("--restart", action="store_true", help="forget what is known already")
    return parser.parse_args()


def chosen(faults, args):
    if args.only:
        unknown = [o for o in args.only if not any(o in (f["name"], f["area"]) for f in faults)]
        if unknown:
            raise Unfit(f"no fault or area {unknown[0]}; --list shows them")
        faults = [f for f in faults if f["name"] in args.only or f["area"] in args.only]
    return [f for f in faults if f.get("quick")] if args.quick else faults


def known_results(sources_digest, restart):
    known = json.loads(STATE.read_text()) if STATE.exists() and not restart else {}
    return known if known.get("sources") == sources_digest else {"sources": sources_digest, "caught": {}}


def run(faults, restart):
    """Tries each fault; returns the exit status."""
    paths = sources()
    copy_tree(paths)
    state = known_results(digest(paths), restart)
    survived = unfit = 0
    for fault in faults:
        row = hashlib.sha256(json.dumps(fault).encode()).hexdigest()
        start = time.monotonic()
        try:
            by = state["caught"].get(row) or try_fault(fault)
        except Unfit as problem:
            unfit += 1
            print(f"ERROR     {fault['area']:14} {fault['name']}: {problem}", flush=True)
            continue
        survived += by is None
        verdict = "caught  " if by else "SURVIVED"
        seconds = time.monotonic() - start
        print(f"{verdict}  {fault['area']:14} {fault['name']:44} {by or ', '.join(fault['tests'])}  ({seconds:.0f} s)", flush=True)
        if by:
            state["caught"][row] = by
            STATE.write_text(json.dumps(state, indent=1))
    print(f"{len(faults)} faults: {len(faults) - survived - unfit} caught, {survived} survived, {unfit} errors")
    return 2 if unfit else 1 if survived else 0


def main():
    args = arguments()
    try:
        faults = chosen(read_table(), args)
        for fault in faults:
            seeded(fault)
    except Unfit as problem:
        print(f"faults: {problem}", file=sys.stderr)
        return 2
    if args.list:
        for fault in faults:
            print(f"{fault['area']:14} {fault['name']:44} {fault['file']:34} {', '.join(fault['tests'])}")
    return 0 if args.list or args.check else run(faults, args.restart)


sys.exit(main())
