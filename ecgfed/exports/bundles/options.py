"""Options of ``export``, declared once (``ecgfed.base.options``). Needs no torch, since the command line reads it."""

from dataclasses import dataclass

from ecgfed.base.errors import OptionError, param
from ecgfed.base.options import Options, Range, option
from ecgfed.core.config import PROTOCOLS

#: Default of the accuracy that predictions without low confidence should have.
ACCURACY = 0.99
PERSONAL_HELP = (
    "Each patient's answer: method (what it keeps), or, made from the global model, masked, prior, head, kernel, "
    "finetune, probe, partway, gated; default what the method is made for."
)


@dataclass(frozen=True)
class BundleOptions(Options):
    """Which models of a run a bundle holds."""

    protocol: str = option(
        "ensemble",
        "A method without a global model answers by its ensemble (default) or average.",
        PROTOCOLS,
        flag="global",
    )
    personal: str | None = option(None, PERSONAL_HELP)
    global_only: bool = option(False, "The global model alone: no patient's, no weights to start one from.")
    accuracy: float = option(
        ACCURACY,
        "Answers below the probability from which on so many are right are 'uncertain'; default 0.99.",
        Range(0, 1, above=True),
    )
    batch: int | None = option(
        None, "Beats that every graph takes at once, no more and no fewer; default: any number.", Range(1, 256)
    )

    def check_together(self) -> None:
        """Refuse personal models that would not be written."""
        if self.personal is not None and self.global_only:
            problem = f"{self.personal} beside {param('global_only')}"
            raise OptionError("personal", problem, "one of them", code="conflict")


@dataclass(frozen=True)
class ExportOptions(BundleOptions):
    """The same, and its models in other forms."""

    int8: bool = option(False, "Also every model in int8, where that answers as well on validation beats.")
    int8_loss: float | None = option(None, "The most macro-F1 that an int8 form may lose; default 0.01.", Range(0, 1))
    tflite: bool = option(False, "Also every model as TensorFlow Lite in int8; needs 'make tflite'.")
