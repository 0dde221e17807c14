"""Figures of the page on microcontrollers, and where they are read."""

from figures.figures import Figures, figures

_BOARDS = ("-Os", "-O2")


def _both(*keys: str) -> tuple[tuple[str, ...], ...]:
    return tuple(("cortex_m4", optimise, *keys) for optimise in _BOARDS)


MCU: list[Figures] = figures(
    "docs/microcontroller.md",
    "mcu/results.json",
    {
        "(`ecgfed_net.c`) | {0} | {0} |": _both("flash", "ecgfed_net.c", "flash"),
        "(`ecgfed_qrs_net.c`) | {0} | {0} |": _both("flash", "ecgfed_qrs_net.c", "flash"),
        "(`ecgfed_qrs.c`) | {0} | {0} |": _both("flash", "ecgfed_qrs.c", "flash"),
        "RR features (`ecgfed.c`) | {0} | {0} |": _both("flash", "ecgfed.c", "flash"),
        "flash: all | {0} | {0} |": _both("flash_total"),
        "all buffers included | {0} | {0} |": _both("state"),
        "in the self-test | {0} | {0} |": _both("stack"),
        "of the net, a beat | {0} | {0} |": _both("instructions", "net"),
        "ten seconds without a beat | {0} | {0} |": _both("instructions", "ten_quiet_seconds"),
        "12 s with 14 beats | {0} | {0} |": _both("instructions", "golden"),
        "The net makes {0} multiplications per beat": (("multiplications_a_beat",),),
        "as Python on all {0} records with lead MLII: {0} beats. {0} of them got another label than": (
            ("global", "records"),
            ("global", "beats"),
            ("global", "other_labels"),
        ),
        "{0} another one than from the float graphs, and {0} another `uncertain`": (
            ("global", "other_labels_than_float"),
            ("global", "other_uncertain"),
        ),
        "on their own records: {0} beats, {0} other labels, {0} other than float": (
            ("own", "beats"),
            ("own", "other_labels"),
            ("own", "other_labels_than_float"),
        ),
        "Half an hour of ECG took {1} s of one core": (("global", "median_cpu_s_in_c"),),
    },
)
