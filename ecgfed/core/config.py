"""Options of training and export, declared once: each field has type, default, range and help.

``TrainConfig`` is what ``ecgfed train`` and ``ecgfed.train`` take, ``TrainPlan`` what ``run.json`` records of it, and
``FederationConfig`` what a federation's server does. They share the groups of fields below: a new field of a group is
an option of all three. The command line lists the fields in this order.

Needs no torch, since the command line reads it at its start.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ecgfed.base.errors import OptionError, param
from ecgfed.base.options import Options, Range, option

#: Upper limit for rounds, steps and beats, against typing errors.
MOST_COUNT = 1_000_000_000
#: Upper limit for passes over the training beats.
MAX_PASSES = 1e6
NORMS = ("group", "batch", "none")
#: modality of a cohort -> architectures of its nets, the default first
NETS: dict[str, tuple[str, ...]] = {
    "ecg": ("default", "reference", "context"),
    "image": ("resnet30", "convnet3", "convnet2"),
    "array": (),
}
DEVICES, ENGINES = ("auto", "cpu", "cuda"), ("auto", "threads", "batched")
#: Where noise is added: to the sum at the server; to each patient's update; or to the sum of a site's patients before
#: it is sent.
SERVER, PATIENT, SITE = PLACES = ("server", "patient", "site")
_COUNT = Range(1, MOST_COUNT)
#: How a method without a global model answers for everybody.
PROTOCOLS = ("ensemble", "average")
#: Default of the accuracy that predictions without low confidence should have.
ACCURACY = 0.99
#: What the global model's temperature and threshold are fitted on: validation beats of the patients trained on, or all
#: labelled beats of held-out patients.
CERTAINTIES = VALID_BEATS, HELD_OUT = ("valid", "held-out")
PERSONAL_HELP = (
    "Each patient's answer: method (what it keeps), or, made from the global model, masked, prior, head, kernel, "
    "finetune, probe, partway, distilled, gated, knn, or your own FILE.py:CLASS; default what the method is made for."
)
#: How much of a paper's protocol ``reproduce`` runs.
SCALES = ("full", "reduced")
#: Pairs of alternatives: an argument for one overrides the other in a file.
EITHER_OR = (("rounds", "passes"), ("local_epochs", "local_steps"))


@dataclass(frozen=True)
class MethodOptions(Options):
    """The method, and how long it trains."""

    method: str | type = option("fed-gate", "A name from 'ecgfed methods'; default fed-gate.")  # noqa: RUF009
    passes: float | None = option(
        None,
        "Passes over all training beats, on average; default 20, over images 60.",
        Range(0, MAX_PASSES, above=True, below=True),
        after="rounds",
    )


@dataclass(frozen=True)
class WorkOptions(Options):
    """Rounds, and the clients' work in one."""

    rounds: int | None = option(None, "Communication rounds, in place of passes.", _COUNT)
    local_epochs: int | None = option(None, "A client's passes over its beats in a round, in place of steps.", _COUNT)
    local_steps: int | None = option(None, "A client's optimizer steps in a round; default 4.", _COUNT)
    clients_per_round: int | None = option(None, "Participants of a round; default all.", _COUNT)
    batch_size: int | None = option(None, "Beats of a step; default 16, of images 64.", _COUNT)


@dataclass(frozen=True)
class NetOptions(Options):
    """The net."""

    rr: bool | None = option(None, "Feed RR intervals to the net; default on for ECG.")
    net: str | None = option(
        None,
        "ECG: default, reference, or context, the default for RR features of version 3. Images: resnet30 (default), "
        "convnet3 or convnet2. Or your own torch.nn.Module, FILE.py:CLASS.",
        [name for names in NETS.values() for name in names],
        or_code=True,
    )
    norm: str | None = option(None, "group, batch or none; default by net.", NORMS)
    width: float = option(1.0, "Scales the net's channels; default 1.", Range(0.1, 16))
    window_share: float = option(
        1.0,
        "How much the window counts beside RR features; 0.1 suits patients who take no part.",
        Range(0, 1, above=True),
    )


@dataclass(frozen=True)
class DataOptions(Options):
    """Seed, which beats are trained on, and whether they are varied."""

    seed: int = option(0, "Decides everything random; default 0.", Range(0, 2**63 - 1))
    leave_out: str = option(
        "nothing",
        "nothing or poor-quality: training beats in bad stretches; default nothing.",
        ("nothing", "poor-quality"),  # as ecgfed.domain.cohort.cohort.LEAVE_OUT
    )
    most_per_class: int | None = option(
        None, "Examples of each class that an epoch of a client draws at most, anew in each; default all.", _COUNT
    )
    augment: bool = option(False, "Vary training examples at random: gain, polarity, noise, shift; images crop, flip.")


@dataclass(frozen=True)
class PrivacyConfig(Options):
    """Robust aggregation and differential privacy."""

    aggregation: str = option(
        "mean",
        "mean (default); against malicious clients median, trimmed-mean[:0.2] or norm-bound[:NORM].",
        metavar="WORD",
    )
    dp_clip: float = option(
        0.0, "Differential privacy: the longest update of a patient (L2).", Range(0, 1e6, below=True), metavar="C"
    )
    dp_noise: float = option(
        0.0, "Its noise: standard deviation over C; epsilon is told at the end.", Range(0, 1e6, below=True), metavar="Z"
    )
    dp_at: str = option(SERVER, "Who adds the noise: server (default), patient or, between hospitals, site.", PLACES)

    def check_clip(self) -> None:
        """Raise OptionError for noise without a clip: of a whole plan, since a file or a run may have the clip."""
        if not self.dp_clip and (self.dp_noise or self.dp_at != SERVER):
            actual = f"given without {param('dp_clip')}"
            expected = f"the longest update, such as {param('dp_clip')} 0.5"
            raise OptionError("dp_noise" if self.dp_noise else "dp_at", actual, expected, code="missing")

    @property
    def clips(self) -> bool:
        """Whether updates are clipped."""
        return self.dp_clip > 0


