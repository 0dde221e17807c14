"""Figures (matplotlib); stands on files, not on torch."""
