"""The bytes of a picture file, displayed in notebooks."""

#: Magic bytes of the two formats.
_PNG, _SVG = b"\x89PNG", b"<"


class Picture(bytes):
    """The bytes of a PNG or SVG file; notebooks display the picture."""

    @property
    def form(self) -> str:
        """``png``, ``svg``, or ``""`` for other bytes."""
        return "png" if self.startswith(_PNG) else "svg" if self.startswith(_SVG) else ""

    def __repr__(self) -> str:
        return f"Picture({self.form or 'unknown'}, {len(self):,} bytes)"

    def _repr_png_(self) -> bytes | None:
        return bytes(self) if self.form == "png" else None

    def _repr_svg_(self) -> str | None:
        return self.decode("utf-8") if self.form == "svg" else None
