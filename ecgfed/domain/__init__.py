"""One recording and many: files in and out, signal, beats, events, cohorts, labels. Never loads torch."""
