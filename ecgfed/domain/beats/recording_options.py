"""How a recording is read and its beats are found, as the functions of ``ecgfed`` take it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from ecgfed.base.options import merged, option, options_of
from ecgfed.domain.beats.path import BeatOptions
from ecgfed.domain.beats.rr import RR_DEFAULT
from ecgfed.domain.record.leads import lead_list
from ecgfed.domain.record.read_options import ReadOptions, read_options
from ecgfed.domain.signal.detectors import OURS, Detector


@dataclass(frozen=True)
class RecordingOptions(ReadOptions):
    """How a recording is read and its beats are found, as the functions of ``ecgfed`` take it."""

    leads: str | Sequence[str] | None = option(None, "Lead names in order of preference; default the bundle's.")
    peaks: str = option("detected", "``detected`` or ``annotated`` R peaks.")
    detector: str | Detector = option(  # noqa: RUF009
        OURS,
        "For detected peaks: a registered name (docs/qrs.md), or your own: a ``Detector``, as an option FILE.py:NAME.",
    )
    mains_hz: float | None = option(
        None,
        "Mains frequency where the recording was made, 50 or 60 Hz; used by some detectors; default 60.",
        flag="mains",
        unit="Hz",
    )
    annotator: str = option("atr", "Suffix of the annotation file, for annotated peaks.")

    @classmethod
    def merged(
        cls,
        how: ReadOptions | None,
        arguments: Mapping[str, object],
        function: str,
        without: Collection[str] = (),
        **defaults: object,
    ) -> Self:
        """Return the options in ``how`` and in keyword arguments; raises OptionError, TypeError.

        Args:
            how: ``ReadOptions``, or an instance of this class.
            arguments: keyword arguments, which take precedence; None is not passed where a field may be None.
            function: name of the function they were passed to.
            without: fields that it does not take.
            defaults: defaults of the function, if they are other ones.
        """
        for described in options_of(cls):
            if described.name in arguments and arguments[described.name] is None and not described.optional:
                raise described.type_error(None)  # an unset variable of a script, not the default
        given = read_options(how).given_values()
        return merged(cls, cls(**{**defaults, **given}), arguments, function, without)

    @property
    def read_options(self) -> ReadOptions:
        """How the file is read, without how beats are found."""
        return ReadOptions(**self.shared_with(ReadOptions))

    def beat_options(self, leads: tuple[str, ...] | None = None, rr_version: int = RR_DEFAULT) -> BeatOptions:
        """Return how beats are found; raises OptionError.

        Args:
            leads: names in order of preference if none were passed.
            rr_version: of the RR features.
        """
        names = (leads or ()) if self.leads is None else lead_list(self.leads)
        how = self.read_options
        return BeatOptions(names, self.peaks, self.detector, self.annotator, how, self.mains_hz, rr_version)
