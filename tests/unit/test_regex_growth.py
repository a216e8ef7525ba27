"""No regular expression that reads what others wrote takes much longer than its text is long."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from regex_growth import Found, alternatives, modules_of, patterns_of, slowness

from nbprov.clouds.aws import errors as aws_errors
from nbprov.clouds.gcp import errors as gcp_errors
from nbprov.clouds.lambda_cloud import errors as lambda_errors
from nbprov.clouds.refusal_words import MOST_CODE, MOST_READ, is_fault, meaning_of
from nbprov.clouds.runpod import errors as runpod_errors
from nbprov.machines.sanitize.html import LONGEST_VALUE
from nbprov.model.failures import Cause
from nbprov.remote.agent.framing import AgentError, unpack

PACKAGES = (
    "nbprov.api",
    "nbprov.catalog",
    "nbprov.clouds.aws",
    "nbprov.clouds.azure",
    "nbprov.clouds.cudo",
    "nbprov.clouds.gcp",
    "nbprov.clouds.lambda_cloud",
    "nbprov.clouds.local",
    "nbprov.clouds.pricing",
    "nbprov.clouds.refusal_words",
    "nbprov.clouds.runpod",
    "nbprov.clouds.vast",
    "nbprov.clouds.web",
    "nbprov.machines",
    "nbprov.market",
    "nbprov.model",
    "nbprov.on_machine",
    "nbprov.planning",
    "nbprov.provisioning",
    "nbprov.remote",
    "nbprov.runtime",
)
"""All but the notebook and the spec, which read what their user writes, and the adapters' kit."""

CUT = {
    "nbprov.clouds.aws.errors": MOST_READ,
    "nbprov.clouds.aws.errors._CODES": MOST_CODE,
    "nbprov.clouds.aws.instances.run_instances": MOST_READ,
    "nbprov.clouds.gcp.error_codes": MOST_READ,
    "nbprov.clouds.gcp.errors": MOST_READ,
    "nbprov.clouds.lambda_cloud.errors": MOST_READ,
    "nbprov.clouds.refusal_words": MOST_READ,
    "nbprov.clouds.runpod.errors": runpod_errors.MOST_WORDS,
    "nbprov.machines.sanitize.html._CALL": LONGEST_VALUE,
}
"""Modules, or patterns, whose text is cut before it is read, and the characters that are left."""


def _most(where: str) -> int | None:
    module = where.partition(",")[0] if "," in where else where.rpartition(".")[0]
    return CUT.get(where, CUT.get(module))


@pytest.mark.parametrize("package", PACKAGES)
def test_no_pattern_takes_much_longer_than_its_text_is_long(package: str) -> None:
    slow = {
        found.where: f"{found.pattern.pattern!r}: {text}"
        for module in modules_of(package)
        for pattern in patterns_of(module)
        for found in alternatives(pattern)
        if (text := slowness(found, _most(found.where)))
    }
    assert not slow


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?:\s*\.dataframe\s+(?:tbody|thead)?[\w\s:.()-]*\{\s*text-align: \w+\s*\})+\s*\Z",
        r"(?:a|ab|b)*c",
        r"([\w-]*)\(",
        r"(?:```|~~~)[`~]*[^\S\r\n]*(?!json)[^\s`]",
        r"<title\b[^>]*>(.*?)</title>",
        r"zone .* is not available",
    ],
)
def test_patterns_that_go_back_and_forth_are_found(pattern: str) -> None:
    assert slowness(Found("", re.compile(pattern, re.DOTALL), {"match", "search"}))


ODD = [
    " ",
    "a",
    "image",
    "zone ",
    "image requires ",
    "CreateTags",
    "incompatib",
    "$.gpu",
    "<title>",
]
"""Words with which several tables would look for another word, anywhere behind each."""

READERS: dict[str, Callable[[str], object]] = {
    "aws": lambda words: aws_errors.failure_of("Unsupported", words),
    "aws's codes": lambda words: aws_errors.failure_of(words, "no"),
    "gcp": lambda words: gcp_errors.failure_of(gcp_errors.GoogleRefusal(400, ("x",), words)),
    "lambda": lambda words: lambda_errors.failure_of(
        400, f'{{"error": {{"code": "global/invalid-parameters", "message": "{words}"}}}}'
    ),
    "runpod": lambda words: runpod_errors.failure_of(400, f'{{"detail": "{words}"}}'),
    "the words of all": lambda words: (is_fault(words), meaning_of(words, Cause.CAPACITY)),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("odd", ODD)
def test_a_refusal_without_end_is_read_at_once(reader: str, odd: str) -> None:
    begun = time.thread_time()
    READERS[reader](odd * (300_000 // len(odd)))
    assert time.thread_time() - begun < 1


@pytest.mark.parametrize("bit", [b'\\"', b'"a\\', b'"', b"\\"])
def test_a_large_message_that_is_made_to_be_slow_is_refused_at_once(bit: bytes) -> None:
    begun = time.thread_time()
    with pytest.raises(AgentError):
        unpack(b'"' + bit * (500_000 // len(bit)) + b"x" * 600_000)
    assert time.thread_time() - begun < 2


def test_a_code_is_cut_before_it_is_looked_up() -> None:
    assert len(aws_errors.failure_of("x" * 10 * MOST_CODE, "no").code) == MOST_CODE
