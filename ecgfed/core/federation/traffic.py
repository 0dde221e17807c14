"""Deprecated module: ``ecgfed.core.federation.communication_log`` has its names."""

from ecgfed.core.federation.card_check import traffic_of as traffic_of
