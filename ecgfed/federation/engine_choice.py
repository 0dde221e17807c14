"""Which engine runs the clients: by device and by what was asked for."""

import torch

from ecgfed.errors import OptionError
from ecgfed.federation.batched import BatchedEngine
from ecgfed.federation.data import TrainingData
from ecgfed.federation.plan import TrainPlan, available_cores
from ecgfed.federation.threads import ThreadEngine

DEVICES, ENGINES = ("auto", "cpu", "cuda"), ("auto", "threads", "batched")


def choose_device(device: str) -> str:
    """Return ``cpu`` or ``cuda``; ``auto`` takes a GPU where there is one.

    Raises:
        OptionError: an unknown name, or no GPU where one was asked for.
    """
    if device not in DEVICES:
        raise OptionError("--device", f"{device!r}", "auto, cpu or cuda")
    there = torch.cuda.is_available()
    if device == "cuda" and not there:
        raise OptionError("--device", "cuda: no CUDA device here", "cpu or auto", "or install a CUDA build of torch")
    return "cuda" if there and device != "cpu" else "cpu"


def choose_engine(device: str, engine: str, slots: int | None) -> tuple[str, str]:
    """Return the device (``cpu`` or ``cuda``) and the engine (``threads`` or ``batched``) that a wish comes to.

    Args:
        device: ``auto``, ``cpu`` or ``cuda``.
        engine: ``auto``, ``threads`` (CPU only) or ``batched``.
        slots: clients in flight of the batched engine, or None.

    Raises:
        OptionError: an unknown name, or things that do not go together.
    """
    chosen = choose_device(device)
    if engine not in ENGINES:
        raise OptionError("--engine", f"{engine!r}", f"one of {', '.join(ENGINES)}")
    if engine == "threads" and chosen == "cuda":
        raise OptionError("--engine", "threads with a GPU", "batched", "or --device cpu")
    kind = "batched" if engine == "batched" or chosen == "cuda" else "threads"
    if slots is not None and kind == "threads":
        raise OptionError("--slots", "given for worker threads", "--engine batched", "leave --slots out")
    if slots is not None and slots < 1:
        raise OptionError("--slots", f"{slots}", "1 or more")
    return chosen, kind


def open_engine(
    data: TrainingData,
    plan: TrainPlan,
    *,
    device: str = "auto",
    engine: str = "auto",
    workers: int | None = None,
    slots: int | None = None,
) -> ThreadEngine | BatchedEngine:
    """Make the engine of a run: worker threads on a CPU, many clients at once on a GPU, unless asked otherwise.

    Args:
        data: the training beats.
        plan: local work, batch size, seed.
        device: as in ``choose_engine``.
        engine: as in ``choose_engine``.
        workers: threads; default one a core.
        slots: clients in flight of the batched engine.

    Raises:
        OptionError: an unknown name, or things that do not go together.
    """
    chosen, kind = choose_engine(device, engine, slots)
    if kind == "batched":
        return BatchedEngine(data, plan, chosen, slots)
    return ThreadEngine(data, plan, workers or available_cores())
