"""The key to Google's price list: an API key, or the application default credentials."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from nbprov.clouds.gcp.account.authorization import token_request
from nbprov.clouds.web.error_text import UNREACHABLE
from nbprov.clouds.web.proxies import unusable_proxy, without_proxy_logins
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure

KEY_VARIABLES = ("NBPROV_GCP_API_KEY", "GOOGLE_CLOUD_API_KEY")
FILE_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
PROJECT_VARIABLES = ("GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT", "GCLOUD_PROJECT")
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
LOGIN_SECONDS: Seconds = 15.0
"""How long Google's token service may take; it usually answers in well under a second."""
NO_KEY = (
    "reading Google's price list needs a key: set NBPROV_GCP_API_KEY to an API key for the "
    "Cloud Billing API (free, no rights needed), "
    "or run `gcloud auth application-default login`"
)
NO_LIBRARY = (
    "reading Google's price list with your Google login needs the package "
    'google-auth: pip install "nbprov[gcp]"'
)


@dataclass(frozen=True, slots=True)
class PriceListAuth:
    """How to ask for prices and zones.

    Attributes
    ----------
    headers, params
        Sent with every request to the billing catalogue.
    bearer
        Headers for the Compute API, which accepts no API key; empty without a login.
    project
        The project whose zones are read; empty if it is not known.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    params: Mapping[str, str] = field(default_factory=dict, repr=False)
    bearer: Mapping[str, str] = field(default_factory=dict, repr=False)
    project: str = ""


def api_key(keys: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """Return the API key that the caller gave, or that the environment names."""
    return keys.get("api_key") or next(
        (environ[name] for name in KEY_VARIABLES if environ.get(name)), ""
    )


def login_file(environ: Mapping[str, str]) -> Path | None:
    """Return the file of the application default credentials, or None."""
    named = environ.get(FILE_VARIABLE)
    if named:
        return Path(named) if Path(named).is_file() else None
    folder = (
        Path(environ["CLOUDSDK_CONFIG"])
        if environ.get("CLOUDSDK_CONFIG")
        else _gcloud_folder(environ)
    )
    path = folder / "application_default_credentials.json"
    return path if path.is_file() else None


def _gcloud_folder(environ: Mapping[str, str]) -> Path:
    if os.name == "nt" and environ.get("APPDATA"):
        return Path(environ["APPDATA"]) / "gcloud"
    return Path.home() / ".config" / "gcloud"


def missing(keys: Mapping[str, str], environ: Mapping[str, str] | None = None) -> str:
    """Say why no price list can be read; empty if it can. No request is sent."""
    env = os.environ if environ is None else environ
    if api_key(keys, env):
        return ""
    if login_file(env) is None:
        return NO_KEY
    return "" if find_spec("google") and find_spec("google.auth") else NO_LIBRARY


def open_access(keys: Mapping[str, str]) -> PriceListAuth:
    """Find the key, and log in if there are credentials, with one request to Google's token
    service.

    Raises
    ------
    CloudError
        If there is no key at all, or (without an API key) if the login is refused.
    """
    env = os.environ
    key = api_key(keys, env)
    path = login_file(env)
    if not key and (path is None or missing(keys, env)):
        raise CloudError(Failure(Cause.CREDENTIALS, missing(keys, env)))
    params = {"key": key} if key else {}
    if path is None or not find_spec("google") or not find_spec("google.auth"):
        return PriceListAuth(params=params)
    try:
        token, project = _log_in(path)
    except CloudError:
        if not key:
            raise
        return PriceListAuth(params=params)
    bearer = {"Authorization": f"Bearer {token}"}
    project = (
        keys.get("project")
        or next((env[name] for name in PROJECT_VARIABLES if env.get(name)), "")
        or project
    )
    return PriceListAuth({} if key else bearer, params, bearer, project)


def _log_in(path: Path) -> tuple[str, str]:
    from functools import partial

    import google.auth
    from google.auth import exceptions

    try:
        credentials, project = google.auth.default(scopes=[SCOPE])
        renew: Callable[[object], object] = credentials.refresh
        renew(partial(token_request(), timeout=LOGIN_SECONDS))
    except (exceptions.GoogleAuthError, ValueError, OSError) as error:
        if (failure := unusable_proxy(error)) is not None:
            raise CloudError(failure) from None
        first = without_proxy_logins(str(error.args[0] if error.args else error))
        first = (first.splitlines() or [""])[0][:200]
        if isinstance(error, exceptions.TransportError):
            raise CloudError(
                Failure(
                    Cause.TRANSIENT,
                    f"Google's token service could not be reached: {first}",
                    code=UNREACHABLE,
                )
            ) from None
        raise CloudError(
            Failure(Cause.CREDENTIALS, f"Google refused the credentials in {path.name}: {first}")
        ) from None
    return str(credentials.token), str(
        project or getattr(credentials, "quota_project_id", "") or ""
    )


def login_state() -> tuple[str, ...]:
    """Return the state of everything that a login is read from, to detect a new one.

    This is the values of variables, and the size and time of the credentials file.
    """
    path = login_file(os.environ)
    stamp: tuple[str, ...] = ()
    if path is not None:
        try:
            told = path.stat()
            stamp = (str(path), str(told.st_mtime_ns), str(told.st_size))
        except OSError:
            stamp = (str(path),)
    return (
        *(
            os.environ.get(name, "")
            for name in (*PROJECT_VARIABLES, FILE_VARIABLE, "CLOUDSDK_ACTIVE_CONFIG_NAME")
        ),
        *stamp,
    )
