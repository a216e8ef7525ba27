"""What all services of a session share: the engine, its runs, and the values it was given."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from nbprov.model.clusters import RunState, RunView
from nbprov.model.errors import NbprovError
from nbprov.model.spec import Spec

from .spec_inputs import SpecInputs
from .steps import Steps

if TYPE_CHECKING:
    from nbprov.provisioning.engine import Engine
    from nbprov.provisioning.engine_hooks import EngineHooks
    from nbprov.provisioning.run.driver import RunDriver
    from nbprov.remote.agent.messages import Environment

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a cell asked for on a running cluster, whether or not it was begun.

    Attributes
    ----------
    folder
        What relative paths are relative to.
    given
        The values for it, where they were collected; None where nobody was asked yet.
    """

    spec: Spec
    folder: str
    given: SpecInputs | None = None


class RunHandle(Protocol):
    """A run of this session, as far as services need it."""

    @property
    def run_id(self) -> str:
        """Its id in the ledger."""

    @property
    def driver(self) -> RunDriver:
        """The driver of its launch, on the engine thread."""

    @property
    def state(self) -> RunState:
        """How far it came."""

    @property
    def done(self) -> bool:
        """Whether its cluster is set up, or could not be."""

    @property
    def launched(self) -> bool:
        """Whether somebody agreed to its price."""

    @property
    def is_under_way(self) -> bool:
        """Whether its machines are being created or terminated."""

    def view(self) -> RunView:
        """A snapshot for display."""

    def until_set_up(self) -> Steps[Any]:
        """Wait until its cluster is set up; an interrupt leaves the launch alone."""


class Context:
    """The engine, the runs and the secrets of one session.

    Parameters
    ----------
    home
        Folder of the ledger, keys and logs; the user's own by default.
    demo
        Whether the simulated `local` cloud enters every plan, not only those that name it.
    runs
        The runs of this session, by the names of their clusters.
    hooks
        Makes the hooks of an engine that is about to be opened.
    opened
        Called with each engine that was opened.

    Attributes
    ----------
    inputs
        Values that this session was given for a spec, by the id of its run.
    proposed
        What a cell last asked for on a running cluster, by run id. Only `SetupService.set_up_again`
        reads it: a person asks for that.
    requested
        The spec that a running cluster was last set up from, and its folder, by run id. A machine
        that replaces a lost one is set up from it without asking.
    """

    def __init__(
        self,
        home: Path | None,
        *,
        demo: bool,
        runs: Mapping[str, RunHandle],
        hooks: Callable[[], EngineHooks],
        opened: Callable[[Engine], None],
    ) -> None:
        self.demo = demo
        self.runs = runs
        self.inputs: dict[str, SpecInputs] = {}
        self.proposed: dict[str, Proposal] = {}
        self.requested: dict[str, tuple[Spec, str]] = {}
        self._home, self._hooks, self._opened = home, hooks, opened
        self._engine: Engine | None = None
        self._is_closing = False
        # Reentrant: what is called with a new engine asks for it again.
        self._lock = threading.RLock()
        self._secrets: frozenset[str] = frozenset()

    # ------------------------------------------------------------ engine

    @property
    def engine(self) -> Engine:
        """The engine; its thread and ledger are opened on first use."""
        engine = self._engine
        if engine is not None:
            return engine
        with self._lock:
            if self._engine is None:
                from nbprov.provisioning.engine import Engine

                self._engine = Engine(self._home, hooks=self._hooks())
                self._opened(self._engine)
            return self._engine

    @property
    def is_open(self) -> bool:
        """Whether there is an engine, and the session is not about to close."""
        return self._engine is not None and not self._is_closing

    def is_open_on(self, engine: Engine) -> bool:
        """Whether the session still works with this engine and has not been closed since."""
        return self._engine is engine and not self._is_closing

    def close(self) -> None:
        """Give up leases and stop the engine's thread. Machines go on."""
        with self._lock:
            engine, closes = self._engine, not self._is_closing
            self._is_closing = self._is_closing or engine is not None
        if engine is None or not closes:
            return
        try:
            # It stays in place meanwhile: its own tasks must not open another engine.
            engine.shut_down()
        finally:
            with self._lock:
                self._engine, self._is_closing = None, False

    # ------------------------------------------------------------ specs

    def spec_of(self, run_id: str) -> Spec:
        """The spec that a run was launched from, by the ledger; empty where it is not readable."""
        run = self.engine.ledger.runs.get(run_id)
        return (_parsed(run.spec) or Spec()) if run is not None else Spec()

    def can_read_spec(self, run_id: str) -> bool:
        """Whether this release can read the ledger's spec of a run."""
        run = self.engine.ledger.runs.get(run_id)
        return run is not None and _parsed(run.spec) is not None

    def wished(self, run_id: str) -> tuple[Spec, str]:
        """The spec that a cluster was last set up from, else the ledger's; and its folder."""
        if run_id in self.requested:
            return self.requested[run_id]
        run = self.engine.ledger.runs.get(run_id)
        return self.spec_of(run_id), run.folder if run is not None else ""

    # ------------------------------------------------------------ values and secrets

    def set_inputs(self, run_id: str, inputs: SpecInputs) -> None:
        """Keep the values for a run's spec in memory, and mask its secrets from now on."""
        self.inputs[run_id] = inputs
        self.add_secrets(inputs.everything())

    def add_secrets(self, values: Environment) -> None:
        """Mask the secrets among these values from now on."""
        from nbprov.machines.output_masking import masker

        with self._lock:
            self._secrets |= {*masker(values).values}

    def secrets(self) -> tuple[str, ...]:
        """The secrets that this session was given."""
        return tuple(self._secrets)

    def mask(self, text: str) -> str:
        """The text with the secrets of this session masked."""
        from nbprov.on_machine.agent.masking import Masker

        return Masker(self._secrets)(text)


class EngineBound(Generic[T]):
    """A part of a service that belongs to one engine: it is made again where the engine is.

    Parameters
    ----------
    make
        Makes the part for an engine; called once for each.
    """

    def __init__(self, context: Context, make: Callable[[Engine], T]) -> None:
        self._context, self._make = context, make
        self._lock = threading.RLock()
        self._made: tuple[Engine, T] | None = None

    def get(self) -> T:
        """The part for the engine of now; opens the engine where there is none."""
        engine = self._context.engine
        with self._lock:
            if self._made is None or self._made[0] is not engine:
                self._made = engine, self._make(engine)
            return self._made[1]

    def made(self) -> T | None:
        """The part, if it was made for the engine of now; opens nothing."""
        made = self._made
        return made[1] if made is not None and self._context.is_open_on(made[0]) else None


@lru_cache(maxsize=256)
def _parsed(source: str) -> Spec | None:
    # Each change of a cluster asks for its guards; parsing YAML every time would hold up the
    # engine thread.
    from nbprov.spec import parse

    try:
        return parse(source)
    except NbprovError:
        return None
