"""Completion at the cursor, marked `¦`, in cells that are still being written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbprov.spec import KeyContext, keys_at


def at(marked: str) -> KeyContext:
    offset = marked.index("¦")
    before = marked[:offset]
    return keys_at(
        before + marked[offset + 1 :], before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
    )


def offered(marked: str) -> list[str]:
    context = at(marked)
    return [f.name for f in context.keys if f.name.startswith(context.prefix)]


@pytest.mark.parametrize(
    ("text", "path", "some"),
    [
        ("¦", (), ["resources", "run", "setup"]),
        ("name: x\n¦\nrun: y", (), ["resources", "setup", "envs"]),
        ("resources:\n  ¦", ("resources",), ["accelerators", "infra", "cpus"]),
        ("resources:\n  gpus: L4\n  ¦", ("resources",), ["infra", "cpus"]),
        ("resources:\n  ¦\n  infra: aws\nrun: x", ("resources",), ["accelerators", "cpus"]),
        ("resources: {infra: aws, ¦", ("resources",), ["accelerators", "cpus"]),
        ("resources: {\n  gpus: L4,\n  ¦", ("resources",), ["infra", "cpus"]),
        ("resources:\n  any_of:\n  - ¦", ("resources", "any_of", "[]"), ["accelerators", "infra"]),
        (
            "resources:\n  any_of:\n    - infra: aws\n      ¦",
            ("resources", "any_of", "[]"),
            ["accelerators", "cpus"],
        ),
        (
            "resources: {any_of: [{infra: aws}, {¦",
            ("resources", "any_of", "[]"),
            ["accelerators", "infra"],
        ),
        ("resources:\n- infra: aws\n  ¦", ("resources", "[]"), ["accelerators", "cpus"]),
        ("resources:\n  autostop:\n    ¦", ("resources", "autostop"), ["idle_minutes", "down"]),
        (
            "resources:\n  autostop: {idle_minutes: 5, ¦",
            ("resources", "autostop"),
            ["down", "wait_for"],
        ),
        ("budget: {¦", ("budget",), ["total", "warn"]),
        ("nbprov:\n  ¦", ("nbprov",), ["max_lifetime", "budget"]),
        ("race:\n  ¦", ("race",), ["width", "hedge"]),
        ("nbprov:\n  wait: {¦", ("nbprov", "wait"), ["for", "notify"]),
        ("confirm_above: {jump: 20%, ¦", ("confirm_above",), ["hourly", "total"]),
        ("health:\n  command: x\n  ¦", ("health",), ["http", "every"]),
        ("config:\n  docker:\n    ¦", ("config", "docker"), ["run_options"]),
        ("config:\n  hooks:\n  - ¦", ("config", "hooks", "[]"), ["run", "events"]),
        ("file_mounts:\n  /data:\n    ¦", ("file_mounts", "/data"), ["source", "mode"]),
        ("resources:\n  region:\n    ¦", ("resources", "region"), ["allow", "deny", "prefer"]),
        ("resources:\n  job_recovery:\n    ¦", ("resources", "job_recovery"), ["strategy"]),
        ("setup: |\n  pip install x\n¦", (), ["resources", "run", "name"]),
        ("resources:\n  cpus: 4\n\n# a comment\n¦", (), ["run", "setup", "name"]),
    ],
)
def test_keys(text: str, path: tuple[str, ...], some: list[str]) -> None:
    context = at(text)
    assert context.path == path
    assert [f.name for f in context.keys][: len(some)] == some
    assert context.field == ""


def test_prefixes() -> None:
    assert offered("resources:\n  use¦") == ["use_spot"]
    assert offered("max¦") == ["max_lifetime"]
    assert offered("resources: {cpus: 4, disk_s¦") == ["disk_size"]
    assert "any_of" not in offered("resources:\n  any_of:\n  - a¦")


@pytest.mark.parametrize(
    ("text", "field", "prefix"),
    [
        ("resources:\n  accelerators: A1¦", "accelerators", "A1"),
        ("resources:\n  gpus: ¦", "accelerators", ""),
        ("resources: {accelerators: A1¦", "accelerators", "A1"),
        ("resources:\n  accelerators: [A100, H¦", "accelerators", "H"),
        ("resources:\n  accelerators: {A100, H¦", "accelerators", "H"),
        ("resources:\n  accelerators:\n  - A100\n  - H¦", "accelerators", "H"),
        ("resources:\n  infra: aws/us¦", "infra", "aws/us"),
        ("resources:\n  region:\n    - ¦", "region", ""),
        ("resources:\n  any_of:\n  - infra: gc¦", "infra", "gc"),
        ("resources: {any_of: [{cloud: a¦", "cloud", "a"),
        ("run: |\n  python ¦", "run", ""),
        ("workdir: ¦", "workdir", ""),
    ],
)
def test_values(text: str, field: str, prefix: str) -> None:
    context = at(text)
    assert (context.field, context.prefix, context.keys) == (field, prefix, ())


def test_words_of_a_field() -> None:
    assert at("resources:\n  use_spot: ¦").values == ("true", "false", "prefer")
    assert at("resources:\n  autostop: {wait_for: j¦").values == ("jobs_and_ssh", "jobs", "none")
    assert at("prefer: ¦").values == ("cheapest", "soonest", "balanced")
    assert at("nbprov: {engine: d¦").values == ("dask", "ray", "none")
    assert at("budget: {total: 5, at_limit: ¦").values == ("down", "stop")
    assert at("health:\n  on_fail: ¦").values == ("report", "replace", "down")
    assert at("config:\n  hooks:\n  - events: [st¦").values == ("stop", "down", "preemption")


def test_nothing_in_comments() -> None:
    assert at("# res¦") == KeyContext()
    assert at("resources:\n  cpus: 4 # res¦").keys == ()


@given(
    st.text(alphabet="resources:any_of{}[]-,#'\"|> \n\tA1", max_size=80),
    st.integers(-2, 12),
    st.integers(-2, 40),
)
@settings(max_examples=200, deadline=None)
def test_it_never_fails(text: str, line: int, column: int) -> None:
    assert isinstance(keys_at(text, line, column), KeyContext)
