"""What every layer uses and nothing but Python is needed for: errors, text, files, locks, extras, plug-ins."""
