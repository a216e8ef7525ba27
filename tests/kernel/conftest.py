"""Kernels and homes for the tests, each ended with all its machines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from homes import new_home
from kernels import CPU, Kernel, new_kernel


@pytest.fixture
def home() -> Iterator[Path]:
    """Yield a home for one test."""
    with new_home() as made:
        yield made


@pytest.fixture
def kernel(home: Path) -> Iterator[Kernel]:
    """Yield a kernel for one test, with the extension loaded."""
    with new_kernel(home) as made:
        yield made


@pytest.fixture(scope="module")
def shared_home() -> Iterator[Path]:
    """Yield a home for the tests of a module."""
    with new_home() as made:
        yield made


@pytest.fixture(scope="module")
def shared(shared_home: Path) -> Iterator[Kernel]:
    """Yield a kernel for the tests of a module that leave it as they found it."""
    with new_kernel(shared_home) as made:
        yield made


@pytest.fixture(scope="module")
def shared_cluster(shared: Kernel) -> Kernel:
    """Yield the same kernel with a cluster called `dev`."""
    shared.run(f"%%provision dev --yes --wait\n{CPU}")
    return shared
