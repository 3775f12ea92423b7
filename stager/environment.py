"""What the environment says about the network: the hub's address and token, proxies, certificate authorities.

Checks all of it before the first request, since a mistake would look like a transient error of a server. Refuses all
unusable variables at once; never prints a token or password.
"""

from __future__ import annotations

import os
import re
import ssl
import urllib.request
from collections.abc import Iterator

from stager.errors import StagerError
from stager.source_name import is_web_address, shown

DEFAULT_ENDPOINT = "https://huggingface.co"
AUTHORITIES = ("SSL_CERT_FILE", "AWS_CA_BUNDLE")
TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
TOKEN = re.compile(r"[!-~]+")


def require_usable_environment() -> None:
    """Raise `StagerError` with every unusable variable."""
    faults = [*_endpoint_faults(), *_proxy_faults(), *_authority_faults(), *_token_faults()]
    if faults:
        raise StagerError("; ".join(faults))


def hub_endpoint() -> str:
    """The address of the model hub, without a slash at its end."""
    return (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")


def proxies() -> dict[str, str]:
    """The proxies in the environment, by the scheme they serve; `host:port` means HTTP."""
    named = urllib.request.getproxies()
    return {scheme: _with_scheme(named[scheme]) for scheme in ("http", "https") if named.get(scheme)}


def trusted_authorities() -> ssl.SSLContext:
    """The system's certificate authorities, and those in `AWS_CA_BUNDLE` for a private S3 server."""
    context = ssl.create_default_context()
    if bundle := os.environ.get("AWS_CA_BUNDLE"):
        context.load_verify_locations(bundle)
    return context


def _with_scheme(proxy: str) -> str:
    return proxy if "://" in proxy else f"http://{proxy}"


def _endpoint_faults() -> Iterator[str]:
    endpoint = hub_endpoint()
    if not is_web_address(endpoint) or "?" in endpoint or "#" in endpoint:
        yield f"HF_ENDPOINT is {shown(os.environ['HF_ENDPOINT'])}: expected an address such as {DEFAULT_ENDPOINT}"


def _proxy_faults() -> Iterator[str]:
    for scheme, proxy in urllib.request.getproxies().items():
        if scheme in ("http", "https", "all") and not is_web_address(_with_scheme(proxy)):
            yield f"the proxy for {scheme} ({scheme.upper()}_PROXY) is {shown(proxy)}: expected http://host:port"


def _authority_faults() -> Iterator[str]:
    for variable in AUTHORITIES:
        path = os.environ.get(variable)
        if not path:
            continue
        try:
            ssl.create_default_context(cafile=path)
        except OSError as error:
            yield f"{variable} is {path!r}: expected a file of certificates ({error.strerror or error})"


def _token_faults() -> Iterator[str]:
    for variable in TOKENS:
        token = os.environ.get(variable, "").strip()
        if token and not TOKEN.fullmatch(token):
            yield f"{variable} holds characters that no token has, such as spaces or letters beyond ASCII"
