"""Figures and pages of reports; no torch."""
