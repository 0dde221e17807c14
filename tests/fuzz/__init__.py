"""The corruption harness: what others send cannot harm (``make fuzz``, docs/decisions/0029)."""
