"""A cell whose workdir is a git repository: the panel names the commit, and an error is one
line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "doubles"))

from git_double import GitDouble
from kernels import CPU, Kernel, new_kernel


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitDouble]:
    made = GitDouble(tmp_path / "served")
    yield made
    made.close()


def test_a_repository_is_there_before_setup(home: Path, server: GitDouble) -> None:
    commit = server.add("o/code").commit(train="one")
    with new_kernel(home, is_notebook=False) as kernel:
        spec = (
            f"{CPU}\nenvs: {{REF: main}}\nworkdir: {{url: '{server.url}/o/code.git', ref: $REF}}\n"
            f"setup: cat train > ~/seen\n"
        )
        told = kernel.run(f"%%provision dev --yes --wait\n{spec}").everything
        assert f"code: o/code at {commit[:7]} (main)" in told
        assert kernel.run("%%on dev --bash\ncat ~/seen").text == "one\n"


def test_one_that_takes_a_log_in_nobody_has(home: Path, server: GitDouble) -> None:
    server.add("o/code").commit(train="one")
    server.password = "s3cr3t-w0rd"
    with new_kernel(home, is_notebook=False) as kernel:
        failed = kernel.run(
            f"%%provision dev --yes --wait\n{CPU}\nworkdir: {{url: '{server.url}/o/code.git'}}",
            ok=False,
        )
        assert "[git.denied]" in failed.everything
        assert "git ls-remote" in failed.everything


def test_the_panel_keeps_the_commit(shared: Kernel, server: GitDouble) -> None:
    commit = server.add("o/code").commit(train="one")
    outcome = shared.run(
        f"%%provision kept --yes --wait\n{CPU}\nworkdir: {{url: '{server.url}/o/code.git'}}"
    )
    assert f"code: o/code at {commit[:7]} (main)" in shared.renewed(outcome.displays[0], "code: ")
