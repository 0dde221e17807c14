"""Deprecated names of ``ecgfed.core.federation.communication_audit`` and ``communication_log``."""

from collections.abc import Sequence

from ecgfed.base.deprecation import deprecated
from ecgfed.core.federation.communication_audit import audit_communication
from ecgfed.core.federation.communication_log import CommunicationLog, record_communication
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.methods.base import Method


@deprecated("0.3", "0.5", "ecgfed.core.federation.communication_audit.audit_communication")
def card_problems(traffic: CommunicationLog) -> list[str]:
    """Return the discrepancies between a method's card and a log."""
    return audit_communication(traffic)


@deprecated("0.3", "0.5", "ecgfed.core.federation.communication_log.record_communication")
def traffic_of(
    method: Method, data: TrainingData, plan: TrainPlan, rounds: Sequence[int] | None = None
) -> CommunicationLog:
    """Run rounds of a method and return everything that was exchanged."""
    return record_communication(method, data, plan, rounds)
