"""The web as downloads see it: which links are followed, and what a failed connection means."""

from __future__ import annotations

import http.client
import socket
import ssl
import urllib.error
import urllib.request
from typing import Any

from .sync_protocol import SyncFailure

SILENCE_SECONDS = 30.0
"""How long to wait for a byte.

A server that is well answers in one second, and a lost packet is sent again in a few."""

MIN_GAIN = 64 * 1024
"""Bytes that a try must bring, or it counts as one without success."""


class Again(Exception):
    """A try failed in a way that may pass.

    Parameters
    ----------
    pause
        Seconds that the server asks to wait.
    """

    def __init__(self, code: str, why: str, pause: float = 0.0) -> None:
        super().__init__(why)
        self.code, self.why, self.pause = code, why, pause


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to https, or from http to http, and keeps log-ins from other hosts."""

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is None:
            return None
        if made.type != "https" and not (made.type == "http" and req.type == "http"):
            raise SyncFailure("redirect", "leads on to an address that is not https")
        if made.host != req.host:
            made.headers = {k: v for k, v in made.headers.items() if k.lower() != "authorization"}
        return made


def make_opener() -> Any:
    """Return what opens links: only http and https, with the machine's proxies."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        Redirects(),
    ):
        opener.add_handler(handler)
    return opener


def connection_failure(error: BaseException) -> Exception:
    """Return what a failed connection means. Its text never repeats the address."""
    reason = (
        error.reason
        if isinstance(error, urllib.error.URLError) and isinstance(error.reason, BaseException)
        else error
    )
    if isinstance(reason, ssl.SSLCertVerificationError):
        return SyncFailure(
            "certificate",
            f"the server's certificate is not one this machine trusts: {reason.verify_message}",
        )
    if isinstance(reason, socket.gaierror):
        return Again("name", "the machine finds no address for the server's name")
    if isinstance(reason, (socket.timeout, TimeoutError)):
        return Again("silent", f"the server sent nothing for {SILENCE_SECONDS:g} s")
    if isinstance(reason, ConnectionRefusedError):
        return Again("connect", "the server refuses the connection")
    if isinstance(error, urllib.error.URLError) and isinstance(reason, OSError) and reason.strerror:
        return Again("connect", f"no connection: {reason.strerror}")
    if isinstance(reason, (OSError, http.client.HTTPException)):
        return Again("cut", "the connection broke")
    return SyncFailure("http", f"could not be fetched ({type(reason).__name__})")
