"""The clouds that the contract runs over."""

from __future__ import annotations

from aws_under_test import AwsUnderTest
from clouds_under_test import CloudUnderTest, LocalUnderTest
from fluffy_under_test import FluffyUnderTest
from gcp_under_test import GcpUnderTest
from lambda_under_test import LambdaUnderTest
from runpod_under_test import RunPodUnderTest

CLOUDS: list[type[CloudUnderTest]] = [
    LocalUnderTest,
    AwsUnderTest,
    GcpUnderTest,
    RunPodUnderTest,
    LambdaUnderTest,
    FluffyUnderTest,
]
