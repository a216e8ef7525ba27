"""Read `envs`, `secrets` and `managed_secrets`, and the registry login among them."""

from __future__ import annotations

import re
from collections.abc import Mapping as Map

from nbprov.model.resources import Request
from nbprov.model.secret import Secret
from nbprov.model.text.variable_values import why_unfit
from nbprov.spec.interpolation.redaction import REFERENCE, names_secret
from nbprov.spec.yaml.diagnostics import Findings
from nbprov.spec.yaml.nodes import (
    Mapping,
    Mark,
    Node,
    Scalar,
    Sequence,
    all_scalars,
    is_null,
    quoted,
)

from .field_reader import as_mapping, join, text_of

MAX_VARIABLES = 500
"""A process takes far fewer; and each value is searched for in what is shown."""

DOCKER_LOGIN = ("SKYPILOT_DOCKER_USERNAME", "SKYPILOT_DOCKER_PASSWORD", "SKYPILOT_DOCKER_SERVER")

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"secrets:(?:(?:personal|workspace|global)\.)?([A-Za-z_][A-Za-z0-9_]*)")
_MANAGED = re.compile(r"(?:secrets:(?:(?:personal|workspace|global)\.)?)?([A-Za-z_][A-Za-z0-9_]*)")

Secrets = dict[str, Secret | None]


def read_envs(node: Node | None, findings: Findings) -> dict[str, str | None]:
    """Read `envs`; values are text whatever they look like, and None if the caller must give
    one.
    """
    envs: dict[str, str | None] = {}
    mapping = as_mapping(node, "envs", findings, "write envs: {EPOCHS: 3}") if node else None
    for key, value in _first_few(mapping, "envs", findings):
        path = join("envs", key.text)
        if not _is_variable_name(key, path, findings):
            continue
        text = text_of(value, path, findings, wants="text")
        if text is None or _is_unfit(key.text, value, text, path, findings):
            continue
        envs[key.text] = None if is_null(value) else text
        if text and not is_null(value) and names_secret(key.text):
            words = (
                f"{key.text} looks like a secret and is shown and stored as it is; under "
                "`secrets` it is hidden"
            )
            findings.warn(key.start, path, "looks-secret", words)
    return envs


def _first_few(
    mapping: Mapping | None, path: str, findings: Findings
) -> tuple[tuple[Scalar, Node], ...]:
    pairs = mapping.pairs if mapping else ()
    if len(pairs) > MAX_VARIABLES:
        at = pairs[MAX_VARIABLES][0].start
        findings.error(
            at,
            path,
            "too-many",
            f"{path} has {len(pairs)} entries; at most {MAX_VARIABLES} are read",
            "put data into a file",
        )
    return pairs[:MAX_VARIABLES]


def _is_unfit(name: str, node: Node, text: str, path: str, findings: Findings) -> bool:
    why = why_unfit(name, text)
    if why:
        hint = "put it into a file, and name the file here" if "bytes" in why else "remove it"
        findings.error(node.start, path, "value", f"{path} {why}", hint)
    return bool(why)


def read_secrets(node: Node | None, managed: Node | None, findings: Findings) -> Secrets:
    """Read `secrets` and `managed_secrets`.

    The value is None if the kernel's environment or the person gives it.
    """
    secrets: Secrets = {}
    if isinstance(node, Sequence):
        secrets.update(dict.fromkeys(_references(node, _REFERENCE, "secrets", findings), None))
    elif node:
        secrets.update(_secret_map(node, findings))
    if isinstance(managed, Sequence):
        for name in _references(managed, _MANAGED, "managed_secrets", findings):
            secrets.setdefault(name, None)
    elif managed:
        findings.error(
            managed.start,
            "managed_secrets",
            "type",
            "managed_secrets must be a list of names",
            "write [TOKEN]",
        )
    return secrets


def _references(
    node: Sequence, pattern: re.Pattern[str], path: str, findings: Findings
) -> list[str]:
    names = []
    for number, item in enumerate(node.items[:MAX_VARIABLES]):
        match = pattern.fullmatch(item.text) if isinstance(item, Scalar) else None
        if match:
            names.append(match[1])
        else:
            form = f"`{REFERENCE}NAME`" if path == "secrets" else "a name"
            hint = "write secrets: {NAME: null}"
            findings.error(
                item.start,
                f"{path}[{number}]",
                "secret",
                f"an entry of {path} must be {form}",
                hint,
            )
    return names


