"""Counts of a recording by stated rules: rate, pauses, ectopy, burden, variability."""
