"""One recording: read, check, clean, find R peaks (numpy, scipy, wfdb; no torch)."""
