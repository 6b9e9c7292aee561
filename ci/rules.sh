# Takes plan, policy and baseline from the base branch, so that a change cannot weaken its own gate.
# BASE: the base commit; empty: the checkout's own files count. RUN: the run folder. PLAN, POLICY,
# BASELINE: files, or empty. RULES: the folder that they are put into, as plan.toml, audit.toml and
# audit-baseline.json. ci/gitlab.yml holds the same lines.
set -eu
refuse() { echo "audit-gate: $1" >&2; exit 2; }
place=$RUN
while [ "$place" != . ] && [ "$place" != / ]; do
  if [ -L "$place" ]; then refuse "$place is a link; name the folder that it leads to"; fi
  if git ls-files -s -- ":(icase)$place" 2>/dev/null | grep -q ^160000; then
    refuse "$place is a submodule, whose content is of whoever opened this change; remove it"
  fi
  place=$(dirname "$place")
done
if [ -n "$(git ls-files -- ":(icase)$RUN" 2>/dev/null)" ]; then
  refuse "$RUN is committed, so whoever opened this change may have made it; remove it from git"
fi
if [ -n "$PLAN" ] && [ -z "${AUDIT_STAGE_KEY:-}" ] && [ -n "$(ls -A "$RUN" 2>/dev/null)" ]; then
  refuse "$RUN is not empty; remove it, or set AUDIT_STAGE_KEY to resume what this key has signed"
fi
if [ -n "$BASE" ]; then
  rm -rf "$RULES"
  mkdir -p "$RULES"
  git cat-file -e "$BASE^{commit}" 2>/dev/null || git fetch -q --depth 1 origin "$BASE" ||
    refuse "the base commit $BASE is not here; check out with fetch-depth 0"
  take() { # FILE, or its DEFAULT, as NAME
    if git cat-file -e "$BASE:./${1:-$2}" 2>/dev/null; then
      git cat-file blob "$BASE:./${1:-$2}" > "$RULES/$3"
    elif [ -n "$1" ]; then
      refuse "$1 is not in the base branch; merge it first"
    fi
  }
  if [ -n "$PLAN" ]; then take "$PLAN" "" plan.toml; fi
  take "$POLICY" audit.toml audit.toml
  take "$BASELINE" audit-baseline.json audit-baseline.json
  tool='import sys, tomllib; print(tomllib.loads(sys.stdin.read()).get("tool", {}).get("audit"))'
  before=$(git cat-file blob "$BASE:./pyproject.toml" 2>/dev/null | python -I -c "$tool")
  if [ -L pyproject.toml ]; then refuse "pyproject.toml is a link"; fi
  after=$(cat pyproject.toml 2>/dev/null | python -I -c "$tool") ||
    refuse "pyproject.toml cannot be read"
  if [ "$before" != "$after" ]; then
    refuse "[tool.audit] in pyproject.toml is not the base branch's; merge that first"
  fi
fi
