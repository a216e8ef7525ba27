"""Collect the output of a running cell.

It is made harmless, bounded and marked with its node; the result or the error comes at the end.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbprov.machines.sanitize.display_data import safe_content, safe_page
from nbprov.machines.sanitize.text import TextFilter, clean_text
from nbprov.model.errors import NbprovError
from nbprov.remote.agent.framing import DISK_FULL_HINT
from nbprov.remote.agent.messages import OutputPiece
from nbprov.runtime.fault_log import log_fault

log = logging.getLogger("nbprov.machines")

Message = dict[str, Any]
OnOutput = Callable[[Message], None] | None

TEXT_LIMIT = 4_000_000
"""Characters of text that one cell may put into the page.

Browsers stop responding at some tens of MB, and nobody reads that far.
"""

RICH_TOTAL = 64_000_000
"""Characters of figures, tables and other displays, updates included, that one cell may show."""

LEAST = 20
"""Least charge for a piece of text, since a flood of single characters stops a page too."""

MESSAGE = 500
"""Least charge for a message, however little is in it: the size of its frame."""

LONGEST_LINE = 100_000
"""With several nodes, a line is shown when it is complete; a longer one is shown in parts."""

KEPT_TEXT = 64_000_000
"""Characters of a cell's result, a bound on what a hostile machine can make this kernel keep."""

UNREADABLE = "[an output that could not be read]"

TRACEBACK_LINES = 400
TRACEBACK_CHARACTERS = 200_000
"""Limits of a traceback.

A recursion error has some thousand characters a frame, and IPython shortens it.
"""


