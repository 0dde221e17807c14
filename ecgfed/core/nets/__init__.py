"""Extractor, classifier head, discriminator as pure functions over parameter dictionaries (torch)."""
