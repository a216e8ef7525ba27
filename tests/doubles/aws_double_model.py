"""Checks requests and answers against botocore's models of AWS's services.

Anything that the model does not have is a problem, in both directions.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

import botocore.session
from botocore.validate import ParamValidator

TARGETS = {
    "AmazonSSM": "ssm",
    "ServiceQuotasV20190624": "service-quotas",
    "AWSPriceListService": "pricing",
}
MEANT = ("DescribeInternetGateways.InternetGateways[].Attachments[].State is 'available'",)
"""Values that AWS itself sends against its model: "for an internet gateway, the state is available
when attached to a VPC"."""
ENVELOPE = frozenset({"Action", "Version"})
_session = botocore.session.get_session()
_NUMBERS = {"integer": int, "long": int, "float": float, "double": float}


@lru_cache(maxsize=8)
def model(service: str) -> Any:
    """botocore's model of a service."""
    return _session.get_service_model(service)


def asked(service: str, body: bytes, headers: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Return the name of the call and its flat parameters, or its JSON."""
    target = headers.get("x-amz-target", "")
    if target:
        return target.rpartition(".")[2], json.loads(body or b"{}")
    flat = dict(parse_qsl(body.decode(), keep_blank_values=True))
    return flat.get("Action", ""), {k: v for k, v in flat.items() if k not in ENVELOPE}


def wrong_request(service: str, call: str, parameters: Mapping[str, Any]) -> list[str]:
    """Return what the model does not allow in a request."""
    if call not in model(service).operation_names:
        return [f"{service} has no call {call}"]
    shape = model(service).operation_model(call).input_shape
    if shape is None:
        return [f"{call} takes no parameters: {sorted(parameters)}"] if parameters else []
    problems: list[str] = []
    typed: Any = dict(parameters)
    if model(service).metadata["protocol"] in ("ec2", "query"):
        typed = _typed(_tree(parameters), shape, call, problems)
    else:
        problems += _wrong_json(typed, shape, call)
    report = ParamValidator().validate(typed, shape)
    if report.has_errors():
        problems.append(f"{call}: {report.generate_report()}")
    return problems


def wrong_answer(service: str, call: str, body: bytes) -> list[str]:
    """Return what the model does not have in a successful answer."""
    shape = model(service).operation_model(call).output_shape
    if shape is None:
        return []
    if model(service).metadata["protocol"] == "json":
        return list(_wrong_json(json.loads(body), shape, call))
    root = ElementTree.fromstring(body)
    node = next((c for c in root if _tag(c) == f"{call}Result"), root)
    return [
        problem
        for problem in _wrong_xml(node, shape, call, top=True)
        if not problem.startswith(MEANT)
    ]


def _tree(flat: Mapping[str, str]) -> dict[str, Any]:
    """`{"Filter.1.Name": "x"}` as `{"Filter": {"1": {"Name": "x"}}}`."""
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        *above, last = key.split(".")
        node = tree
        for part in above:
            node = node.setdefault(part, {})
        node[last] = value
    return tree


def _typed(node: Any, shape: Any, path: str, problems: list[str]) -> Any:
    """Convert parameters to Python values by the model; unknown ones are problems."""
    if shape.type_name == "structure":
        names = {
            _query_name(name, member): (name, member) for name, member in shape.members.items()
        }
        found = {}
        for key, value in node.items() if isinstance(node, dict) else ():
            if key not in names:
                problems.append(f"{path}.{key} is not in the model")
                continue
            name, member = names[key]
            found[name] = _typed(value, member, f"{path}.{name}", problems)
        return found
    if shape.type_name == "list":
        if not isinstance(node, dict) or sorted(node, key=int) != [
            str(n + 1) for n in range(len(node))
        ]:
            problems.append(f"{path} is no list: {node!r}")
            return []
        return [
            _typed(node[key], shape.member, f"{path}[{key}]", problems)
            for key in sorted(node, key=int)
        ]
    return _scalar(str(node), shape, path, problems)


def _query_name(name: str, member: Any) -> str:
    told = member.serialization
    if "queryName" in told:
        return str(told["queryName"])
    given = str(told.get("name", name))
    return given[:1].upper() + given[1:]


def _scalar(text: str, shape: Any, path: str, problems: list[str]) -> Any:
    kind = shape.type_name
    if kind in _NUMBERS:
        try:
            return _NUMBERS[kind](text)
        except ValueError:
            problems.append(f"{path} is no {kind}: {text!r}")
            return 0
    if kind == "boolean":
        if text not in ("true", "false"):
            problems.append(f"{path} is no boolean: {text!r}")
        return text == "true"
    if kind == "timestamp":
        if not re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$", text):
            problems.append(f"{path} is no time: {text!r}")
        return datetime.now(UTC)
    if getattr(shape, "enum", None) and text not in shape.enum:
        problems.append(f"{path} is {text!r}, which is not among {shape.enum}")
    return text


def _wrong_xml(
    node: ElementTree.Element, shape: Any, path: str, *, top: bool = False
) -> Iterator[str]:
    if shape.type_name == "structure":
        names = {
            str(m.serialization.get("name", name)): (name, m) for name, m in shape.members.items()
        }
        for child in node:
            if _tag(child) in names:
                name, member = names[_tag(child)]
                yield from _wrong_xml(child, member, f"{path}.{name}")
            elif not (top and _tag(child) in ("requestId", "ResponseMetadata")):
                yield f"{path}: {_tag(child)} is not in the model"
    elif shape.type_name == "list":
        wanted = str(shape.member.serialization.get("name", "item"))
        for child in node:
            if _tag(child) != wanted:
                yield f"{path}: {_tag(child)} in the place of {wanted}"
            else:
                yield from _wrong_xml(child, shape.member, f"{path}[]")
    else:
        problems: list[str] = []
        _scalar(node.text or "", shape, path, problems)
        yield from problems


def _wrong_json(value: Any, shape: Any, path: str) -> Iterator[str]:
    if shape.type_name == "structure":
        if not isinstance(value, dict):
            yield f"{path} is no structure: {value!r}"
            return
        for key, inside in value.items():
            if key not in shape.members:
                yield f"{path}.{key} is not in the model"
            else:
                yield from _wrong_json(inside, shape.members[key], f"{path}.{key}")
    elif shape.type_name == "list":
        for inside in value if isinstance(value, list) else ():
            yield from _wrong_json(inside, shape.member, f"{path}[]")
    elif getattr(shape, "enum", None) and value not in shape.enum:
        yield f"{path} is {value!r}, which is not among {shape.enum}"


def _tag(node: ElementTree.Element) -> str:
    return node.tag.rpartition("}")[2]
