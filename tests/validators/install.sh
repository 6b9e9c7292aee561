#!/usr/bin/env bash
# Installs what the tests here need into FOLDER (default: $VALIDATORS, else build/validators):
# the Nu checker, axe-core and the SARIF multitool with the OASIS schema from npm, and from PyPI the
# JUnit schema that pytest tests itself by, the CycloneDX schemas and the messages of in-toto. Java, Chromium, qpdf and poppler are Debian's.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=${1:-${VALIDATORS:-$root/build/validators}}
python=${PYTHON:-python3}
mkdir -p "$folder"
cp "$here/package.json" "$here/package-lock.json" "$folder"
if command -v npm > /dev/null; then
  npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel=error
  chmod -f u+x "$folder"/node_modules/@microsoft/sarif-multitool-*/Sarif.Multitool || true
else
  echo "no npm: neither the Nu checker nor axe-core nor the SARIF schema is installed" >&2
fi
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
"$python" -m pip download -q --disable-pip-version-check --no-deps --no-binary pytest \
  -c "$root/constraints.txt" -d "$source" pytest
tar -xzf "$source"/pytest-*.tar.gz -C "$source"
cp "$source"/pytest-*/testing/example_scripts/junit-10.xsd "$folder"
"$python" -m pip install -q --disable-pip-version-check --no-deps --upgrade \
  --target "$folder/python" 'cyclonedx-python-lib>=11,<12' 'in-toto-attestation>=0.9.3,<1'
