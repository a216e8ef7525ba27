"""A git server on loopback: bare repositories behind git's own CGI, with or without a login.

    server = GitDouble(folder); code = server.add("o/code"); code.commit(a="x"); server.close()

A repository is at `server.url + "/o/code.git"`. With `password` set, requests without it get 401.
`seen` records the requests.
"""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WHO = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b.c",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b.c",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


@dataclass
class Code:
    """A bare repository that is served, and a clone to fill it from."""

    folder: Path
    """The clone."""

    def git(self, *words: str) -> str:
        """Git in the clone."""
        done = subprocess.run(
            ["git", *words],
            cwd=self.folder,
            env={**os.environ, **WHO},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(self, **files: str) -> str:
        """Commit files and push everything; the commit."""
        for name, text in files.items():
            path = self.folder / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "more")
        return self.push()

    def push(self) -> str:
        """Push all branches and tags; the commit of HEAD."""
        self.git("push", "-q", "--force", "--all")
        self.git("push", "-q", "--force", "--tags")
        return self.git("rev-parse", "HEAD")


@dataclass
class GitDouble:
    """The server."""

    root: Path
    password: str = ""
    seen: list[str] = field(default_factory=list)
    answers: threading.Event = field(default_factory=threading.Event)
    """Cleared: requests wait."""

    def __post_init__(self) -> None:
        double = self
        self.answers.set()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                double.seen.append(self.path)
                double.answers.wait(60)
                wanted = "Basic " + base64.b64encode(f"me:{double.password}".encode()).decode()
                if double.password and self.headers.get("Authorization") != wanted:
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="code"')
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                with contextlib.suppress(OSError):  # who asked may have gone
                    double.serve(self)

            def do_POST(self) -> None:
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def serve(self, asked: BaseHTTPRequestHandler) -> None:
        """Answer a request by git's CGI."""
        path, _, query = asked.path.partition("?")
        length = asked.headers.get("Content-Length")
        body = asked.rfile.read(int(length)) if length else _chunks(asked)
        env = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": asked.command,
            "CONTENT_TYPE": asked.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": asked.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": asked.headers.get("Git-Protocol", ""),
        }
        answer = subprocess.run(
            ["git", "http-backend"], input=body, env=env, capture_output=True, timeout=60
        ).stdout
        head, _, content = answer.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        asked.send_response(int(headers.pop("Status", "200 OK").split()[0]))
        for name, value in headers.items():
            asked.send_header(name, value)
        asked.send_header("Content-Length", str(len(content)))
        asked.end_headers()
        asked.wfile.write(content)

    def add(self, name: str) -> Code:
        """A new repository, empty."""
        bare, clone = self.root / f"{name}.git", self.root / "clones" / name
        for words in (
            ["init", "-q", "--bare", "-b", "main", str(bare)],
            ["clone", "-q", str(bare), str(clone)],
        ):
            subprocess.run(
                ["git", *words],
                env={**os.environ, **WHO},
                check=True,
                capture_output=True,
                timeout=60,
            )
        made = Code(clone)
        made.git("symbolic-ref", "HEAD", "refs/heads/main")
        return made

    def close(self) -> None:
        """Stop."""
        self.answers.set()
        self._server.shutdown()
        self._server.server_close()


def _chunks(asked: BaseHTTPRequestHandler) -> bytes:
    body = b""
    if asked.headers.get("Transfer-Encoding") == "chunked":
        while size := int(asked.rfile.readline(), 16):
            body += asked.rfile.read(size)
            asked.rfile.readline()
        asked.rfile.readline()
    return body
