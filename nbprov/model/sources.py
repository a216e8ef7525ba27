"""Where files come from: this computer, a bucket, the web, a git repository. One place tells these apart; no I/O."""

from __future__ import annotations

import ipaddress
import re
from enum import StrEnum
from urllib.parse import urlsplit

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BUCKET = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,220}[A-Za-z0-9])?\Z")
_SCP_LIKE = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9._-]*)@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]+):(?P<path>[^-/:\\][^:]*|/[^/:][^:]*)\Z"
)
_UNFIT = re.compile(r"[\x00-\x20\x7f-\x9f]")
_NO_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|\Z)")


class SourceKind(StrEnum):
    """The kinds of places that files are copied from."""

    LOCAL = "local"
    S3 = "s3"
    GS = "gs"
    R2 = "r2"
    WEB = "web"
    OTHER = "other"
    """A URI that nothing here can read."""


_SCHEMES = {
    "s3": SourceKind.S3,
    "gs": SourceKind.GS,
    "r2": SourceKind.R2,
    "https": SourceKind.WEB,
    "http": SourceKind.WEB,
}


def source_kind(text: str) -> SourceKind:
    """What kind of place a text names.

    Examples
    --------
    >>> [source_kind(text).value for text in ("./data", "s3://b/x", "GS://b", "https://host/x", "r2://b", "oci://b", "C:\\\\x")]
    ['local', 's3', 'gs', 'web', 'r2', 'other', 'local']
    """
    if not _URI.match(text):
        return SourceKind.LOCAL
    return _SCHEMES.get(text.partition("://")[0].lower(), SourceKind.OTHER)


def why_not_source(text: str) -> str:
    """What is wrong with a source, in words that repeat nothing secret of it; empty where nothing is.

    Examples
    --------
    >>> why_not_source("s3://bucket/x"), why_not_source("https://me:pw@host/x")
    ('', 'a password or token stands in the address')
    """
    kind = source_kind(text)
    if kind is SourceKind.LOCAL:
        return ""
    if kind is SourceKind.WEB:
        return _why_not_web(text)
    if kind is SourceKind.OTHER:
        return f"{text.partition('://')[0].lower()}:// is not fetched; s3://, gs://, r2://, https:// and local paths are"
    bucket, key = split_bucket(text)
    if not _BUCKET.match(bucket):
        return "no bucket's name follows s3://, gs:// or r2://"
    return "control characters stand in its path" if re.search(r"[\x00-\x1f\x7f]", key) else ""


def _why_not_web(text: str) -> str:
    if _UNFIT.search(text):
        return "spaces or control characters stand in the address: write %20"
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "it is no address"
    if "@" in parts.netloc:
        return "a password or token stands in the address"
    if not host:
        return "the address names no host"
    if parts.fragment and not re.fullmatch(r"sha256=[0-9a-fA-F]{64}", parts.fragment):
        return "what follows # must be sha256= and 64 hexadecimal digits"
    return "" if parts.path.strip("/") else "the address names no file"


def split_bucket(text: str) -> tuple[str, str]:
    """Bucket and the path in it.

    Examples
    --------
    >>> split_bucket("s3://b/x/y"), split_bucket("gs://b")
    (('b', 'x/y'), ('b', ''))
    """
    bucket, _, path = text.partition("://")[2].partition("/")
    return bucket, path


def is_plain_http(text: str) -> bool:
    """Whether what comes from here could be read and changed on its way."""
    return text.lower().startswith("http://")


def shown_source(text: str) -> str:
    """A source as it may be shown: what a link carries behind `?` can be a key to it.

    Examples
    --------
    >>> shown_source("https://host/x.bin?sig=abc"), shown_source("s3://b/x")
    ('https://host/x.bin?…', 's3://b/x')
    """
    text = text.partition("#")[0] if source_kind(text) is SourceKind.WEB else text
    address, mark, _ = text.partition("?")
    if source_kind(text) is SourceKind.LOCAL or not mark:
        return text
    return f"{address}?…" if source_kind(text) is SourceKind.WEB else text


def why_not_git_url(url: str) -> str:
    """What is wrong with the address of a repository; empty where nothing is. What it says repeats nothing of the address.

    Examples
    --------
    >>> [why_not_git_url(url) for url in ("https://host/o/r.git", "git@host:o/r.git", "ssh://git@host:22/r")]
    ['', '', '']
    >>> why_not_git_url("https://token@host/r.git")
    'a password or token stands in the address'
    >>> why_not_git_url("ext::sh -c id")
    'it must be https://…, ssh://… or git@host:path'
    """
    forms = "it must be https://…, ssh://… or git@host:path"
    if _UNFIT.search(url) or url.startswith("-") or "::" in url:
        return forms
    if source_kind(url) is SourceKind.LOCAL:
        return "" if _SCP_LIKE.match(url) else forms
    try:
        parts = urlsplit(url)
        host, scheme, _ = parts.hostname or "", parts.scheme.lower(), parts.port
    except ValueError:
        return forms
    if "@" in parts.netloc and (scheme != "ssh" or parts.password is not None):
        return "a password or token stands in the address"
    if (
        scheme not in ("https", "ssh", "http")
        or not parts.path.strip("/")
        or parts.fragment
        or parts.query
    ):
        return forms
    if not host or host.startswith("-") or (parts.username or "").startswith("-"):
        return forms
    return (
        "http:// is not encrypted: code that comes by it runs on the machine"
        if scheme == "http" and not _is_loopback(host)
        else ""
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def why_not_git_ref(ref: str) -> str:
    """What is wrong with the name of a branch, tag or commit; empty where nothing is.

    Examples
    --------
    >>> why_not_git_ref("feature/x"), why_not_git_ref("--upload-pack=x")
    ('', 'it is no name of a branch, a tag or a commit')
    """
    unfit = (
        ref.startswith(("-", "/", ".", "+"))
        or ref.endswith(("/", "."))
        or ref == "@"
        or len(ref) > 255
        or _NO_REF.search(ref)
    )
    return "it is no name of a branch, a tag or a commit" if unfit else ""
