"""Parts of the API that need no cloud: values of a spec, names, readable errors, waiting."""

from __future__ import annotations

import asyncio
import concurrent.futures
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import nbprov
from nbprov import api
from nbprov.api.errors import CloudTrouble, readable_error, with_readable_errors
from nbprov.api.operation import Operation
from nbprov.api.spec_inputs import collect
from nbprov.model.errors import Interrupted, NotFound, UsageError
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.secret import Secret
from nbprov.model.spec import Spec
from nbprov.model.text.variable_values import MOST_BYTES, why_unfit

SPEC = Spec(envs={"FIXED": "1", "OPEN": None}, secrets={"TOKEN": None, "LITERAL": Secret("shh")})


def test_the_callers_value_beats_the_specs_and_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPEN", "from the kernel")
    monkeypatch.setenv("FIXED", "not this")
    found = collect(SPEC, {"TOKEN": "t"})
    assert found.envs == {"FIXED": "1", "OPEN": "from the kernel"}
    everything = found.everything()
    assert {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in everything.items()
    } == {
        "FIXED": "1",
        "OPEN": "from the kernel",
        "TOKEN": "t",
        "LITERAL": "shh",
    }
    assert [name for name, value in everything.items() if isinstance(value, Secret)] == [
        "TOKEN",
        "LITERAL",
    ]
    assert collect(SPEC, {"TOKEN": "t", "OPEN": "mine", "FIXED": "2"}).envs == {
        "FIXED": "2",
        "OPEN": "mine",
    }


def test_secrets_are_neither_shown_nor_kept() -> None:
    found = collect(SPEC, {"TOKEN": "canary", "OPEN": "x"})
    assert "canary" not in repr(found)
    assert "shh" not in repr(found)
    assert "canary" not in repr(found.everything())


def test_everything_missing_is_named_at_once_after_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool]] = []

    def ask(name: str, hidden: bool) -> str | None:
        asked.append((name, hidden))
        return None

    with pytest.raises(UsageError) as caught:
        collect(SPEC, {}, ask)
    assert asked == [("OPEN", False), ("TOKEN", True)]
    assert (caught.value.code, caught.value.message) == ("env.missing", "no value for OPEN, TOKEN")


def test_a_value_for_a_name_that_the_spec_does_not_have() -> None:
    with pytest.raises(UsageError, match="no env called OTHER"):
        collect(SPEC, {"OTHER": "1", "OPEN": "1", "TOKEN": "1"})


@pytest.mark.parametrize("name", ["dev", "my-gpu.2", "A", "8gpus", "a__b"])
def test_names(name: str) -> None:
    assert api.Session.name_of(Spec(), name) == name


@pytest.mark.parametrize("name", ["-dev", "dev-", "a b", "a/b", "a___b", "ä", "$x", "{x}"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be a cluster's name"):
        api.Session.name_of(Spec(), name)


def test_the_specs_own_name_comes_second() -> None:
    assert api.Session.name_of(Spec(name="mine")) == "mine"
    assert api.Session.name_of(Spec(name="mine"), "given") == "given"
    assert api.Session.name_of(Spec()) == "cluster"


@pytest.mark.parametrize("cause", list(Cause))
def test_a_clouds_failure_becomes_an_error_that_is_short_and_says_what_to_do(cause: Cause) -> None:
    error = CloudError(Failure(cause, "the cloud's words"))
    told = readable_error(error)
    assert isinstance(told, CloudTrouble)
    assert told.code == f"cloud.{cause.value}"
    assert "the cloud's words" in told.message
    assert told.hint
    assert told.__cause__ is error
    assert len(told.render()) == 2


def test_other_errors_stay_themselves() -> None:
    for error in (ValueError("x"), NotFound("y")):
        assert readable_error(error) is error

    async def raises() -> None:
        raise CloudError(Failure(Cause.CAPACITY, "none left"))

    with pytest.raises(CloudTrouble, match="none left"):
        asyncio.run(with_readable_errors(raises()))


def test_done_tells_of_its_end_and_of_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    future: concurrent.futures.Future[None] = concurrent.futures.Future()
    done = Operation(future, "ending dev")
    failed: list[BaseException] = []
    done.when_failed(failed.append)
    assert repr(done) == "<ending dev: under way>"

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(concurrent.futures, "wait", interrupted)
        with pytest.raises(Interrupted, match="ending dev goes on in the background"):
            done.wait()
    future.set_exception(NotFound("gone"))
    assert [str(error) for error in failed] == ["gone  [not-found]"]
    with pytest.raises(NotFound):
        done.wait()
    with pytest.raises(NotFound):
        asyncio.run(_await(done))


async def _await(done: Operation) -> None:
    await done


def test_one_session_a_process_however_many_ask(nbprov_home: Path) -> None:
    try:
        assert api.current() is None
        made: list[api.Session] = []
        threads = [threading.Thread(target=lambda: made.append(nbprov.session())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(session) for session in made}) == 1
        engines = {id(session.engine) for session in made}
        assert len(engines) == 1
        assert nbprov.costs() == []
        assert nbprov.attempts() == []
    finally:
        api.close()
    assert api.current() is None
    api.close()


def test_books_of_a_run_that_was_never_launched(nbprov_home: Path) -> None:
    try:
        with pytest.raises(NotFound, match="no live cluster is called 'dev'"):
            nbprov.cluster("dev")
        with pytest.raises(UsageError, match="at least 1"):
            nbprov.provision("resources: {infra: local}", race=0)
        with pytest.raises(NotFound, match="no cloud is called 'nosuch'"):
            nbprov.check(["nosuch"])
    finally:
        api.close()


@pytest.mark.parametrize("held", ["x" * 131_072, "a\0b", "a\ud800b"])
@pytest.mark.parametrize("name", ["OPEN", "TOKEN"])
def test_a_value_that_no_process_can_be_given_is_refused_by_name(name: str, held: str) -> None:
    with pytest.raises(UsageError, match=f"the value of {name} ") as caught:
        collect(SPEC, {"OPEN": "1", "TOKEN": "t", name: held})
    assert caught.value.code == "env.unfit"
    assert len(caught.value.message) < 200
    assert "xx" not in caught.value.message


def test_values_that_no_process_can_be_given_together() -> None:
    names = [f"V{n}" for n in range(20)]
    with pytest.raises(UsageError, match=r"have .* bytes together; a process takes 1,500,000"):
        collect(Spec(envs=dict.fromkeys(names)), dict.fromkeys(names, "x" * 100_000))


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_the_longest_value_is_what_linux_takes() -> None:
    longest = "x" * (MOST_BYTES - len("V="))
    assert why_unfit("V", longest) == ""
    assert subprocess.run(["true"], env={"V": longest}, check=True).returncode == 0
    assert why_unfit("V", longest + "x")
    with pytest.raises(OSError, match="Argument list too long"):
        subprocess.run(["true"], env={"V": longest + "x"}, check=True)
