#!/usr/bin/env bash
# flair pins older libraries than our other extras take, so its test has an environment of its own, .venv-flair.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ -d .venv-flair ] || python3 -m venv .venv-flair
.venv-flair/bin/pip install -q -e '.[flair]' hypothesis pytest pytest-xdist
.venv-flair/bin/pytest -n 0 tests/unit/integrations/test_flair.py
