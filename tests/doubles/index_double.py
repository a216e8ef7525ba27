"""A package index on loopback that serves tiny wheels to pip and uv without the internet."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    requires: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
) -> Path:
    """Write a wheel of a package with a module that holds its version, or with the given files."""
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    contents = (
        {f"{module}/__init__.py": f'__version__ = "{version}"\n'} if files is None else dict(files)
    )
    contents[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {one}\n" for one in requires)
    )
    contents[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = "".join(
        f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in contents.items()
    )
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(place, "w") as archive:
        for path, text in {**contents, f"{info}/RECORD": record + f"{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)
    return place


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


@dataclass
class Index:
    """What is served, and what was asked for."""

    folder: Path
    url: str = ""
    asked: list[str] = field(default_factory=list)
    held: set[str] = field(default_factory=set)
    """Packages whose requests wait until the index ends."""
    ended: threading.Event = field(default_factory=threading.Event)

    def add(self, name: str, version: str, **more: Sequence[str]) -> None:
        """Add a package in a version."""
        wheel(self.folder, name, version, requires=more.get("requires", ()))

    def answer(self, path: str) -> tuple[str, bytes] | None:
        """Return the type and the body of a path, or None."""
        self.asked.append(path)
        parts = path.strip("/").split("/")
        if parts[-1] in self.held:
            self.ended.wait()
        if parts[0] == "files" and (self.folder / parts[-1]).is_file():
            return "application/octet-stream", (self.folder / parts[-1]).read_bytes()
        if parts[0] != "simple" or len(parts) != 2:
            return None
        found = sorted(
            place
            for place in self.folder.glob("*.whl")
            if place.name.split("-")[0].replace("_", "-") == parts[1]
        )
        links = "".join(
            f'<a href="/files/{p.name}#sha256={hashlib.sha256(p.read_bytes()).hexdigest()}">'
            f"{p.name}</a>\n"
            for p in found
        )
        return (
            ("text/html", f"<!DOCTYPE html><html><body>\n{links}</body></html>".encode())
            if found
            else None
        )


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Index]:
    """Serve the wheels of a folder as a simple index."""
    index = Index(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = index.answer(self.path.partition("?")[0])
            kind, body = found or ("text/plain", b"no such thing")
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.do_GET()  # uv first asks whether ranges are supported

        def log_message(self, *args: object) -> None:
            """What was asked for is in the index."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    index.url = f"http://127.0.0.1:{server.server_address[1]}/simple"
    try:
        yield index
    finally:
        index.ended.set()
        server.shutdown()
        server.server_close()
        thread.join(30)
