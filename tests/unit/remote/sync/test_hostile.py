"""A machine that lies: crafted listings, frames and whole conversations never write outside the
folder, flood, or move a cursor.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hostile_sync import hostile_python
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nbprov.on_machine.sync_files import Rules, SyncFolder
from nbprov.on_machine.sync_protocol import (
    Frames,
    SyncFailure,
    message,
    new_digest,
    why_not_link,
    why_not_name,
)
from nbprov.on_machine.sync_receiver import Receiver
from nbprov.remote.sync import client
from nbprov.remote.sync.errors import SyncError, shown
from nbprov.remote.sync.gitignore import IgnoreRules
from nbprov.remote.sync.listing import ListedPath, checked_entry, taken_here
from nbprov.remote.sync.options import SyncOptions
from nbprov.remote.sync.plan import Direction
from nbprov.remote.sync.sync import sync

NO_RULES = Rules([])
BAD_NAMES = [
    "",
    ".",
    "..",
    "/etc/passwd",
    "a/../../b",
    "../x",
    "a//b",
    "a/./b",
    "a/",
    "/",
    "x\x1b[2J",
    "x\ny",
    "x\0y",
    "\x9b31m",
    "x" * 5000,
]
BAD_LINKS = [
    ("a", "/etc"),
    ("a", ".."),
    ("a/b", "../.."),
    ("a", "x/../../y"),
    ("a/b/c", "q/../../z"),
    ("a", ""),
    ("a", "C:\\x"),
    ("a", "\\\\host\\x"),
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_lead_out_or_move_a_cursor_are_refused(name: str, tmp_path: Path) -> None:
    assert why_not_name(name)
    taken, refused = taken_here([_entry(name)], NO_RULES, windows=False, folds=False)
    assert (taken, len(refused)) == ({}, 1)
    with pytest.raises(SyncFailure):
        SyncFolder(str(tmp_path)).place(name, make=True)


@pytest.mark.parametrize(("name", "target"), BAD_LINKS)
def test_links_that_lead_out_are_refused_however_they_wind(name: str, target: str) -> None:
    assert why_not_link(name, target)


def test_links_that_stay_inside_are_taken() -> None:
    assert [
        why_not_link(*pair)
        for pair in [("a", "b"), ("a/b", "../c"), ("a/b/c", "../../x/y"), ("a", "b/c")]
    ] == [""] * 4


def test_what_windows_cannot_have_and_git_folders_are_left() -> None:
    names = [
        "a:b",
        "con",
        "LPT1.txt",
        "ends.",
        "fine.txt",
        "sub/.git/config",
        "sub/.GIT/hooks/x",
        "what?",
        "git~1/x",
    ]
    taken, refused = taken_here(map(_entry, names), NO_RULES, windows=True, folds=True)
    assert list(taken) == ["fine.txt"]
    assert len(refused) == 8
    taken, refused = taken_here(
        map(_entry, ["Read", "READ", "caf\u00e9", "cafe\u0301"]),
        NO_RULES,
        windows=False,
        folds=True,
    )
    assert (list(taken), len(refused)) == (["Read", "caf\u00e9"], 2)


def test_git_folders_that_only_look_otherwise_are_left() -> None:
    names = [".g\u200cit/config", "a/.Git/x", ".git /x", ".gitignore", "git", ".github/x"]
    assert list(
        taken_here([_folder(".github"), *map(_entry, names)], NO_RULES, windows=False, folds=False)[
            0
        ]
    ) == [".github", *names[3:]]


def test_what_is_ignored_here_is_not_taken_from_a_machine_that_lists_it_all_the_same() -> None:
    rules = Rules(
        [
            [rule.matcher.pattern, rule.is_negated, rule.folders_only]
            for rule in IgnoreRules.parse("build/\n.env\n").rules
        ]
    )
    listed = [_folder("a"), *map(_entry, [".env", "build/deep/x", "a/.env", "a/build", "b"])]
    taken, refused = taken_here(listed, rules, windows=False, folds=False)
    assert list(taken) == ["a", "a/build", "b"]
    assert {why for _, why in refused} == {"ignored here, and listed by the machine all the same"}


def test_what_lies_in_no_listed_folder_is_not_taken() -> None:
    taken, refused = taken_here(
        [_entry("a/b/c"), _entry("f"), _entry("f/x"), _folder("d"), _entry("d/e")],
        NO_RULES,
        windows=False,
        folds=False,
    )
    assert list(taken) == ["f", "d", "d/e"]
    assert [name for name, _ in refused] == ["a/b/c", "f/x"]


def test_rules_know_a_name_in_other_letters_where_this_computer_does() -> None:
    rules = [
        [rule.matcher.pattern, rule.is_negated, rule.folders_only]
        for rule in IgnoreRules.parse("secrets/\n").rules
    ]
    listed = [_folder("Secrets"), _entry("Secrets/k")]
    for folds in (True, False):
        taken, _ = taken_here(listed, Rules(rules, folds), windows=False, folds=folds)
        assert list(taken) == ([] if folds else ["Secrets", "Secrets/k"])


def test_names_made_of_folders_alone_are_refused_or_cost_a_line(tmp_path: Path) -> None:
    deep, long = "/".join("a" * 2000), "/".join(["b" * 255] * 15)
    parents = ["/".join(["b" * 255] * n) for n in range(1, 15)]
    taken, refused = taken_here(
        [_entry(deep), *map(_folder, parents), _entry(long)], NO_RULES, windows=False, folds=True
    )
    assert (list(taken), refused) == ([*parents, long], [(deep, "a name that is too long")])
    answers = _fed(
        Receiver(SyncFolder(str(tmp_path)), {long: 1}),
        _put(long, 1),
        b"x",
        {"end": long, "digest": _digest(b"x")},
    )
    assert len(answers) == 1


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.booleans(),
        lambda deeper: st.lists(deeper, max_size=8),
        max_leaves=12,
    )
)
def test_a_malformed_entry_is_foul_and_nothing_else(row: Any) -> None:
    codes, entries = [], []
    try:
        entries.append(checked_entry(row))
    except SyncFailure as trouble:
        codes.append(trouble.code)
    assert codes in ([], ["foul"])
    assert all(entry.size >= 0 for entry in entries)


def test_what_is_shown_holds_no_controls() -> None:
    text = shown("a\x1b]0;t\x07\r\n\u202egnp.exe\x9b\udcff" + "x" * 500)
    assert text.isprintable()
    assert len(text) <= 100


def _folder(name: str) -> ListedPath:
    return ListedPath(name, "d", 0, 0, 0, 0o755, "")


def _entry(name: str, size: int = 1) -> ListedPath:
    return ListedPath(name, "f", size, 0, 0, 0o644, "")


def _put(name: str, size: int, **more: Any) -> dict[str, Any]:
    return {"put": name, "size": size, "offset": 0, "mtime": 0, "mode": 0o6777, **more}


def _pack(*rows: tuple[str, bytes]) -> dict[str, Any]:
    return {"files": [[name, len(data), 0, 0o6777, _digest(data)] for name, data in rows]}


def _digest(data: bytes) -> str:
    made = new_digest()
    made.update(data)
    return str(made.hexdigest())


def _fed(receiver: Receiver, *frames: Any) -> list[Any]:
    return [answer for frame in frames if (answer := receiver.take(frame)) is not None]


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    (tmp_path / "outside").write_text("safe")
    made = tmp_path / "inside"
    made.mkdir()
    return made


@pytest.mark.parametrize(
    "frames",
    [
        [_put("other", 1)],
        [_put("asked", 999)],
        [_put("asked", 3), b"1234"],
        [_put("asked", 3), b""],
        [_put("asked", 3), _put("asked", 3)],
        [_put("asked", 3, offset=9)],
        [_put("asked", 3, offset=True)],
        [_put("asked", 3, mtime="x")],
        [b"data first"],
        [{"end": "asked", "digest": ""}],
        [_put("asked", 3), {"end": "other", "digest": ""}],
        [{"link": "asked", "to": "/etc/passwd"}],
        [{"folder": "../x"}],
        [{"anything": 1}],
        [{"files": []}],
        [{"files": "asked"}],
        [{"files": [["asked", True, 0, 0, ""]]}],
        [{"files": [["asked", 3, 0, "x", ""]]}],
        [_pack(("other", b"new")), b"new"],
        [_pack(("asked", b"new"), ("asked", b"new")), b"newnew"],
        [_pack(("asked", b"more")), b"more"],
        [_pack(("asked", b"new")), b"ne"],
        [_pack(("asked", b"new")), b"newer"],
        [_pack(("asked", b"new")), _put("asked", 3)],
        [_put("asked", 3), _pack(("asked", b"new"))],
    ],
    ids=str,
)
def test_frames_that_break_the_rules_end_it_and_leave_nothing(
    frames: list[Any], inside: Path
) -> None:
    receiver = Receiver(SyncFolder(str(inside)), {"asked": 3})
    with pytest.raises(SyncFailure) as caught:
        _fed(receiver, *frames)
    assert caught.value.code == "foul"
    receiver.close()
    assert list(inside.iterdir()) == []


def test_a_wrong_digest_leaves_the_old_file(inside: Path) -> None:
    (inside / "asked").write_text("old")
    answers = _fed(
        Receiver(SyncFolder(str(inside)), {"asked": 3}),
        _put("asked", 3),
        b"new",
        {"end": "asked", "digest": _digest(b"neW")},
    )
    assert answers == [{"failed": "asked", "code": "digest", "why": "arrived damaged"}]
    assert [(path.name, path.read_text()) for path in inside.iterdir()] == [("asked", "old")]


def test_of_small_files_each_stands_for_itself(inside: Path, tmp_path: Path) -> None:
    (inside / "old").write_text("old")
    (inside / "full").mkdir()
    (inside / "door").symlink_to(tmp_path)
    (inside / "file").symlink_to(tmp_path / "outside")
    names = ("a", "old", "full", "door/x", "file")
    pack = _pack(*((name, b"new") for name in names))
    pack["files"][1][4] = _digest(b"neW")
    (answer,) = _fed(Receiver(SyncFolder(str(inside)), dict.fromkeys(names, 3)), pack, b"new" * 5)
    assert [row[0] for row in answer["took"]] == ["a", "file"]
    assert [(name, code) for name, code, _ in answer["lost"]] == [
        ("old", "digest"),
        ("full", "io"),
        ("door/x", "io"),
    ]
    assert (inside / "old").read_text() == "old"
    assert (tmp_path / "outside").read_text() == "safe"
    assert not (tmp_path / "x").exists()
    assert (inside / "a").stat().st_mode & 0o7022 == 0
    assert sorted(path.name for path in inside.iterdir()) == ["a", "door", "file", "full", "old"]


def test_no_link_on_the_way_is_followed(inside: Path, tmp_path: Path) -> None:
    folder = SyncFolder(str(inside))
    (inside / "door").symlink_to(tmp_path)
    (inside / "file").symlink_to(tmp_path / "outside")
    Path(folder.part_path("trap", make=True)).symlink_to(tmp_path / "outside")
    os.mkfifo(folder.part_path("pipe", make=True))
    receiver = Receiver(folder, {"door/x": 3, "file": 3, "trap": 3, "pipe": 3})
    good = {"digest": _digest(b"new")}
    answers = [
        _fed(receiver, _put(name, 3), b"new", {"end": name, **good})[0]
        for name in ("door/x", "file", "trap", "pipe")
    ]
    assert ["failed" in answer for answer in answers] == [True, False, True, True]
    assert (tmp_path / "outside").read_text() == "safe"
    assert not (tmp_path / "x").exists()
    assert not (inside / "file").is_symlink(), "the link itself was replaced"


def test_no_bits_that_give_rights_come_along(inside: Path) -> None:
    _fed(
        Receiver(SyncFolder(str(inside)), {"asked": 3}),
        _put("asked", 3),
        b"new",
        {"end": "asked", "digest": _digest(b"new")},
    )
    assert (inside / "asked").stat().st_mode & 0o7022 == 0


def test_what_few_may_read_stays_so_and_only_readers_may_run(inside: Path) -> None:
    folder = SyncFolder(str(inside))
    left_over = Path(folder.part_path("asked", make=True))
    left_over.write_bytes(b"")
    left_over.chmod(0o644)
    _fed(
        Receiver(folder),
        _put("asked", 3) | {"mode": 0o600},
        b"new",
        {"end": "asked", "digest": _digest(b"new")},
    )
    assert (inside / "asked").stat().st_mode & 0o777 == 0o600
    _fed(Receiver(folder), {"mode": "asked", "to": 0o755})
    assert (inside / "asked").stat().st_mode & 0o777 == 0o700
    _fed(Receiver(folder), {"mode": "asked", "to": 0o644})
    assert (inside / "asked").stat().st_mode & 0o777 == 0o600


NAMES = st.sampled_from(["a", "b/c", "../x", "/x", "a/../..", "b", ".", "d/e/f"])
FRAMES = st.one_of(
    st.builds(_put, NAMES, st.integers(0, 5), offset=st.integers(0, 3)),
    st.binary(max_size=6),
    st.builds(lambda n, d: {"end": n, "digest": _digest(d)}, NAMES, st.binary(max_size=5)),
    st.builds(
        lambda n, t: {"link": n, "to": t},
        NAMES,
        st.sampled_from(["a", "..", "../..", "b", ".", "b/..", "/"]),
    ),
    st.builds(lambda n: {"folder": n}, NAMES),
    st.builds(
        lambda rows: _pack(*rows),
        st.lists(st.tuples(NAMES, st.binary(max_size=3)), min_size=1, max_size=3),
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(FRAMES, max_size=25))
def test_no_row_of_frames_writes_outside(tmp_path: Path, frames: list[Any]) -> None:
    inside = tmp_path / "t" / "inside"
    shutil.rmtree(inside, ignore_errors=True)
    inside.mkdir(parents=True)
    before = sorted(path.name for path in (*tmp_path.iterdir(), *inside.parent.iterdir()))
    receiver = Receiver(SyncFolder(str(inside)))
    for frame in frames:
        try:
            receiver.take(frame)
        except SyncFailure:
            continue
    receiver.close()
    assert sorted(path.name for path in (*tmp_path.iterdir(), *inside.parent.iterdir())) == before
    for path in inside.rglob("*"):
        assert Path(os.path.realpath(path)).is_relative_to(inside.resolve()), path


@given(st.binary(max_size=200))
def test_bytes_that_are_no_frames_are_foul(data: bytes) -> None:
    codes, frames = [], []
    try:
        frames += Frames().feed(data)
    except SyncFailure as trouble:
        codes.append(trouble.code)
    assert codes in ([], ["foul"])
    assert all(isinstance(frame, (bytes, dict)) for frame in frames)


# Whole conversations, over a real sshd.

CONVERSATIONS = {
    "a million entries": (
        "while True: say(rows=[row('n%d' % i) for i in range(1000)])",
        "sync.many|sync.foul",
    ),
    "endless skipped": (
        "listed([], skipped=[['x' * 100, 'y'] for i in range(100_000)])",
        "sync.foul|none",
    ),
    "endless greeting": ("while True: os.write(1, b'x' * 65536)", "sync.foul"),
    "a frame of 4 GB": ("os.write(1, struct.pack('>cI', b'J', 2**32 - 1))", "sync.foul"),
    "deep json": ("os.write(1, struct.pack('>cI', b'J', 100000) + b'[' * 100000)", "sync.foul"),
    "an endless file": (
        "listed([row('a')]); ask(); say(put='a', size=3, offset=0, mtime=0, mode=0)\n while"
        " True: data(b'x' * 65536)",
        "sync.foul",
    ),
    "an endless row of empty frames": (
        "listed([row('a')]); ask(); say(put='a', size=3, offset=0, mtime=0, mode=0)\n while"
        " True: data(b'')",
        "sync.foul",
    ),
    "a size beyond any disk": ("listed([row('a', size=2**61)])", "sync.full"),
    "another file": (
        "listed([row('a')]); ask(); say(put='../outside', size=3, offset=0, mtime=0, mode=0)",
        "sync.foul",
    ),
    "a link unasked for": ("listed([row('a')]); ask(); say(link='a', to='b')", "sync.foul"),
    "names and links that lead out": (
        "listed([row('../outside'), row('/tmp/x'), row('l', 'l', 0, '..'), row('m', 'l', 0,"
        " 'k/../../outside'), row('\\x1b[2J'), row('.git/config')])",
        "none",
    ),
    "words with escapes": (
        "say(trouble='\\x1b[2J', why='\\x1b]0;title\\x07' + 'x' * 10**5)",
        "sync.",
    ),
    "a digest that is wrong": (
        "listed([row('a')])\n while True:\n  ask(); say(put='a', size=3, offset=0, mtime=0,"
        " mode=0); data(b'new'); say(end='a', digest='0'); say(sent=True)",
        "sync.failed",
    ),
    "small files that were not asked for": (
        "listed([row('a')]); ask(); say(files=[['../outside', 3, 0, 0, '0']]); data(b'new')",
        "sync.foul",
    ),
    "small files whose rows are none": (
        "listed([row('a')]); ask(); say(files=[['a']]); data(b'new')",
        "sync.foul",
    ),
    "a listing that ends early": ("say(rows=[row('a')]); say(listed=7)", "sync.foul"),
}


@pytest.mark.machine
@pytest.mark.usefixtures("bare_names")
@pytest.mark.parametrize("what", CONVERSATIONS)
async def test_a_hostile_machine_gets_nothing_but_a_short_error(
    shared_machine: Any, connected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(client, "MOST_LISTED", 3_000_000)
    monkeypatch.setattr(client, "MOST_ENTRIES", 20_000)
    body, codes = CONVERSATIONS[what]
    program = hostile_python(tmp_path / "python", body)
    (tmp_path / "outside").write_text("safe")
    (tmp_path / "here").mkdir()
    code, words, plans = "none", "", []
    async with connected(shared_machine) as connection:
        try:
            await sync(
                connection,
                SyncOptions(tmp_path / "here", "~/x", Direction.PULL),
                on_plan=plans.append,
                python=str(program),
            )
        except SyncError as error:
            code, words = error.code, error.message
    assert words == "" or words.isprintable()
    assert len(words) < 700
    assert any(code.startswith(wanted) for wanted in codes.split("|")), code
    assert (tmp_path / "outside").read_text() == "safe"
    assert list((tmp_path / "here").iterdir()) == []
    assert sorted(os.listdir(tmp_path)) == ["here", "outside", "python"]
    for plan in plans:
        assert len(plan.skipped) <= 1001


def test_a_message_is_what_frames_gives_back() -> None:
    frames, data = Frames(), message(a="\udcff", b=[1])
    assert list(frames.feed(data[:3])) == []
    assert list(frames.feed(data[3:])) == [{"a": "\udcff", "b": [1]}]
    assert json.loads(data[5:]) == {"a": "\udcff", "b": [1]}
