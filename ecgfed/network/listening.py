"""Where a server listens: one address of its machine, or all of a kind, as Flower's SuperLink can."""

import re
from dataclasses import dataclass
from ipaddress import ip_address

from ecgfed.errors import OptionError
from ecgfed.network.launch import Address

#: All of this machine's IPv4 addresses, or all of its IPv6 ones -> where the server's own programs reach it then.
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
#: A host's name, or the names of all hosts of a domain. With a port or as a URL no site's TLS would know it again.
_NAME = re.compile(r"(\*\.)?[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*")


@dataclass(frozen=True)
class Listening:
    """Where a server listens, and by which names sites reach it.

    Attributes:
        host: an address of this machine, or all of a kind: a key of ``EVERYWHERE``. Flower listens at one of these.
        port: of it.
        names: host names and addresses, for the certificate.
    """

    host: str = "0.0.0.0"
    port: int = 9092
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        try:
            valid = "%" not in self.host and not ip_address(self.host).is_multicast
        except ValueError:
            valid = False
        if not valid:
            expected = "an IPv4 or IPv6 address of this machine, 0.0.0.0 for all IPv4 ones, or :: for all IPv6 ones"
            raise OptionError("--host", f"{self.host!r:.100}", expected, "give names to --name")
        for name in self.names:
            if not (_is_address(name) or (_NAME.fullmatch(name) and len(name) < 254)):
                expected = "a host name or an address, without https://, port or brackets"
                raise OptionError("--name", f"{name!r:.100}", expected, "name it as sites will dial it")

    @property
    def local_address(self) -> Address:
        """Where programs of this machine reach it."""
        return Address(EVERYWHERE.get(str(ip_address(self.host)), self.host), self.port)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text  # a zone is one machine's own name of a link
