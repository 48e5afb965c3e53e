#!/usr/bin/env bash
# resume_test.sh PROGRAM ARGUMENT...: a run that ends behind step 100 and goes on in a process of its own is an unbroken one, bit for bit:
# losses, checkpoints (parameters, optimizer, schedule, place in the data, random numbers), and what is printed at the end.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$@" --quiet --run "$folder/whole" > "$folder/whole.txt"
"$@" --quiet --run "$folder/broken" --stop 100
[ "$(wc -l < "$folder/broken/losses.jsonl")" -eq 100 ]
"$@" --quiet --run "$folder/broken" > "$folder/broken.txt"
[ "$(wc -l < "$folder/whole/losses.jsonl")" -ge 200 ]
diff -r "$folder/whole" "$folder/broken"
diff "$folder/whole.txt" "$folder/broken.txt"
