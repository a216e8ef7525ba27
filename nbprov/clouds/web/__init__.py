"""Access to web services, for price fetchers and adapters.

Start with `client.py` (requests with retries). `response.py` reads one response, `error_text.py`
turns failures into causes and messages, `proxies.py` keeps logins of proxies out of these, and
`public_ip.py` finds this computer's public address.
Only `nbprov.model` may be imported.
"""
