"""Scenarios and metrics of a trained run: T_g, T_p, T_r, T_l, per class and per patient (torch)."""
