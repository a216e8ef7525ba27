"""Looking things up by a label, in all zones at once; a list that lacks a zone is none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nbprov.clouds.gcp.account.clients import Compute, Deadline
from nbprov.model.failures import Cause, CloudError, Failure

_CODE = "unreachable-zone"
_LACKING = frozenset({"UNREACHABLE", "PARTIAL_SUCCESS"})


def rows(compute: Compute, deadline: Deadline, label: str, value: str) -> Iterator[dict[str, Any]]:
    """The machines with a label.

    Raises
    ------
    CloudError
        With the cause; `transient` where a zone does not answer: what is not seen would count as gone.
    """
    for scope in scopes(compute, deadline, "Instances", label, value):
        for row in scope.get("instances") or ():
            # The filter is Google's; that only one's own machines are touched is ours.
            if (row.get("labels") or {}).get(label) == value:
                yield row


def scopes(
    compute: Compute, deadline: Deadline, service: str, label: str, value: str
) -> Iterator[dict[str, Any]]:
    """What an aggregated list has of each zone.

    Raises
    ------
    CloudError
        With the cause; `transient` where a zone does not answer.
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
