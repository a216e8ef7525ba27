"""What a machine's outputs are called here, so that nothing of them runs by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from outputs_world import Up, listed, make
from tunnel_world import WAIT_SECONDS

pytestmark = pytest.mark.machine

HARMFUL = """
mkdir -p out/bare/objects out/bare/refs out/.vscode out/requests out/site-packages \\
  out/node_modules/lp
cd out; printf 'ref: refs/heads/main\\n' >bare/HEAD
printf '[core]\\n\\trepositoryformatversion = 0\\n\\tworktree = .\\n' >bare/config
printf '\\tfsmonitor = touch %s/ran; false\\n' @ >>bare/config
for f in .vscode/tasks.json requests/__init__.py site-packages/x.pth Makefile compose.yml uv.toml \\
  build.rs package.json .envrc conftest.py test_x.py sitecustomize.py pixi.toml tool data.csv \\
  docker-compose.yaml config.json model.pth .zarray libz.so.1 main.tf node_modules/semver \\
  node_modules/lp/package.json Directory.Build.props babel.config.json x.node; do
  printf 'open("%s/ran", "w")' @ >$f
done
printf '>>> _ = open("%s/ran", "w")\\n' @ >test_log.txt
chmod +x tool; ln -s data.csv ssl.py
"""


def test_nothing_runs_by_being_pulled(notebook: Path, up: Up) -> None:
    cluster = up("[out]")
    make(cluster, HARMFUL.replace("@", str(notebook)))
    done = cluster.outputs()
    assert (done.is_whole, done.files) == (True, 30)
    here = notebook / "dev-outputs" / "out"
    plain = {"data.csv", "config.json", "model.pth", ".zarray"}
    assert {name for name in listed(here) if ".pulled" not in name} == plain
    assert (here / "bare" / "HEAD.pulled").exists()
    assert not (here / "tool.pulled").stat().st_mode & 0o111
    (line,) = [line for line in done.lines if "renamed" in line]
    assert line.startswith("  26 renamed (")
    assert "as only files with an ending of data keep their names" in line
    assert "%nbprov outputs dev --keep-names brings them" in line
    for folder in (notebook, here, here / "bare"):
        for command in (
            ["git", "-c", "safe.directory=*", "status"],
            [sys.executable, "-c", "import requests, sitecustomize"],
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        ):
            subprocess.run(command, cwd=folder, capture_output=True, timeout=WAIT_SECONDS)
    assert not (notebook / "ran").exists()

    # What is the same under its own name is not brought again, and nothing makes a repository.
    assert (cluster.outputs().files, listed(here)) == (0, listed(here))
    assert cluster.outputs(keep_names=True).is_whole
    assert (here / "conftest.py").exists()
    assert not (here / "bare" / "HEAD").exists()
    assert cluster.outputs().files == 0
