#!/bin/sh
# What the `tandem` command returns: 0 only if all of its output was written and all of its input made sense. Usage: command_status.sh TANDEM
tandem=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0

cat > "$folder/g.ir" <<'GRAPH'
graph @f traced {
  in %x: f32[2] primal requires_grad
  %y: f32[2] = exp %x
  out %y: result name=y requires_grad
}
GRAPH
# a safetensors file of x: f32[2]
printf '\073\000\000\000\000\000\000\000{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}     \000\000\000\000\000\000\000\000' > "$folder/in"

succeeds() {
  "$@" > "$folder/out" 2> "$folder/errors" || { failures=1; echo "failed: $*"; cat "$folder/errors"; }
}
# fails TEXT SHELL-COMMAND: status 1, and stderr has TEXT
fails() {
  text=$1
  TANDEM=$tandem FOLDER=$folder sh -c "$2" > "$folder/out" 2> "$folder/errors"
  status=$?
  if [ $status -ne 1 ] || ! grep -q -- "$text" "$folder/errors"; then
    failures=1
    echo "status $status, expected 1 and '$text': $2"
    cat "$folder/errors"
  fi
}
run='"$TANDEM" run "$FOLDER/g.ir" --inputs "$FOLDER/in" --outputs "$FOLDER/result"'

succeeds "$tandem" print "$folder/g.ir"
succeeds "$tandem" explain "$folder/g.ir"
succeeds "$tandem" --help
succeeds "$tandem" run "$folder/g.ir" --inputs "$folder/in" --outputs "$folder/result" --seed 18446744073709551615
for command in 'print "$FOLDER/g.ir"' 'print --json "$FOLDER/g.ir"' 'explain "$FOLDER/g.ir"'; do
  fails 'cannot write standard output' "\"\$TANDEM\" $command > /dev/full"
  fails 'cannot write standard output' "\"\$TANDEM\" $command >&-"
  fails 'cannot write /dev/full' "\"\$TANDEM\" $command -o /dev/full"
done
fails 'cannot write standard output' '"$TANDEM" --help > /dev/full'
for seed in 18446744073709551616 99999999999999999999999 -1 1x x 0x10 1.5; do
  fails 'expected a number from 0 to 18446744073709551615' "$run --seed=$seed"
done

: > "$folder/empty"
echo 'no_such_op 1' > "$folder/unknown"
echo 'mul one' > "$folder/word"
head -c 100 /dev/zero > "$folder/zeros"
for costs in missing . empty unknown word zeros; do
  fails 'costs: ' "TANDEM_COSTS=\"\$FOLDER/$costs\" \"\$TANDEM\" explain \"\$FOLDER/g.ir\""
done

sed 's/f32\[2\] primal requires_grad/f32[2] primal requires_grad strides=[4611686018427387904]/' "$folder/g.ir" > "$folder/wide.ir"
fails 'parse: 2:' '"$TANDEM" run "$FOLDER/wide.ir" --inputs "$FOLDER/in" --outputs "$FOLDER/result"'
sed 's/f32\[2\] primal requires_grad/f32[2] primal requires_grad strides=[288230376151711744]/' "$folder/g.ir" > "$folder/large.ir"
fails 'out_of_memory' '"$TANDEM" run "$FOLDER/large.ir" --inputs "$FOLDER/in" --outputs "$FOLDER/result"'
exit $failures
