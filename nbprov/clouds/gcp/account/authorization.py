"""Requests of Google's packages that carry the token they were given, and no login of a .netrc.

Where a session has no `auth`, requests puts the login of a .netrc entry for the host, or of the
entry `default`, in place of the header that google-auth has set.
"""

from __future__ import annotations

from typing import Any

from nbprov.clouds.web.response import as_asked


def token_request() -> Any:
    """Return what google-auth renews a token with."""
    import requests
    from google.auth.transport.requests import Request

    session = requests.Session()
    session.auth = as_asked
    return Request(session)


def keep_authorization(client: Any) -> None:
    """Have a client of google-cloud-compute send its own token."""
    session = client.transport._session
    session.auth = as_asked
    # The library renews a token itself if Google refuses one before it has expired.
    session._auth_request = token_request()
