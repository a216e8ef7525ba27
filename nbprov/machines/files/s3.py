"""Objects of S3: listed here with the person's own log-in, fetched by the machine with a link to each that opens it, and nothing else, for an hour.

What everybody may read is fetched without any key. Where `AWS_ENDPOINT_URL_S3` names another store that speaks S3 (MinIO), that one is asked.
Cloudflare's R2 speaks S3 too: `r2://` is asked at the account's own address, with the keys of the profile `r2`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from nbprov.model.clock import Seconds
from nbprov.model.sources import split_bucket
from nbprov.remote.download.download import Item, Link
from nbprov.remote.download.errors import FetchError

from .remote_sources import Found, denied, listed

LINK_SECONDS = 3600
"""How long a link opens its object: it is asked for within seconds, and again where it was cut."""
CONNECT_SECONDS: Seconds = 5.0
READ_SECONDS: Seconds = 20.0
TRIES = 3
USUAL_REGION = "us-east-1"
_MD5 = re.compile(r'"([0-9a-f]{32})"\Z')
_ARCHIVED = frozenset({"GLACIER", "DEEP_ARCHIVE"})
_HINT = "log in with an account that may (aws configure, AWS_PROFILE) with the rights s3:ListBucket and s3:GetObject, or make it public"
R2 = "https://{account}.r2.cloudflarestorage.com"
_ACCOUNT = re.compile(r"[0-9a-f]{32}(\.(eu|fedramp))?")
"""An account's id, and its jurisdiction where it has one."""
_R2_HINT = (
    "make an R2 API token with Object Read, and put its keys under [r2] into ~/.cloudflare/r2.credentials, the account's id into "
    "~/.cloudflare/accountid, as SkyPilot has them"
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


class _Objects:
    """One bucket, asked as nobody or as the person."""

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
        """Where the bucket lies, which S3 tells strangers too; empty where a store does not say."""
        from botocore.exceptions import ClientError

        try:
            answer = self.client.head_bucket(Bucket=self.bucket)
        except ClientError as error:
            if _code(error) in ("404", "NoSuchBucket"):
                raise
            answer = error.response
        return str(answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region", ""))

    def items(self, prefix: str) -> Iterator[Item]:
        """All objects whose key begins so, named by their key."""
        for page in self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=prefix
        ):
            for row in page.get("Contents", ()):
                if row.get("StorageClass") in _ARCHIVED:
                    words = (
                        f"s3://{self.bucket}/{row['Key']} is in the archive ({row['StorageClass']})"
                    )
                    raise FetchError(
                        words,
                        hint="restore it first: aws s3api restore-object",
                        code="fetch.archived",
                    )
                yield self._item(row["Key"], row["Size"], row.get("ETag", ""))

    def one(self, key: str) -> Item | None:
        """The object of exactly this key. Listed, so that its right alone is enough; asked for itself where listing is refused."""
        from botocore.exceptions import ClientError

        try:
            rows = self.client.list_objects_v2(Bucket=self.bucket, Prefix=key, MaxKeys=1).get(
                "Contents", ()
            )
            # The shortest key comes first.
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
        """Whether this object is open, which does not follow from its being listed."""
        from botocore.exceptions import ClientError

        try:
            self.client.head_object(Bucket=self.bucket, Key=key)
        except ClientError:
            return False
        return True

    def url(self, key: str) -> str:
        """A link to one object."""
        return str(
            self.client.generate_presigned_url(
                "get_object", Params={"Bucket": self.bucket, "Key": key}, ExpiresIn=LINK_SECONDS
            )
        )

    def _item(self, key: str, size: int, etag: str) -> Item:
        found = _MD5.match(etag)
        # A directory bucket's ETags are no digests.
        is_digest = found is not None and not self.bucket.endswith("--x-s3")
        return Item(key, key, int(size), etag, found[1] if found is not None and is_digest else "")


class _Links:
    """Links as nobody where that is enough, else as the person."""

    def __init__(self, nobody: _Objects | None, person: Callable[[], _Objects | None]) -> None:
        self._nobody, self._person = nobody, person

    def link(self, item: Item, tries: int) -> Link | None:
        way = self._nobody if self._nobody is not None and tries == 0 else self._person()
        # What is fetched is the version that was listed, or nothing.
        return (
            None
            if way is None
            else Link(way.url(item.key), {"If-Match": item.etag} if item.etag else {})
        )


def look_at_s3(uri: str) -> Found:
    """What lies at `s3://BUCKET/PATH`: the object of this key, else all below it.

    Raises
    ------
    FetchError
        No such bucket or object, no right to read it, no boto3, no way to S3.
    """
    try:
        import boto3
    except ImportError:
        raise FetchError(
            "s3:// needs the package boto3 here",
            hint='pip install "nbprov[aws]"',
            code="fetch.library",
        ) from None
    bucket, path = split_bucket(uri)
    with _in_words(uri, bucket, _HINT):
        return _looked(boto3.session.Session(), uri, bucket, path)


def look_at_r2(uri: str) -> Found:
    """What lies at `r2://BUCKET/PATH`, in a bucket of Cloudflare's R2. Its interface tells strangers nothing: a log-in is needed.

    Raises
    ------
    FetchError
        As `look_at_s3`; and where this computer does not know the account.
    """
    try:
        import boto3
        import botocore.session
    except ImportError:
        raise FetchError(
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
    with _in_words(uri, bucket, _R2_HINT):
        core = botocore.session.Session(profile="r2")
        if (home / "r2.credentials").exists():
            core.set_config_variable("credentials_file", str(home / "r2.credentials"))
        session = boto3.session.Session(botocore_session=core)
        own = _Objects(session, bucket, "auto", signed=True, endpoint=R2.format(account=account))
        items, skipped, is_tree = listed(own, path, uri)
        # R2 takes nothing for traffic: where it lies is nobody's concern.
        return Found(uri, items, is_tree, _Links(None, lambda: own), skipped)


@contextmanager
def _in_words(uri: str, bucket: str, hint: str) -> Iterator[None]:
    """Errors of boto as ours."""
    from botocore import exceptions

    try:
        yield
    except exceptions.ClientError as error:
        raise _named(error, uri, bucket, hint) from None
    except exceptions.EndpointConnectionError as error:
        words = (
            f"{uri}: no way to S3 from this computer, which lists the objects: {str(error)[:200]}"
        )
        raise FetchError(
            words, hint="is it online, and the endpoint right?", code="fetch.unreachable"
        ) from None
    except (
        exceptions.NoCredentialsError,
        exceptions.CredentialRetrievalError,
        exceptions.ProfileNotFound,
    ) as error:
        raise denied(uri, str(error), hint) from None
    except exceptions.BotoCoreError as error:
        raise FetchError(
            f"{uri} could not be listed: {str(error)[:200]}",
            hint="see the AWS settings of this computer",
            code="fetch.failed",
        ) from None


def _looked(session: Any, uri: str, bucket: str, path: str) -> Found:
    from botocore.exceptions import ClientError

    at = session.region_name or USUAL_REGION
    region = _Objects(session, bucket, at, signed=False).region()
    nobody = _Objects(session, bucket, region or at, signed=False)

    @cache
    def person() -> _Objects | None:
        # Not even looked for where no log-in is needed.
        return (
            None
            if session.get_credentials() is None
            else _Objects(session, bucket, region or at, signed=True)
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
    return Found(
        uri,
        items,
        is_tree,
        _Links(nobody if is_open else None, person),
        skipped,
        "aws" if is_aws else "",
        region,
    )


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _named(error: Any, uri: str, bucket: str, hint: str) -> FetchError:
    code, words = _code(error), str(error.response.get("Error", {}).get("Message", ""))[:200]
    if code in ("404", "NoSuchBucket"):
        store, check = (
            ("R2", "Cloudflare's dashboard lists them") if hint is _R2_HINT else ("S3", "aws s3 ls")
        )
        return FetchError(
            f"there is no bucket {bucket} in {store}",
            hint=f"see that its name is right: {check}",
            code="fetch.bucket",
        )
    if code in _REFUSED:
        return denied(uri, f"{words or 'access denied'} ({code})", hint)
    return FetchError(
        f"{uri} could not be listed: {words} ({code})",
        hint="see the AWS settings of this computer",
        code="fetch.failed",
    )


__all__ = ["look_at_r2", "look_at_s3"]
