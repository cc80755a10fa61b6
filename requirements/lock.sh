#!/usr/bin/env bash
# Rewrites the locked requirement files; `make lock` calls it. Needs `uv` on the path.
set -euo pipefail
cd "$(dirname "$0")/.."
# uv asks the build for the dependencies of this package, which are those of the plain one.
export BARNABAS_COMPILE=0

compile() {
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-emit-find-links --no-annotate --no-header "$@"
}

compile requirements/build.in --output-file requirements/build.txt
compile pyproject.toml --extra dev --output-file requirements/dev.txt
compile pyproject.toml --extra test --extra lint --constraint requirements/dev.txt --output-file requirements/test.txt
compile pyproject.toml --extra demo --constraint requirements/dev.txt --output-file requirements/demo.txt
