"""The specification of a run that the server sends to a site, in a form that every site can check."""

import json
import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ecgfed.base.errors import EcgfedError
from ecgfed.base.plugins import names_code
from ecgfed.base.safe_io import parse_json
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.registry import method_by_name
from ecgfed.core.methods.settings import stored_settings
from ecgfed.core.nets.build import make_net
from ecgfed.core.nets.net import NetSpec
from ecgfed.exports.device.federation import Federation
from ecgfed.network.config import PROTOCOL
from ecgfed.network.errors import SiteError
from ecgfed.network.protocol import check_protocol
from ecgfed.network.transport import PLAIN, TRANSPORTS

#: Processing of updates besides the method: option -> allowed values, the first of which is the default. A site refuses
#: a run with an unknown option instead of ignoring it. (Clipping and noise are in the plan.)
OPTIONS: dict[str, tuple[str, ...]] = {"transport": TRANSPORTS, "secure_aggregation": ("off", "on")}
_IDENTITY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class RunSpec:
    """The specification of a run, sent to a site with every request.

    Attributes:
        run: SHA-256 of the run's definition (``ecgfed.core.runs.document.identity_of``).
        method: a registered method's name.
        settings: the method's settings.
        net: ``NetSpec.as_json``.
        plan: ``asdict(TrainPlan)``.
        classes: class names.
        first: number of the site's first patient in the federation.
        federation: number of clients in the federation.
        options: values of ``OPTIONS`` that differ from the default.
        site: name of the receiving site in ``sites``.
        sites: ``SiteSource.as_json`` of every site.
    """

    run: str
    method: str
    settings: dict[str, Any]
    net: dict[str, Any]
    plan: dict[str, Any]
    classes: tuple[str, ...]
    first: int
    federation: int
    options: dict[str, str] = field(default_factory=dict)
    site: str = ""
    sites: list[dict[str, Any]] = field(default_factory=list)

    @property
    def transport(self) -> str:
        """Encoding of the updates."""
        return self.options.get("transport", PLAIN)

    @property
    def is_secure(self) -> bool:
        """Whether the server learns only sums over sites."""
        return self.options.get("secure_aggregation") == "on"

    @property
    def examples(self) -> int:
        """Training examples of the federation."""
        return sum(int(source["training_examples"]) for source in self.sites)

    @property
    def place(self) -> int:
        """Place of the receiving site in ``sites``, from 0; raises SiteError."""
        names = [source["name"] for source in self.sites]
        if self.site not in names:
            raise SiteError("request", "the server's order", "does not name this site")
        return names.index(self.site)

    @property
    def common(self) -> str:
        """What is the same for all sites, as JSON text."""
        return replace(self, first=0, site="").as_text()

    def as_text(self) -> str:
        """Return the specification as JSON text."""
        return json.dumps({"protocol": PROTOCOL, **asdict(self)}, sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> "RunSpec":
        """Parse and check a specification from the server; no code that it names is executed.

        Raises:
            SiteError: it is malformed, of another protocol version, or refers to unregistered code.
        """
        try:
            value = parse_json(text)
            if not isinstance(value, dict):
                raise TypeError("a JSON object")
            check_protocol(value.get("protocol"))
            run_spec = cls(
                str(value["run"]),
                str(value["method"]),
                dict(value["settings"]),
                dict(value["net"]),
                dict(value["plan"]),
                tuple(str(name) for name in value["classes"]),
                value["first"],
                value["federation"],
                {str(name): str(option) for name, option in dict(value["options"]).items()},
                str(value["site"]),
                list(value["sites"]),
            )
            Federation.from_json({"run": run_spec.run, "sites": run_spec.sites, "site": run_spec.site})
            for name in ("first", "federation"):
                if type(value[name]) is not int or not 0 <= value[name] < 1 << 31:
                    raise ValueError(f"{name} as a whole number, 0 or more")
            for name, option in run_spec.options.items():
                if option not in OPTIONS.get(name, ()):
                    raise ValueError(f"options that this version knows; {name[:40]}={option[:40]} is none")
            if not _IDENTITY.fullmatch(run_spec.run):
                raise ValueError("a run's SHA-256")
            if names_code(run_spec.method):
                raise ValueError("a registered method; a server must not name code")
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise SiteError("request", "the server's order", f"lacks {problem!s:.200}") from problem
        return run_spec

    def train_plan(self) -> TrainPlan:
        """Return the training plan; raises SiteError."""
        try:
            return TrainPlan(**self.plan)
        except (TypeError, EcgfedError) as problem:
            raise SiteError("request", "the server's plan", f"cannot be used ({problem!s:.200})") from problem

    def build_method(self) -> Method:
        """Return the method with its net and settings; raises SiteError.

        ``risk=meta-bsm`` and ``centralised`` are refused because they pool patients' beats.
        """
        try:
            kind = method_by_name(self.method)
            settings: Any = stored_settings(kind.settings_type, self.settings)
            method = kind(make_net(NetSpec.from_json(self.net)), settings)
        except (KeyError, TypeError, ValueError, AttributeError, EcgfedError) as problem:
            raise SiteError("request", "the server's method", f"cannot be used ({problem!s:.200})") from problem
        if names_code(str(getattr(settings, "risk", ""))):
            raise SiteError("request", "the server's settings", "a risk that names code; a server must not name code")
        if getattr(settings, "risk", "") == "meta-bsm":
            raise SiteError("request", "the server's settings", "risk=meta-bsm, for which beats would leave the site")
        if method.requirements.pooled:
            raise SiteError("request", "the server's method", f"{method.name}, for which beats would leave the site")
        return method