def _secret_map(node: Node, findings: Findings) -> Secrets:
    secrets: Secrets = {}
    mapping = as_mapping(node, "secrets", findings, "write secrets: {TOKEN: null}")
    for key, value in _first_few(mapping, "secrets", findings):
        path = join("secrets", key.text)
        if key.text.startswith(REFERENCE):
            name = key.text.removeprefix(REFERENCE)
            findings.error(
                key.start,
                path,
                "secret",
                f"{quoted(key.text)} cannot have a value here",
                f"write {name}: null",
            )
        elif not isinstance(value, Scalar):
            findings.error(
                value.start, path, "type", f"{path} must be text or null", f"write {key.text}: null"
            )
        elif _is_variable_name(key, path, findings) and not _is_unfit(
            key.text, value, value.text, path, findings
        ):
            secrets[key.text] = None if value.is_null else Secret(value.text)
            if not value.is_null and value.text and not findings.is_from_variable(value.start):
                words = (
                    f"the value of {key.text} is saved in the notebook; with `{key.text}: null` "
                    "it is asked for or taken from the kernel"
                )
                findings.warn(key.start, path, "literal-secret", words)
    return secrets


def _is_variable_name(key: Scalar, path: str, findings: Findings) -> bool:
    if _VARIABLE_NAME.fullmatch(key.text):
        return True
    message = f"{quoted(key.text)} is not the name of a variable"
    findings.error(
        key.start, path, "env-name", message, "use letters, digits and _, not a digit first"
    )
    return False


def settle_both(
    envs: dict[str, str | None], secrets: Secrets, at: Mark, findings: Findings
) -> None:
    """If a name stands under both envs and secrets, use the secret."""
    for name in sorted(envs.keys() & secrets.keys()):
        findings.warn(
            at,
            f"envs.{name}",
            "env-and-secret",
            f"{name} stands under envs and under secrets; the secret is used",
        )
        del envs[name]


def check_docker_login(
    envs: Map[str, object],
    secrets: Map[str, object],
    requests: tuple[Request, ...],
    at: Mark,
    findings: Findings,
) -> None:
    """Check the three variables of a registry login.

    They must stand together, under `envs` or under `secrets`, and are useless without a container.
    """
    in_envs = [name for name in DOCKER_LOGIN if name in envs]
    in_secrets = [name for name in DOCKER_LOGIN if name in secrets]
    if not in_envs and not in_secrets:
        return
    missing = [name for name in DOCKER_LOGIN if name not in envs and name not in secrets]
    short = [name.rsplit("_", 1)[-1] for name in DOCKER_LOGIN]
    paste = "write secrets: {" + ", ".join(f"{name}: null" for name in DOCKER_LOGIN) + "}"
    if missing:
        message = f"the registry log-in lacks {' and '.join(missing)}"
        findings.error(at, "secrets" if in_secrets else "envs", "docker-login", message, paste)
    elif in_envs and in_secrets:
        message = (
            f"the registry log-in is split: {', '.join(in_envs)} under envs, "
            f"{', '.join(in_secrets)} under secrets"
        )
        findings.error(
            at, "envs", "docker-login", message, f"move {', '.join(short)} to one of them: {paste}"
        )
    elif not any(request.image is not None and request.image.docker for request in requests):
        words = (
            "the registry log-in is not used: no container image is asked for (image_id: docker:…)"
        )
        findings.warn(at, "secrets" if in_secrets else "envs", "docker-login", words)


def warn_of_copies(documents: list[Node], findings: Findings) -> None:
    """Warn if a secret's value also stands in plain text, where it cannot be hidden."""
    values = {v for v in findings.secret_values() if len(v) >= 8}
    if not values:
        return
    for document in documents:
        pairs = document.pairs if isinstance(document, Mapping) else ()
        for key, node in pairs:
            if key.text in ("setup", "run", "envs"):
                text = "\n".join(scalar.text for scalar in all_scalars(node, set()))
                if any(value in text for value in values):
                    words = (
                        f"{key.text} holds a secret's value in the clear; write $NAME of the "
                        "secret instead"
                    )
                    findings.warn(key.start, key.text, "secret-copied", words)
