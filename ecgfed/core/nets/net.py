"""Interface of nets: specification, inputs, and functions by role over parameter dictionaries."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ecgfed.base.errors import OptionError, param
from ecgfed.base.plugins import names_code
from ecgfed.core.config import NETS, NetOptions
from ecgfed.core.nets.layers import GROUPS, Initialiser, Params, linear
from ecgfed.core.nets.neighbours import neighbour_logits
from ecgfed.core.nets.personal_head import gated_logits, kernel_logits, linear_logits, prototype_distance

#: More than there are annotation codes, and few enough that the head of an untrusted run fits into memory.
MAX_CLASSES = 10_000
#: Numbers of an example, and its axes, at most.
MAX_SIZE, MAX_AXES = 2**32, 8
#: version of the RR features (``ecgfed.domain.beats.rr``, which a net does not know) -> how many there are
RR_COUNT = {1: 4, 2: 16, 3: 241, 4: 16}
#: architecture -> default normalisation, if not ``group``; the papers' ConvNets have none
DEFAULT_NORM = {"convnet3": "none", "convnet2": "none"}


@dataclass(frozen=True)
class ModuleForm:
    """What a net of somebody's own takes, and which file its class came from.

    Attributes:
        modality: of the cohort, a key of ``NETS``.
        shape: of an example.
        dtype: of an example, ``float32``, ``uint8`` or ``int64``.
        sha256: SHA-256 of the file, ``""`` if there is none.
    """

    modality: str
    shape: tuple[int, ...]
    dtype: str
    sha256: str = ""

    def __post_init__(self) -> None:
        sizes = all(type(size) is int and 1 <= size <= MAX_SIZE for size in self.shape) and len(self.shape) <= MAX_AXES
        known = self.modality in NETS and self.dtype in ("float32", "uint8", "int64")
        if not sizes or not self.shape or not known or math.prod(self.shape) > MAX_SIZE:
            problem = f"for {self.modality!r:.20} of shape {self.shape!r:.60}, {self.dtype!r:.20}"
            raise OptionError("net", problem, f"one of {', '.join(NETS)}, and a shape")


@dataclass(frozen=True)
class NetSpec:
    """Everything that determines the shape of a net; written into runs and bundles.

    Attributes:
        classes: number of classes.
        architecture: a name of ``NETS``, or ``FILE.py:CLASS`` of somebody's own ``torch.nn.Module``.
        norm: ``group``, ``batch`` or ``none``; of a module ``batch`` with running statistics, ``group`` with other
            normalisation layers.
        rr: whether RR features are a second input; ECG only.
        width: scales all channels (to a multiple of 8).
        rr_version: of the RR features, a key of ``RR_COUNT``.
        window_share: how much the window counts beside RR features of version 2 or later, above 0 to 1. A tenth serves
            patients who took no part better, 1 those who did (docs/decisions/0035).
        module: of somebody's own module what it takes; else None.
    """

    classes: int
    architecture: str = "default"
    norm: str = "group"
    rr: bool = False
    width: float = 1.0
    rr_version: int = 1
    window_share: float = 1.0
    module: ModuleForm | None = None

    def __post_init__(self) -> None:
        if None in (self.rr, self.norm, self.architecture):
            raise OptionError("net", "rr, norm or architecture is missing", "a value of each", code="missing")
        NetOptions(self.rr, self.architecture, self.norm, self.width, self.window_share)  # checks them
        if names_code(self.architecture) != (self.module is not None):
            expected = f"a name of {', '.join(NETS)}, or a module with the shape of its examples"
            raise OptionError("net", f"{self.architecture!r:.100}", expected, code="unknown-choice")
        if self.module is not None and (self.width, self.window_share) != (1.0, 1.0):
            problem = f"{param('width')} or {param('window_share')} beside {self.architecture!s:.100}"
            raise OptionError("net", problem, "a module that has its own", "leave them out", code="conflict")
        if isinstance(self.classes, bool) or not isinstance(self.classes, int) or not 1 <= self.classes <= MAX_CLASSES:
            raise OptionError("classes of the net", f"{self.classes!r:.40}", f"1 to {MAX_CLASSES:,}")
        if isinstance(self.rr_version, bool) or self.rr_version not in RR_COUNT:
            actual = f"{self.rr_version!r:.40}"
            raise OptionError("rr_version", actual, " or ".join(map(str, RR_COUNT)), code="unknown-choice")
        if self.architecture == "context" and not (self.rr and self.rr_version == 3):
            expected = f"a cohort of {param('rr_version')} 3, and a net with its RR features"
            raise OptionError("net", "context without RR features of version 3", expected, code="conflict")
        share = self.window_share
        if share != 1 and not (self.rr and self.rr_version >= 2):
            value = f"{share:g} for a net without RR features of version 2 or later"
            expected = f"a cohort of {param('rr_version')} 2 or later, and a net with them"
            raise OptionError("window_share", value, expected, "leave it out", code="conflict")
        if self.rr and self.modality != "ecg":
            value = f"given for {self.architecture}, a net for images"
            raise OptionError("rr", value, "a net for ECG", "leave it out", code="conflict")

    @property
    def modality(self) -> str:
        """What the net is for: ``ecg``, ``image`` or ``array``."""
        if self.module is not None:
            return self.module.modality
        return next(modality for modality, architectures in NETS.items() if self.architecture in architectures)

    @property
    def rr_count(self) -> int:
        """How many RR features are the second input, 0 for none."""
        return RR_COUNT[self.rr_version] if self.rr else 0

    def scaled(self, channels: int) -> int:
        """Channels after ``width``, a multiple of 8."""
        return max(GROUPS, round(channels * self.width / GROUPS) * GROUPS)

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON values; fields that version 0.1 did not have are omitted at their defaults."""
        values = asdict(self)
        module = values.pop("module") or {}
        if self.rr_version == 1:
            del values["rr_version"]
        if self.window_share == 1:
            del values["window_share"]
        return {**values, **module}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "NetSpec":
        """Read what ``as_json`` wrote; runs of version 0.1 call the architecture ``plan``. Raises TypeError."""
        named = {"architecture" if name == "plan" else name: entry for name, entry in value.items()}
        own = {field.name: named.pop(field.name) for field in fields(ModuleForm) if field.name in named}
        if own:
            own["shape"] = tuple(own["shape"])
        return cls(**named, module=ModuleForm(**own) if own else None)


