"""Where files come from: this computer, a bucket, the web or a git repository.

This is the one place that distinguishes these; it does no I/O.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

from .remarks import Origin

WORKDIR = "sky_workdir"
"""The folder on a machine, in its home, that a spec's `workdir` is copied or cloned into.

Task files written for SkyPilot name this folder.
"""

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BUCKET = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,220}[A-Za-z0-9])?\Z")
_SCP_LIKE = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9._-]*)@)?(?P<host>[A-Za-z0-9][A-Za-z0-9.-]+)"
    r":(?P<path>[^-/:\\][^:]*|/[^/:][^:]*)\Z"
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
    """A URI that nbprov cannot read."""


_SCHEMES = {
    "s3": SourceKind.S3,
    "gs": SourceKind.GS,
    "r2": SourceKind.R2,
    "https": SourceKind.WEB,
    "http": SourceKind.WEB,
}


def source_kind(text: str) -> SourceKind:
    """The kind of source that a text names.

    Examples
    --------
    >>> [source_kind(text).value for text in ("./data", "s3://b/x", "GS://b", "https://host/x")]
    ['local', 's3', 'gs', 'web']
    >>> [source_kind(text).value for text in ("r2://b", "oci://b", "C:\\\\x")]
    ['r2', 'other', 'local']
    """
    if not _URI.match(text):
        return SourceKind.LOCAL
    return _SCHEMES.get(text.partition("://")[0].lower(), SourceKind.OTHER)


def why_not_source(text: str) -> str:
    """Why a text is not a valid source, without repeating a secret in it; empty if it is valid.

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
        scheme = text.partition("://")[0].lower()
        return f"{scheme}:// is not fetched; s3://, gs://, r2://, https:// and local paths are"
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
    """The bucket, and the path in it.

    Examples
    --------
    >>> split_bucket("s3://b/x/y"), split_bucket("gs://b")
    (('b', 'x/y'), ('b', ''))
    """
    bucket, _, path = text.partition("://")[2].partition("/")
    return bucket, path


def is_plain_http(text: str) -> bool:
    """Whether others on the network could read and change what is fetched from here."""
    return text.lower().startswith("http://")


def shown_source(text: str) -> str:
    """A source as it may be shown: the part of a link after `?` can be a key to it.

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
    """Why a text is not the address of a repository; empty if it is.

    The answer repeats nothing of the address, which may hold a password.

    Examples
    --------
    >>> urls = ("https://host/o/r.git", "git@host:o/r.git", "ssh://git@host:22/r")
    >>> [why_not_git_url(url) for url in urls]
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
    """Why a text is not the name of a branch, tag or commit; empty if it is.

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


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder that is copied onto every node.

    `target` is on the machine; `source` is a local path, or the URI of a bucket or of a file on the
    web.
    """

    target: str
    source: str
    origin: Origin = field(default=Origin("file_mounts"))

    @property
    def kind(self) -> SourceKind:
        """What kind of source it is."""
        return source_kind(self.source)


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository as the working folder.

    Attributes
    ----------
    url
        `https://…`, `ssh://…` or `git@host:path`, without a password.
    ref
        A branch, a tag or a commit; empty for the default branch.
    """

    url: str
    ref: str = ""

    @property
    def short(self) -> str:
        """Its name as people say it.

        Examples
        --------
        >>> Repository("https://github.com/o/r.git").short, Repository("git@host:o/r").short
        ('o/r', 'o/r')
        """
        path = (
            self.url.partition("://")[2].partition("/")[2]
            if "://" in self.url
            else self.url.partition(":")[2]
        )
        return "/".join(path.strip("/").removesuffix(".git").split("/")[-2:])
