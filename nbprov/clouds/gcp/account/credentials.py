"""Google credentials and the project.

Found without Google's packages, opened with google-auth only.
"""

from __future__ import annotations

import configparser
import json
import os
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nbprov.clouds.gcp.account.authorization import token_request
from nbprov.clouds.gcp.account.price_list_auth import (
    PROJECT_VARIABLES,
    SCOPE,
    _gcloud_folder,
    login_file,
)
from nbprov.clouds.sdk_import import without_collections
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure

ENDPOINT_VARIABLE = "NBPROV_GCP_ENDPOINT"
"""Another address of the Compute API: a private endpoint, or a test double on loopback, which is
used without credentials."""
ENDPOINT = "https://compute.googleapis.com"
LOGIN_SECONDS: Seconds = 4.0
"""How long renewing a token may take, within a check's five seconds; Google's token service answers
in well under a second."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")
NO_LOGIN = "no Google credentials on this computer: run `gcloud auth application-default login`"
NO_LIBRARY = 'using Google Cloud needs its packages: pip install "nbprov[gcp]"'
NO_PROJECT = (
    "the Google project is not known: set GOOGLE_CLOUD_PROJECT, or run `gcloud config "
    "set project PROJECT`"
)
_TYPES = (
    "authorized_user",
    "service_account",
    "external_account",
    "external_account_authorized_user",
    "impersonated_service_account",
)


@dataclass(frozen=True, slots=True)
class Login:
    """A login: who asks, for which project, at which address.

    Attributes
    ----------
    source
        Which credentials these are, masked, for people.
    credentials
        google-auth's object; `fresh` renews its token.
    """

    project: str
    source: str
    endpoint: str
    credentials: Any = field(repr=False, compare=False)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def fresh(self, seconds: Seconds = LOGIN_SECONDS) -> None:
        """Renew the token if it has expired, within `seconds`.

        Raises
        ------
        google.auth.exceptions.GoogleAuthError
            If the credentials are refused or the token service does not answer.
        """
        if self.credentials.valid or is_loopback(self.endpoint):
            return
        with self.lock:
            if not self.credentials.valid:
                self.credentials.refresh(partial(token_request(), timeout=seconds))


def endpoint() -> str:
    """Return the address of the Compute API, without a slash at the end."""
    return (os.environ.get(ENDPOINT_VARIABLE) or ENDPOINT).rstrip("/")


def is_loopback(url: str) -> bool:
    """Whether an address is on this computer, where no real account is.

    Examples
    --------
    >>> is_loopback("http://127.0.0.1:8080"), is_loopback("https://compute.googleapis.com")
    (True, False)
    >>> is_loopback("http://127.0.0.1.example.org")
    False
    """
    return urlsplit(url).hostname in LOOPBACK


def missing(environ: Mapping[str, str] | None = None) -> str:
    """Say why Google Cloud cannot be used here; empty if it may be usable. Only files are read."""
    env = os.environ if environ is None else environ
    if not (
        find_spec("google")
        and find_spec("google.auth")
        and find_spec("google.cloud")
        and find_spec("google.cloud.compute_v1")
    ):
        return NO_LIBRARY
    if is_loopback(endpoint()):
        return ""
    path = login_file(env)
    if path is None:
        return NO_LOGIN
    return "" if project_of(env, _content(path)) else NO_PROJECT


def open_login() -> Login:
    """Read the credentials, without using the network.

    Raises
    ------
    CloudError
        `credentials` if there are none, they cannot be read, or no project is named.
    """
    if problem := missing():
        raise CloudError(Failure(Cause.CREDENTIALS, problem))
    url = endpoint()
    host = urlsplit(url).hostname or ""
    if not url.startswith("https://") and not (is_loopback(url) or host.startswith("127.")):
        raise CloudError(
            Failure(
                Cause.BAD_REQUEST,
                (
                    f"{ENDPOINT_VARIABLE} must begin with https://, because credentials are sent "
                    "with every request"
                ),
                "endpoint",
            )
        )
    if is_loopback(url):
        project = project_of(os.environ, {}) or "nbprov-double"
        return Login(project, "none: the endpoint is on this computer", url, _anonymous())
    path = login_file(os.environ)
    content = _content(path) if path else {}
    if path is None or content.get("type") not in _TYPES:
        raise CloudError(
            Failure(
                Cause.CREDENTIALS,
                f"{path.name if path else 'the file'} holds no Google credentials: {NO_LOGIN}",
            )
        )
    with without_collections("google.auth"):
        from google.auth import exceptions

    try:
        credentials = _read(content)
    except (exceptions.GoogleAuthError, ValueError, KeyError, TypeError) as error:
        # Only the class of the error is shown: its text may repeat what the file holds.
        raise CloudError(
            Failure(
                Cause.CREDENTIALS,
                f"{path.name} cannot be read as Google credentials ({type(error).__name__})",
            )
        ) from None
    return Login(project_of(os.environ, content), _source(path, content), url, credentials)


def _anonymous() -> Any:
    with without_collections("google.auth"):
        from google.auth import credentials

    make: Any = credentials.AnonymousCredentials
    return make()


def _read(content: dict[str, Any]) -> Any:
    """Make google-auth's object for the content of a credentials file.

    `google.auth.default` is not used, because it may run gcloud and ask the metadata server.
    """
    load: Any
    if content["type"] == "authorized_user":
        from google.oauth2.credentials import Credentials as UserCredentials

        load = UserCredentials.from_authorized_user_info
        return load(content, scopes=[SCOPE])
    if content["type"] == "service_account":
        from google.oauth2.service_account import Credentials as ServiceCredentials

        load = ServiceCredentials.from_service_account_info
        return load(content, scopes=[SCOPE])
    import google.auth

    load = google.auth.load_credentials_from_dict
    with warnings.catch_warnings():
        # It warns about files from strangers; this file is named by the user's own environment.
        warnings.simplefilter("ignore", DeprecationWarning)
        return load(content, scopes=[SCOPE])[0]


def project_of(environ: Mapping[str, str], content: Mapping[str, Any]) -> str:
    """Return the project named by the environment, the credentials or gcloud, in this order.

    Empty if there is none.
    """
    named = next((environ[name] for name in PROJECT_VARIABLES if environ.get(name)), "")
    return (
        named
        or str(content.get("project_id") or "")
        or _gcloud_project(environ)
        or str(content.get("quota_project_id") or "")
    )


def _gcloud_project(environ: Mapping[str, str]) -> str:
    folder = (
        Path(environ["CLOUDSDK_CONFIG"])
        if environ.get("CLOUDSDK_CONFIG")
        else _gcloud_folder(environ)
    )
    try:
        name = (
            environ.get("CLOUDSDK_ACTIVE_CONFIG_NAME")
            or (folder / "active_config").read_text().strip()
            or "default"
        )
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string((folder / "configurations" / f"config_{name}").read_text())
        return parser.get("core", "project", fallback="").strip()
    except (OSError, UnicodeDecodeError, configparser.Error):
        return ""


def _content(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _source(path: Path, content: Mapping[str, Any]) -> str:
    """Describe the credentials in a few words, without secrets and with masked addresses."""
    email = str(content.get("client_email") or "")
    if email:
        name, _, domain = email.partition("@")
        return f"service account {name[:3]}…@{domain} ({path.name})"
    kind = {"authorized_user": "your Google login"}.get(
        str(content.get("type")), str(content.get("type")).replace("_", " ")
    )
    return f"{kind} ({path.name})"
