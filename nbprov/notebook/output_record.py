"""What a remote cell published, kept for a page that was not open meanwhile."""

from __future__ import annotations

from typing import Any

MOST_CHARACTERS = 1_000_000
"""Of one cell. The machine keeps more: `%nbprov cells` shows it."""


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
        self._places: dict[str, int] = {}

    def stream(self, name: str, text: str) -> None:
        """Keep a text of `stdout` or `stderr`."""
        if not self._takes(len(text)):
            return
        last = self.outputs[-1] if self.outputs else {}
        if last.get("name") == name:
            last["text"] += text
        else:
            self.outputs.append({"output_type": "stream", "name": name, "text": text})

    def display(
        self, data: dict[str, Any], metadata: dict[str, Any], id: str = "", *, is_update: bool
    ) -> None:
        """Keep a display, or what an earlier one of this cell has become."""
        if not self._takes(sum(len(str(value)) for value in data.values())):
            return
        output = {"output_type": "display_data", "data": data, "metadata": metadata}
        if not is_update:
            self._places[id] = len(self.outputs)
            self.outputs.append(output)
        elif id in self._places:
            self.outputs[self._places[id]] = output

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
        self._clear_now()
        self._room -= characters
        if self._room < 0:
            self.outputs, self._places, self.is_whole = [], {}, False
        return self.is_whole
