"""What is said where server and site have versions of ecgfed that do not speak the same protocol."""

from ecgfed import __version__
from ecgfed.network.config import PROTOCOL
from ecgfed.network.errors import NEWER, OLDER, REQUEST, SiteError

#: The first protocol whose servers know the codes ``OLDER`` and ``NEWER``; an earlier one gets ``REQUEST``.
KNOWS_CODES = 3


def protocol_difference(protocol: object, version: str = "") -> str:
    """Return which end to upgrade if the server speaks another protocol than this site, "" if not.

    Args:
        protocol: the server's protocol, as received.
        version: the server's version of ecgfed, "" if it did not state one.
    """
    if protocol == PROTOCOL:
        return ""
    if type(protocol) is not int:
        return f"the server states no protocol of ecgfed, this site speaks {PROTOCOL} (ecgfed {__version__})"
    end = "the server" if protocol < PROTOCOL else "this site"
    there = f" (ecgfed {version:.40})" if version else ""
    return (
        f"the server speaks protocol {protocol}{there}, this site {PROTOCOL} (ecgfed {__version__}): "
        f"upgrade ecgfed at {end}"
    )


def check_protocol(protocol: object, version: str = "") -> None:
    """Refuse a server that speaks another protocol; arguments as in ``protocol_difference``; raises SiteError."""
    if difference := protocol_difference(protocol, version):
        is_newer = type(protocol) is int and protocol > PROTOCOL
        is_known = type(protocol) is int and protocol >= KNOWS_CODES
        raise SiteError(OLDER if is_newer else NEWER if is_known else REQUEST, "the server's protocol", difference)
