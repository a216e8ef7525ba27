"""Credentials and boto3 clients: one for each service and region, with bounded calls.

Every exception of a call becomes a `CloudError` with its cause.
"""

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
from nbprov.clouds.web.proxies import without_proxy_logins
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure

REGIONS_VARIABLE = "NBPROV_AWS_REGIONS"
"""The variable that names the only regions to use, separated by commas or spaces. It is for
accounts that may not, or never, use the others."""
USUAL_REGION = "us-east-1"
AT_ONCE = 24
"""How many regions are asked at once: an ordinary account has 17."""
REGIONS_SECONDS: Seconds = 3600.0
"""How long the list of enabled regions is remembered. Enabling a region is done by hand and takes
minutes to hours."""

CREDENTIALS_SECONDS: Seconds = 10.0
"""How long a call waits for credentials that another call is reading. It is less than any bound
that the engine sets for a call."""

ASK, CREATE, QUICK = "ask", "create", "quick"
_BOUNDS: Mapping[str, tuple[Seconds, Seconds, int]] = {
    # kind: connect seconds, read seconds, attempts. Two ASK attempts of 3 + 5 s, with a pause in
    # between, stay under LIST_SECONDS (20).
    ASK: (3.0, 5.0, 2),
    # One attempt only: botocore would repeat a capacity refusal, which is a 5xx (measured: 3
    # requests, or 7.3 s). Retries are the engine's.
    CREATE: (3.0, 15.0, 1),
    # For calls that a person waits for: a check (5 s) or the stock (3 s).
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
    """Keeps start scripts, which hold keys, out of botocore's debug log."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "UserData" not in record.getMessage()


_filter = _NoStartScript()


class AwsAccount:
    """The clients of one account. Safe to use from several threads.

    Nothing is imported or read before the first use. Credentials come from boto3's own chain; when
    an environment variable or a credentials file changes, the next call uses the new ones.
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
        # A credential process of the user's may hang while it holds the lock. Then only its own
        # thread is stuck.
        if not self._lock.acquire(timeout=CREDENTIALS_SECONDS):
            words = (
                f"the AWS credentials could not be read within {CREDENTIALS_SECONDS:g} s: "
                "a credential_process or a sign-on may be hanging"
            )
            raise CloudError(Failure(Cause.TRANSIENT, words, "slow-credentials"))
        try:
            yield
        finally:
            self._lock.release()

    def boto(self) -> Any:
        """Return the boto3 session of the current credentials.

        Raises
        ------
        CloudError
            `credentials` if there are none or they cannot be read; `bad_request` without boto3.
        """
        with self._held():
            return self._current()

    def client(self, service: str, region: str, kind: str = ASK) -> Any:
        """Return a client of a service in a region, with the timeouts of its kind."""
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
        """Begin no further call in this thread after so many seconds, to bound several calls
        together.

        A call that has begun may end later, by its own timeouts.
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
        """Make one call, by AWS's name for it (`DescribeInstances`).

        Raises
        ------
        CloudError
            For anything that goes wrong, with its cause.
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
            raise self._named(error, operation, region) from None

    def pages(
        self,
        region: str,
        operation: str,
        kind: str = ASK,
        *,
        service: str = "ec2",
        **arguments: Any,
    ) -> Iterator[Any]:
        """Return all pages of an answer.

        A page token that repeats itself raises an error, instead of looping for ever.
        """
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
        """Return the number of the account that the current credentials belong to."""
        known = self.fact(("account",))
        if known:
            return str(known)
        before = self.boto()
        number = str(self.call(self.home(), "GetCallerIdentity", QUICK, service="sts")["Account"])
        if self.boto() is not before:
            raise CloudError(
                Failure(
                    Cause.TRANSIENT,
                    "the AWS credentials changed while nbprov asked which account they belong to",
                    "changed",
                )
            )
        self.keep(("account",), number)
        return number

    def home(self) -> str:
        """Return the region of the user's AWS configuration.

        If `NBPROV_AWS_REGIONS` excludes it, the first region named there is used.
        """
        named = narrowed()
        configured = self.boto().region_name or USUAL_REGION
        return configured if not named or configured in named else named[0]

    def regions(self) -> tuple[str, ...]:
        """Return the regions in use.

        Those that `NBPROV_AWS_REGIONS` names, or all that are enabled.
        """
        return narrowed() or self.enabled()

    def enabled(self) -> tuple[str, ...]:
        """Return all regions that this account can have machines in."""
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
        """Return what `keep` stored under this key for the current credentials.

        Returns None if nothing was stored, or longer ago than `holds` seconds.
        """
        with self._held():
            self._current()
            at, value = self._facts.get(key, (0.0, None))
        # A time in the future was stored before the clock was set back; it counts as old.
        return value if 0 <= time.time() - at < holds else None

    def keep(self, key: tuple[str, ...], value: Any) -> None:
        """Remember a fact about the account until its credentials change."""
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
    def _named(error: Exception, operation: str, region: str = "") -> CloudError:
        failure = errors.failure_of_exception(error, call=operation, region=region)
        # Callers raise it `from None`: a chained traceback would carry the request with its start
        # script.
        words = without_proxy_logins(f"{type(error).__name__}: {error}")
        return CloudError(failure or Failure(Cause.UNKNOWN, words))


def narrowed() -> tuple[str, ...]:
    """Return the regions that `NBPROV_AWS_REGIONS` names; none if it is not set."""
    return tuple(dict.fromkeys(os.environ.get(REGIONS_VARIABLE, "").replace(",", " ").split()))


def _open() -> Any:
    if lacking := missing():
        raise CloudError(lacking)
    from nbprov.clouds.sdk_import import without_collections

    # The import takes a quarter of a second in this worker thread. Full garbage collections during
    # it would also block the kernel's thread.
    with without_collections("boto3"):
        import boto3

    try:
        session = boto3.session.Session()
        found = session.get_credentials()
    except Exception as error:
        raise AwsAccount._named(error, "") from None
    if found is None:
        raise CloudError(no_credentials())
    for name in _LOGGERS:
        logging.getLogger(f"botocore.{name}").addFilter(_filter)
    return session


def _mark() -> str:
    """Return a hash that changes with the credentials and settings and reveals none of them.

    A client keeps the proxies that were set when it was made.
    """
    seen: list[object] = [
        (name, value)
        for name, value in sorted(os.environ.items())
        if name.startswith("AWS_") or name.lower().endswith("_proxy")
    ]
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
