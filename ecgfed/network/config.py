"""Options of federations, declared once (``ecgfed.base.options``). Needs no torch, since the command line reads it."""

from dataclasses import dataclass, field
from typing import Any

from ecgfed.base.errors import OptionError, param
from ecgfed.base.options import Options, Range, option
from ecgfed.base.plugins import names_code
from ecgfed.core.config import MOST_COUNT, ModelConfig

#: Version of the messages: server and site refuse another version instead of misreading it.
PROTOCOL = 3
#: Encodings of the updates (``ecgfed.network.transport``), the default first.
PLAIN, FP16, INT8 = TRANSPORTS = ("plain", "fp16", "int8")
#: Largest accepted counts: training beats of a patient (ten days), which weight the patient in the aggregate, and
#: patients of a site, which take memory at the server.
MAX_BEATS, MAX_PATIENTS = 1_000_000, 10_000
#: Default of ``--most-change``.
MAX_CHANGE = 100.0
#: Sites of a sum of secure aggregation: of two, each would learn the other's part.
FEWEST_SUMMED = 3
#: How sites are named in models, the default first: by number, or by their key files.
NUMBERS, NAMES = SITE_NAMES = ("numbers", "names")
_MOST = Range(1, 1_000_000)


@dataclass(frozen=True)
class _SitesOptions(Options):
    sites: int = option(2, "How many sites there are.", Range(1, 10_000))


@dataclass(frozen=True)
class FederationConfig(ModelConfig, _SitesOptions):
    """A federation's configuration: the options of ``ecgfed train`` that determine the model, and those of sites.

    Attributes:
        settings: the method's settings, by name.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    transport: str = option(
        PLAIN, "How updates travel up: plain (default), or smaller as fp16 or int8, which rounds them.", TRANSPORTS
    )
    site_names: str = option(
        NUMBERS,
        "What models and reports call the sites: numbers (default), or names, those of the key files.",
        SITE_NAMES,
    )
    secure_aggregation: bool = option(
        False,
        "Learn only sums over sites, of which each masks its part; three sites or more, and methods that need no more.",
    )
    eval_every: int = option(
        0, "Have the sites score every n-th round on their validation beats; default 0, never.", Range(0, MOST_COUNT)
    )

    def check_together(self) -> None:
        """Raise OptionError for a method or settings that a federation cannot train."""
        from ecgfed.core.methods.registry import method_by_name, name_of
        from ecgfed.core.methods.settings import make_settings
        from ecgfed.core.privacy.robust import Aggregation

        super().check_together()
        name = name_of(method_by_name(self.method)) if isinstance(self.method, type) else self.method
        object.__setattr__(self, "method", name)
        installed = "a site runs only code that is installed there"
        if names_code(name):
            reason = f"{name!s:.100}: {installed}"
            raise OptionError("method", reason, "a registered name", "install it at every site as a package")
        if self.net is not None and names_code(self.net):
            raise OptionError("net", f"{self.net!s:.100}: {installed}", "a net of this package")
        kind = method_by_name(name)
        if kind.requirements.pooled:
            reason = f"{kind.name}, for which beats would leave their site"
            raise OptionError("method", reason, "a federated method", "see 'ecgfed methods'")
        settings: Any = make_settings(kind.settings_type, self.settings)
        if getattr(settings, "risk", "") == "meta-bsm":
            reason = "meta-bsm, for which beats would leave their site"
            raise OptionError(f"{param('settings')} risk", reason, "another risk")
        if names_code(str(getattr(settings, "risk", ""))):
            reason = f"{settings.risk!s:.100}: a site runs only code that is installed there"
            raise OptionError(f"{param('settings')} risk", reason, "a loss of ecgfed")
        Aggregation.parse(self.aggregation)
        if self.secure_aggregation:
            from ecgfed.core.federation.sums import check_sums

            check_sums(kind.name, kind.communication.with_settings(settings), self)
            if self.sites < FEWEST_SUMMED:
                reason = f"{self.sites} with {param('secure_aggregation')}"
                raise OptionError("sites", reason, f"{FEWEST_SUMMED} or more", code="conflict")
            if self.transport != PLAIN:
                reason = f"{self.transport} with {param('secure_aggregation')}"
                raise OptionError("transport", reason, "plain", code="conflict")

    def options(self) -> dict[str, str]:
        """Return the ``ecgfed.network.run_spec.OPTIONS`` that differ from their defaults."""
        options = {} if self.transport == PLAIN else {"transport": self.transport}
        return options | ({"secure_aggregation": "on"} if self.secure_aggregation else {})


@dataclass(frozen=True)
class ListeningOptions(Options):
    """The address a server listens at."""

    host: str = option(
        "0.0.0.0", "An address of this machine to listen at; 0.0.0.0 (default) is all IPv4 ones, :: all IPv6 ones."
    )
    port: int = option(9092, "Port to listen at (default 9092); the only one that sites need.")


#: Choices of ``--proxy``: HAProxy where it is installed, always, or never.
AUTO, HAPROXY, NONE = PROXIES = ("auto", "haproxy", "none")


@dataclass(frozen=True)
class ProxyOptions(Options):
    """What stands between the network and the server."""

    proxy: str = option(
        AUTO,
        "Start HAProxy before the server, which keeps strangers' connections from using up its own: auto (default, "
        "where it is installed), haproxy, or none.",
        PROXIES,
    )


@dataclass(frozen=True)
class PolicyOptions(Options):
    """How many sites a round needs, and how long it waits for the others."""

    min_sites: int | None = option(
        None, "Sites that are enough for a round; default all, which are waited for.", Range(1, MOST_COUNT)
    )
    wait_s: float | None = option(
        None,
        "Seconds that a round waits for the other sites; default 300.",
        Range(0, 7 * 86_400),
        flag="wait",
        unit="s",
    )
    max_beats: int = option(
        MAX_BEATS,
        "Training beats that a site may claim for a patient; default 1,000,000.",
        Range(1, 1 << 40),
        flag="most-beats",
    )
    max_patients: int = option(
        MAX_PATIENTS, "Patients that a site may claim; default 10,000.", Range(1, 1 << 20), flag="most-patients"
    )

    max_change: float = option(
        MAX_CHANGE,
        "How many times as long as what was sent, and as other sites' updates, an update may be; default 100.",
        Range(1, 1e9),
        flag="most-change",
    )
    without: tuple[str, ...] = option((), "Sites that take no part any more, by name, separated by commas.")

    def check_together(self) -> None:
        """Raise OptionError for a time to wait if every site is required."""
        if self.wait_s is not None and self.min_sites is None:
            reason, action = f"was given without {param('min_sites')}", f"add {param('min_sites')}"
            raise OptionError("wait_s", reason, "both options", action, code="missing")


@dataclass(frozen=True)
class MonitoringOptions(Options):
    """Where monitoring asks a server or a site."""

    metrics_port: int | None = option(
        None, "Port of 127.0.0.1 for /healthz and Prometheus' /metrics; default none.", Range(1, 65535)
    )


@dataclass(frozen=True)
class ServerOptions(PolicyOptions, ListeningOptions, ProxyOptions, MonitoringOptions):
    """Options of the server's process."""


