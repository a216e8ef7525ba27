"""The open connection to Compute Engine, and the project in which each machine was last listed."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from nbprov.clouds.gcp.account.clients import Compute
from nbprov.clouds.gcp.account.credentials import Login, endpoint, open_login
from nbprov.clouds.gcp.account.price_list_auth import login_state


class GcpConnection:
    """The current login and client. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: tuple[tuple[str, ...], Login] | None = None
        self._compute: Compute | None = None
        self._project_of: dict[str, str] = {}

    def login(self) -> Login:
        """Return the current login; read it again when the environment or a file of it changed."""
        key = (endpoint(), *login_state())
        with self._lock:
            if self._opened is None or self._opened[0] != key:
                self._opened = (key, open_login())
                self._compute = None
            return self._opened[1]

    def compute(self) -> Compute:
        """Return the client of the login's own project."""
        login = self.login()
        with self._lock:
            if self._compute is None or self._compute.login is not login:
                self._compute = Compute(login)
            return self._compute

    def note_project(self, instance_ids: Iterable[str], project: str) -> None:
        """Remember the project in which machines were listed."""
        with self._lock:
            self._project_of |= dict.fromkeys(instance_ids, project)

    def compute_of(self, instance_id: str) -> Compute:
        """Return the client for a machine.

        Of the project where it was last listed, or of the login's own.
        """
        compute = self.compute()
        with self._lock:
            return compute.within(self._project_of.get(instance_id, compute.project))
