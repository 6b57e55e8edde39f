"""
Proxies on the way to an API server: those that a kubeconfig names, and those of the environment, as Go reads them.

Takes addresses; gives the proxy's address, or none. Raises `CredentialsError` for what can't be used. Never shows more
of an address than its scheme and host: there may be a password in it.
"""

from __future__ import annotations

import ipaddress
import urllib.parse
from collections.abc import Mapping

from opkit.errors import CredentialsError

_PORTS = {"http": 80, "https": 443}


def checked_proxy(url: str, origin: str) -> str:
    """This address, if it is one of a proxy that can be used. `origin` says where it is written."""
    try:
        parts = urllib.parse.urlsplit(url)
        scheme, host, _port = parts.scheme, parts.hostname, parts.port
        if any(letter.isspace() for letter in url):
            raise ValueError
    except ValueError:
        raise CredentialsError(f"{origin} is no address of a proxy: write it as http://HOST:PORT") from None
    if scheme.startswith("socks"):
        raise CredentialsError(
            f"{origin} names a proxy of the kind {scheme}, which is not supported (socks needs another client): "
            "name an http:// or https:// proxy instead"
        )
    if scheme not in _PORTS or "://" not in url:
        raise CredentialsError(f"{origin} names a proxy of an unknown kind: it has to begin with http:// or https://")
    if not host:
        raise CredentialsError(f"{origin} names no host: write it as {scheme}://HOST:PORT")
    return url


def proxy_of_environment(server: str, environment: Mapping[str, str]) -> str | None:
    """The proxy that `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` (or in lower case) mean for this server."""
    try:
        parts = urllib.parse.urlsplit(server)
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return None
    name = f"{parts.scheme}_proxy"
    for written in (name.upper(), name):
        if url := environment.get(written):
            if _is_left_out(host, port, environment.get("NO_PROXY") or environment.get("no_proxy") or ""):
                return None
            # A bare host is an HTTP proxy.
            return checked_proxy(url if "://" in url else f"http://{url}", f"the variable {written}")
    return None


def _is_left_out(host: str, port: int, left_out: str) -> bool:
    """Whether a host is reached without the proxy: this machine always is."""
    host = host.lower().rstrip(".")
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_means(entry.strip().lower(), host, port, address) for entry in left_out.split(",") if entry.strip())


def _means(
    entry: str, host: str, port: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None
) -> bool:  # fmt: skip
    """Whether one entry of `NO_PROXY` means this host: a name with all below it, an address, a network; with a port."""
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, colon, number = entry.rpartition(":")
    if colon and number.isdigit() and (":" not in name or name.startswith("[")):
        if int(number) != port:
            return False
        entry = name
    entry = entry.strip("[]")
    if (given := _address(entry)) is not None:
        return given == address
    below = entry.removeprefix("*")
    if below.startswith("."):  # only what is below it
        return host.endswith(below)
    return host == below or host.endswith(f".{below}")


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
