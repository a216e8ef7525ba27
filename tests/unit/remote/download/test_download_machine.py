"""A machine fetches files by itself.

Whole ones or none, on from where it was cut, and nothing outside the target.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "doubles"))

from files_double import FilesDouble

from nbprov.on_machine.transfer_limit import TransferLimit
from nbprov.remote.download.download import download
from nbprov.remote.download.errors import DownloadError
from nbprov.remote.download.items import DownloadItem, DownloadLink, DownloadResult
from nbprov.remote.ssh.connection import Connection

Connected = Callable[..., AbstractAsyncContextManager[Connection]]
BIG = os.urandom(3_000_000)


@pytest.fixture
def web() -> Iterator[FilesDouble]:
    made = FilesDouble()
    yield made
    made.close()


class Links:
    """Links to a double; each try at a file may have a path of its own."""

    def __init__(
        self, web: FilesDouble, *, most: int = 1, headers: dict[str, str] | None = None
    ) -> None:
        self.web, self.most, self.headers = web, most, headers or {}

    def link(self, item: DownloadItem, tries: int) -> DownloadLink | None:
        if tries >= self.most:
            return None
        return DownloadLink(
            f"{self.web.url}/{item.key}" + (f"?try={tries}" if tries else ""), self.headers
        )


async def got(
    connection: Connection,
    web: FilesDouble,
    *items: DownloadItem,
    folder: str = "~/d",
    most: int = 1,
    is_tree: bool = True,
) -> DownloadResult:
    return await download(
        connection,
        folder,
        items,
        Links(web, most=most),
        is_tree=is_tree,
        source="s3://b/x",
        python=sys.executable,
    )


def listed(name: str, content: bytes) -> DownloadItem:
    """As a bucket tells of an object."""
    md5 = hashlib.md5(content).hexdigest()
    return DownloadItem(name, name, len(content), f'"{md5}"', md5)


def left(folder: Path) -> list[str]:
    return (
        sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
        if folder.exists()
        else []
    )


@pytest.mark.machine
async def test_a_tree_arrives_and_the_second_time_nothing_moves(
    shared_machine: object, connected: Connected, web: FilesDouble
) -> None:
    contents = {"a": b"one", "s/b é.bin": BIG, "s/t/empty": b""}
    web.files = {f"/{Link_quote(name)}": data for name, data in contents.items()}
    items = [
        DownloadItem(name, Link_quote(name), len(data), '"v1"', hashlib.md5(data).hexdigest())
        for name, data in contents.items()
    ]
    told: list[int] = []
    async with connected(shared_machine) as connection:
        home = shared_machine.home  # type: ignore[attr-defined]
        done = await download(
            connection,
            "~/tree",
            items,
            Links(web),
            is_tree=True,
            source="x",
            python=sys.executable,
            progress=told.append,
        )
        assert (done.files, done.same, done.bytes) == (3, 0, len(BIG) + 3)
        assert {name: (home / "tree" / name).read_bytes() for name in contents} == contents
        assert left(home / "tree") == sorted(contents)
        assert told[-1] == len(BIG) + 3
        asked = len(web.seen)
        again = await download(
            connection, "~/tree", items, Links(web), is_tree=True, source="x", python=sys.executable
        )
        assert (again.files, again.same, len(web.seen)) == (0, 3, asked)
        (home / "tree/a").write_bytes(b"two")
        assert (
            await download(
                connection,
                "~/tree",
                items,
                Links(web),
                is_tree=True,
                source="x",
                python=sys.executable,
            )
        ).files == 1
        assert (home / "tree/a").read_bytes() == b"one"
        # Known by digest too, without a note of it.
        for note in (home / ".nbprov/fetched").iterdir():
            note.unlink()
        assert (
            await download(
                connection,
                "~/tree",
                items,
                Links(web),
                is_tree=True,
                source="x",
                python=sys.executable,
            )
        ).same == 3


def Link_quote(name: str) -> str:  # noqa: N802
    from urllib.parse import quote

    return quote(name)


@pytest.mark.machine
async def test_what_is_cut_goes_on_where_it_was(
    machine: object, connected: Connected, web: FilesDouble
) -> None:
    web.files["/big"] = BIG
    web.faults["/big"] = ["cut:2000000", "503", "wrongrange", "cut:10"]
    async with connected(machine) as connection:
        done = await got(connection, web, listed("big", BIG))
    assert done.files == 1
    home = machine.home  # type: ignore[attr-defined]
    assert (home / "d/big").read_bytes() == BIG
    assert [one.headers.get("range") for one in web.asked("/big")] == [
        None,
        "bytes=2000000-",
        "bytes=2000000-",
        None,
        "bytes=10-",
    ]
    assert left(home / "d") == ["big"]


@pytest.mark.machine
async def test_the_next_run_goes_on_with_what_a_failed_one_left(
    machine: object, connected: Connected, web: FilesDouble
) -> None:
    home = machine.home  # type: ignore[attr-defined]
    web.files["/big"] = BIG
    web.faults["/big"] = ["cut:2000000", "404"]
    async with connected(machine) as connection:
        with pytest.raises(DownloadError) as caught:
            await got(connection, web, listed("big", BIG))
        assert caught.value.code == "fetch.missing"
        assert not (home / "d/big").exists()
        assert (await got(connection, web, listed("big", BIG))).files == 1
    assert web.seen[-1].headers["range"] == "bytes=2000000-"
    assert (home / "d/big").read_bytes() == BIG
    assert left(home / "d") == ["big"]


@pytest.mark.machine
async def test_another_version_is_not_joined_to_the_part_of_an_older(
    machine: object, connected: Connected, web: FilesDouble
) -> None:
    web.files["/big"] = BIG
    web.faults["/big"] = ["cut:2000000", "404"]
    other = bytes(reversed(BIG))
    async with connected(machine) as connection:
        with pytest.raises(DownloadError):
            await got(connection, web, listed("big", BIG))
        web.files["/big"] = other
        await got(connection, web, listed("big", other))
        # A file of the web, whose version its server alone knows.
        web.files["/w"] = BIG
        web.faults["/w"] = ["cut:2000000", "404"]
        with pytest.raises(DownloadError):
            await got(connection, web, DownloadItem("w", "w"))
        web.files["/w"] = other
        await got(connection, web, DownloadItem("w", "w"))
    home = machine.home  # type: ignore[attr-defined]
    assert web.asked("/w")[-1].headers["if-range"]
    assert ((home / "d/big").read_bytes(), (home / "d/w").read_bytes()) == (other, other)


@pytest.mark.machine
async def test_a_file_of_the_web_is_asked_for_its_version(
    machine: object, connected: Connected, web: FilesDouble
) -> None:
    home = machine.home  # type: ignore[attr-defined]
    web.files["/w"] = b"one"
    async with connected(machine) as connection:
        assert (await got(connection, web, DownloadItem("w", "w"))).files == 1
        assert (await got(connection, web, DownloadItem("w", "w"))).same == 1
        assert web.seen[-1].status == 304
        (home / "d/w").write_bytes(b"edited")
        assert (await got(connection, web, DownloadItem("w", "w"))).files == 1
        web.files["/w"] = b"two"
        assert (await got(connection, web, DownloadItem("w", "w"))).files == 1
    assert (home / "d/w").read_bytes() == b"two"
    assert left(home / "d") == ["w"]


@pytest.mark.machine
@pytest.mark.parametrize(
    ("faults", "code", "words"),
    [
        (["404"], "fetch.missing", "the server answers 404"),
        (["403"], "fetch.denied", "the server answers 403"),
        (["400"], "fetch.failed", "the server answers 400"),
        (["more"], "fetch.failed", "does not say how long it is"),
        (["redirect:file:///etc/passwd"], "fetch.failed", "the server answers 302"),
        (
            ["redirect:ftp://127.0.0.1/x"],
            "fetch.failed",
            "leads on to an address that is not https",
        ),
    ],
)
async def test_refusals_have_names(
    shared_machine: object,
    connected: Connected,
    web: FilesDouble,
    faults: list[str],
    code: str,
    words: str,
) -> None:
    web.files["/w"] = b"content"
    web.faults["/w"] = faults
    async with connected(shared_machine) as connection:
        with pytest.raises(DownloadError) as caught:
            await got(connection, web, DownloadItem("w", "w"), folder="~/refused")
    assert (caught.value.code, words in str(caught.value)) == (code, True), caught.value
    assert str(web.port) not in str(caught.value)  # of a link nothing is told
    assert caught.value.hint
    assert left(shared_machine.home / "refused") == []  # type: ignore[attr-defined]


@pytest.mark.machine
async def test_what_is_not_what_was_listed_is_not_taken(
    shared_machine: object, connected: Connected, web: FilesDouble
) -> None:
    web.files["/w"] = b"content"
    async with connected(shared_machine) as connection:
        for item, code in (
            (DownloadItem("w", "w", sha256="0" * 64), "fetch.damaged"),
            (DownloadItem("w", "w", 7, '"e"', "0" * 32), "fetch.damaged"),
            (DownloadItem("w", "w", 5, '"e"'), "fetch.changed"),
        ):
            with pytest.raises(DownloadError) as caught:
                await got(connection, web, item, folder="~/wrong")
            assert caught.value.code == code
        assert left(shared_machine.home / "wrong") == []  # type: ignore[attr-defined]
        right = DownloadItem("w", "w", sha256=hashlib.sha256(b"content").hexdigest())
        web.faults["/w"] = ["chunked"]
        assert (await got(connection, web, right, folder="~/wrong")).files == 1


@pytest.mark.machine
async def test_a_link_that_ran_out_is_made_anew(
    shared_machine: object, connected: Connected, web: FilesDouble
) -> None:
    web.files["/w?try=1"] = web.files["/w"] = b"content"
    web.faults["/w"] = ["403"]
    async with connected(shared_machine) as connection:
        assert (
            await got(connection, web, listed("w", b"content"), folder="~/anew", most=2)
        ).files == 1


@pytest.mark.machine
async def test_nothing_is_written_outside_the_target(
    machine: object, connected: Connected, web: FilesDouble
) -> None:
    home = machine.home  # type: ignore[attr-defined]
    web.files["/w"] = b"content"
    (home / "d").mkdir()
    (home / "other").mkdir()
    (home / "d/link").symlink_to(home / "other")
    (home / "d/busy").mkdir()
    (home / "d/file").symlink_to(home / "other/secret")
    async with connected(machine) as connection:
        for name in ("../w", "/w", "a/../../w", "w\0", "link/w", "busy", "x\n"):
            with pytest.raises(DownloadError):
                await got(connection, web, DownloadItem(name, "w"))
        # A link is replaced, not followed.
        assert (await got(connection, web, DownloadItem("file", "w"))).files == 1
        for folder in ("~", "/"):
            with pytest.raises(DownloadError, match="whole home"):
                await got(connection, web, DownloadItem("w", "w"), folder=folder)
        assert (
            await got(connection, web, DownloadItem("w", "w"), folder="~", is_tree=False)
        ).files == 1
    assert left(home / "other") == []
    assert not (home / "d/file").is_symlink()
    assert not (home.parent / "w").exists()


@pytest.mark.machine
async def test_a_link_and_its_headers_are_written_nowhere(
    machine: object, connected: Connected, web: FilesDouble
) -> None:
    home = machine.home  # type: ignore[attr-defined]
    commands: list[str] = []

    def look(path: str) -> None:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    commands.append((entry / "cmdline").read_bytes().decode("utf-8", "replace"))
                except OSError:
                    continue

    web.before = look
    web.files["/canary-key"] = BIG
    web.faults["/canary-key"] = ["cut:2000000", "404"]
    links = Links(web, headers={"Authorization": "Bearer canary-token"})
    async with connected(machine) as connection:
        with pytest.raises(DownloadError) as caught:
            await download(
                connection,
                "~/d",
                [DownloadItem("f", "canary-key", etag='"e"')],
                links,
                is_tree=True,
                source="x",
                python=sys.executable,
            )
    assert web.seen[0].headers["authorization"] == "Bearer canary-token"
    assert commands
    assert not [line for line in commands if "canary" in line]
    kept = [path for path in home.rglob("*") if path.is_file() and b"canary-" in path.read_bytes()]
    assert kept == []
    assert "127.0.0.1" not in str(caught.value)


@pytest.mark.machine
async def test_a_key_does_not_follow_to_another_host(
    shared_machine: object, connected: Connected, web: FilesDouble
) -> None:
    other = FilesDouble({"/w": b"content"})
    try:
        web.files["/w"] = b"content"
        web.faults["/w"] = [f"redirect:{other.url}/w"]
        links = Links(web, headers={"Authorization": "Bearer key"})
        async with connected(shared_machine) as connection:
            await download(
                connection,
                "~/moved",
                [DownloadItem("w", "w")],
                links,
                is_tree=True,
                source="x",
                python=sys.executable,
            )
        assert "authorization" in web.seen[0].headers
        assert "authorization" not in other.seen[0].headers
    finally:
        other.close()


@pytest.mark.machine
async def test_what_does_not_fit_is_said_before_anything_moves(
    shared_machine: object, connected: Connected, web: FilesDouble
) -> None:
    async with connected(shared_machine) as connection:
        with pytest.raises(DownloadError, match="do not fit") as caught:
            await got(connection, web, DownloadItem("w", "w", 1 << 60, '"e"'), folder="~/full")
    assert (caught.value.code, web.seen) == ("fetch.full", [])


@pytest.mark.machine
@pytest.mark.parametrize(
    "says",
    [
        '{"got": 5, "same": false}',
        '{"got": "x"}',
        '{"moved": -1}',
        '{"stale": "x"}',
        "[]",
        '{"failed": 0, "code": "x", "why": "\\u001b[31mred"}',
    ],
)
async def test_a_machine_that_lies_is_told_off(
    machine: object, connected: Connected, web: FilesDouble, says: str
) -> None:
    folder = machine.folder  # type: ignore[attr-defined]
    script = folder / "liar.py"
    script.write_text(
        "import os, struct, sys\n"
        "def say(text):\n    os.write(1, struct.pack('>cI', b'J', len(text)) + text.encode())\n"
        "os.write(1, b'\\0nbprov-fetch 1\\0')\n"
        'say(\'{"path": "/x", "free": 1000000000000}\')\n'
        f"say({says!r})\nsys.stdin.read()\n"
    )
    liar = folder / "liar"
    liar.write_text(f"#!/bin/sh\nexec {sys.executable} {script}\n")
    liar.chmod(0o755)
    async with connected(machine) as connection:
        with pytest.raises(DownloadError) as caught:
            await download(
                connection,
                "~/d",
                [DownloadItem("w", "w")],
                Links(web),
                is_tree=True,
                source="x",
                python=str(liar),
            )
    assert "\x1b" not in str(caught.value)


class Drips:
    """A server that goes on for ever, in one of three ways."""

    def __init__(self) -> None:
        self.ended, self.asked = threading.Event(), list[str]()
        drips = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                drips.asked.append(self.path)
                size = 10 if self.path == "/slow" else 5_000
                if self.path != "/head":
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
                    if self.path == "/cut":
                        self.wfile.write(b"x" * 70_000)
                        return
                while not drips.ended.wait(0.02):
                    self.wfile.write(b"X: y\r\n" if self.path == "/head" else b"x" * size)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.mark.parametrize(
    ("path", "limit", "words"),
    [
        ("slow", TransferLimit(10_000, 0.5), "moved less than 10 kB a second for 0.5 seconds"),
        ("quick", TransferLimit(most_seconds=2.5), "took longer than 2.5 seconds"),
        ("cut", TransferLimit(most_seconds=2.5), "took longer than 2.5 seconds"),
        ("head", TransferLimit(most_seconds=2.5), "took longer than 2.5 seconds"),
    ],
)
async def test_a_server_that_comes_to_no_end_is_given_up(
    machine: object, connected: Connected, path: str, limit: TransferLimit, words: str
) -> None:
    drips = Drips()
    try:
        async with connected(machine) as connection:
            with pytest.raises(DownloadError, match=words) as caught:
                await download(
                    connection,
                    "~/d",
                    [DownloadItem("a", path)],
                    Links(drips),  # type: ignore[arg-type]
                    is_tree=True,
                    source="https://x",
                    python=sys.executable,
                    limit=limit,
                )
    finally:
        drips.close()
    assert caught.value.code == "fetch.stalled"
    assert drips.asked


def test_links_show_nothing_of_themselves() -> None:
    assert "secret" not in repr(DownloadLink("https://x/secret", {"Authorization": "secret"}))
    assert json.dumps(repr(DownloadItem("a", "b")))
