"""The names of the axes in the frontal plane, and what a QRS axis is called."""

from ecgfed.base.language import tr_later

#: Name of an axis -> what it is of.
AXES = {"p_axis_deg": tr_later("P axis"), "qrs_axis_deg": tr_later("QRS axis"), "t_axis_deg": tr_later("T axis")}


def axis_word(degrees: float) -> str:
    """Return what a QRS axis in (-180, 180] is called (AHA/ACCF/HRS, Circulation 119:e235-e240, 2009)."""
    if -30 <= degrees <= 90:
        return tr_later("normal axis")
    if -90 <= degrees < -30:
        return tr_later("left axis deviation")
    return tr_later("right axis deviation") if degrees > 90 else tr_later("extreme axis deviation")
