#!/usr/bin/env bash
# `make demo`: the whole chain on synthetic typists, in minutes. Run again, it resumes or is done.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "== Text of synthetic typists becomes a client store"
tff-keyboard prepare --config=configs/demo.toml

echo
echo "== Federated training"
tff-keyboard train --config=configs/demo.toml --workdir=runs/demo

echo
echo "== Evaluation on people the model never trained on"
tff-keyboard evaluate runs/demo

echo
echo "== Against ranking words by how often train users typed them"
tff-keyboard compare runs/demo unigram --clients=held_out --out=runs/demo/comparison
