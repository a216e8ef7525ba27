"""Post the end of a wait for stock to the webhook that the spec names.

It is one POST, and its failure is only a line in the run's log.
"""

from __future__ import annotations

import json
import threading
import urllib.parse
from typing import Any

from nbprov.model.clock import Seconds, short_duration
from nbprov.model.clusters import RunState
from nbprov.model.run_policies import WaitPolicy
from nbprov.model.text.plain import one_line

from .context import RunContext

POST_SECONDS: Seconds = 10.0
"""How long the POST may take; a message service answers within a second or not at all."""


def wait_words(wait: WaitPolicy) -> str:
    """The note on a wait before Launch; empty where there is none."""
    if not wait.seconds:
        return ""
    told = (
        f"; its end is posted to {host_of(wait.webhook)}"
        if wait.webhook
        else "; its end is told here"
        if wait.notify
        else ""
    )
    return (
        f"wait: where nothing is in stock it is watched for {short_duration(wait.seconds)}"
        f" from Launch on{told}"
    )


def host_of(address: str) -> str:
    """The host of a webhook, with its port where it names one. The rest may be a key to it.

    Examples
    --------
    >>> host_of("https://hooks.example.com/T0/B0/key"), host_of("http://me:pw@127.0.0.1:8888/x")
    ('hooks.example.com', '127.0.0.1:8888')
    """
    try:
        parts = urllib.parse.urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host:
        return "an address without a host, which fails"
    return one_line(f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")


def announce(context: RunContext) -> None:
    """Post how a run with a `wait` ended, from a thread of its own.

    It never raises, and neither the address nor an answer is shown or stored.
    """
    progress = context.progress
    address = progress.spec.wait.webhook
    words = {RunState.READY: "is ready", RunState.FAILED: "got no machine"}.get(progress.state)
    if not address or words is None:
        return
    if not _is_web(address):
        context.runlog.line("the webhook was not told: its address is no http or https URL")
        return
    waited = short_duration(context.clock.now() - progress.started)
    body = {
        "text": f"{progress.name} {words} after {waited}",
        "name": progress.name,
        "state": progress.state.value,
        "run_id": context.run_id,
    }

    def post() -> None:
        context.runlog.line(f"webhook: {_post(address, body)}")

    threading.Thread(target=post, name="nbprov-webhook", daemon=True).start()


def _is_web(address: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(address)
        return parts.scheme in ("https", "http") and bool(parts.hostname)
    except ValueError:
        return False


def _post(address: str, body: dict[str, str]) -> str:
    # These modules take long to load, and few specs have a webhook.
    import http.client
    import urllib.error
    import urllib.request

    class NoRedirects(urllib.request.HTTPRedirectHandler):
        """Refuses redirects: they would turn the POST into a GET, or send it elsewhere."""

        def redirect_request(self, *args: Any, **options: Any) -> None:
            return None

    headers = {"Content-Type": "application/json", "User-Agent": "nbprov"}
    try:
        request = urllib.request.Request(
            address, data=json.dumps(body).encode(), headers=headers, method="POST"
        )
        with urllib.request.build_opener(NoRedirects).open(request, timeout=POST_SECONDS) as answer:
            return f"told ({answer.status})"
    except urllib.error.HTTPError as error:
        return f"could not be told: it answered {error.code}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        # The message of an error may quote the address, which may be a secret.
        return f"could not be told: {type(error).__name__}"
