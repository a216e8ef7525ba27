"""Searches by label, in all zones at once. A list that lacks a zone raises an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nbprov.clouds.gcp.account.clients import Compute, Deadline
from nbprov.model.failures import Cause, CloudError, Failure

_CODE = "unreachable-zone"
_LACKING = frozenset({"UNREACHABLE", "PARTIAL_SUCCESS"})


def rows(compute: Compute, deadline: Deadline, label: str, value: str) -> Iterator[dict[str, Any]]:
    """Return the machines with a label.

    Raises
    ------
    CloudError
        With the cause; `transient` if a zone does not answer, because machines that are missing
        from a listing count as gone.
    """
    for scope in scopes(compute, deadline, "Instances", label, value):
        for row in scope.get("instances") or ():
            # Google's filter is checked again: only machines of the owner may be touched.
            if (row.get("labels") or {}).get(label) == value:
                yield row


def scopes(
    compute: Compute, deadline: Deadline, service: str, label: str, value: str
) -> Iterator[dict[str, Any]]:
    """Return the part of an aggregated list for each zone.

    Raises
    ------
    CloudError
        With the cause; `transient` if a zone does not answer.
    """
    for page in compute.pages(
        service, "aggregated_list", deadline, filter=f'labels.{label} = "{value}"'
    ):
        if page.get("unreachables"):
            raise CloudError(
                Failure(
                    Cause.TRANSIENT,
                    f"Google cannot list {', '.join(map(str, page['unreachables']))} now",
                    _CODE,
                )
            )
        _complete(page)
        for scope in (page.get("items") or {}).values():
            _complete(scope)
            yield scope


def _complete(part: Mapping[str, Any]) -> None:
    warning = part.get("warning") or {}
    if warning.get("code") in _LACKING:
        raise CloudError(
            Failure(
                Cause.TRANSIENT,
                f"Google cannot list a zone now: {warning.get('message', '')}",
                _CODE,
            )
        )
