"""What a sync decides from two listings, and how it says so."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbprov.machines.files.folder_sync import ended, remote_folder, summary
from nbprov.model.errors import UsageError
from nbprov.notebook.commands.sync import split_path
from nbprov.on_machine.sync_files import STALE_SECONDS, Rules, SyncFolder
from nbprov.on_machine.sync_protocol import Frames, Skip
from nbprov.on_machine.sync_sender import outgoing
from nbprov.remote.sync.gitignore import IgnoreRules
from nbprov.remote.sync.listing import ListedPath, SyncListing, apart
from nbprov.remote.sync.plan import Direction, SyncPlan, SyncRecord, decide, to_compare
from nbprov.remote.sync.records import load, save
from nbprov.remote.sync.sync import SyncResult

NAMES = [f"{letter}.csv" for letter in "abcdef"]


def file(name: str, size: int = 1, mtime: int = 1, **more: Any) -> ListedPath:
    return ListedPath(
        name,
        more.get("kind", "f"),
        size,
        mtime,
        mtime,
        more.get("mode", 0o644),
        more.get("link", ""),
    )


def listing(*entries: ListedPath, **more: Any) -> SyncListing:
    return SyncListing({entry.name: entry for entry in entries}, **more)


def known(mine: ListedPath, theirs: ListedPath, **more: Any) -> dict[str, SyncRecord]:
    return {mine.name: SyncRecord(mine.stamp, theirs.stamp, "d", **more)}


def test_size_and_time_are_believed_only_where_a_digest_was_taken_before() -> None:
    mine, theirs = file("a", mtime=5), file("a", mtime=5)
    assert to_compare(listing(mine), listing(theirs), {}) == ["a"]
    assert to_compare(listing(mine), listing(theirs), known(mine, theirs)) == []
    assert to_compare(listing(mine), listing(theirs), known(mine, theirs, is_sure=False)) == ["a"]
    assert to_compare(listing(mine), listing(file("a", mtime=6)), known(mine, theirs)) == ["a"]
    assert to_compare(listing(mine), listing(file("a", size=2)), {}) == [], (
        "another size is another content"
    )


@pytest.mark.parametrize("direction", list(Direction))
def test_what_is_the_same_is_left(direction: Direction) -> None:
    plan = decide(
        direction, listing(file("a")), listing(file("a", mtime=9)), {}, ["a"], delete=True
    )
    assert plan.is_empty
    assert plan.same == ("a",)


def test_a_push_takes_what_is_here_and_says_what_is_newer_there() -> None:
    here, there = listing(file("a", 1, 5), file("b", 3)), listing(file("a", 2, 9), file("c"))
    plan = decide(Direction.PUSH, here, there, {}, [])
    assert ([e.name for e in plan.up], plan.down, plan.replaced, plan.newer, plan.delete_there) == (
        ["a", "b"],
        (),
        ("a",),
        ("a",),
        (),
    )
    assert decide(Direction.PUSH, here, there, {}, [], delete=True).delete_there == ("c",)


@pytest.mark.usefixtures("bare_names")
def test_a_pull_is_the_mirror_of_a_push() -> None:
    plan = decide(
        Direction.PULL,
        listing(file("c")),
        listing(file("a"), file("s", kind="l", link="a")),
        {},
        [],
        delete=True,
    )
    assert ([e.name for e in plan.down], plan.up, plan.delete_here) == (["a", "s"], (), ("c",))


def test_both_ways_the_side_that_changed_wins_and_both_is_a_conflict() -> None:
    mine, theirs = file("a", 1, 1), file("a", 1, 1)
    base = known(mine, theirs)
    changed = file("a", 2, 7)
    assert decide(Direction.BOTH, listing(changed), listing(theirs), base, []).up == (changed,)
    assert decide(Direction.BOTH, listing(mine), listing(changed), base, []).down == (changed,)
    assert decide(
        Direction.BOTH, listing(changed), listing(file("a", 3, 8)), base, []
    ).conflicts == ("a",)
    assert decide(Direction.BOTH, listing(changed), listing(theirs), {}, []).conflicts == ("a",), (
        "nobody knows who changed it"
    )


def test_folders_and_files_do_not_take_each_others_place() -> None:
    plan = decide(
        Direction.PUSH, listing(file("a", kind="d")), listing(file("a")), {}, [], delete=True
    )
    assert plan.is_empty
    assert plan.skipped == (("a", "a folder on one side, and none on the other"),)


def test_nothing_is_deleted_where_the_source_is_not_known_whole() -> None:
    there = listing(file("a"), file("b"))
    for source in (
        listing(file("a"), is_whole=False),
        listing(file("a"), more_skipped=1),
        listing(),
    ):
        plan = decide(Direction.PUSH, source, there, {}, ["a"], delete=True)
        assert plan.delete_there == ()
        assert plan.notes[0].startswith("nothing is deleted: the folder here ")


def test_what_is_skipped_at_the_source_and_what_holds_it_is_not_deleted() -> None:
    there = listing(
        file("d", kind="d"), file("d/pipe"), file("d/old"), file("e", kind="d"), file("e/x")
    )
    plan = decide(
        Direction.PUSH,
        listing(file("z"), skipped=(("d/pipe", "why"), ("e", "why"))),
        there,
        {},
        [],
        delete=True,
    )
    assert plan.delete_there == ()
    assert decide(
        Direction.PUSH, listing(file("z"), skipped=(("f", "why"),)), there, {}, [], delete=True
    ).delete_there


def test_only_the_right_to_run_travels_without_the_content() -> None:
    here, there = listing(file("a", mode=0o755)), listing(file("a", mode=0o644))
    assert [e.name for e in decide(Direction.PUSH, here, there, {}, ["a"]).modes_up] == ["a"]
    assert decide(Direction.PUSH, here, there, {}, ["a"], modes=False).is_empty
    assert decide(Direction.PUSH, listing(file("a", mode=0o666)), there, {}, ["a"]).is_empty


ENTRIES = st.dictionaries(
    st.sampled_from(NAMES), st.tuples(st.integers(1, 2), st.integers(1, 3)), max_size=6
)


@given(
    ENTRIES,
    ENTRIES,
    st.sets(st.sampled_from(NAMES)),
    st.sampled_from(list(Direction)),
    st.booleans(),
)
def test_no_name_is_both_moved_and_deleted_and_none_is_lost(
    mine: Any, theirs: Any, base: Any, direction: Direction, delete: bool
) -> None:
    here = listing(*(file(name, *numbers) for name, numbers in mine.items()))
    there = listing(*(file(name, *numbers) for name, numbers in theirs.items()))
    memory = {name: SyncRecord((1, 1, 1), (1, 1, 1), "d") for name in base}
    plan = decide(direction, here, there, memory, [], delete=delete)
    up, down = {e.name for e in plan.up}, {e.name for e in plan.down}
    gone = {*plan.delete_here, *plan.delete_there}
    assert not up & down
    assert not gone & (up | down)
    assert delete or not gone
    assert not (direction is Direction.PUSH and (down or plan.delete_here))
    assert not (direction is Direction.PULL and (up or plan.delete_there))
    source = {
        Direction.PUSH: set(mine),
        Direction.PULL: set(theirs),
        Direction.BOTH: set(mine) | set(theirs),
    }[direction]
    assert source == up | down | set(plan.same) | set(plan.conflicts) | (gone & source)


@given(
    st.text("ab/*?[]!.\\ #", max_size=12), st.text("ab/.", min_size=1, max_size=8), st.booleans()
)
def test_rules_that_travel_mean_what_they_mean_here(line: str, name: str, is_folder: bool) -> None:
    rules = IgnoreRules.parse(line)
    travelled = Rules(
        [[rule.matcher.pattern, rule.is_negated, rule.folders_only] for rule in rules.rules]
    )
    assert travelled.ignores(name, is_folder) == rules.ignores(name, is_folder=is_folder)


def test_an_unfinished_file_nobody_comes_back_for_goes(tmp_path: Path) -> None:

    folder = SyncFolder(str(tmp_path))
    old, young = (
        Path(folder.part_path("old", make=True)),
        Path(folder.part_path("young", make=True)),
    )
    for part in (old, young):
        part.write_text("x")
    past = time.time() - STALE_SECONDS - 60
    os.utime(old, (past, past))
    assert folder.survey(Rules([])).rows == []
    assert (old.exists(), young.exists()) == (False, True)


def test_memory_survives_and_damage_to_it_costs_nothing(tmp_path: Path) -> None:
    memory = tmp_path / "deep" / "one.json"
    one = {
        "a\udcff": SyncRecord((1, 2, 3), (4, 5, 6), "d", False),
        "gone": SyncRecord((1, 1, 1), (1, 1, 1), "d"),
    }
    save(memory, one, {"a\udcff"})
    assert load(memory) == {"a\udcff": one["a\udcff"]}
    assert memory.stat().st_mode & 0o077 == 0
    assert [path.name for path in memory.parent.iterdir()] == ["one.json"]
    for text in (
        "",
        "[]",
        '{"files": 3}',
        '{"files": {"a": [1]}}',
        '{"files": {"a": [["x"], [], 1, 1]}}',
    ):
        memory.write_text(text)
        assert load(memory) == {}
    assert load(None) == load(tmp_path / "nothing") == {}


def test_the_summary_names_the_largest_and_hides_nothing() -> None:
    plan = SyncPlan(
        Direction.PUSH,
        up=tuple(
            file(name, size * 1_000_000)
            for name, size in (("a", 1), ("b\x1b[2J", 400), ("c", 3), ("d", 2))
        ),
        replaced=("a", "c"),
        newer=("a",),
        same=("x", "y"),
        skipped=(
            ("p", "may not be read"),
            ("q", "may not be read"),
            ("l", "a link that leads out of the folder"),
        ),
        ignored=("build/",),
        ignored_count=7,
        delete_there=tuple(f"f{n:02}" for n in range(60)),
        notes=("a note",),
    )
    lines = summary(plan, "x", "~/x", "dev", dry=True)
    assert lines[0] == (
        "x to ~/x on dev: 4 files, 406 MB (2 new, 2 replaced, 1 of them newer where it is"
        " replaced), 2 are the same; a dry run, nothing is changed"
    )
    assert lines[1] == "  largest: b\\x1b[2J 400 MB, c 3.0 MB, d 2.0 MB"
    assert lines[2] == "  ignored by the folder's ignore file, or .git: 7 (build/, …)"
    assert lines[3:5] == [
        "  skipped, may not be read: 2 (p, q)",
        "  skipped, a link that leads out of the folder: 1 (l)",
    ]
    assert lines[5].startswith("  would be deleted there: 60 (f00, f01, ")
    assert lines[5].endswith(", f49, and 10 more)")
    assert lines[6] == "  a note"


def test_a_flood_of_names_makes_a_short_summary() -> None:
    plan = SyncPlan(Direction.PULL, skipped=tuple((f"n{i}" * 50, f"why {i}") for i in range(1000)))
    assert sum(map(len, summary(plan, "x" * 10_000, "y" * 10_000, "dev"))) < 30_000


def test_what_was_done_in_one_line() -> None:
    plan = SyncPlan(Direction.PUSH, up=(file("a", 5_000_000),))
    assert (
        ended(SyncResult(plan, 1, 5_000_100, 0, 1.25))
        == "1 file moved and verified, 5.0 MB over the line, 1.2 s"
    )
    assert ended(SyncResult(SyncPlan(Direction.PUSH))) == "in step"


def test_paths_and_their_defaults() -> None:
    assert split_path("a b:~/c:d") == ("a b", "~/c:d")
    for text in (":x", "x:", ":"):
        with pytest.raises(UsageError):
            split_path(text)
    assert [remote_folder(here, "") for here in ("a/b", "a/b/", "./a", "~", ".", "/")] == [
        "~/b",
        "~/b",
        "~/a",
        "~/sky_workdir",
    ] + ["~/sky_workdir"] * 2
    with pytest.raises(UsageError):
        remote_folder("..", "")


@pytest.mark.parametrize(
    ("later", "ends"),
    [(b"x" * 900_000, True), (b"y" * 600_000, False), (b"x" * 10, False)],
    ids=["grows", "changes", "shrinks"],
)
def test_a_file_that_changes_while_it_is_read_is_whole_or_says_so(
    tmp_path: Path, later: bytes, ends: bool
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 600_000)
    os.utime(path, ns=(1, 1))
    pieces = outgoing(SyncFolder(str(tmp_path)), [["log", 0, 600_000, 1, 0o644]])
    begun = [next(pieces), next(pieces)]
    path.write_bytes(later)
    frames = [frame for piece in (*begun, *pieces) for frame in Frames().feed(piece)]
    assert ("digest" in frames[-1]) is ends
    assert frames[-1].get("code", "") == ("" if ends else "changed")
    if ends:
        assert sum(len(frame) for frame in frames if isinstance(frame, bytes)) == 600_000


@pytest.mark.parametrize("direction", [Direction.PULL, Direction.BOTH])
def test_no_machine_writes_or_removes_an_ignore_file_here(direction: Direction) -> None:
    ours, theirs = file(".gitignore"), file("sub/.GITIGNORE")
    base = known(ours, ours) if direction is Direction.BOTH else {}
    plan = decide(
        direction,
        listing(ours, file("a")),
        listing(file(".nbprovignore"), theirs),
        base,
        [],
        delete=True,
        keep_names=True,
    )
    assert [entry.name for entry in plan.down] == ["sub/.GITIGNORE"], (
        "only the ones at the top decide"
    )
    assert ".gitignore" not in plan.delete_here
    assert {name for name, why in plan.skipped if "ignore file" in why} == {
        ".nbprovignore",
        ".gitignore",
    }


@pytest.mark.usefixtures("bare_names")
def test_names_that_differ_in_case_alone_are_left_alone_on_both_sides() -> None:
    here, there = apart(
        listing(file("Data.csv"), file("a")), listing(file("data.csv"), file("a"), file("b"))
    )
    assert (list(here.entries), list(there.entries)) == (["a"], ["a", "b"])
    plan = decide(Direction.PULL, here, there, {}, ["a"], delete=True)
    assert ([entry.name for entry in plan.down], plan.delete_here) == (["b"], ())
    assert {name for name, _ in plan.skipped} == {"Data.csv", "data.csv"}


def test_what_lies_below_names_that_differ_in_case_stays_with_them() -> None:
    here, there = apart(
        listing(file("Logs", kind="d"), file("Logs/x")),
        listing(file("logs", kind="d"), file("logs/x")),
    )
    assert (dict(here.entries), dict(there.entries)) == ({}, {})


def test_a_git_folder_is_left_out_wherever_it_lies() -> None:
    assert Rules([]).ignores("sub/.git", True)
    assert IgnoreRules().ignores("sub/deep/.git", is_folder=True)
    assert not Rules([]).ignores("sub/.github", True)


@pytest.mark.parametrize("direction", [Direction.PULL, Direction.BOTH])
def test_what_is_here_may_be_changed_and_what_is_new_runs_nothing(direction: Direction) -> None:
    ours, theirs = file("run.py"), file("run.py", 2, 2)
    new = ("conftest.py", "data.csv", "bare/HEAD", "own.git/config", ".envrc")
    here = listing(ours, file("own.git/HEAD"), file("own.git/objects", kind="d"))
    there = listing(theirs, *map(file, new), file("x.sh", mode=0o755), file(".vscode", kind="d"))

    def plan(*, keep_names: bool) -> SyncPlan:
        return decide(direction, here, there, known(ours, ours), [], keep_names=keep_names)

    held = plan(keep_names=False)
    assert [entry.name for entry in held.down] == ["data.csv", "run.py"]
    assert held.replaced == ("run.py",)
    why = dict(held.skipped)
    assert {why[name] for name in ("conftest.py", ".envrc", "x.sh", ".vscode")} == {Skip.RUNS}
    kept = plan(keep_names=True)
    assert [e.name for e in kept.down if e.kind == "f"] == [
        *(".envrc", "conftest.py", "data.csv", "run.py", "x.sh")
    ]
    assert {dict(p.skipped)[n] for p in (held, kept) for n in ("bare/HEAD", "own.git/config")} == {
        Skip.REPOSITORY
    }
