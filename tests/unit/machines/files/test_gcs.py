"""Google Cloud Storage: public objects need no key, others get a token for one path only."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from nbprov.machines.files.gcs import list_gcs
from nbprov.machines.files.remote_sources import list_in_time
from nbprov.remote.download.errors import DownloadError


class Storage:
    """A double of the objects, Google's token service, and its exchange for downscoped tokens."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.is_public = True
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.boundaries: list[dict[str, Any]] = []
        self.logins: set[str | None] = set()
        storage = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                storage.get(self)

            def do_POST(self) -> None:
                storage.post(self)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def say(self, http: BaseHTTPRequestHandler, status: int, content: Any) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        http.send_response(status)
        http.send_header("Content-Length", str(len(data)))
        http.end_headers()
        http.wfile.write(data[:1])
        http.wfile.flush()
        self.goes_on.wait()
        http.wfile.write(data[1:])

    def post(self, http: BaseHTTPRequestHandler) -> None:
        self.logins.add(http.headers.get("Authorization"))
        asked = parse_qs(http.rfile.read(int(http.headers["Content-Length"])).decode())
        if http.path == "/exchange":
            assert asked["subject_token"] == ["wide"]
            self.boundaries.append(json.loads(unquote(asked["options"][0])))
        token = "cut" if http.path == "/exchange" else "wide"
        self.say(
            http,
            200,
            {
                "access_token": token,
                "expires_in": 3600,
                "token_type": "Bearer",
                "issued_token_type": "x",
            },
        )

    def get(self, http: BaseHTTPRequestHandler) -> None:
        self.logins.add(http.headers.get("Authorization"))
        if not self.is_public and http.headers.get("Authorization") != "Bearer cut":
            self.say(
                http,
                401,
                {
                    "error": {
                        "code": 401,
                        "message": "Anonymous caller does not have storage.objects.list access",
                    }
                },
            )
            return
        parts = urlsplit(http.path)
        bucket, _, key = unquote(parts.path.partition("/b/")[2]).partition("/o")
        key = key.removeprefix("/")
        if bucket != "shelf":
            self.say(
                http,
                404,
                {"error": {"code": 404, "message": "The specified bucket does not exist."}},
            )
        elif parts.path.startswith("/download"):
            self.say(http, 200, self.objects[key])
        elif key:
            self.say(
                http,
                *(
                    (200, self.row(key))
                    if key in self.objects
                    else (404, {"error": {"message": "No such object"}})
                ),
            )
        else:
            prefix = parse_qs(parts.query).get("prefix", [""])[0]
            self.say(
                http,
                200,
                {
                    "items": [self.row(k) for k in self.objects if k.startswith(prefix)],
                    "location": "EU",
                },
            )

    def row(self, key: str) -> dict[str, str]:
        content = self.objects[key]
        md5 = base64.b64encode(hashlib.md5(content).digest()).decode()
        return {"name": key, "size": str(len(content)), "md5Hash": md5, "generation": "17"}


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Storage]:
    import google.auth.downscoped
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    made = Storage()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    login = {
        "type": "service_account",
        "client_email": "a@p.example",
        "private_key": pem,
        "project_id": "p",
        "token_uri": f"{made.url}/token",
    }
    (tmp_path / "login.json").write_text(json.dumps(login))
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", made.url)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "login.json"))
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.setattr(
        google.auth.downscoped, "_STS_TOKEN_URL_PATTERN", f"{made.url}/exchange#{{}}"
    )
    yield made
    made.close()


def test_what_is_public_needs_no_key(storage: Storage) -> None:
    storage.objects = {"d/a": b"one", "d/b/c": b"two", "dd": b"no", "d/": b""}
    found = list_gcs("gs://shelf/d")
    assert sorted((item.name, item.size, item.etag) for item in found.items) == [
        ("a", 3, "17"),
        ("b/c", 3, "17"),
    ]
    assert found.items[0].md5 == hashlib.md5(b"one").hexdigest()
    link = found.signer.link(found.items[0], 0)
    assert link is not None
    assert (
        "Authorization" in link.headers,
        link.url.endswith("/o/d%2Fa?alt=media&generation=17"),
    ) == (False, True)
    one = list_gcs("gs://shelf/dd")
    assert (one.is_tree, one.items[0].name) == (False, "dd")


def test_a_token_for_a_machine_opens_one_path_only(storage: Storage) -> None:
    storage.objects, storage.is_public = {"d'x/a": b"one"}, False
    found = list_gcs("gs://shelf/d'x")
    link = found.signer.link(found.items[0], 0)
    assert link is not None
    assert link.headers["Authorization"] == "Bearer cut"
    (rule,) = storage.boundaries[0]["accessBoundary"]["accessBoundaryRules"]
    assert rule["availablePermissions"] == ["inRole:roles/storage.objectViewer"]
    assert rule["availableResource"] == "//storage.googleapis.com/projects/_/buckets/shelf"
    said = rule["availabilityCondition"]["expression"]
    # The prefix ends in a slash: names that only begin with the same letters are excluded.
    here = "projects/_/buckets/shelf/objects/d\\'x"
    assert said.startswith(
        f"resource.name == '{here}' || resource.name.startsWith('{here}/') || api.getAttribute("
    )
    assert said.endswith("startsWith('d\\'x/')")


@pytest.mark.parametrize("is_public", [True, False])
def test_no_login_of_a_netrc_is_sent(
    storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_public: bool
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login me password mine\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    storage.objects, storage.is_public = {"one.txt": b"1"}, is_public
    assert [item.name for item in list_gcs("gs://shelf/one.txt").items] == ["one.txt"]
    assert storage.logins == ({None} if is_public else {None, "Bearer cut"})


def test_what_is_not_there_is_said(storage: Storage) -> None:
    for uri, code in (("gs://nothere/x", "fetch.bucket"), ("gs://shelf/x", "fetch.missing")):
        with pytest.raises(DownloadError) as caught:
            list_gcs(uri)
        assert (caught.value.code, bool(caught.value.hint)) == (code, True)


def test_a_listing_that_comes_to_no_end_is_given_up(storage: Storage) -> None:
    storage.objects["data/a"] = b"one"
    storage.goes_on.clear()
    with pytest.raises(DownloadError) as caught:
        asyncio.run(list_in_time("gs://shelf/data", 0.3))
    storage.goes_on.set()
    assert caught.value.code == "fetch.stalled"
    assert "gs://shelf/data was not listed within" in str(caught.value)
    assert asyncio.run(list_in_time("gs://shelf/data")).bytes == 3
