"""Files of a spec reach a cluster: from here, from S3 (moto), and from a web server."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "doubles"))

from files_double import FilesDouble
from tunnel_world import WAIT_SECONDS, TunnelWorld

from nbprov.machines.files import s3 as bucket_s3
from nbprov.machines.files.remote_sources import list_source
from nbprov.remote.download.errors import DownloadError

KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
}


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A client of an S3 with one private bucket."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    client = boto3.client("s3")
    client.create_bucket(Bucket="shelf")
    yield client
    server.stop()


def put(client: Any, acl: str = "private", **objects: bytes) -> None:
    for key, content in objects.items():
        client.put_object(Bucket="shelf", Key=key.replace("__", "/"), Body=content, ACL=acl)


def test_files_of_all_kinds_arrive_before_setup(
    world: TunnelWorld, s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(s3, data__a=b"one", data__deep__b=b"two" * 500_000, data2=b"no", single=b"alone")
    web = FilesDouble({"/m.bin": b"model"})
    (tmp_path / "src/.git").mkdir(parents=True)
    (tmp_path / "src/code.py").write_text("x")
    (tmp_path / "src/.git/config").write_text("x")
    (tmp_path / "src/.nbprovignore").write_text("big*\n")
    (tmp_path / "src/big.bin").write_text("x")
    monkeypatch.chdir(tmp_path)
    try:
        spec = "\nworkdir: ./src\nfile_mounts:\n  ~/data: s3://shelf/data\n"
        spec += "  ~/one: {source: s3://shelf/single, mode: COPY}\n"
        rest = f"  ~/m/model.bin: {web.url}/m.bin\n"
        rest += "setup: find ~/data ~/one ~/m ~/sky_workdir -type f | sort > ~/seen\n"
        cluster = world.up(rest=spec + rest)
    finally:
        web.close()
    seen = cluster.bash(
        'cd ~; sed "s|$HOME/||" seen; cat one m/model.bin; wc -c < data/deep/b',
        timeout=WAIT_SECONDS,
    ).text
    assert seen.split() == [
        "data/a",
        "data/deep/b",
        "m/model.bin",
        "one",
        "sky_workdir/.nbprovignore",
        "sky_workdir/code.py",
        "alonemodel1500000",
    ]


def test_what_is_public_needs_no_key_and_what_is_private_a_signed_link(
    s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(s3, "public-read", open__a=b"x")
    put(s3, closed__a=b"x")
    public, private = list_source("s3://shelf/open"), list_source("s3://shelf/closed")
    links = [found.signer.link(found.items[0], 0) for found in (public, private)]
    assert ["Signature" in link.url for link in links if link is not None] == [False, True]
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in str(links[1] and links[1].url)
    for name in KEYS:
        monkeypatch.delenv(name)
    assert list_source("s3://shelf/open").items
    with pytest.raises(DownloadError) as caught:
        list_source("s3://shelf/closed")
    assert caught.value.code == "fetch.denied"


def test_r2_is_asked_at_the_accounts_own_address_with_its_own_keys(
    s3: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put(s3, shown__a=b"one", shown__b=b"two")
    monkeypatch.setattr(bucket_s3, "R2", s3.meta.endpoint_url)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    with pytest.raises(DownloadError, match="no R2 account is known here") as caught:
        list_source("r2://shelf/shown")
    assert caught.value.code == "fetch.denied"
    (tmp_path / ".cloudflare").mkdir()
    (tmp_path / ".cloudflare/accountid").write_text("0123456789abcdef0123456789abcdef\n")
    with pytest.raises(DownloadError, match="r2") as caught:
        list_source("r2://shelf/shown")
    assert (caught.value.code, "r2.credentials" in caught.value.hint) == ("fetch.denied", True)
    (tmp_path / ".cloudflare/r2.credentials").write_text(
        "[r2]\naws_access_key_id = R2KEY\naws_secret_access_key = r2-secret\n"
    )
    found = list_source("r2://shelf/shown")
    assert [(item.name, item.size, bool(item.md5)) for item in found.items] == [
        ("a", 3, True),
        ("b", 3, True),
    ]
    assert (found.cloud, found.region) == ("", "")
    link = found.signer.link(found.items[0], 0)
    assert link is not None
    assert link.url.startswith(f"{s3.meta.endpoint_url}/shelf/shown/a?")
    assert (
        "R2KEY" in link.url,
        KEYS["AWS_ACCESS_KEY_ID"] in link.url,
        "r2-secret" in link.url,
    ) == (True, False, False)
    with urllib.request.urlopen(
        urllib.request.Request(link.url, headers=dict(link.headers))
    ) as answer:
        assert answer.read() == b"one"
    with pytest.raises(DownloadError, match="there is no bucket nothere-x in R2"):
        list_source("r2://nothere-x/y")


def test_hostile_names_are_skipped_by_name(s3: Any) -> None:
    for key in ("d/ok", "d/../../up", "d//etc", "d/\u202ename", "d/a", "d/a/b"):
        s3.put_object(Bucket="shelf", Key=key, Body=b"x")
    found = list_source("s3://shelf/d")
    assert sorted(item.name for item in found.items) == ["a/b", "ok", "\u202ename"]
    assert {name for name, _ in found.skipped} == {"d/../../up", "d//etc", "d/a"}


@pytest.mark.parametrize(
    ("uri", "code"), [("s3://nothere-x/y", "fetch.bucket"), ("s3://shelf/nothere", "fetch.missing")]
)
def test_what_is_not_there_is_said(s3: Any, uri: str, code: str) -> None:
    with pytest.raises(DownloadError) as caught:
        list_source(uri)
    assert (caught.value.code, bool(caught.value.hint)) == (code, True)
