"""Summary of a method: description, communication card, settings, and the cost of a round."""

import inspect
import sys
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass
from typing import Any

from ecgfed.base.options import Choice, Range
from ecgfed.base.options import Option as Setting
from ecgfed.core.federation.cost import CLASSES, Cost, cost_of
from ecgfed.core.methods.base import Method
from ecgfed.core.methods.communication import ALWAYS_SENT, CommunicationSpec, Entry
from ecgfed.core.methods.registry import name_of
from ecgfed.core.methods.settings import make_settings, settings_of
from ecgfed.core.nets.net import NetSpec
from ecgfed.core.nets.resnet1d import ResNet1d


@dataclass(frozen=True)
class MethodSummary:
    """Summary of a method.

    Attributes:
        name: its registered name.
        text: its objective with the paper's equation numbers, from the module docstring.
        card: what is sent and stored with these settings.
        full_card: the same for any settings, each entry with its conditions; equals ``card`` if settings were passed.
        settings: its settings with their ranges.
        cost: of one round, with these settings.
        has_global_model: whether there is one model for all clients.
        averages: whether it supports robust aggregation and differential privacy, with these settings.
    """

    name: str
    text: str
    card: CommunicationSpec
    full_card: CommunicationSpec
    settings: tuple[Setting, ...]
    cost: Cost
    has_global_model: bool
    averages: bool

    @property
    def sums(self) -> bool:
        """Whether the server needs only sums over clients, as secure aggregation requires, with these settings."""
        return bool(self.card.up) and self.card.needs_each is None

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
        return {
            "name": self.name,
            "title": self.card.title,
            "reference": self.card.reference,
            "text": self.text,
            "has_global_model": self.has_global_model,
            "averages": self.averages,
            "sums": self.sums,
            "down": [entry.as_json() for entry in self.full_card.down],
            "up": [entry.as_json() for entry in self.full_card.up],
            "keeps": [entry.as_json() for entry in self.full_card.stores],
            "reports": [entry.as_json() for entry in self.full_card.metrics],
            "beside": ALWAYS_SENT,
            **asdict(self.cost),
            "settings": {setting.name: _setting_as_json(setting) for setting in self.settings},
        }


def summarize_method(kind: type[Method], values: Mapping[str, Any] | None = None) -> MethodSummary:
    """Return the summary of a method.

    Args:
        kind: its class.
        values: settings for its card and its cost; missing ones have their defaults.

    Raises:
        OptionError: settings it does not have.
    """
    chosen: Any = make_settings(kind.settings_type, values or {})
    settings = settings_of(kind.settings_type)
    card = kind.communication.with_settings(chosen)
    full_card = card if values else _possible(kind.communication.complete(), settings)
    text = inspect.cleandoc(sys.modules[kind.__module__].__doc__ or kind.__doc__ or "")
    averages = kind(ResNet1d(NetSpec(CLASSES)), chosen).averages
    return MethodSummary(
        name_of(kind), text, card, full_card, settings, cost_of(kind, values), kind.has_global_model, averages
    )


def _possible(card: CommunicationSpec, settings: tuple[Setting, ...]) -> CommunicationSpec:
    """Return the card without entries that no setting of the method enables, such as an unsupported risk."""
    choices = {setting.name: setting.limits.options for setting in settings if isinstance(setting.limits, Choice)}
    named = {setting.name for setting in settings}

    def can_be(entry: Entry) -> bool:
        for condition in entry.condition:
            name, sign, value = condition.partition("=")
            if sign and (name not in named or value not in choices.get(name, (value,))):
                return False
        return True

    return card.filtered(can_be)


def _setting_as_json(setting: Setting) -> dict[str, Any]:
    limits = setting.limits
    return {
        "default": None if setting.default is MISSING else setting.default,
        "type": setting.kind.__name__,
        "low": limits.low if isinstance(limits, Range) else None,
        "high": limits.high if isinstance(limits, Range) else None,
        "choices": list(limits.options) if isinstance(limits, Choice) else None,
        "meaning": setting.meaning,
    }
