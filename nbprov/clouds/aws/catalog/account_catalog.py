"""What EC2 tells an account about its catalog: zones, types, and spot prices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from nbprov.clouds.aws.account.detection import NEEDS, credentials_lie_about, sdk_is_there
from nbprov.clouds.aws.catalog.gpu_families import FamilyAccelerator
from nbprov.clouds.pricing import gpu_names
from nbprov.clouds.pricing.fetcher import FetchContext
from nbprov.clouds.pricing.region_fetch import price
from nbprov.clouds.web.client import CONNECT_SECONDS, READ_SECONDS, HttpClient, IncompleteResponse
from nbprov.clouds.web.error_text import UNREACHABLE
from nbprov.clouds.web.proxies import unusable_proxy, without_proxy_logins
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.money import Micros

PRODUCT = "Linux/UNIX"
THROTTLED = (
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "RequestThrottled",
    "EC2ThrottledException",
    "SlowDown",
)
REFUSED = (
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "InvalidAccessKeyId",
    "MissingAuthenticationToken",
)
FORBIDDEN = ("UnauthorizedOperation", "AccessDenied", "AccessDeniedException")


@dataclass(frozen=True, slots=True)
class Described:
    """A type as EC2 describes it."""

    vcpus: float | None
    memory_gib: float | None
    arch: str
    accelerator: FamilyAccelerator | None
    accelerated: bool


@dataclass(slots=True)
class RegionView:
    """A region as this account sees it.

    Zones are given by their ids (`use1-az1`), which mean the same to every account.
    """

    offered: dict[str, list[str]] = field(default_factory=dict)
    spot: dict[tuple[str, str], Micros] = field(default_factory=dict)
    types: dict[str, Described] = field(default_factory=dict)


class Account:
    """Reads regions for one account. Safe to use from several threads."""

    def __init__(self, context: FetchContext) -> None:
        import threading

        import boto3
        from botocore.config import Config

        keys = context.keys
        self._http: HttpClient = context.http
        self._url = context.endpoints.get("ec2")
        self._lock = threading.Lock()
        # Retries are made here, by the rules of `HttpClient`, so that a stop is obeyed between two
        # attempts.
        self._config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"total_max_attempts": 1},
        )
        self._session = boto3.session.Session(
            aws_access_key_id=keys.get("access_key_id"),
            aws_secret_access_key=keys.get("secret_access_key"),
            aws_session_token=keys.get("session_token"),
        )

    @classmethod
    def open(cls, context: FetchContext) -> Account | str:
        """Return the account of the available credentials, or a sentence that says why there is
        none.
        """
        if not credentials_lie_about(context.keys):
            return "no AWS credentials were found"
        if not sdk_is_there():
            return NEEDS
        from botocore.exceptions import BotoCoreError

        try:
            account = cls(context)
            found = account._session.get_credentials()
        except BotoCoreError as error:
            return without_proxy_logins(str(error))
        return account if found is not None else "no AWS credentials were found"

    def read(self, region: str) -> RegionView:
        """Read everything that EC2 tells about a region.

        Raises
        ------
        CloudError
            `permission` with the name of the missing permission, or for a region that this account
            may not use (with the code `AuthFailure`); otherwise `credentials`, `rate_limit` or
            `transient`.
        """
        with self._lock:
            client = self._session.client(
                "ec2", region_name=region, endpoint_url=self._url, config=self._config
            )
        ask = _Asker(client, region, self._http)
        # The smallest answer comes first: it tells whether the account may use the region at all.
        zones = {
            zone["ZoneName"]: zone["ZoneId"]
            for page in ask.pages("DescribeAvailabilityZones", client.describe_availability_zones)
            for zone in page["AvailabilityZones"]
            if zone.get("ZoneType", "availability-zone") == "availability-zone"
        }
        view = RegionView()
        usable = set(zones.values())
        for page in ask.pages(
            "DescribeInstanceTypeOfferings",
            client.describe_instance_type_offerings,
            LocationType="availability-zone-id",
        ):
            for offering in page["InstanceTypeOfferings"]:
                if offering["Location"] in usable:
                    view.offered.setdefault(offering["InstanceType"], []).append(
                        offering["Location"]
                    )
        for page in ask.pages("DescribeInstanceTypes", client.describe_instance_types):
            view.types.update(
                {one["InstanceType"]: described(one) for one in page["InstanceTypes"]}
            )
        self._add_spot(view, ask, client, zones)
        return view

    def _add_spot(
        self, view: RegionView, ask: _Asker, client: Any, zones: Mapping[str, str]
    ) -> None:
        newest: dict[tuple[str, str], datetime] = {}
        # From now on: EC2 also returns the price that holds at this moment, with the time it began.
        pages = ask.pages(
            "DescribeSpotPriceHistory",
            client.describe_spot_price_history,
            ProductDescriptions=[PRODUCT],
            StartTime=datetime.now(UTC),
        )
        for page in pages:
            for entry in page["SpotPriceHistory"]:
                zone = entry.get("AvailabilityZoneId") or zones.get(
                    entry.get("AvailabilityZone", "")
                )
                amount = price(entry.get("SpotPrice"))
                if (
                    not zone
                    or amount is None
                    or entry.get("ProductDescription", PRODUCT) != PRODUCT
                ):
                    continue
                place, since = (entry["InstanceType"], zone), entry["Timestamp"]
                if place not in newest or since > newest[place]:
                    newest[place], view.spot[place] = since, amount


class _Asker:
    """Calls of one region's client, with pages and retries."""

    def __init__(self, client: Any, region: str, http: HttpClient) -> None:
        self._client = client
        self._region = region
        self._http = http

    def pages(self, action: str, call: Callable[..., Any], **arguments: Any) -> Iterator[Any]:
        """Return the pages of an answer.

        A page token that repeats itself raises an error, instead of looping for ever.
        """
        token = ""
        while True:
            more = {"NextToken": token} if token else {}
            page = self._http.retried(partial(self._called, action, call, {**arguments, **more}))
            yield page
            following = page.get("NextToken") or ""
            if not following:
                return
            if following == token:
                raise CloudError(
                    Failure(
                        Cause.TRANSIENT,
                        f"EC2 in {self._region} repeats the pages of {action}",
                        code="odd-answer",
                    )
                )
            token = following

    def _called(self, action: str, call: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        self._http.check()
        try:
            return call(**arguments)
        except ClientError as error:
            raise self._translated(action, error.response) from None
        except BotoCoreError as error:
            if (failure := unusable_proxy(error, knows_socks=False)) is not None:
                raise CloudError(failure) from None
            name, words = type(error).__name__, without_proxy_logins(str(error))
            if "Credential" in name or "Token" in name or "Profile" in name or "SSO" in name:
                raise CloudError(Failure(Cause.CREDENTIALS, words, code=name)) from None
            unopened = (
                self._client.meta.endpoint_url
                if name
                in ("EndpointConnectionError", "ConnectTimeoutError", "ProxyConnectionError")
                else ""
            )
            code = UNREACHABLE if unopened else name
            failed = CloudError(
                Failure(Cause.TRANSIENT, f"EC2 in {self._region}: {words}", code=code)
            )
            raise (
                IncompleteResponse(failed, unreached=unopened)
                if "Endpoint" in name or "Connection" in name or "Timeout" in name
                else failed
            ) from None

    def _translated(self, action: str, answer: Mapping[str, Any]) -> Exception:
        code = answer.get("Error", {}).get("Code", "")
        said = answer.get("Error", {}).get("Message", "")
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        where = f"EC2 in {self._region}"
        if code == "AuthFailure":
            return CloudError(
                Failure(
                    Cause.PERMISSION,
                    f"this account has no access to {self._region}: {said}",
                    code=code,
                )
            )
        if code in REFUSED:
            return CloudError(Failure(Cause.CREDENTIALS, f"{where}: {said}", code=code))
        if code in FORBIDDEN:
            return CloudError(
                Failure(
                    Cause.PERMISSION,
                    f"ec2:{action} is not allowed to this AWS user in {self._region}: {said}",
                    code=code,
                )
            )
        if code in THROTTLED:
            return IncompleteResponse(
                CloudError(Failure(Cause.RATE_LIMIT, f"{where}: {said}", code=code))
            )
        error = CloudError(
            Failure(Cause.TRANSIENT, f"{where}, {action}: {code} {said}".strip(), code=code)
        )
        return IncompleteResponse(error) if status >= 500 else error


def described(one: Mapping[str, Any]) -> Described:
    """Read a type from an answer to `DescribeInstanceTypes`."""
    memory = one.get("MemoryInfo", {}).get("SizeInMiB")
    arches = one.get("ProcessorInfo", {}).get("SupportedArchitectures") or [""]
    devices = [
        *one.get("GpuInfo", {}).get("Gpus", []),
        *one.get("NeuronInfo", {}).get("NeuronDevices", []),
        *one.get("InferenceAcceleratorInfo", {}).get("Accelerators", []),
    ]
    return Described(
        one.get("VCpuInfo", {}).get("DefaultVCpus"),
        memory / 1024 if memory else None,
        "x86_64" if "x86_64" in arches else arches[0],
        _device(devices[0]) if devices else None,
        bool(devices),
    )


def _device(device: Mapping[str, Any]) -> FamilyAccelerator | None:
    size = device.get("MemoryInfo", {}).get("SizeInMiB")
    gpu = gpu_names.read(str(device.get("Name", "")), round(size / 1024, 3) if size else None)
    if not gpu.maker or not device.get("Count"):
        return None
    return FamilyAccelerator(gpu.name, gpu.device_gib or 0.0, gpu.maker, float(device["Count"]))