@dataclass(frozen=True)
class SiteOptions(Options):
    """The operator's options for a site; None keeps the value in the site's folder."""

    partners: str | None = option(
        None,
        "Folder with the other sites' public keys (*.pub): send updates only in sums with these sites "
        "(secure aggregation).",
        metavar="FOLDER",
    )
    numbers: str | None = option(
        None, "shuffled or cohort: the order in which the server numbers the patients; default shuffled."
    )
    max_epsilon: float | None = option(
        None, "Refuse runs that would bring what all of them tell of a patient above this epsilon.", flag="most-epsilon"
    )
    max_runs: int | None = option(
        None, "Runs that the site keeps; a further one is refused. Default 20.", _MOST, flag="most-runs"
    )
    max_rounds: int | None = option(
        None, "Rounds of a run that the site takes part in; default 10,000.", _MOST, flag="most-rounds"
    )
    max_questions: int | None = option(
        None, "Times that a round is trained, for other weights each; default 10.", _MOST, flag="most-questions"
    )
    max_scores: int | None = option(
        None, "Times that the site scores a run's models between rounds; default 1,000.", _MOST, flag="most-scores"
    )
    max_steps: int | None = option(
        None, "Local steps of a patient in a round; default 10,000.", Range(1, 10**9), flag="most-steps"
    )
    max_seconds: int | None = option(
        None, "Seconds that a round trains; default 3,600.", Range(1, 10**7), flag="most-seconds", unit="s"
    )
    min_batch: int | None = option(
        None, "Beats of a step at least; default 8. Fewer tell more of each.", Range(1, 4096), flag="least-batch"
    )
