"""Choose the engine that runs the clients."""

from collections.abc import Callable

import torch

from ecgfed.base.errors import OptionError, param
from ecgfed.core.config import ComputeOptions
from ecgfed.core.federation.batched import BatchedEngine
from ecgfed.core.federation.data import TrainingData
from ecgfed.core.federation.plan import TrainPlan, available_cores
from ecgfed.core.federation.threads import ThreadEngine

#: For smaller batches and at least this many clients, call overhead in a thread equals the arithmetic.
LARGE_BATCH, MANY_CLIENTS = 32, 8


def choose_device(device: str) -> str:
    """Return ``cpu`` or ``cuda``; ``auto`` takes a GPU if there is one; raises OptionError (``cuda`` without a GPU)."""
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise OptionError("device", "cuda: no CUDA device here", "cpu or auto", "or install a CUDA build of torch")
    return "cuda" if has_gpu and device != "cpu" else "cpu"


def choose_engine(
    device: str,
    engine: str,
    slots: int | None,
    batch_size: int = LARGE_BATCH,
    clients: int = 1,
    stacking_problem: Callable[[], str] = lambda: "",
) -> tuple[str, str]:
    """Return the device (``cpu`` or ``cuda``) and the engine (``threads`` or ``batched``) for these options.

    Args:
        device: ``auto``, ``cpu`` or ``cuda``.
        engine: ``auto``, ``threads`` (CPU only) or ``batched``.
        slots: clients per stack of the batched engine, or None.
        batch_size: of local training; ``auto`` chooses the batched engine on a CPU for small batches and many clients.
        clients: participants per round.
        stacking_problem: returns why the net's clients cannot be trained stacked (``Net.stacking_problem``); ``auto``
            chooses threads then. Called only where they would be.

    Raises:
        OptionError: an unknown name, or options that exclude each other.
    """
    ComputeOptions(device, engine, slots)  # checks them
    chosen = choose_device(device)
    if engine == "threads" and chosen == "cuda":
        raise OptionError("engine", "threads with a GPU", "batched", f"or {param('device')} cpu", code="conflict")
    small = engine == "auto" and batch_size < LARGE_BATCH and clients >= MANY_CLIENTS
    kind = "batched" if engine == "batched" or chosen == "cuda" or small else "threads"
    if kind == "batched" and (problem := stacking_problem()):
        if engine == "batched" or chosen == "cuda":
            action = f"pass {param('device=cpu')} and {param('engine=threads')}"
            raise OptionError("net", f"cannot be trained stacked: {problem}", "a net that can", action, code="conflict")
        kind = "threads"
    if slots is not None and kind == "threads":
        actual = "given for worker threads"
        raise OptionError("slots", actual, f"{param('engine')} batched", f"leave {param('slots')} out", code="conflict")
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
    """Return the engine of a run: batched on a GPU or for small batches, otherwise one client per thread.

    Args:
        data: the training beats.
        plan: local work, batch size, seed.
        device: as in ``choose_engine``.
        engine: as in ``choose_engine``.
        workers: threads; default one per core.
        slots: clients per stack of the batched engine.

    Raises:
        OptionError: an unknown name, or options that exclude each other.
    """
    chosen, kind = choose_engine(device, engine, slots, plan.batch_size, plan.clients_per_round or len(data.clients))
    if kind == "batched":
        return BatchedEngine(data, plan, chosen, slots, workers or available_cores())
    return ThreadEngine(data, plan, workers or available_cores())
