"""Checks that no secret is stored, printed, logged, or part of a message or an address."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import sys
import threading
import traceback
import uuid
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbprov.model.failures import Cause, CloudError
from nbprov.model.launches import InstanceState, Launch

from .checks import answers, check
from .subject import CloudUnderTest, eventually

LIBRARIES = frozenset({"boto3", "botocore", "google", "s3transfer", "urllib3"})
"""Libraries that write all they send and get at the level DEBUG, for whoever asks for that."""


@contextlib.contextmanager
def printed() -> Iterator[io.StringIO]:
    """Yield everything that is printed, warned of or logged at any level.

    The command lines of processes that are started, and what is written into files, count too.
    """
    said = io.StringIO()
    handler, root = logging.StreamHandler(said), logging.getLogger()
    handler.addFilter(
        lambda record: (
            record.levelno >= logging.INFO or record.name.partition(".")[0] not in LIBRARIES
        )
    )
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with (
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
            warnings.catch_warnings(record=True) as warned,
            watched() as done,
        ):
            warnings.simplefilter("always")
            yield said
        said.writelines(str(one.message) for one in warned)
        said.writelines(done)
    finally:
        root.setLevel(before)
        root.removeHandler(handler)


@contextlib.contextmanager
def watched() -> Iterator[list[str]]:
    """Yield a list of the commands that this thread starts and the texts of files that it writes.

    The list is filled at the end.
    """
    commands, paths, me = list[str](), list[str](), threading.get_ident()

    def note(event: str, told: tuple[Any, ...]) -> None:
        if threading.get_ident() != me:
            return
        if event == "subprocess.Popen":
            commands.append(str(told[1]))
        elif event == "open" and isinstance(told[0], str) and _is_written(told):
            paths.append(told[0])

    done: list[str] = []
    _watchers.append(note)
    if len(_hooks) == 0:
        _hooks.append(_tell)
        sys.addaudithook(_tell)
    try:
        yield done
    finally:
        _watchers.remove(note)
        done += commands
        for path in dict.fromkeys(paths):
            if Path(path).is_file():
                done.append(Path(path).read_bytes().decode("utf-8", "replace"))


_watchers: list[Callable[[str, tuple[Any, ...]], None]] = []
_hooks: list[Callable[[str, tuple[Any, ...]], None]] = []
"""Python keeps an audit hook for good: there is one, from the first watcher on."""


def _tell(event: str, told: tuple[Any, ...]) -> None:
    for watcher in _watchers:
        watcher(event, told)


def _is_written(told: tuple[Any, ...]) -> bool:
    mode, flags = told[1], told[2]
    return bool({*"wax+"} & {*(mode or "")}) or bool((flags or 0) & (os.O_WRONLY | os.O_RDWR))


def with_canary(launch: Launch) -> tuple[Launch, list[str]]:
    """Return the launch with a secret of a user in its script, and the secrets it has now."""
    canary = f"canary-{uuid.uuid4().hex}"
    launch = replace(
        launch,
        user_data_template=launch.user_data_template + ': "@@secret@@"\n',
        template_values={**launch.template_values, "secret": canary},
    )
    return launch, [canary, launch.template_values["host_key"].splitlines()[1]]


def files(subject: CloudUnderTest) -> dict[str, str]:
    """Return the files that the cloud and the adapter wrote."""
    home = Path(os.environ["NBPROV_HOME"]) if "NBPROV_HOME" in os.environ else None
    own = {str(p): p.read_bytes() for p in home.rglob("*") if p.is_file()} if home else {}
    return {k: v.decode("utf-8", "replace") for k, v in {**own, **subject.written()}.items()}


def expect_none(secrets: list[str], told: dict[str, str]) -> None:
    """Fail if one of these secrets is in one of these texts."""
    for what, text in told.items():
        for word in secrets:
            at = text.find(word)
            around = text[max(0, at - 60) : at].replace(word, "•••")
            assert at < 0, f"a secret is in {what}, after {around!r}"


def told_of(error: BaseException) -> str:
    """Return all that an error and those behind it say."""
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.__dict__)


@check
def secrets_stay_out_of_what_is_kept_and_shown(subject: CloudUnderTest) -> None:
    launch, secrets = with_canary(subject.launch())
    secrets += subject.secrets()
    with printed() as said:
        operation = subject.cloud.submit(launch)
        (machine,) = subject.accepted(operation)
        shown = subject.in_state(launch.owner, machine, InstanceState.RUNNING)
        told = {
            "the operation": f"{operation}{dict(operation.data)}",
            "the machine": repr(shown),
            "the answer of check()": repr(subject.cloud.check()),
            "a side object": repr(subject.cloud.side_objects(launch.owner)),
            "the adapter's repr": f"{subject.cloud!r}{vars(subject.cloud)!r}",
        }
        eventually(lambda: answers(shown), "an ssh server")
        if subject.addresses and (found := subject.fetcher()) is not None:
            told["the price list"] = repr(found.fetch(subject.fetch_context()))
        told["the console"] = subject.cloud.console(machine)
        assert len(told["the console"]) <= 64_000, "a console longer than 64 kB"
        subject.cloud.terminate([machine])
        subject.gone(launch.owner, [machine])
    expect_none(secrets, {**told, "what was printed or logged": said.getvalue()})
    expect_none(secrets, files(subject))
    if subject.addresses:
        asked = [one.target for one in subject.relay.requests]
        expect_none(secrets, {"the address of a request": "\n".join(asked)})


@check
def secrets_are_sent_where_they_are_needed_alone(subject: CloudUnderTest) -> None:
    """A label or a name is shown to whoever may look at the account."""
    launch, secrets = with_canary(subject.launch())
    with subject.relay.noted() as sent:
        subject.accepted(subject.cloud.submit(launch))
    for one in sent:
        told = {f"the body of {one.method} {one.target}": one.body.decode("utf-8", "replace")}
        expect_none(subject.secrets(), told)
        for secret in secrets:
            count = one.body.count(secret.encode())
            assert count <= 1, (
                f"{one.method} {one.target} has a secret of the start script {count} times:"
                " expected it in the script alone"
            )


@check
def secrets_stay_out_of_what_a_lost_create_says(subject: CloudUnderTest) -> None:
    launch, secrets = with_canary(subject.launch())
    subject.lose_answer()
    error: CloudError | None = None
    with printed() as said:
        try:
            subject.cloud.submit(launch)
        except CloudError as lost:
            error = lost
    assert error is not None, "an answer was lost: expected an error"
    told = {"the error": told_of(error), "what was printed or logged": said.getvalue()}
    expect_none(secrets + subject.secrets(), {**told, **files(subject)})


@check
def secrets_that_a_refusal_repeats_are_not_passed_on(subject: CloudUnderTest) -> None:
    """Services repeat what they were sent: a key that is wrong, a script that is too long."""
    relay = subject.relay
    launch, secrets = with_canary(subject.launch())
    with relay.noted() as sent:
        subject.cloud.check()
    told_to_it = repr([{**one.headers} for one in sent])
    secrets += [one for one in subject.secrets() if one in told_to_it]
    sentence = re.compile(rb'(?<=[">])[^"<>{}]*\w[.,:;]? [^"<>{}]*(?=["<])')
    repeated = 0

    def echoed(status: int, body: bytes) -> bytes:
        nonlocal repeated
        text = json.dumps(" ".join(secrets))[1:-1].encode()
        if status < 400:
            return body
        body, count = sentence.subn(lambda found: found[0] + b" " + text, body)
        repeated += count
        return body

    subject.refuse(Cause.BAD_REQUEST)
    error: CloudError | None = None
    with relay.rewritten(echoed), printed() as said:
        try:
            subject.accepted(subject.cloud.submit(launch))
        except CloudError as refused:
            error = refused
        except AssertionError:
            pass
    assert repeated, "no refusal of the double has words: expected a sentence in each"
    told = {"what was printed or logged": said.getvalue()}
    if error is not None:
        told["the message"] = f"{error}{error.failure}"
    expect_none(secrets, {**told, **files(subject)})