class RemoteCellError(NbprovError):
    """Code on the machine raised, or a script ended with a code other than 0.

    Attributes
    ----------
    traceback
        The remote traceback as the kernel there formatted it, with colours.
    """

    code = "remote"

    def __init__(
        self,
        message: str,
        *,
        traceback: Sequence[str] = (),
        hint: str = "",
        code: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.traceback = tuple(traceback)

    def _render_traceback_(self) -> list[str]:
        if not self.traceback:
            return self.render()
        return [*self.traceback, *([f"  next: {self.hint}"] if self.hint else [])]


@dataclass(frozen=True, slots=True)
class CellResult:
    """The result of a cell.

    Attributes
    ----------
    text
        All text that it wrote, including the text form of results.
    value
        The text form of the last expression; empty if there was none.
    exit_code
        The exit code of a shell script; 0 for Python.
    by_node
        The results by node, where it ran on several.
    """

    text: str
    value: str = ""
    exit_code: int = 0
    by_node: Mapping[int, CellResult] = field(default_factory=dict)


def size_of(content: Message) -> int:
    """Return what a display counts for."""
    return (
        MESSAGE
        + len(content.get("frame", {}).get("page", ""))
        + sum(
            len(value) if isinstance(value, str) else len(json.dumps(value))
            for value in content.get("data", {}).values()
        )
    )


class OutputBudget:
    """How much output a cell may still show, on all its nodes together.

    Parameters
    ----------
    read_on
        The command that shows the rest, for the line that says that output was left out.
    """

    def __init__(self, on_output: OnOutput, read_on: str) -> None:
        self._on_output, self._read_on = on_output, read_on
        self._text, self._rich, self._is_said = TEXT_LIMIT, RICH_TOTAL, False

    def text(self, name: str, text: str) -> None:
        """Show a text, or the part of it that still fits."""
        fitting = text[: max(0, self._text)]
        self._text -= max(len(fitting), LEAST)
        if fitting:
            self.send("stream", {"name": name, "text": fitting})
        if len(fitting) < len(text):
            self._over()

    def rich(self, kind: str, content: Message) -> None:
        """Show a display if it still fits."""
        size = size_of(content)
        if size > self._rich:
            self._over()
            return
        self._rich -= size
        self.send(kind, content)

    def send(self, kind: str, content: Message) -> None:
        """Send a message without charge."""
        if self._on_output is not None:
            self._on_output({"msg_type": kind, "content": content})

    def note(self, text: str) -> None:
        """Show a line of ours about the cell."""
        self.send("stream", {"name": "stderr", "text": f"nbprov: {text}\n"})

    def _over(self) -> None:
        if not self._is_said:
            self._is_said = True
            self.send(
                "stream",
                {
                    "name": "stderr",
                    "text": "\nnbprov: more output than a page can show;"
                    f" the rest is kept there: {self._read_on}\n",
                },
            )


class OutputCollation:
    """Turns the agent's outputs of one node into Jupyter messages, and keeps the result.

    Parameters
    ----------
    namespace
        Identifies the machine, so that it cannot update displays of others.
    prefix
        Put before each line where a cell runs on several nodes. Displays then wait for `flush`,
        so that they come in the order of the nodes.
    is_log
        Whether `text` is to be a log: displays have their own lines in it, and what the machine
        dropped is named.

    Attributes
    ----------
    has_gap
        Whether the machine dropped some of the output, or more came than is kept here.
    """

    def __init__(
        self, budget: OutputBudget, namespace: str, prefix: str = "", *, is_log: bool = False
    ) -> None:
        self._is_log = is_log
        self._budget, self._namespace, self._prefix = budget, namespace, prefix
        self._filters = {"stdout": TextFilter(), "stderr": TextFilter()}
        self._lines = {"stdout": "", "stderr": ""}
        self._waiting: list[tuple[str, Message]] = []
        self._text: list[str] = []
        self._room, self._wait_room = KEPT_TEXT, RICH_TOTAL
        self._value = ""
        self._end: OutputPiece | None = None
        self._error: OutputPiece | None = None
        self.has_begun = self.has_gap = False

    def take(self, output: OutputPiece) -> None:
        """Process one output."""
        self.has_begun = True
        kind = output.kind
        if kind in ("stdout", "stderr", "stream", "note"):
            self._stream(output)
        elif kind in ("display_data", "execute_result", "update_display_data"):
            self._display(kind, output)
        elif kind in ("clear_output", "page"):
            self._show(kind, self._cleaned(kind, output))
        elif kind == "error":
            self._error = output
        elif kind == "gap":
            self.has_gap = True
            dropped = (
                f"nbprov: {self._prefix}output{_numbers(output.content)} was dropped here:"
                " the machine keeps the last 32 MB of a cell\n"
            )
            self._budget.text("stderr", dropped)
            if self._is_log:
                self._keep(self._on_own_line(dropped))
        elif kind == "end":
            self._end = output

    def _stream(self, output: OutputPiece) -> None:
        name = str(output.content.get("name", "")) or (
            "stdout" if output.kind == "stdout" else "stderr"
        )
        name = "stderr" if name == "stderr" else "stdout"
        text = self._filters[name].feed(output.text)
        if output.kind != "note":
            self._keep(text)
        if self._prefix:
            text = self._whole_lines(name, text)
        self._budget.text(name, text)

    def _whole_lines(self, name: str, text: str) -> str:
        """Return the complete lines of a stream, each with the prefix, so that nodes do not mix."""
        lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", self._lines[name] + text)
        self._lines[name] = lines.pop() if lines else ""
        if len(self._lines[name]) > LONGEST_LINE:
            lines.append(self._lines[name] + "\n")
            self._lines[name] = ""
        return "".join(self._prefix + line for line in lines)

    def _display(self, kind: str, output: OutputPiece) -> None:
        content = self._cleaned(kind, output)
        value = str(content["data"].get("text/plain", ""))
        self._keep(self._on_own_line(value) if self._is_log else value)
        if kind == "execute_result":
            self._value = value
        self._show(kind, content)

    def _cleaned(self, kind: str, output: OutputPiece) -> Message:
        """Return an output made harmless, or a line in its place if the cleaner fails at it.

        Whatever a machine finds that the cleaner stumbles over costs that output, and not the cell
        with all that follows.
        """
        try:
            if kind == "page":
                return {"data": {"text/plain": safe_page(output.content.get("data"))}}
            return safe_content(kind, output.content, self._namespace)
        except Exception as error:
            log_fault(log, error, "an output of kind %s could not be read", kind)
            if kind == "clear_output":
                return {"wait": False}
            return {"data": {"text/plain": UNREADABLE}, "metadata": {}, "transient": {}}

    def _show(self, kind: str, content: Message) -> None:
        if self._prefix:
            size = size_of(content)
            if size <= self._wait_room:
                self._wait_room -= size
                self._waiting.append((kind, content))
        else:
            self._budget.rich(kind, content)

    def _on_own_line(self, text: str) -> str:
        start = "\n" if self._text and not self._text[-1].endswith("\n") else ""
        return start + text + ("" if text.endswith("\n") else "\n")

    def _keep(self, text: str) -> None:
        kept = text[: self._room]
        self.has_gap |= len(kept) < len(text)
        if kept:
            self._room -= len(kept)
            self._text.append(kept)

    def flush(self) -> None:
        """Show what has waited: unfinished lines, and displays where there are several nodes."""
        for name, rest in self._lines.items():
            if rest:
                self._lines[name] = ""
                self._budget.text(name, f"{self._prefix}{rest}\n")
        waiting, self._waiting = self._waiting, []
        for kind, content in waiting:
            data = content.get("data", {})
            if set(data) == {"text/plain"} and "frame" not in content:
                self._budget.text(
                    "stdout",
                    "".join(
                        f"{self._prefix}{line}\n" for line in str(data["text/plain"]).splitlines()
                    ),
                )
            else:
                if kind != "update_display_data" and data:
                    self._budget.text("stdout", f"{self._prefix.rstrip()}:\n")
                self._budget.rich(kind, content)

    @property
    def text(self) -> str:
        """All text so far."""
        return "".join(self._text)

    @property
    def trouble(self) -> str:
        """Why the cell failed, in one line; empty if it did not."""
        try:
            self.result()
        except RemoteCellError as error:
            return error.message
        return ""

    def result(self) -> CellResult:
        """Return the result.

        Raises
        ------
        RemoteCellError
            If the cell raised, did not run, or ended with a code other than 0.
        """
        end = self._end.content if self._end is not None else {}
        if self._error is not None:
            raise _raised(self._error.content, self._prefix)
        if self._end is None and self.has_begun:
            raise RemoteCellError(
                f"{self._prefix}the end of the cell was not heard of", code="remote.no-end"
            )
        exit_code = end.get("exit_code")
        if isinstance(exit_code, int) and exit_code:
            raise RemoteCellError(
                f"{self._prefix}the script ended with code {exit_code}", code="remote.exit-code"
            )
        if end.get("status") not in ("ok", None):
            why = {
                "aborted": "not run: one before it failed, or its kernel ended",
                "lost": "lost: the agent on the machine was restarted",
            }
            status = clean_text(str(end.get("status")))[:100]
            raise RemoteCellError(
                f"{self._prefix}the cell was {why.get(status, status)}", code="remote.not-run"
            )
        return CellResult(self.text, self._value, 0)


def _numbers(gap: Mapping[str, Any]) -> str:
    first, last = gap.get("from"), gap.get("to")
    is_known = type(first) is int and type(last) is int
    return f" {first} to {last}" if is_known else ""


_HINTS = {
    "DiskFull": DISK_FULL_HINT,
    "StdinNotImplementedError": (
        "a cell on a machine cannot ask; assign the answer here and send it with"
        " %%on NAME -i answer"
    ),
}


def _raised(content: Mapping[str, Any], prefix: str) -> RemoteCellError:
    name, value = clean_text(content.get("ename"))[:200], clean_text(content.get("evalue"))[:2000]
    told = content.get("traceback")
    lines = [
        clean_text(line)[:TRACEBACK_CHARACTERS]
        for line in (told if isinstance(told, list) else [])[:TRACEBACK_LINES]
    ]
    if prefix:
        lines = [f"{prefix.strip()}", *lines]
    return RemoteCellError(
        f"{prefix}{name or 'error'}: {value}",
        traceback=lines,
        hint=_HINTS.get(name, ""),
        code="remote.disk-full" if name == "DiskFull" else "remote.raised",
    )
