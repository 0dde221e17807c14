"""Where a server listens: one address of its machine, or all of a kind, as Flower's SuperLink can."""

from dataclasses import dataclass
from ipaddress import ip_address

from ecgfed.errors import OptionError
from ecgfed.network.launch import Address

#: All of this machine's IPv4 addresses, or all of its IPv6 ones -> where the server's own programs reach it then.
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


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
            fits = "%" not in self.host and not ip_address(self.host).is_multicast
        except ValueError:
            fits = False
        if not fits:
            expected = "an IPv4 or IPv6 address of this machine, 0.0.0.0 for all IPv4 ones, or :: for all IPv6 ones"
            raise OptionError("--host", f"{self.host!r:.100}", expected, "give names to --name")

    @property
    def here(self) -> Address:
        """Where programs of this machine reach it."""
        return Address(EVERYWHERE.get(self.host, self.host), self.port)
