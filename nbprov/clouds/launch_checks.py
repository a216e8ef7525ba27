"""What adapters do around a create: refuse what their cloud lacks, and hide a launch's secrets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.launches import Launch
from nbprov.model.places import Market

from .base import Capabilities
from .web.error_text import without

CONTAINER = "docker:"
"""The beginning of an image that is a container's."""


def refuse_unsupported(launch: Launch, can: Capabilities, title: str) -> None:
    """Refuse a launch that asks for what these capabilities lack, or that comes too late.

    Parameters
    ----------
    title
        The cloud's name as people write it.

    Raises
    ------
    CloudError
        `spot`, `bad_request` or `timeout`.
    """
    if launch.candidate.offer.market is Market.SPOT and not can.spot:
        raise CloudError(Failure(Cause.SPOT, f"{title} sells no spot machines", "no-spot"))
    if launch.count != 1 and not can.multi_node:
        words = f"{title} creates one machine for each launch, not {launch.count}"
        raise CloudError(Failure(Cause.BAD_REQUEST, words, "count"))
    if launch.ports and not can.ports:
        words = can.notes.get("ports") or f"{title} cannot open ports"
        raise CloudError(Failure(Cause.BAD_REQUEST, words, "ports"))
    if not can.docker:
        refuse_container(launch, title)
    if launch.image and not launch.image.startswith(CONTAINER) and not can.images:
        words = f"{title} cannot start from the image {launch.image}"
        raise CloudError(Failure(Cause.BAD_REQUEST, words, "image"))
    refuse_late(launch)


def refuse_container(launch: Launch, title: str) -> None:
    """Refuse a container image, which a cloud of whole machines would have to leave out."""
    if launch.image.startswith(CONTAINER):
        words = f"{title} cannot start from the container image {launch.image}"
        raise CloudError(Failure(Cause.BAD_REQUEST, words, "image"))


@contextmanager
def without_secrets_of(launch: Launch) -> Iterator[None]:
    """Take the secrets of a launch's script out of the message of an error in this block.

    Services repeat what they were sent when they refuse it.
    """
    try:
        yield
    except CloudError as error:
        message = without(error.failure.message, launch.template_values.values())
        raise CloudError(replace(error.failure, message=message)) from None


def refuse_late(launch: Launch) -> None:
    """Refuse a launch whose `answer_by` has passed; call it again just before the create."""
    if time.time() >= launch.answer_by > 0:
        raise CloudError(Failure(Cause.TIMEOUT, "the create was not sent in time", "too-late"))
