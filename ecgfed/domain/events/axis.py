"""The names of the axes in the frontal plane, and what a QRS axis is called."""

#: Name of an axis -> what it is of.
AXES = {"p_axis_deg": "P axis", "qrs_axis_deg": "QRS axis", "t_axis_deg": "T axis"}


def axis_word(degrees: float) -> str:
    """Return what a QRS axis in (-180, 180] is called (AHA/ACCF/HRS, Circulation 119:e235-e240, 2009)."""
    if -30 <= degrees <= 90:
        return "normal axis"
    if -90 <= degrees < -30:
        return "left axis deviation"
    return "right axis deviation" if degrees > 90 else "extreme axis deviation"
