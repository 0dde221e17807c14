"""A picture file's bytes, which a notebook shows as a picture."""

#: How the two formats begin.
_PNG, _SVG = b"\x89PNG", b"<"


class Picture(bytes):
    """The bytes of a PNG or SVG file, to be written to a file as they are; a notebook shows what they draw."""

    @property
    def form(self) -> str:
        """``png``, ``svg``, or ``""`` where they are neither."""
        return "png" if self.startswith(_PNG) else "svg" if self.startswith(_SVG) else ""

    def __repr__(self) -> str:
        return f"Picture({self.form or 'unknown'}, {len(self):,} bytes)"

    def _repr_png_(self) -> bytes | None:
        return bytes(self) if self.form == "png" else None

    def _repr_svg_(self) -> str | None:
        return self.decode("utf-8") if self.form == "svg" else None
