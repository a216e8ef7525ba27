"""The way to AWS: whose credentials, one client a service and region, every call bounded and every exception named."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from nbprov.clouds.aws import errors
from nbprov.clouds.aws.account.detection import FILES, missing, no_credentials
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure

REGIONS_VARIABLE = "NBPROV_AWS_REGIONS"
"""Names the only regions to look into, separated by commas or spaces: for accounts that may not use, or never use, the others."""
USUAL_REGION = "us-east-1"
AT_ONCE = 24
"""Regions asked at a time: every one of an ordinary account's 17, and most of all there are."""
REGIONS_SECONDS: Seconds = 3600.0
"""How long the list of enabled regions holds; a region is enabled by hand, and that takes minutes to hours."""

CREDENTIALS_SECONDS: Seconds = 10.0
"""How long a call waits for credentials that another call is reading: within every bound that the engine sets a call."""

ASK, CREATE, QUICK = "ask", "create", "quick"
_BOUNDS: Mapping[str, tuple[Seconds, Seconds, int]] = {
    # kind: connect, read, attempts. Two asks of 3 + 5 s and a pause between stay under LIST_SECONDS (20).
    ASK: (3.0, 5.0, 2),
    # A refusal for want of capacity is a 5xx, which botocore would try again (facts: 3 requests, or 7.3 s): one attempt; the rest is the engine's.
    CREATE: (3.0, 15.0, 1),
    # For what a person waits for: a check (5 s) or the stock (3 s).
    QUICK: (1.5, 2.5, 1),
}
T = TypeVar("T")
_LOGGERS = (
    "endpoint",
    "hooks",
    "auth",
    "httpsession",
    "awsrequest",
    "parsers",
    "client",
    "retryhandler",
    "regions",
)


