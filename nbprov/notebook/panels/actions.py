"""What the buttons of the panels do: start the work at once, and report a later failure."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import asdict
from typing import Any

from nbprov.api import Cluster, Operation, session
from nbprov.api.reports.launch_log import end_of_log, log_path
from nbprov.machines.recent_tasks import RecentTask, end_of_output, recent_tasks
from nbprov.model.clusters import ClusterState, RunView
from nbprov.model.errors import NbprovError
from nbprov.model.failures import CloudError
from nbprov.notebook.cell_sources import first_line_of

from .clusters_table import ClustersView
from .panel import Panel

LAUNCH = "launch"
"""The kind of the launch's log in a list of tasks."""


class PanelActions:
    """The callbacks of one panel's buttons.

    They run on the kernel's main thread or on a subshell's, so none of them waits.

    Attributes
    ----------
    panel
        The panel with the buttons; set once it is made.
    """

    def __init__(self) -> None:
        self.panel: Panel[Any] | None = None

    def stop(self, name: str) -> None:
        """Stop a cluster."""
        self._report_failure_of(self._shown_cluster(name).stop())

    def start(self, name: str) -> None:
        """Start a stopped cluster."""
        self._report_failure_of(self._shown_cluster(name).start())

    def down(self, name: str) -> None:
        """Terminate a cluster, or cancel its launch."""
        self._report_failure_of(session().down(name, cluster_id=self._id_of(name)))

    def look(self) -> None:
        """Ask what the machines of running clusters do, since a person sees them."""
        session().services.loads.look()

    def console(self, token: str, view: str) -> None:
        """Ask what the machine of an attempt wrote on its console, and send it to a view."""
        asked = session().services.consoles.read(token)
        asked.add_done_callback(lambda done: self._send_console(done, token, view))

    def _send_console(self, done: Future[str], token: str, view: str) -> None:
        error = done.exception()
        text = done.result() if error is None else _words_of(error)
        self._send({"type": "console", "view": view, "key": token, "text": text})

    def tasks(self, name: str, kind: str, id: str, view: str) -> None:
        """Send the latest jobs and cells of a cluster to a view, or the output of one of them.

        The launch's log is listed and sent like the output of a job; no machine is asked for it.
        """
        here = session()
        remote = here.services.remote
        shown = self._shown_cluster(name)  # another cluster may have taken the name
        if kind == LAUNCH:
            path = log_path(here.engine.home, shown.view().run_id)
            self._send_text(
                end_of_log(path) or "its provision log no longer exists", name, id, view
            )
            return
        if not id:
            listed = remote.begin_attached(name, recent_tasks)
            listed.add_done_callback(lambda done: self._send_tasks(done, name, view))
            return
        read = remote.begin_attached(name, lambda live: end_of_output(live, kind, id))
        read.add_done_callback(lambda done: self._send_output(done, name, id, view))

    def _send_tasks(self, done: Future[list[RecentTask]], name: str, view: str) -> None:
        error = done.exception()
        found = done.result() if error is None else []
        found = [*found, RecentTask(LAUNCH, "log", "", None, None)]
        tasks = [{**asdict(task), "code": first_line_of(task.id)} for task in found]
        problem = _words_of(error) if error is not None else ""
        told = {"type": "tasks", "view": view, "name": name, "tasks": tasks, "problem": problem}
        self._send(told)

    def _send_output(self, done: Future[str], name: str, id: str, view: str) -> None:
        error = done.exception()
        text = done.result() if error is None else _words_of(error)
        self._send_text(text, name, id, view)

    def _send_text(self, text: str, name: str, id: str, view: str) -> None:
        text = session().context.mask(text) or "nothing was printed so far"
        self._send({"type": "output", "view": view, "name": name, "id": id, "text": text})

    def ssh(self, name: str) -> str:
        """Return the ssh command that logs in to a cluster."""
        return self._shown_cluster(name).ssh_command()

    def _shown_cluster(self, name: str) -> Cluster:
        return session().cluster(name, cluster_id=self._id_of(name))

    def _id_of(self, name: str) -> str:
        """Return the id of the cluster that the panel shows under this name.

        The id is needed because another cluster may have taken the name since.
        """
        view = self.panel.view if self.panel is not None else None
        if isinstance(view, RunView):
            return view.cluster.cluster_id if view.cluster is not None else view.run_id
        rows = (
            [c for c in view.clusters if c.name == name] if isinstance(view, ClustersView) else []
        )
        # The machine of a lost race has the name of its cluster too, and no buttons.
        rows.sort(key=lambda row: row.state in (ClusterState.ENDING, ClusterState.ENDED))
        return rows[0].cluster_id if rows else ""

    def _report_failure_of(self, begun: Operation) -> None:
        begun.when_failed(self.report)

    def report(self, error: BaseException) -> None:
        """Show an error in the panel. Any thread."""
        self.notice(_words_of(error))

    def notice(self, text: str) -> None:
        """Show a line in the panel. Any thread."""
        self._send({"type": "notice", "view": "", "text": text})

    def _send(self, message: dict[str, Any]) -> None:
        # Sent as a message through the publisher, since the panel's state does not hold it.
        def send() -> None:
            if self.panel is not None and self.panel.widget is not None:
                self.panel.widget.send(message)

        session().engine.publisher.mark((id(self), repr(message)), send)


def _words_of(error: BaseException) -> str:
    if isinstance(error, NbprovError):
        return f"{error.message} {error.hint}".strip()
    if isinstance(error, CloudError):
        return error.failure.sentence()
    return f"{type(error).__name__}: {error}"
