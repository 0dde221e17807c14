"""Recordings in and out: WFDB (wfdb), EDF (edfio), CSV and NumPy; no torch."""
