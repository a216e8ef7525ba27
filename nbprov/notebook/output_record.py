"""What a remote cell published, kept for a page that was not open meanwhile."""

from __future__ import annotations

from typing import Any

MOST_CHARACTERS = 4_000_000
"""Of one cell: the library of a figure takes two millions. The machine keeps more."""


class OutputRecord:
    """The outputs of one cell as a notebook stores them.

    Attributes
    ----------
    outputs
        In nbformat's form. Empty where there was more than is kept.
    is_whole
        Whether `outputs` is all that was published.
    """

    def __init__(self) -> None:
        self.outputs: list[dict[str, Any]] = []
        self.is_whole = True
        self._room = MOST_CHARACTERS
        self._is_to_clear = False
        self._places: dict[str, list[int]] = {}

    def stream(self, name: str, text: str) -> None:
        """Keep a text of `stdout` or `stderr`."""
        self._clear_now()
        last = self.outputs[-1] if self.outputs else {}
        is_more = last.get("name") == name
        head, end, line = (last["text"] if is_more else "").rpartition("\n")
        lines = [_last_state(part) for part in (line + text).split("\n")]
        whole = head + end + "\n".join(lines)
        if not self._takes(len(whole) - len(head + end + line)):
            return
        if is_more:
            last["text"] = whole
        else:
            self.outputs.append({"output_type": "stream", "name": name, "text": whole})

    def display(
        self, data: dict[str, Any], metadata: dict[str, Any], id: str = "", *, is_update: bool
    ) -> None:
        """Keep a display, or what an earlier one of this cell has become."""
        self._clear_now()
        output = {"output_type": "display_data", "data": data, "metadata": metadata}
        places = self._places.get(id, []) if id else []
        if is_update:
            before = [self.outputs[place] for place in places]
            if self._takes(sum(_size(output) - _size(one) for one in before)):
                for place in places:
                    self.outputs[place] = output
        elif self._takes(_size(output)):
            self._places[id] = [*places, len(self.outputs)]
            self.outputs.append(output)

    def clear(self, *, wait: bool) -> None:
        """Drop what there is; with `wait`, once something new comes."""
        self._is_to_clear = True
        if not wait:
            self._clear_now()

    def _clear_now(self) -> None:
        if self._is_to_clear:
            self._is_to_clear = False
            self.outputs, self._places = [], {}
            self.is_whole, self._room = True, MOST_CHARACTERS

    def _takes(self, characters: int) -> bool:
        self._room -= characters
        if self._room < 0:
            self.outputs, self._places, self.is_whole = [], {}, False
        return self.is_whole


def _last_state(line: str) -> str:
    """A line without what a progress bar wrote before it went back to the line's beginning."""
    body = line.rstrip("\r")
    return line[body.rfind("\r") + 1 :]


def _size(output: dict[str, Any]) -> int:
    return sum(len(str(value)) for value in output["data"].values())
