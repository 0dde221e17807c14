"""The address a server listens at: one of its machine's addresses, or all IPv4 or IPv6 addresses."""

import re
from dataclasses import dataclass
from ipaddress import ip_address

from ecgfed.base.errors import OptionError, param
from ecgfed.network.config import ListeningOptions
from ecgfed.network.launch import Address

#: Wildcard address -> the loopback address at which local programs reach the server.
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
#: A host name, or a wildcard for a domain. TLS at the sites would not match a port or a URL.
_NAME = re.compile(r"(\*\.)?[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*")


@dataclass(frozen=True)
class Listening(ListeningOptions):
    """The address a server listens at, and the names by which sites reach it.

    Attributes:
        host: an address of this machine, or a wildcard (a key of ``EVERYWHERE``).
        port: the port.
        names: host names and addresses for the certificate.
    """

    names: tuple[str, ...] = ()

    def check_together(self) -> None:
        """Raise OptionError for a host or a name at which no site could reach the server."""
        try:
            valid = "%" not in self.host and not ip_address(self.host).is_multicast
        except ValueError:
            valid = False
        if not valid:
            expected = "an IPv4 or IPv6 address of this machine, 0.0.0.0 for all IPv4 ones, or :: for all IPv6 ones"
            raise OptionError("host", f"{self.host!r:.100}", expected, f"give names to {param('name')}")
        for name in self.names:
            if not (_is_address(name) or (_NAME.fullmatch(name) and len(name) < 254)):
                expected = "a host name or an address, without https://, port or brackets"
                raise OptionError("name", f"{name!r:.100}", expected, "use the name that sites will connect to")

    @property
    def local_address(self) -> Address:
        """The address at which local programs reach the server."""
        return Address(EVERYWHERE.get(str(ip_address(self.host)), self.host), self.port)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text  # a zone index is only valid on one machine