def net_spec(
    classes: int,
    modality: str,
    *,
    architecture: str | None = None,
    norm: str | None = None,
    rr: bool | None = None,
    width: float = 1.0,
    rr_version: int = 1,
    window_share: float = 1.0,
    module: ModuleForm | None = None,
    module_norm: str = "none",
    takes_rr: bool = False,
) -> NetSpec:
    """Choose a net for a cohort; None stands for the modality's default.

    Args:
        module: of one's own net what it takes; ``architecture`` names its class then.
        module_norm: the normalisation that it has, as in ``NetSpec``.
        takes_rr: whether that net takes RR features, unless ``rr`` says so.

    Raises:
        OptionError: a net of the other modality, or a value that ``NetSpec`` rejects.
    """
    if module is not None and architecture is not None:
        if norm is not None:
            problem = f"{norm} beside a module, which has its own"
            raise OptionError("norm", problem, "a net of this package", f"leave {param('norm')} out", code="conflict")
        rr = takes_rr and modality == "ecg" if rr is None else rr
        return NetSpec(classes, architecture, module_norm, rr, width, rr_version if rr else 1, window_share, module)
    rr = (modality == "ecg") if rr is None else rr
    if not NETS[modality]:
        problem = "is missing" if architecture is None else f"{architecture!r} is for another kind of examples"
        expected = f"your own for {_WHAT[modality]}, a torch.nn.Module's class, or FILE.py:CLASS"
        raise OptionError("net", problem, expected, code="missing")
    default = "context" if rr and rr_version == 3 else NETS[modality][0]
    chosen = default if architecture is None else architecture
    default_norm = DEFAULT_NORM.get(chosen, "group")
    for net_modality, architectures in NETS.items():
        if net_modality != modality and chosen in architectures:
            actual = f"{chosen!r} is for {_WHAT[net_modality]}"
            expected = f"one of {', '.join(NETS[modality])}"
            raise OptionError("net", actual, expected, f"the cohort holds {_WHAT[modality]}", code="unknown-choice")
    return NetSpec(classes, chosen, norm or default_norm, rr, width, rr_version if rr else 1, window_share)


_WHAT = {"ecg": "ECG beats", "image": "images", "array": "arrays"}


@dataclass(frozen=True)
class Inputs:
    """Inputs of a net, one batch.

    Attributes:
        examples: windows (B, 1, 256) float32 millivolt, filtered, not normalised; of a net for images the images,
            (B, 3, 32, 32) uint8; of arrays (B, ...) float32, uint8 or int64.
        rr: (B, features) float32 RR features, or None for a net without RR.
        weight: (B,) float32, 0 for padding rows, or None if there are none; used by BatchNorm's statistics and the
            losses.
    """

    examples: Tensor
    rr: Tensor | None = None
    weight: Tensor | None = None


