#!/usr/bin/env bash
# resume_test.sh PROGRAM MODEL: a run that is killed at step 137 and goes on from its checkpoint at step 100 ends as an unbroken one, bit
# for bit: parameters, optimizer, schedule, place in the data, random numbers, and the log of all losses.
set -euo pipefail
program=$1 model=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/whole" "$folder/broken"
"$program" "$folder/whole" "$model" -1
status=0
"$program" "$folder/broken" "$model" 137 2>/dev/null || status=$?
[ "$status" -eq 137 ] || { echo "expected a killed run, got status $status"; exit 1; }
[ "$(wc -l < "$folder/broken/log.jsonl")" -eq 137 ]
"$program" "$folder/broken" "$model" -1
for file in end.safetensors log.jsonl; do cmp "$folder/whole/$file" "$folder/broken/$file"; done
[ "$(wc -l < "$folder/whole/log.jsonl")" -eq 200 ]
