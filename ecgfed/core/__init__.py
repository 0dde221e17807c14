"""Nets, federated methods and their rounds, personal models, privacy, runs, evaluation: torch."""