class Net(ABC):
    """The functions of one net. It holds no parameters: they are ``Params`` with names ``extractor.*``, ``head.*``.

    Functions by role: ``extractor`` (Inputs -> features (B, features)), ``head`` (features -> logits
    (B, classes)), ``model`` (Inputs -> logits), ``decoupled`` (Inputs -> logits of a model with a personal head beside
    the generic one, Fed-RoD), ``valved`` (Inputs -> logits of a head on scaled and shifted features, GPFL); of a
    patient's model on frozen features (``ecgfed.core.nets.personal_head``) ``describer`` (Inputs -> descriptions
    (B, described)), ``linear`` and ``neighbours`` (features -> logits), ``kernel`` and ``gated`` (descriptions ->
    logits); beside them ``far`` (Inputs -> distances (B, 1) from typical examples). A subclass defines the extractor,
    ``features``, ``shape`` if it has one, and ``hidden``, the hidden features of the two-layer head or 0 for a head of
    one layer.
    """

    #: name, shape and dtype of one row of the first input in exported graphs
    input_name: str
    input_shape: tuple[int, ...]
    input_type: torch.dtype

    def __init__(self, spec: NetSpec, features: int, hidden: int) -> None:
        self.spec, self.features, self.hidden = spec, features, hidden
        self.roles: dict[str, Callable[..., Tensor]] = {
            "extractor": self.extract,
            "head": self.classify,
            "model": self.logits,
            "decoupled": self.decoupled_logits,
            "valved": self.valved_logits,
            "describer": self.describe,
            "linear": linear_logits,
            "kernel": kernel_logits,
            "gated": self.gated,
            "neighbours": self.neighbours,
            "far": self.prototype_distance,
        }

    def initial(self, seed: int) -> Params:
        """Draw initial parameters, float32; the same seed gives the same bits."""
        draw = Initialiser(seed)
        self.draw_extractor(draw)
        if self.hidden:
            draw.linear("head.hidden", self.features, self.hidden)
        draw.linear("head.out", self.hidden or self.features, self.spec.classes, gain=1.0)
        return draw.params

    @abstractmethod
    def draw_extractor(self, draw: Initialiser) -> None:
        """Draw the entries ``extractor.*``."""

    @abstractmethod
    def extract(self, params: Params, inputs: Inputs, stats: Params | None = None) -> Tensor:
        """Return features (B, features) float32 of a batch.

        Args:
            params: the net's parameters; ``extractor.*`` is read.
            inputs: a batch, with RR features if the net was built with them; a net for ECG raises ValueError without.
            stats: where BatchNorm's new statistics are put in training, see ``ecgfed.core.nets.layers.norm``; None for
                inference.
        """

    def stacking_problem(self) -> str:
        """Return why clients of this net cannot be trained stacked (``torch.func.vmap``), ``""`` if they can."""
        return ""

    def classify(self, params: Params, features: Tensor) -> Tensor:
        """Logits (B, classes) of features (B, features)."""
        if self.hidden:
            features = F.relu(linear(params, "head.hidden", features))
        return linear(params, "head.out", features)

    def logits(self, params: Params, inputs: Inputs, stats: Params | None = None) -> Tensor:
        """Logits (B, classes) of a batch, extractor and head in one."""
        return self.classify(params, self.extract(params, inputs, stats))

    @property
    def described(self) -> int:
        """Length of a beat's description: features and shape."""
        return self.features + self.shape_size

    #: length of ``shape``
    shape_size: ClassVar[int] = 0

    def shape(self, inputs: Inputs) -> Tensor | None:
        """Return the shape of the examples themselves (B, shape_size), or None if the net does not use it."""
        return None

    def describe(self, params: Params, inputs: Inputs) -> Tensor:
        """Descriptions (B, described): the features, and the shape beside them."""
        features, shape = self.extract(params, inputs), self.shape(inputs)
        return features if shape is None else torch.cat([features, shape], dim=1)

    def gated(self, params: Params, described: Tensor) -> Tensor:
        """Logits (B, classes) of descriptions (B, described): the patient's kernel machine, or the global head."""
        return gated_logits(params, described, self.classify(params, described[:, : self.features]))

    def neighbours(self, params: Params, features: Tensor) -> Tensor:
        """Logits (B, classes) of features (B, features): the patient's nearest beats, mixed with the global head."""
        return neighbour_logits(params, features, self.classify(params, features))

    def prototype_distance(self, params: Params, inputs: Inputs) -> Tensor:
        """Return distances (B, 1) of the examples' shapes to the nearest prototype."""
        shape = self.shape(inputs)
        if shape is None:
            raise ValueError("this net's examples have no shape")
        return prototype_distance(params, shape)

    def decoupled_logits(self, params: Params, inputs: Inputs, stats: Params | None = None) -> Tensor:
        """Logits (B, classes) of generic and personal head together; ``params`` holds ``personal.*`` too."""
        features = self.extract(params, inputs, stats)
        return self.classify(params, features) + linear(params, "personal", features)

    def valved_logits(self, params: Params, inputs: Inputs, stats: Params | None = None) -> Tensor:
        """Logits (B, classes) of the head on features that ``valve.scale`` and ``valve.shift`` (features,) change."""
        features = self.extract(params, inputs, stats)
        return self.classify(params, F.relu(features * params["valve.scale"] + params["valve.shift"]))
