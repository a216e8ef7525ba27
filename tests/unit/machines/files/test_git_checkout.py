"""A git repository becomes `~/sky_workdir` of machines: new, updated, changed there, or private."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "doubles"))

from git_double import GitDouble
from tunnel_world import WAIT_SECONDS, TunnelWorld, until

from nbprov import api
from nbprov.machines.files.git_checkout import RepositoryCheckout, RepositoryError, _LocalClone
from nbprov.model.sources import Repository
from nbprov.on_machine import git_commands
from nbprov.on_machine.git_checkout import Checkout
from nbprov.on_machine.git_commands import Git, trouble_of_git
from nbprov.on_machine.sync_protocol import SyncFailure
from nbprov.provisioning.live_cluster import all_of

NOW = (
    "cd ~/sky_workdir && git status --porcelain && git rev-parse HEAD"
    " && git log --oneline | wc -l && git remote get-url origin"
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitDouble]:
    made = GitDouble(tmp_path / "served")
    yield made
    made.close()


def bring(world: TunnelWorld, url: str, ref: str = "", name: str = "dev") -> list[str]:
    """Check a repository out on every node; return what was said."""
    said: list[str] = []

    async def carry_out() -> None:
        live = await world.session.engine.attach(name)
        async with RepositoryCheckout(
            live, Repository(url, ref), said.append, said.append
        ) as working:
            await all_of(*(working.bring(number) for number in range(len(live.nodes))))

    world.session.engine.thread.call(carry_out()).result(WAIT_SECONDS)
    return [line for line in said if "%" not in line or "%%on" in line]


def there(cluster: api.Cluster, command: str) -> list[str]:
    done = cluster.bash(command, timeout=WAIT_SECONDS)
    return done.text.split()


def test_a_spec_with_a_repository(world: TunnelWorld, server: GitDouble) -> None:
    code = server.add("o/code")
    code.commit(train="1")
    commit = code.commit(train="2")
    url = f"{server.url}/o/code.git"
    cluster = world.up(
        rest=f"\nworkdir: {{url: '{url}', ref: main}}\nnum_nodes: 2\nsetup: cp train ~/seen\n"
    )
    assert there(cluster, "cat ~/seen; " + NOW) == ["2", commit, "1", url]
    assert there(
        cluster, "cd ~/sky_workdir; git branch --show-current; git rev-parse --abbrev-ref @{u}"
    ) == ["main", "origin/main"]
    assert sorted(bring(world, url, "main")) == [
        f"code: o/code at {commit[:7]} (main) on dev node {n}" for n in (0, 1)
    ]
    assert bring(world, url, commit)
    assert there(cluster, NOW) == [commit, "1", url]


def test_refs_of_all_kinds_one_after_the_other(world: TunnelWorld, server: GitDouble) -> None:
    code = server.add("o/code")
    first = code.commit(a="1")
    code.git("tag", "-a", "-m", "x", "v1")
    second = code.commit(a="2")
    code.git("checkout", "-q", "-b", "feature/x")
    third = code.commit(a="3")
    code.git("checkout", "-q", "main")
    last = code.commit(a="4")
    cluster, url = world.up(), f"{server.url}/o/code.git"
    for ref, commit in [
        ("v1", first),
        ("feature/x", third),
        (second, second),
        ("", last),
        (first[:9], first),
        ("refs/tags/v1", first),
    ]:
        bring(world, url, ref)
        assert there(cluster, "cd ~/sky_workdir; git rev-parse HEAD; git status --porcelain") == [
            commit
        ], ref
    with pytest.raises(RepositoryError, match="no branch, tag or commit") as caught:
        bring(world, url, "nothere")
    assert caught.value.code == "git.ref"
    assert there(cluster, "cd ~/sky_workdir; git rev-parse HEAD") == [first]


def test_a_branch_that_moves_is_followed_and_what_runs_left_there_stays(
    world: TunnelWorld, server: GitDouble
) -> None:
    code = server.add("o/code")
    code.commit(a="1")
    cluster, url = world.up(), f"{server.url}/o/code"
    bring(world, url, "main")
    there(
        cluster,
        "echo mine > ~/sky_workdir/result; echo x > ~/sky_workdir/kept.log;"
        " echo '*.log' > ~/sky_workdir/.git/info/exclude",
    )
    commit = code.commit(a="2")
    assert bring(world, url, "main") == [f"code: o/code at {commit[:7]} (main)"]
    assert there(cluster, "cd ~/sky_workdir; cat a result kept.log") == ["2", "mine", "x"]
    code.git("commit", "-q", "--amend", "-m", "other")
    commit = code.push()
    assert bring(world, url, "main") == [f"code: o/code at {commit[:7]} (main)"]
    newer = code.commit(kept_dot_log="theirs")
    assert "would be written over" in bring(world, url, "main")[1]
    assert there(cluster, "cd ~/sky_workdir; cat kept.log; git rev-parse HEAD") == ["x", commit]
    there(cluster, "rm ~/sky_workdir/kept.log")
    assert bring(world, url, "main") == [f"code: o/code at {newer[:7]} (main)"]


@pytest.mark.parametrize(
    ("work", "why"),
    [
        ("echo mine > a", "1 file is changed there"),
        (
            "git -c user.name=a -c user.email=b commit -q --allow-empty -m mine",
            "commits were made there",
        ),
        (
            "git checkout -q -b own;"
            " git -c user.name=a -c user.email=b commit -q --allow-empty -m mine",
            "commits were made there",
        ),
    ],
)
def test_work_done_there_is_never_thrown_away(
    world: TunnelWorld, server: GitDouble, work: str, why: str
) -> None:
    code = server.add("o/code")
    code.commit(a="1")
    cluster, url = world.up(), f"{server.url}/o/code.git"
    bring(world, url)
    before = there(cluster, f"cd ~/sky_workdir; {work}; git rev-parse HEAD; cat a")
    code.commit(a="2")
    said = bring(world, url)
    assert why in said[1]
    assert "to update it" in said[1]
    assert there(cluster, "cd ~/sky_workdir; git rev-parse HEAD; cat a") == before


def test_a_branch_with_own_commits_is_kept_when_another_is_checked_out(
    world: TunnelWorld, server: GitDouble
) -> None:
    code = server.add("o/code")
    code.commit(a="1")
    code.git("branch", "other")
    code.push()
    cluster, url = world.up(), f"{server.url}/o/code.git"
    bring(world, url, "main")
    own = "git -c user.name=a -c user.email=b commit -q --allow-empty -m mine"
    before = there(
        cluster,
        f"cd ~/sky_workdir; {own}; git rev-parse main; git checkout -q --detach origin/main",
    )
    assert "branch main has commits" in bring(world, url, "main")[1]
    bring(world, url, "other")
    assert there(cluster, "cd ~/sky_workdir; git rev-parse main; git branch --show-current") == [
        *before,
        "other",
    ]


def test_another_thing_in_its_place_is_an_error(world: TunnelWorld, server: GitDouble) -> None:
    code = server.add("o/code")
    code.commit(a="1")
    cluster, url = world.up(), f"{server.url}/o/code.git"
    there(cluster, "mkdir ~/sky_workdir; echo x > ~/sky_workdir/mine")
    with pytest.raises(RepositoryError, match="no git repository") as caught:
        bring(world, url)
    assert (caught.value.code, "mv ~/sky_workdir" in caught.value.hint) == ("git.place", True)
    there(
        cluster, "cd ~/sky_workdir; git init -q; git remote add origin https://me:s3cr3t@host/x.git"
    )
    with pytest.raises(RepositoryError, match="another repository") as caught:
        bring(world, url)
    assert "s3cr3t" not in str(caught.value)
    assert there(
        cluster, "cat ~/sky_workdir/mine; cd ~; ls -d sky_workdir .nbprov/clone 2>/dev/null || true"
    ) == ["x", "sky_workdir"]


def test_a_private_repository_is_cloned_here(
    world: TunnelWorld, server: GitDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.password = "s3cr3t-w0rd"
    code = server.add("o/code")
    first = code.commit(a="1" * 1000)
    code.git("tag", "-a", "-m", "x", "v1")
    second = code.commit(a="2")
    cluster, url = world.up(rest="\nnum_nodes: 2"), f"{server.url}/o/code.git"
    with pytest.raises(RepositoryError) as caught:
        bring(world, url)
    assert caught.value.code == "git.denied"
    helper = tmp_path / "helper"
    helper.write_text("#!/bin/sh\necho username=me\necho password=s3cr3t-w0rd\n")
    helper.chmod(0o755)
    for name, value in (("COUNT", "1"), ("KEY_0", "credential.helper"), ("VALUE_0", str(helper))):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    for ref, commit in [("main", second), ("v1", first), (second[:10], second), (first, first)]:
        said = bring(world, url, ref)
        assert "since cloning it takes a log-in" in said[0], ref
        assert there(cluster, NOW) == [commit, "1", url], ref
        assert len(bring(world, url, ref)) == 2, "nothing is sent a second time"
    third = code.commit(a="3")
    bring(world, url, "main")
    assert there(cluster, NOW) == [third, "1", url]
    assert (
        there(
            cluster, "grep -rl 's3cr3t-w[0]rd' ~; ls ~/.nbprov | grep -e bundle -e 'clone$' || true"
        )
        == []
    )


def test_submodules_come_by_https_alone(world: TunnelWorld, server: GitDouble) -> None:
    part, code, cluster = server.add("o/part"), server.add("o/code"), world.up()
    part.commit(p="1")
    code.git("submodule", "add", "-q", "--name", "good", f"{server.url}/o/part.git", "good")
    own = "git init -q ~/own && cd ~/own"
    own += " && git -c user.name=a -c user.email=b commit -q --allow-empty -m x"
    place, commit = there(cluster, f"{own} && pwd && git rev-parse HEAD")
    code.git("config", "--file", ".gitmodules", "submodule.bad.path", "bad")
    code.git("config", "--file", ".gitmodules", "submodule.bad.url", f"file://{place}")
    code.git("update-index", "--add", "--cacheinfo", f"160000,{commit},bad")
    (code.folder / "bad").mkdir()
    code.commit(a="1", _dot_gitattributes="*.bin filter=lfs")
    said = bring(world, f"{server.url}/o/code.git")
    assert ["bad" in said[1], "good" in said[1], "Git LFS" in said[2]] == [True, False, True]
    assert there(cluster, "cd ~/sky_workdir; cat good/p; ls bad; git status --porcelain") == ["1"]


def test_an_ssh_address_goes_by_the_persons_own_ssh(
    world: TunnelWorld, server: GitDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = server.add("o/code")
    commit = code.commit(a="1")
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\nfor last; do :; done\ncd {server.root} && eval exec $last\n")
    ssh.chmod(0o755)
    cluster = world.up()
    monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
    bring(world, "git@host.example:o/code.git")
    assert there(cluster, NOW) == [commit, "1", "git@host.example:o/code.git"]


def test_nothing_of_a_clone_that_was_stopped_stays(world: TunnelWorld, server: GitDouble) -> None:
    code = server.add("o/code")
    commit = code.commit(a="1")
    cluster, url = world.up(), f"{server.url}/o/code.git"
    server.answers.clear()

    async def carry_out() -> None:
        live = await world.session.engine.attach("dev")
        async with RepositoryCheckout(live, Repository(url), print, print) as working:
            await working.bring(0)

    running = world.session.engine.thread.call(carry_out())
    until(lambda: server.seen, "the machine's git asks")
    running.cancel()
    until(
        lambda: subprocess.run(["pgrep", "-f", url], capture_output=True).returncode == 1,
        "the machine's git has ended",
    )
    server.answers.set()
    bring(world, url)
    assert there(cluster, NOW) == [commit, "1", url]


@pytest.mark.parametrize(
    ("limit", "seconds", "words"),
    [
        ("STALL_SECONDS", 0.2, "said nothing"),
        ("SLOW_SECONDS", 1, "less than 1 kB a second for 1 s"),
    ],
)
def test_git_that_moves_nothing_is_ended(
    server: GitDouble,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    seconds: float,
    words: str,
) -> None:
    monkeypatch.setattr(git_commands, limit, seconds)
    server.answers.clear()
    with pytest.raises(SyncFailure) as caught:
        git_commands.resolve(Git(str(tmp_path), protocols="http"), f"{server.url}/o/code.git", "")
    assert caught.value.code == "stalled"
    assert words in str(caught.value)


def test_git_is_installed_where_it_is_missing(
    server: GitDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = server.add("o/code")
    commit = code.commit(a="1")
    tools, git = tmp_path / "bin", shutil.which("git")
    tools.mkdir()
    os.symlink("/bin/sh", tools / "sh")
    for name, script in (
        ("sudo", 'shift; exec "$@"'),
        ("apt-get", f'case "$*" in *install*) /bin/ln -s {git} {tools}/git;; esac'),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tools))
    asked = {
        "url": f"{server.url}/o/code.git",
        "ref": "",
        "folder": "sky_workdir",
        "install": False,
    }
    with pytest.raises(SyncFailure) as caught:
        Checkout(asked, lambda **_: None).carry_out()
    assert caught.value.code == "git"
    assert Checkout({**asked, "install": True}, lambda **_: None).carry_out()["commit"] == commit
    assert (tmp_path / "sky_workdir/a").read_text() == "1\n"


def test_protocols_that_run_programs_or_read_files_are_not_spoken(tmp_path: Path) -> None:
    for url in (
        "ext::sh -c 'touch hit'",
        f"file://{tmp_path}",
        str(tmp_path),
        "http://host.example/x",
    ):
        with pytest.raises(SyncFailure, match="not allowed"):
            git_commands.resolve(Git(str(tmp_path)), url, "")
    assert not (tmp_path / "hit").exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (
            "fatal: could not read Username for 'https://github.com': terminal prompts disabled",
            "login",
        ),
        (
            "remote: HTTP Basic: Access denied\nfatal: Authentication failed for"
            " 'https://gitlab.com/o/r.git/'",
            "login",
        ),
        (
            "fatal: unable to access 'https://h/o/r.git/': The requested URL returned error: 403",
            "login",
        ),
        (
            "git@github.com: Permission denied (publickey).\n"
            "fatal: Could not read from remote repository.",
            "login",
        ),
        ("fatal: unable to access 'https://h/o/r.git/': Could not resolve host: h", "road"),
        ("fatal: write error: No space left on device", "full"),
        ("fatal: something else", "failed"),
    ],
)
def test_complaints_of_git(words: str, code: str) -> None:
    assert trouble_of_git(words).code == code


def test_a_password_in_a_complaint_is_not_repeated() -> None:
    assert (
        "s3cr3t" not in trouble_of_git("fatal: unable to access 'https://me:s3cr3t@h/x': error").why
    )


def test_the_login_of_a_proxy_in_a_complaint_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://corpuser:Sup3r#Secret@proxy:8080")
    clone = _LocalClone(Repository("https://git.example/code", ""), print)
    with pytest.raises(SyncFailure) as raised:
        asyncio.run(clone.wanted())
    clone.close()
    assert "Unsupported proxy syntax" in raised.value.why
    assert not any(part in raised.value.why for part in ("corpuser", "Sup3r", "Secret"))