class _NoStartScript(logging.Filter):
    """Keeps botocore's debug log from repeating a start script: it holds keys."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "UserData" not in record.getMessage()


_filter = _NoStartScript()


class Session:
    """Clients of one account. Nothing is imported or read before the first use; safe to use from several threads.

    Credentials are boto3's own chain. When an environment variable or a credentials file changes, the next call uses the new ones.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._mark = ""
        self._session: Any = None
        self._clients: dict[tuple[str, str, str], Any] = {}
        self._budget = threading.local()
        self._facts: dict[tuple[str, ...], tuple[float, Any]] = {}

    @contextmanager
    def _held(self) -> Iterator[None]:
        # A credential process of the user's may hang under it: then its thread is lost, and no other is with it.
        if not self._lock.acquire(timeout=CREDENTIALS_SECONDS):
            words = f"the AWS credentials could not be read within {CREDENTIALS_SECONDS:g} s (a credential_process, or a sign-on, that hangs?)"
            raise CloudError(Failure(Cause.TRANSIENT, words, "slow-credentials"))
        try:
            yield
        finally:
            self._lock.release()

    def boto(self) -> Any:
        """The boto3 session of the credentials that hold now.

        Raises
        ------
        CloudError
            `credentials` where there are none or they cannot be read; `bad_request` without boto3.
        """
        with self._held():
            return self._current()

    def client(self, service: str, region: str, kind: str = ASK) -> Any:
        """A client of a service in a region, with the bounds of its kind."""
        with self._held():
            session = self._current()
            key = (service, region, kind)
            if key not in self._clients:
                from botocore.config import Config

                connect, read, attempts = _BOUNDS[kind]
                config = Config(
                    connect_timeout=connect,
                    read_timeout=read,
                    retries={"mode": "standard", "total_max_attempts": attempts},
                    max_pool_connections=AT_ONCE,
                    user_agent_extra="nbprov",
                )
                try:
                    self._clients[key] = session.client(service, region_name=region, config=config)
                except Exception as error:
                    raise self._named(error, "") from None
            return self._clients[key]

    @contextmanager
    def within(self, seconds: Seconds) -> Iterator[None]:
        """Begin no further call of this thread after so many seconds: what several calls do together has one bound.

        A call that has begun may end later, by its own bounds.
        """
        before = getattr(self._budget, "until", None)
        self._budget.until = min(before or float("inf"), time.monotonic() + seconds)
        try:
            yield
        finally:
            self._budget.until = before

    def call(
        self,
        region: str,
        operation: str,
        kind: str = ASK,
        *,
        service: str = "ec2",
        **arguments: Any,
    ) -> Any:
        """One call, by botocore's name for it (`DescribeInstances`).

        Raises
        ------
        CloudError
            Whatever goes wrong, with its cause.
        """
        until = getattr(self._budget, "until", None)
        if until is not None and time.monotonic() > until:
            raise CloudError(
                Failure(
                    Cause.TRANSIENT,
                    f"EC2 in {region} took too long to answer; {operation} was not sent",
                    "slow",
                )
            )
        client = self.client(service, region, kind)
        try:
            return getattr(client, _method(operation))(**arguments)
        except Exception as error:
            raise self._named(error, operation) from None

    def pages(
        self,
        region: str,
        operation: str,
        kind: str = ASK,
        *,
        service: str = "ec2",
        **arguments: Any,
    ) -> Iterator[Any]:
        """All pages of an answer. A token that comes back unchanged ends in an error instead of never."""
        token = ""
        while True:
            page = self.call(
                region,
                operation,
                kind,
                service=service,
                **arguments,
                **({"NextToken": token} if token else {}),
            )
            yield page
            following = page.get("NextToken") or ""
            if not following:
                return
            if following == token:
                raise CloudError(
                    Failure(
                        Cause.TRANSIENT,
                        f"EC2 in {region} repeats the pages of {operation}",
                        "odd-answer",
                    )
                )
            token = following

    def account(self) -> str:
        """The number of the account whose credentials hold now."""
        known = self.fact(("account",))
        if known:
            return str(known)
        before = self.boto()
        number = str(self.call(self.home(), "GetCallerIdentity", QUICK, service="sts")["Account"])
        if self.boto() is not before:
            raise CloudError(
                Failure(
                    Cause.TRANSIENT,
                    "the AWS credentials changed while it was asked whose they are",
                    "changed",
                )
            )
        self.keep(("account",), number)
        return number

    def home(self) -> str:
        """The region that the user's AWS configuration names, or the first of those it is narrowed to."""
        named = narrowed()
        configured = self.boto().region_name or USUAL_REGION
        return configured if not named or configured in named else named[0]

    def regions(self) -> tuple[str, ...]:
        """The regions that are looked into: those that `NBPROV_AWS_REGIONS` names, else all that are enabled."""
        return narrowed() or self.enabled()

    def enabled(self) -> tuple[str, ...]:
        """All regions this account can have machines in: those that need no enabling, and those that are enabled."""
        known: tuple[str, ...] = self.fact(("regions",), REGIONS_SECONDS)
        if known:
            return known
        answer = self.call(self.home(), "DescribeRegions")
        found = tuple(
            sorted(
                r["RegionName"] for r in answer["Regions"] if r.get("OptInStatus") != "not-opted-in"
            )
        )
        self.keep(("regions",), found)
        return found

    def fact(self, key: tuple[str, ...], holds: Seconds = float("inf")) -> Any:
        """What `keep` was given under this key for the credentials that hold now, not longer ago than so many seconds; else None."""
        with self._held():
            self._current()
            at, value = self._facts.get(key, (0.0, None))
        # What seems to be from the future was kept before a clock was set back.
        return value if 0 <= time.time() - at < holds else None

    def keep(self, key: tuple[str, ...], value: Any) -> None:
        """Remember something of the account, until its credentials change."""
        with self._held():
            self._facts[key] = (time.time(), value)

    def _current(self) -> Any:
        mark = _mark()
        if self._session is None or mark != self._mark:
            self._clients.clear()
            self._facts.clear()
            self._session, self._mark = _open(), mark
        return self._session

    @staticmethod
    def _named(error: Exception, operation: str) -> CloudError:
        failure = errors.failure_of_exception(error, call=operation)
        # `from None` at the raise: a chain would carry the request, and with it the start script, into a traceback.
        return CloudError(failure or Failure(Cause.UNKNOWN, f"{type(error).__name__}: {error}"))


def narrowed() -> tuple[str, ...]:
    """The regions that `NBPROV_AWS_REGIONS` names; none where it is not set."""
    return tuple(dict.fromkeys(os.environ.get(REGIONS_VARIABLE, "").replace(",", " ").split()))


def _open() -> Any:
    if lacking := missing():
        raise CloudError(lacking)
    from nbprov.clouds.sdk_import import without_collections

    # A quarter of a second of a worker thread; full garbage collections in it would hold the kernel's thread as well.
    with without_collections("boto3"):
        import boto3

    try:
        session = boto3.session.Session()
        found = session.get_credentials()
    except Exception as error:
        raise Session._named(error, "") from None
    if found is None:
        raise CloudError(no_credentials())
    for name in _LOGGERS:
        logging.getLogger(f"botocore.{name}").addFilter(_filter)
    return session


def _mark() -> str:
    """What tells one set of credentials and settings from another without keeping any of it."""
    seen: list[object] = [pair for pair in sorted(os.environ.items()) if pair[0].startswith("AWS_")]
    for name, usual in FILES.items():
        try:
            told = Path(os.environ.get(name) or usual).expanduser().stat()
            seen.append((told.st_mtime_ns, told.st_size))
        except OSError:
            seen.append(None)
    return hashlib.sha256(repr(seen).encode()).hexdigest()


def _method(operation: str) -> str:
    from botocore import xform_name

    return str(xform_name(operation))
