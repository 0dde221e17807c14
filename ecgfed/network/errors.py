"""A site's error codes: a refusal carries only the code, since an error's text may name a patient."""

from ecgfed.base.errors import EcgfedError

#: Codes of a site whose ecgfed speaks an older or a newer protocol than the server's; an older site says ``REQUEST``.
OLDER, NEWER, REQUEST = "older", "newer", "request"
#: code -> text for the server's operator; the site's own log has the full error
REASONS = {
    "busy": "another process uses its folder",
    "cohort": "its cohort cannot be used",
    OLDER: "its ecgfed speaks an older protocol than this server's: upgrade ecgfed at that site",
    NEWER: "its ecgfed speaks a newer protocol than this server's: upgrade ecgfed at the server",
    REQUEST: "it cannot use the server's request",
    "behind": "its patients' state is not from the round before this one",
    "card": "the method would send something its communication spec does not declare",
    "model": "the model that it was sent is incomplete or has values that are not finite",
    "privacy": "the run would exceed its privacy budget that it allows",
    "limit": "the run exceeds the number of runs or rounds that it allows",
    "bound": "it asks for more than the site allows: questions of a round, scores, steps, seconds, or a smaller batch",
    "alone": "it sends updates only in sums with its partners, and the run uses no secure aggregation",
    "sums": "it cannot mask or reveal this sum of secure aggregation; the reason is in that site's log.txt",
    "gone": "the server had gone while it trained",
    "ended": "it already has a different result of this run",
    "training": "its training failed",
    "storage": "it could not read or write its files",
    "internal": "an unexpected error occurred",
}


class SiteError(EcgfedError):
    """A site cannot fulfil the server's request.

    Args:
        code: a key of ``REASONS``, the only part that is sent to the server.
        where: as in ``EcgfedError``; this and the following arguments stay at the site.
        reason: as in ``EcgfedError``.
        expected: as in ``EcgfedError``.
        action: as in ``EcgfedError``.
    """

    def __init__(self, code: str, where: object, reason: str, expected: str = "", action: str = "") -> None:
        super().__init__(where, reason, expected, action, code=code)

    def __reduce__(self) -> tuple[object, ...]:
        """Support pickling, for errors raised in worker processes."""
        return type(self), (self.code, *self.parts), vars(self)


class NetworkError(EcgfedError):
    """A federation cannot continue because of a site, a certificate or a port."""

    default_code = "network"
