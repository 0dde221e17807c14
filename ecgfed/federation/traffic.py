"""Deprecated module: ``ecgfed.federation.communication_log`` has its names."""

from ecgfed.federation.card_check import traffic_of as traffic_of