@dataclass(frozen=True)
class ModelConfig(PrivacyConfig, DataOptions, NetOptions, WorkOptions, MethodOptions):
    """What determines the trained model; None, where a field has it, depends on the cohort or the method."""

    def check_together(self) -> None:
        """Raise OptionError if both of two alternatives are set."""
        super().check_together()
        for pair in EITHER_OR:
            if all(getattr(self, name) is not None for name in pair):
                raise OptionError(" and ".join(map(param, pair)), "both given", "one of them", code="conflict")


@dataclass(frozen=True)
class ComputeOptions(Options):
    """Where and how the run is computed."""

    device: str = option("auto", "auto, cpu or cuda; default auto.", DEVICES)
    engine: str = option(
        "auto", "threads (a client a core) or batched (many at once); default by device and batch.", ENGINES
    )
    slots: int | None = option(None, "Clients in a stack of the batched engine; default 12, on a GPU 64.", _COUNT)
    eval_every: int | None = option(
        None, "Score the validation split every n rounds (0 never); default rounds/20.", Range(0, MOST_COUNT)
    )


@dataclass(frozen=True)
class TrainConfig(ComputeOptions, ModelConfig):
    """Options of training a run."""


@dataclass(frozen=True)
class ScoringOptions(Options):
    """What ``evaluate`` scores."""

    split: str = option("test", "test or valid.", ("test", "valid"))
    protocol: str = option(
        "ensemble", "How models are combined into a global one if the method has none, ensemble or average.", PROTOCOLS
    )
    local_models: bool = option(
        True,
        "Also score each client's model after one more round of local training, if the method has a global model; "
        "an augmentation or schedule of your own is not applied in it.",
    )
    leave_out: str = option(
        "nothing",
        "Beats excluded from scoring: nothing or poor-quality.",
        ("nothing", "poor-quality"),  # as ecgfed.domain.cohort.cohort.LEAVE_OUT
    )


@dataclass(frozen=True)
class TablePart(Options):
    """The part of a table that ``reproduce`` runs."""

    data: str | None = option(None, "One data set: mitbih, cifar10, cifar100, mnist, fashion-mnist; default all.")
    alpha: float | None = option(None, "One Dirichlet partition, such as 0.3; default all.")
    rows: Sequence[str] | None = option(None, "Some rows, separated by semicolons; default all.", metavar="NAMES")
    scale: str = option("full", "full, or reduced; how it differs is printed.", SCALES)
    seeds: int | None = option(None, "Number of seeds; default as in the paper, reduced one.", Range(1, 1000))

    def check_together(self) -> None:
        """Refuse a single text where names are expected."""
        super().check_together()
        if isinstance(self.rows, str) or not isinstance(self.rows, Sequence | None):
            raise OptionError("rows", f"{self.rows!r:.60}", "a list of names")


@dataclass(frozen=True)
class BundleOptions(Options):
    """Which models of a run a bundle holds."""

    protocol: str = option(
        "ensemble",
        "A method without a global model answers by its ensemble (default) or average.",
        PROTOCOLS,
        flag="global",
    )
    personal: str | type | None = option(None, PERSONAL_HELP)  # noqa: RUF009
    global_only: bool = option(False, "The global model alone: no patient's, no weights to start one from.")
    accuracy: float = option(
        ACCURACY,
        "Answers below the probability from which on so many are right are 'uncertain'; default 0.99.",
        Range(0, 1, above=True),
    )
    class_offsets: str | None = option(
        None,
        "CLASS=X,...: add X to a class's logit in the global model, to call it more (or less) often; default none.",
    )
    certainty: str = option(
        VALID_BEATS,
        "What the global model's certainty is fitted on: validation beats (default), or held-out patients.",
        CERTAINTIES,
    )
    batch: int | None = option(
        None, "Beats that every graph takes at once, no more and no fewer; default: any number.", Range(1, 256)
    )

    def check_together(self) -> None:
        """Refuse personal models that would not be written, and offsets that personal models would not have."""
        if self.class_offsets is not None and not self.global_only:
            problem = f"{self.class_offsets:.60} without {param('global_only')}"
            need = f"both: patients' models keep their own decisions; add {param('global_only')}"
            raise OptionError("class_offsets", problem, need, code="missing")
        if self.personal is not None and self.global_only:
            problem = f"{self.personal!s:.100} beside {param('global_only')}"
            raise OptionError("personal", problem, "one of them", code="conflict")


@dataclass(frozen=True)
class ExportOptions(BundleOptions):
    """The same, and its models in other forms."""

    int8: bool = option(False, "Also every model in int8, where that answers as well on validation beats.")
    int8_loss: float | None = option(None, "The most macro-F1 that an int8 form may lose; default 0.01.", Range(0, 1))
    tflite: bool = option(False, "Also every model as TensorFlow Lite in int8; needs 'make tflite'.")
