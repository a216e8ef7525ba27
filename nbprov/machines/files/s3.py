"""Objects of S3: listed here with the person's own log-in, downloaded by the machine.

Public objects are downloaded without any key; for each other one the machine gets a link that
opens it, and nothing else, for an hour. `AWS_ENDPOINT_URL_S3` may name another store that speaks
S3 (MinIO). Cloudflare's R2 speaks S3 too: `r2://` uses the account's own address and the keys of
the profile `r2`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from nbprov.clouds.web.proxies import without_proxy_logins
from nbprov.model.clock import Seconds
from nbprov.model.sources import split_bucket
from nbprov.remote.download.errors import DownloadError
from nbprov.remote.download.items import DownloadItem, DownloadLink

from .source_listing import SourceListing, barred_by_proxy, denied, listed

LINK_SECONDS = 3600
"""How long a link is valid: it is used within seconds, and again after a broken connection."""
CONNECT_SECONDS: Seconds = 5.0
READ_SECONDS: Seconds = 20.0
TRIES = 3
USUAL_REGION = "us-east-1"
_MD5 = re.compile(r'"([0-9a-f]{32})"\Z')
_ARCHIVED = frozenset({"GLACIER", "DEEP_ARCHIVE"})
_HINT = (
    "log in with an account (aws configure, AWS_PROFILE) that has the rights s3:ListBucket and"
    " s3:GetObject, or make it public"
)
R2 = "https://{account}.r2.cloudflarestorage.com"
_ACCOUNT = re.compile(r"[0-9a-f]{32}(\.(eu|fedramp))?")
"""The id of an account, and its jurisdiction if it has one."""
_R2_HINT = (
    "make an R2 API token with Object Read; put its keys under [r2] into"
    " ~/.cloudflare/r2.credentials and the account's id into ~/.cloudflare/accountid,"
    " as for SkyPilot"
)
_REFUSED = frozenset(
    [
        "403",
        "401",
        "AccessDenied",
        "AllAccessDisabled",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "ExpiredToken",
        "InvalidToken",
    ]
)


class _S3Bucket:
    """One bucket, asked anonymously or as the person."""

    def __init__(
        self, session: Any, bucket: str, region: str, *, signed: bool, endpoint: str | None = None
    ) -> None:
        from botocore import UNSIGNED
        from botocore.config import Config

        self.bucket = bucket
        self.client = session.client(
            "s3",
            region_name=region,
            endpoint_url=endpoint,
            config=Config(
                s3={"addressing_style": "path"} if endpoint else None,
                signature_version="s3v4" if signed else UNSIGNED,
                connect_timeout=CONNECT_SECONDS,
                read_timeout=READ_SECONDS,
                retries={"mode": "standard", "total_max_attempts": TRIES},
                user_agent_extra="nbprov",
            ),
        )

    def region(self) -> str:
        """Return the bucket's region, which S3 tells anybody; empty where a store does not say."""
        from botocore.exceptions import ClientError

        try:
            answer = self.client.head_bucket(Bucket=self.bucket)
        except ClientError as error:
            if _code(error) in ("404", "NoSuchBucket"):
                raise
            answer = error.response
        return str(answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region", ""))

    def items(self, prefix: str) -> Iterator[DownloadItem]:
        """Return all objects whose key starts with a prefix, named by their keys."""
        for page in self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=prefix
        ):
            for row in page.get("Contents", ()):
                if row.get("StorageClass") in _ARCHIVED:
                    words = (
                        f"s3://{self.bucket}/{row['Key']} is in the archive ({row['StorageClass']})"
                    )
                    raise DownloadError(
                        words,
                        hint="restore it first: aws s3api restore-object",
                        code="fetch.archived",
                    )
                yield self._item(row["Key"], row["Size"], row.get("ETag", ""))

    def one(self, key: str) -> DownloadItem | None:
        """Return the object with exactly this key.

        It is listed, so that the right to list suffices; it is asked for if listing is refused.
        """
        from botocore.exceptions import ClientError

        try:
            rows = self.client.list_objects_v2(Bucket=self.bucket, Prefix=key, MaxKeys=1).get(
                "Contents", ()
            )
            # The shortest key comes first in a listing.
            return next(
                (
                    self._item(row["Key"], row["Size"], row.get("ETag", ""))
                    for row in rows
                    if row["Key"] == key
                ),
                None,
            )
        except ClientError as error:
            if _code(error) not in _REFUSED:
                raise
            try:
                head = self.client.head_object(Bucket=self.bucket, Key=key)
            except ClientError:
                raise error from None
            return self._item(key, head["ContentLength"], head.get("ETag", ""))

    def may_read(self, key: str) -> bool:
        """Return whether this object is public; that it is listed does not imply it."""
        from botocore.exceptions import ClientError

        try:
            self.client.head_object(Bucket=self.bucket, Key=key)
        except ClientError:
            return False
        return True

    def url(self, key: str) -> str:
        """Return a link to one object."""
        return str(
            self.client.generate_presigned_url(
                "get_object", Params={"Bucket": self.bucket, "Key": key}, ExpiresIn=LINK_SECONDS
            )
        )

    def _item(self, key: str, size: int, etag: str) -> DownloadItem:
        found = _MD5.match(etag)
        # The ETags of directory buckets are not digests.
        is_digest = found is not None and not self.bucket.endswith("--x-s3")
        return DownloadItem(
            key, key, int(size), etag, found[1] if found is not None and is_digest else ""
        )


