"""Export a model as C99 sources for a microcontroller: band-pass, R peaks, windows, RR features and an int8 net."""
