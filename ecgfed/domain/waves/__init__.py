"""Where the waves of a beat begin and end, and the intervals between them."""