class _LinkSigner:
    """Makes links: anonymous ones where these suffice, else signed ones."""

    def __init__(self, nobody: _S3Bucket | None, person: Callable[[], _S3Bucket | None]) -> None:
        self._nobody, self._person = nobody, person

    def link(self, item: DownloadItem, tries: int) -> DownloadLink | None:
        way = self._nobody if self._nobody is not None and tries == 0 else self._person()
        # The version that was listed is downloaded, or nothing.
        return (
            None
            if way is None
            else DownloadLink(way.url(item.key), {"If-Match": item.etag} if item.etag else {})
        )


def list_s3(uri: str) -> SourceListing:
    """List what lies at `s3://BUCKET/PATH`: the object with this key, else all below it.

    Raises
    ------
    DownloadError
        If there is no such bucket or object, no right to read it, no boto3, or no way to S3.
    """
    try:
        import boto3
    except ImportError:
        raise DownloadError(
            "s3:// needs the package boto3 here",
            hint='pip install "nbprov[aws]"',
            code="fetch.library",
        ) from None
    bucket, path = split_bucket(uri)
    with _translated_errors(uri, bucket, _HINT):
        return _list(boto3.session.Session(), uri, bucket, path)


def list_r2(uri: str) -> SourceListing:
    """List what lies at `r2://BUCKET/PATH`, a bucket of Cloudflare's R2.

    R2 answers nobody anonymously, so a log-in is always needed.

    Raises
    ------
    DownloadError
        As `list_s3`, and if this computer does not know the account.
    """
    try:
        import boto3
        import botocore.session
    except ImportError:
        raise DownloadError(
            "r2:// needs the package boto3 here",
            hint='pip install "nbprov[aws]"',
            code="fetch.library",
        ) from None
    bucket, path = split_bucket(uri)
    home = Path.home() / ".cloudflare"
    try:
        account = (home / "accountid").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        account = ""
    if not _ACCOUNT.fullmatch(account):
        raise denied(uri, "no R2 account is known here", _R2_HINT)
    with _translated_errors(uri, bucket, _R2_HINT):
        core = botocore.session.Session(profile="r2")
        if (home / "r2.credentials").exists():
            core.set_config_variable("credentials_file", str(home / "r2.credentials"))
        session = boto3.session.Session(botocore_session=core)
        own = _S3Bucket(session, bucket, "auto", signed=True, endpoint=R2.format(account=account))
        items, skipped, is_tree = listed(own, path, uri)
        # R2 charges nothing for traffic, so its region does not matter.
        return SourceListing(uri, items, is_tree, _LinkSigner(None, lambda: own), skipped)


@contextmanager
def _translated_errors(uri: str, bucket: str, hint: str) -> Iterator[None]:
    """Turn boto's errors into ours."""
    from botocore import exceptions

    try:
        yield
    except exceptions.ClientError as error:
        raise _named(error, uri, bucket, hint) from None
    except exceptions.EndpointConnectionError as error:
        words = f"{uri}: this computer, which lists the objects, cannot reach S3: {_words(error)}"
        raise DownloadError(
            words, hint="is it online, and the endpoint right?", code="fetch.unreachable"
        ) from None
    except (
        exceptions.NoCredentialsError,
        exceptions.CredentialRetrievalError,
        exceptions.ProfileNotFound,
    ) as error:
        raise denied(uri, _words(error), hint) from None
    except exceptions.BotoCoreError as error:
        if (barred := barred_by_proxy(uri, error, knows_socks=False)) is not None:
            raise barred from None
        raise DownloadError(
            f"{uri} could not be listed: {_words(error)}",
            hint="check the AWS settings of this computer",
            code="fetch.failed",
        ) from None


def _words(error: BaseException) -> str:
    return without_proxy_logins(str(error))[:200]


def _list(session: Any, uri: str, bucket: str, path: str) -> SourceListing:
    from botocore.exceptions import ClientError

    at = session.region_name or USUAL_REGION
    region = _S3Bucket(session, bucket, at, signed=False).region()
    nobody = _S3Bucket(session, bucket, region or at, signed=False)

    @cache
    def person() -> _S3Bucket | None:
        # A log-in is not even looked for where none is needed.
        return (
            None
            if session.get_credentials() is None
            else _S3Bucket(session, bucket, region or at, signed=True)
        )

    refused: ClientError | None = None
    is_open = False
    try:
        found = listed(nobody, path, uri)
        is_open = nobody.may_read(found[0][0].key)
    except ClientError as error:
        if _code(error) not in _REFUSED:
            raise
        refused = error
    if not is_open:
        own = person()
        if own is None:
            raise refused or denied(
                uri, "its objects are not public, and no AWS log-in was found here", _HINT
            )
        found = listed(own, path, uri)
    items, skipped, is_tree = found
    is_aws = ".amazonaws.com" in nobody.client.meta.endpoint_url
    return SourceListing(
        uri,
        items,
        is_tree,
        _LinkSigner(nobody if is_open else None, person),
        skipped,
        "aws" if is_aws else "",
        region,
    )


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _named(error: Any, uri: str, bucket: str, hint: str) -> DownloadError:
    code, words = _code(error), str(error.response.get("Error", {}).get("Message", ""))[:200]
    if code in ("404", "NoSuchBucket"):
        store, check = (
            ("R2", "Cloudflare's dashboard lists them") if hint is _R2_HINT else ("S3", "aws s3 ls")
        )
        return DownloadError(
            f"there is no bucket {bucket} in {store}",
            hint=f"check its name: {check}",
            code="fetch.bucket",
        )
    if code in _REFUSED:
        return denied(uri, f"{words or 'access denied'} ({code})", hint)
    return DownloadError(
        f"{uri} could not be listed: {words} ({code})",
        hint="check the AWS settings of this computer",
        code="fetch.failed",
    )


__all__ = ["list_r2", "list_s3"]
