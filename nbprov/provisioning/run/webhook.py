"""The end of a wait, told to whom the spec names: one POST, whose failure is only a line."""

from __future__ import annotations

import json
import threading
import urllib.parse
from typing import TYPE_CHECKING, Any

from nbprov.model.clock import Seconds, short_duration
from nbprov.model.clusters import RunState
from nbprov.model.run_policies import Wait

if TYPE_CHECKING:
    from .driver import RunDriver

POST_SECONDS: Seconds = 10.0
"""A service that takes messages answers within a second or not at all."""


def wait_words(wait: Wait) -> str:
    """What is said of a wait before Launch; empty where there is none."""
    if not wait.seconds:
        return ""
    told = (
        "; its end is posted to your webhook"
        if wait.webhook
        else "; its end is told here"
        if wait.notify
        else ""
    )
    return f"wait: where nothing is in stock it is watched for {short_duration(wait.seconds)} from Launch on{told}"


def announce(run: RunDriver) -> None:
    """Post how a run with a `wait` ended, from a thread of its own. Never raises; neither the address nor an answer is shown or stored."""
    address = run.spec.wait.webhook
    words = {RunState.READY: "is ready", RunState.FAILED: "got no machine"}.get(run.state)
    if not address or words is None:
        return
    if not _is_web(address):
        run.runlog.line("the webhook was not told: its address is no http or https URL")
        return
    waited = short_duration(run.clock.now() - run.started)
    body = {
        "text": f"{run.name} {words} after {waited}",
        "name": run.name,
        "state": run.state.value,
        "run_id": run.run_id,
    }

    def told() -> None:
        run.runlog.line(f"webhook: {_post(address, body)}")

    threading.Thread(target=told, name="nbprov-webhook", daemon=True).start()


def _is_web(address: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(address)
        return parts.scheme in ("https", "http") and bool(parts.hostname)
    except ValueError:
        return False


def _post(address: str, body: dict[str, str]) -> str:
    # The way to the web takes as long to load as all of a launch's own rules, and few specs have a webhook.
    import http.client
    import urllib.error
    import urllib.request

    class NoRedirects(urllib.request.HTTPRedirectHandler):
        """A message that was sent on arrives as a question, or elsewhere: then it was not told."""

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
        # The words of an error may quote the address, which may be a secret.
        return f"could not be told: {type(error).__name__}"
