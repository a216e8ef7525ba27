"""The secrets that tasks were given on this machine, and how output is masked with them."""

from __future__ import annotations

from typing import Any, Iterable

from .errors import RequestError
from .json_types import Json
from .masking import LEAST_SECRET, Values, mask, ordered

LEAST_IN_BINARY = 8
"""Shorter values are not looked for in pictures.

Any four letters are in every hundredth base64 text of 100 kB, which masking would spoil."""
MOST_SECRETS = 1000
"""Values kept for masking; those that no task was given for longest go first."""
MOST_SECRET_LETTERS = 8 * 1024 * 1024


class SecretRegistry:
    """Keeps secret values in memory alone, and masks them in whatever is journaled or sent.

    `values` is replaced as a whole, so that any thread may read it.
    """

    def __init__(self) -> None:
        self._known: dict[str, None] = {}
        self.values: Values = ()

    def add(self, values: Iterable[str]) -> None:
        """Remember values.

        Raises
        ------
        RequestError
            If one task has more of them than are kept, since some would then be shown.
        """
        stripped = map(str.strip, values)
        fresh = dict.fromkeys(value for value in stripped if len(value) >= LEAST_SECRET)
        if len(fresh) > MOST_SECRETS or sum(map(len, fresh)) > MOST_SECRET_LETTERS:
            megabytes = MOST_SECRET_LETTERS >> 20
            raise RequestError(
                "too-many-secrets", f"more than {MOST_SECRETS} secrets, or {megabytes} MB of them"
            )
        known = {**{value: None for value in self._known if value not in fresh}, **fresh}
        letters = sum(map(len, known))
        while len(known) > MOST_SECRETS or letters > MOST_SECRET_LETTERS:
            oldest = next(iter(known))
            letters -= len(oldest)
            del known[oldest]
        self._known = known
        self.values = ordered(known)

    def mask(self, text: str, least: int = 0) -> str:
        """Return a text with the values of at least so many letters masked."""
        if least:
            return mask(text, tuple(value for value in self.values if len(value) >= least))
        return mask(text, self.values)

    def mask_json(self, value: Any, least: int = 0) -> Any:
        """Return what was read from JSON with values masked, in keys too."""
        if not self.values:
            return value
        if isinstance(value, str):
            return self.mask(value, least)
        if isinstance(value, list):
            return [self.mask_json(one, least) for one in value]
        if isinstance(value, dict):
            return {self.mask(str(key)): self.mask_json(one, least) for key, one in value.items()}
        return value

    def mask_bundle(self, data: Json) -> Json:
        """Return the data or metadata of a rich output masked; media types stay as they are."""
        return {
            kind if "/" in kind else self.mask(kind): self.mask_json(
                value, LEAST_IN_BINARY if is_binary(kind) else 0
            )
            for kind, value in data.items()
        }

    def mask_entry(self, entry: Json, least: int = 0) -> Json:
        """Return a journal entry with its text and content masked.

        Its other fields are the agent's own.
        """
        if not self.values:
            return entry
        found = dict(entry)
        if isinstance(entry.get("text"), str):
            found["text"] = self.mask(entry["text"], least)
        content = entry.get("content")
        if isinstance(content, dict):
            found["content"] = {
                key: self._mask_field(entry["k"], key, value, least)
                for key, value in content.items()
            }
        return found

    def _mask_field(self, kind: str, key: str, value: Any, least: int) -> Any:
        if kind == "stream" and key == "name":
            return value  # the name of a stream is no output; all else that a kernel says may be
        if key in ("data", "metadata") and isinstance(value, dict):
            return self.mask_bundle(value)
        return self.mask_json(value, least)


def is_binary(kind: str) -> bool:
    """Return whether data of a media type comes as base64."""
    is_media = kind.startswith(("image/", "audio/", "video/")) and not kind.endswith("+xml")
    return kind == "application/pdf" or is_media
