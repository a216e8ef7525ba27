"""What a running cell puts out, gathered: made harmless, bounded, marked with its node, and the result or the error at its end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbprov.machines.sanitize.display_data import safe_content, safe_page
from nbprov.machines.sanitize.text import TextFilter, clean_text
from nbprov.model.errors import NbprovError
from nbprov.remote.agent.messages import Output

Message = dict[str, Any]
OnOutput = Callable[[Message], None] | None

TEXT_LIMIT = 4_000_000
"""Characters of text that one cell may put into the page: at some tens of MB browsers stop answering, and nobody reads on this far."""

RICH_TOTAL = 64_000_000
"""Characters of figures, tables and other displays that one cell may put into the page, renewals included."""

LEAST = 20
"""Characters that a piece of text counts for at least: each is a message, and a flood of single characters stops a page, too."""

MESSAGE = 500
"""Characters that each message counts for, however little is in it: as many as its frame has."""

LONGEST_LINE = 100_000
"""Characters of a line that is waited for where several nodes speak; a longer one is shown in parts."""

KEPT_TEXT = 64_000_000
"""Characters that the result of a cell holds: what a hostile machine can make this kernel keep."""

TRACEBACK_LINES = 400
TRACEBACK_CHARACTERS = 200_000
"""Of a traceback, whatever the machine says: a recursion error has some thousand characters a frame and IPython shortens it."""


class RemoteCellError(NbprovError):
    """Code on the machine raised, or a script ended with a code other than 0.

    Attributes
    ----------
    traceback
        The remote traceback, coloured, as the kernel there wrote it.
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
    """What a cell gave.

    Attributes
    ----------
    text
        All text it wrote, results in their text form included.
    value
        Text form of the last expression; empty where there was none.
    exit_code
        Of a shell script; 0 for Python.
    by_node
        The results of all nodes it ran on, by their numbers.
    """

    text: str
    value: str = ""
    exit_code: int = 0
    by_node: Mapping[int, CellResult] = field(default_factory=dict)


def size_of(content: Message) -> int:
    """What an output with forms counts for."""
    return MESSAGE + sum(
        len(value) if isinstance(value, str) else len(json.dumps(value))
        for value in content.get("data", {}).values()
    )


class OutputBudget:
    """How much of its output a cell may still show. One for all its nodes.

    Parameters
    ----------
    read_on
        How the rest can be read, for the line that says that it is not shown.
    """

    def __init__(self, on_output: OnOutput, read_on: str) -> None:
        self._on_output, self._read_on = on_output, read_on
        self._text, self._rich, self._is_said = TEXT_LIMIT, RICH_TOTAL, False

    def text(self, name: str, text: str) -> None:
        """Show text, or what of it still fits."""
        fitting = text[: max(0, self._text)]
        self._text -= max(len(fitting), LEAST)
        if fitting:
            self.send("stream", {"name": name, "text": fitting})
        if len(fitting) < len(text):
            self._over()

    def rich(self, kind: str, content: Message) -> None:
        """Show an output with forms."""
        size = size_of(content)
        if size > self._rich:
            self._over()
            return
        self._rich -= size
        self.send(kind, content)

    def send(self, kind: str, content: Message) -> None:
        """Pass a message on, uncounted."""
        if self._on_output is not None:
            self._on_output({"msg_type": kind, "content": content})

    def note(self, text: str) -> None:
        """A line of ours about the cell."""
        self.send("stream", {"name": "stderr", "text": f"nbprov: {text}\n"})

    def _over(self) -> None:
        if not self._is_said:
            self._is_said = True
            self.send(
                "stream",
                {
                    "name": "stderr",
                    "text": f"\nnbprov: more output than a page can show; the rest is kept there: {self._read_on}\n",
                },
            )


class OutputCollation:
    """Turns the agent's outputs of one node into Jupyter messages, and remembers what the result needs.

    Parameters
    ----------
    namespace
        Of the machine: display ids of others are out of its reach.
    prefix
        Put before each line where several nodes speak; their displays then wait for `flush`, so that they come in the order of the nodes.
    """

    def __init__(self, budget: OutputBudget, namespace: str, prefix: str = "") -> None:
        self._budget, self._namespace, self._prefix = budget, namespace, prefix
        self._filters = {"stdout": TextFilter(), "stderr": TextFilter()}
        self._lines = {"stdout": "", "stderr": ""}
        self._waiting: list[tuple[str, Message]] = []
        self._text: list[str] = []
        self._room, self._wait_room = KEPT_TEXT, RICH_TOTAL
        self._value = ""
        self._end: Output | None = None
        self._error: Output | None = None
        self.has_begun = False

    def take(self, output: Output) -> None:
        """Pass one output on."""
        self.has_begun = True
        kind = output.kind
        if kind in ("stdout", "stderr", "stream", "note"):
            self._stream(output)
        elif kind in ("display_data", "execute_result", "update_display_data"):
            self._display(kind, output)
        elif kind == "clear_output":
            self._show(kind, safe_content(kind, output.content, self._namespace))
        elif kind == "page":
            self._show(kind, {"data": {"text/plain": safe_page(output.content.get("data"))}})
        elif kind == "error":
            self._error = output
        elif kind == "gap":
            self._budget.text(
                "stderr",
                f"nbprov: {self._prefix}output was dropped here: the machine keeps the last 32 MB of a cell\n",
            )
        elif kind == "end":
            self._end = output

    def _stream(self, output: Output) -> None:
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
        """What is complete of a stream, each line marked; lines of several nodes must not run into one another."""
        lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", self._lines[name] + text)
        self._lines[name] = lines.pop() if lines else ""
        if len(self._lines[name]) > LONGEST_LINE:
            lines.append(self._lines[name] + "\n")
            self._lines[name] = ""
        return "".join(self._prefix + line for line in lines)

    def _display(self, kind: str, output: Output) -> None:
        content = safe_content(kind, output.content, self._namespace)
        value = str(content["data"].get("text/plain", ""))
        self._keep(value)
        if kind == "execute_result":
            self._value = value
        self._show(kind, content)

    def _show(self, kind: str, content: Message) -> None:
        if self._prefix:
            size = size_of(content)
            if size <= self._wait_room:
                self._wait_room -= size
                self._waiting.append((kind, content))
        else:
            self._budget.rich(kind, content)

    def _keep(self, text: str) -> None:
        kept = text[: self._room]
        if kept:
            self._room -= len(kept)
            self._text.append(kept)

    def flush(self) -> None:
        """Show what has waited: lines without an end, and the displays of one node among several."""
        for name, rest in self._lines.items():
            if rest:
                self._lines[name] = ""
                self._budget.text(name, f"{self._prefix}{rest}\n")
        waiting, self._waiting = self._waiting, []
        for kind, content in waiting:
            data = content.get("data", {})
            if set(data) == {"text/plain"}:
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
        """In one line, why it failed; empty where it did not."""
        try:
            self.result()
        except RemoteCellError as error:
            return error.message
        return ""

    def result(self) -> CellResult:
        """The result.

        Raises
        ------
        RemoteCellError
            If the cell raised, did not run, or ended with a code other than 0.
        """
        end = self._end.content if self._end is not None else {}
        if self._error is not None:
            raise _raised(self._error.content, self._prefix)
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


_HINTS = {
    "StdinNotImplementedError": "a cell on a machine cannot ask; assign the answer here and send it with %%on NAME -i answer"
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
        code="remote.raised",
    )
