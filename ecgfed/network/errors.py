"""What a site says when it cannot answer: a code of this list and nothing else, since a message may name a patient."""

from ecgfed.errors import EcgfedError

#: code -> what the server's operator reads; the site's own log has the whole line
REASONS = {
    "busy": "another process uses its folder",
    "cohort": "its cohort cannot be used",
    "request": "it cannot use what the server asked for",
    "behind": "what its patients keep is not of the round before this one",
    "card": "the method would send what its card does not name",
    "privacy": "the run would tell more of a patient than it allows (its --most-epsilon)",
    "limit": "the run is more than it takes part in (its --most-runs or --most-rounds)",
    "ended": "it has another result of this run, which it keeps",
    "training": "its training failed",
    "storage": "its disk refused",
    "internal": "something went wrong that nobody foresaw",
}


class SiteError(EcgfedError):
    """A site that cannot do what it was asked for.

    Args:
        code: a key of ``REASONS``: all that the server is told.
        where: as of ``EcgfedError``; this and what follows stays at the site.
        found: as there.
        expected: as there.
        action: as there.
    """

    def __init__(self, code: str, where: object, reason: str, expected: str = "", action: str = "") -> None:
        super().__init__(where, reason, expected, action)
        self.code = code

    def __reduce__(self) -> tuple[type, tuple[str, str, str, str, str]]:  # type: ignore[override]
        """Survive the trip home from a worker process."""
        return type(self), (self.code, self.where, self.found, self.expected, self.action)


class NetworkError(EcgfedError):
    """A federation over the network that cannot go on: a site, a certificate, a port."""
