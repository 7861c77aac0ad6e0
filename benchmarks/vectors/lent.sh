#!/bin/bash
# The study in two calls on a lent GPU, each within the given seconds; nothing has to be installed or downloaded there.
#
#   python -m benchmarks.vectors.packed pack PACK ...     # here, see README.md; then carry PACK/minilm and PACK/sets
#   bash benchmarks/vectors/lent.sh one PACK RESULTS 270  # there: settings, codes from pairs, translations, cost
#   bash benchmarks/vectors/lent.sh two PACK RESULTS 270  # there, with PACK/wordllama too: WordLlama, upgrade, no labels
#
# Rows are written as they are made, so a call that is cut off keeps what it has. Part two needs the vectors of part one.
PART=$1 PACK=$2 R=$3 LIMIT=${4:-270}
D=$PACK/data PY=$(command -v python3)
mkdir -p "$R" "$D"
CORES=$(env -u OMP_NUM_THREADS nproc)
export PYTHONPATH=src:. OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
SOME=prefix,random,pca,pca-documents,pca-whitened,cca,linear,neural,matryoshka,csr
AT_ONCE=$((CORES > 4 ? CORES - 3 : CORES))

run() { # module, name of the result, further words
  local left=$((LIMIT - SECONDS))
  timeout $((left > 1 ? left : 1)) "$PY" -m benchmarks.vectors.$1 --data "$D" --json "$R/$2.json" "${@:3}" \
    > "$R/$2.log" 2>&1 || echo "$2 ended with $?"
}
slot() { while [ "$(jobs -rp | wc -l)" -gt $AT_ONCE ]; do sleep 0.2; done; }

"$PY" -m benchmarks.vectors.packed embed "$PACK" --out "$D" > "$R/embed.log" 2>&1 || exit 1
echo "embedded after $SECONDS s"
if [ "$PART" = one ]; then
  OMP_NUM_THREADS=2 taskset -c $((CORES - 2)),$((CORES - 1)) "$PY" -m benchmarks.vectors.cost --work "$D/cost" \
    --methods "linear;encode;neural, GPU;neural" --json "$R/cost.json" > "$R/cost.log" 2>&1 &
  timeout $((LIMIT * 42 / 100)) "$PY" -m benchmarks.vectors.variants --data "$D" --json "$R/variants.json" \
    --side-by-side $AT_ONCE > "$R/variants.log" 2>&1
fi
BEST=$("$PY" -m benchmarks.vectors.variants --data "$D" --json "$R/variants.json" --best)
echo "settings after $SECONDS s: $BEST"
MODEL=$([ "$PART" = one ] && echo minilm || echo wordllama)
for seed in 0 1 2; do
  for set in debian wordnet; do
    slot
    run paired paired-$set-$MODEL-s$seed --set $set --model $MODEL --seed $seed --neural "$BEST" --methods $SOME &
  done
done
for seed in 0 1 2; do
  if [ "$PART" = one ]; then
    for set in french german japanese; do
      slot
      run translated translated-$set-s$seed --set $set --seed $seed --test $([ $set = japanese ] && echo 1500 || echo 4000) \
        --methods prefix,pca,cca,one-space,two-spaces,neural &
    done
  else
    slot
    run upgrade upgrade-s$seed --seed $seed &
    for set in cisi dbpedia debian wordnet; do
      for model in wordllama minilm; do
        slot
        run unlabelled unlabelled-$set-$model-s$seed --set $set --model $model --seed $seed &
      done
    done
  fi
done
sleep $((LIMIT > SECONDS ? 1 : 0))
while [ -n "$(jobs -rp)" ] && [ $SECONDS -lt "$LIMIT" ]; do sleep 0.5; done
for job in $(jobs -rp); do kill "$job" 2> /dev/null; done
echo "ended after $SECONDS s"
