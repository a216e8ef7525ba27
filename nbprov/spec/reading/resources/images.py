"""Read `image_id`, and check an image against the place where it starts."""

from __future__ import annotations

import re
from dataclasses import replace

from nbprov.model.resources import STOCK_IMAGE, Image, PlaceGlob, PlaceRule
from nbprov.spec.reading.field_reader import converted, join
from nbprov.spec.yaml.diagnostics import Findings, InvalidValue
from nbprov.spec.yaml.nodes import Mapping, Mark, Node, Scalar, describe, is_null, quoted

from .place_choices import RequestedPlace
from .place_patterns import may_be_area

DOCKER = "docker:"

NO_MACHINE_IMAGES = frozenset({"cudo", "lambda", "primeintellect"})
"""Clouds that cannot start a machine image of the user's choice."""

OWN_FAST_NETWORK = frozenset({"", "gcp", "kubernetes", "nebius"})
"""Clouds that bring the fast network themselves; elsewhere it is part of the stock image."""

_REFERENCE = re.compile(r"[\w./:@+~-]+")


def read_image(node: Node, path: str, findings: Findings) -> Image | None:
    """Read `docker:…`, a tag, a cloud's own id, or a map of regions.

    None, and a problem, for anything else.
    """
    if isinstance(node, Mapping):
        return _by_region(node, path, findings)
    text = converted(node, path, findings, _reference, wants="an image")
    if text is None:
        return None
    _warn_of_stock(text, node, path, findings)
    return (
        Image(docker=text.removeprefix(DOCKER))
        if text.startswith(DOCKER)
        else Image(machine=(("", text),))
    )


def _reference(text: str) -> str:
    """An image as written; `docker` may be in any case."""
    name = text.strip()
    if name.lower().startswith(DOCKER):
        name = DOCKER + name[len(DOCKER) :].strip().removeprefix("//")
    if name in ("", DOCKER) or not _REFERENCE.fullmatch(name):
        raise InvalidValue(
            f"{quoted(text)} is not an image",
            "write image_id: docker:ubuntu:22.04, or the cloud's own id of an image",
            "image",
        )
    return name


def _warn_of_stock(image: str, node: Node, path: str, findings: Findings) -> None:
    """Say that the usual image takes the place of one of SkyPilot's."""
    if image.startswith(STOCK_IMAGE):
        words = (
            f"{path}: {quoted(image)} is SkyPilot's own image: the cloud's usual image is started "
            "in its place"
        )
        findings.warn(node.start, path, "stock-image", words)


def _by_region(node: Mapping, path: str, findings: Findings) -> Image | None:
    before = findings.problem_count
    docker, machine = "", {}
    for key, value in node.pairs:
        here = join(path, key.text)
        if is_null(value) or not isinstance(value, Scalar):
            given = "nothing" if is_null(value) else describe(value)
            hint = f"write image_id: {{{key.text}: ami-0123456789abcdef0}}"
            findings.error(
                value.start, here, "image", f"{here} must be an image, not {given}", hint
            )
            continue
        image = converted(value, here, findings, _reference, wants="an image")
        if image is None:
            continue
        if key.text == "docker":
            docker = image.removeprefix(DOCKER)
        elif image.startswith(DOCKER):
            message = f"{here}: a container is the same in every region"
            findings.error(
                value.start,
                here,
                "image",
                message,
                f"write image_id: {image}, and infra: cloud/{key.text} for the place",
            )
        else:
            _warn_of_stock(image, value, here, findings)
            machine[key.text.strip()] = image
    if findings.problem_count == before and not docker and not machine:
        findings.error(
            node.start,
            path,
            "empty",
            f"{path} lists nothing",
            "write image_id: {us-east-1: ami-0123456789abcdef0}",
        )
    return (
        Image(docker, tuple(sorted(machine.items()))) if findings.problem_count == before else None
    )


def image_in(
    image: Image, place: RequestedPlace, network_tier: str, at: Mark, path: str, findings: Findings
) -> Image:
    """The image for one place: only the region's own id if the region is named.

    Records a problem if the place may not have the image, or cannot start it.
    """
    if not image.own:
        return image
    if place.cloud == "kubernetes" and not image.docker and not image.machine[0][0]:
        return Image(docker=image.machine[0][1])
    shown = quoted(image.machine[0][1])
    if not place.cloud:
        message = f"{path}: the machine image {shown} belongs to one cloud, and none is named"
        findings.error(
            at,
            path,
            "image",
            message,
            "write infra: aws/us-east-1, or for a container image_id: docker:…",
        )
    elif place.cloud in NO_MACHINE_IMAGES:
        message = f"{path}: {place.cloud} starts containers but no machine images such as {shown}"
        findings.error(
            at,
            path,
            "image",
            message,
            f"write image_id: docker:…, or image_id: null for the alternative on {place.cloud}",
        )
    elif network_tier == "best" and place.cloud not in OWN_FAST_NETWORK:
        message = f"{path}: network_tier best needs the image that brings its drivers, not {shown}"
        findings.error(
            at, path, "image", message, "leave out image_id, or write network_tier: standard"
        )
    return _in_region(image, place, at, path, findings)


def regions_rule(image: Image | None, region: str) -> tuple[PlaceRule, ...]:
    """The rule of an image by region: if no region is named, only its regions are possible."""
    if image is None or not image.machine or region or not all(where for where, _ in image.machine):
        return ()
    return (PlaceRule(tuple(PlaceGlob(region=where) for where, _ in image.machine)),)


def _in_region(
    image: Image, place: RequestedPlace, at: Mark, path: str, findings: Findings
) -> Image:
    everywhere = dict(image.machine).get("")
    if everywhere is not None:
        if place.cloud == "aws" and not place.region and not everywhere.startswith(STOCK_IMAGE):
            message = (
                f"{path}: on AWS {quoted(everywhere)} is in one region only, and none is named"
            )
            hint = f"write infra: aws/us-east-1, or image_id: {{us-east-1: {everywhere}}}"
            findings.error(at, path, "image", message, hint)
        return image
    if not place.region:
        return image
    for region, one in image.machine:
        if region.casefold() == place.region.casefold():
            return replace(image, machine=(("", one),))
    if not may_be_area(place.region):
        held = ", ".join(f"{region}: {one}" for region, one in image.machine)
        message = f"{path} holds no image for {quoted(place.region)}"
        findings.error(at, path, "image", message, f"write image_id: {{{held}, {place.region}: …}}")
    return image
