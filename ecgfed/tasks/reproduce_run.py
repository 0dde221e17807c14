"""One run of a paper's table: its options for ``train``, and its scores by the paper's measures."""

import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ecgfed import __version__
from ecgfed.base.errors import DivergedError
from ecgfed.core.config import NETS
from ecgfed.core.evaluation.accuracies import expected_accuracy
from ecgfed.core.federation.augment import CropAndFlip
from ecgfed.core.federation.own_functions import ExponentialDecay, scheduled
from ecgfed.core.methods.fed_rod import FedRodSettings, unused_settings
from ecgfed.core.methods.registry import method_by_name
from ecgfed.core.methods.server_sgd import PLAIN_MEAN
from ecgfed.core.methods.settings import make_settings, settings_of
from ecgfed.core.nets import paper_nets
from ecgfed.core.nets.net_source import NetFactory
from ecgfed.core.runs.history import TIMING, read_lines
from ecgfed.core.runs.run import FILE_NAME
from ecgfed.domain.cohort.cohort import Cohort
from ecgfed.domain.cohort.split import TRAIN
from ecgfed.papers.table import METHOD_SETTINGS, Protocol, Row, Setting, Value
from ecgfed.tasks.evaluate import evaluate
from ecgfed.tasks.progress import ProgressReporter
from ecgfed.tasks.train import train


@dataclass(frozen=True)
class PaperRun:
    """One method, setting and seed.

    Attributes:
        paper: name of the paper.
        ensemble: as in ``Table``.
        setting: data set, partition, protocol.
        row: the method.
        scale: ``full`` or ``reduced``.
        seed: of the partition and the training.
    """

    paper: str
    ensemble: str
    setting: Setting
    row: Row
    scale: str
    seed: int

    @property
    def protocol(self) -> Protocol:
        """The protocol at the scale."""
        return self.setting.protocol.at(self.scale)

    @property
    def label(self) -> str:
        """For progress: the row, the setting and the seed."""
        return f"{self.row.name}, {self.setting.label}, seed {self.seed}"

    def settings(self) -> dict[str, Value]:
        """Return the settings of protocol and row; of the protocol's those that the method has."""
        known = {setting.name for setting in settings_of(method_by_name(self.row.method).settings_type)}
        shared = {name: value for name, value in self.protocol.sgd.items() if name in known}
        return {**shared, **self.row.settings, **self.row.by_data.get(self.setting.data, {})}

    def _open_settings(self) -> dict[str, Value]:
        return open_settings(self.row.method, str(self.row.settings.get("generic", "fedavg")))

    def all_settings(self) -> dict[str, Value]:
        """Return everything that is set, whatever the defaults of the method."""
        return {**self._open_settings(), **self.settings()}

    def notes(self) -> tuple[str, ...]:
        """Return how this run differs from the protocol, one phrase for each difference."""
        lacking = [name for name in self.protocol.sgd if name not in self.settings()]
        notes = [f"no {' and '.join(lacking)}: {self.row.method} has no such setting"] if lacking else []
        work, pooled = self.work(), method_by_name(self.row.method).requirements.pooled
        if work["clients_per_round"] != self.protocol.clients_per_round:
            how = "on the pooled data of all clients" if pooled else f"of all clients, which {self.row.method} needs"
            notes.append(f"{work['rounds']} rounds {how}, not {self.protocol.rounds} of some clients: as much work")
        return (*notes, *((self.row.note,) if self.row.note else ()))

    @property
    def name(self) -> str:
        """The trained model, also of other tables: method, its row's settings where they tell it apart, and seed."""
        kind = method_by_name(self.row.method).settings_type
        defaults, shared = {**asdict(make_settings(kind, {})), **self._open_settings()}, {*self.protocol.sgd}
        own = {name: value for name, value in self.settings().items() if name not in shared and value != defaults[name]}
        parts = [self.row.method, *(f"{name}={value}" for name, value in sorted(own.items()))]
        if self.row.valid_share:
            parts.append(f"valid={self.row.valid_share:g}")
        return f"{self.paper}-{self.scale}-{self.setting.key}/{'-'.join(parts)}-s{self.seed}"

    @property
    def key(self) -> str:
        """The run in a file of results: that model, and the personalisation after training."""
        return self.name if self.row.personal is None else f"{self.name}/{self.row.personal}"

    def net(self) -> str | NetFactory:
        """Return the net's name, or its class."""
        name = self.protocol.net
        if any(name in names for names in NETS.values()):
            return name
        factory: NetFactory = getattr(paper_nets, name)
        return factory

    def work(self) -> dict[str, int | None]:
        """Return rounds and participants; fewer rounds for a method on all clients' data, for as much work."""
        protocol, participants = self.protocol, self.protocol.clients_per_round
        requirements = method_by_name(self.row.method).requirements
        if participants is None or not (requirements.all_clients or requirements.pooled):
            return {"rounds": protocol.rounds, "clients_per_round": participants}
        clients = int(self.setting.partition["clients"])
        return {"rounds": max(1, protocol.rounds * participants // clients), "clients_per_round": None}

    def declared(self) -> dict[str, Any]:
        """Return everything that determines the trained model, JSON-ready: options, settings, functions, cohort."""
        protocol = self.protocol
        return {
            "method": self.row.method,
            "settings": self.settings(),
            "net": protocol.net,
            **self.work(),
            "local_epochs": protocol.local_epochs,
            "batch_size": protocol.batch_size,
            "lr_decay": protocol.lr_decay,
            "crop_pixels": protocol.crop_pixels,
            "seed": self.seed,
        }

    def measured(
        self,
        cohort: Cohort,
        folder: Path,
        *,
        device: str,
        workers: int | None,
        progress: ProgressReporter,
        should_stop: Callable[[], bool],
    ) -> dict[str, Any] | None:
        """Train, or continue, and score; None if ``should_stop`` ended the training.

        Args:
            cohort: the run's cohort.
            folder: of all runs.
            device: as in ``ecgfed.train``, like the following.
            workers: number of threads.
            progress: receives progress, notes and warnings.
            should_stop: called after every round; if it returns True, the session is saved and ends.

        Returns:
            JSON-ready: ``scores``, ``seconds`` of training, and what it was made with; or ``stopped``, the message of a
            training whose numbers were no longer finite.

        Raises:
            EcgfedError: as ``ecgfed.train`` and ``ecgfed.evaluate``.
        """
        out, protocol, work = folder / self.name, self.protocol, self.work()
        decay = ExponentialDecay(protocol.lr_decay) if protocol.lr_decay < 1 else None
        crop = CropAndFlip(protocol.crop_pixels) if protocol.crop_pixels else None
        out.parent.mkdir(parents=True, exist_ok=True)
        try:
            run = train(
                cohort,
                out,
                resume=(out / FILE_NAME).is_file(),
                method=self.row.method,
                settings=self.all_settings(),
                net=self.net(),
                rr=None if cohort.modality != "ecg" else False,
                rounds=work["rounds"],
                clients_per_round=work["clients_per_round"],
                local_epochs=protocol.local_epochs,
                batch_size=protocol.batch_size,
                seed=self.seed,
                eval_every=0,
                device=device,
                workers=workers,
                lr_schedule=decay,
                augmentation=crop,
                progress=progress,
                should_stop=should_stop,
            )
        except DivergedError as problem:
            return {"stopped": str(problem), **made_with(device)}
        if run.store.rounds() < run.plan.rounds:
            return None
        if decay is not None:  # local models are trained for one more round, at that round's learning rate
            run = replace(run, method=scheduled(run.method, decay, run.plan.rounds + 1, run.plan.rounds))
        scores = evaluate(
            run,
            cohort=cohort,
            protocol=self.ensemble,
            local_models=self.row.personal is None,
            personal=self.row.personal,
            net=None if isinstance(self.net(), str) else self.net(),
            workers=workers,
            progress=progress,
        )
        seconds = sum(float(line["seconds"]) for line in read_lines(out / TIMING, run.plan.rounds))
        return {
            "scores": scores_of(scores.results[0], cohort),
            "seconds": round(seconds, 1),
            **made_with(str(run.meta["device"])),
        }


def open_settings(method: str, generic: str = "fedavg") -> dict[str, Value]:
    """Return what every run of a method is set to where a paper leaves it open, the plain mean at the server first.

    Args:
        method: its name.
        generic: the method that trains Fed-RoD's generic branch.
    """
    kind = method_by_name(method).settings_type
    known = {setting.name for setting in settings_of(kind)}
    if issubclass(kind, FedRodSettings):
        known -= unused_settings(generic)
    plain = {name: value for name, value in PLAIN_MEAN.items() if name in known}
    return {**plain, **METHOD_SETTINGS.get(method, {})}


def scores_of(result: Mapping[str, Any], cohort: Cohort) -> dict[str, float]:
    """Return the papers' measures of an evaluation.

    Args:
        result: as ``ecgfed.evaluate`` returns it of one run.
        cohort: what it was scored on.

    Returns:
        GRP-FED's ``T_g``, ``T_l``, ``T_p``, ``T_r``; Fed-RoD's ``G_FL``, ``P_FL_GM`` (the global model, on test images
        weighted by each client's classes) and ``P_FL_PM`` (personal models, or local ones of a method that has no
        personal models); FedABC's ``P_FL_split`` and ``drift`` of the same models.
    """
    own = result["local_models"] or result["accuracies"]
    matrix = np.array(result["confusion"], np.int64)
    counts = [cohort.class_counts(client, TRAIN) for client in cohort.federation]
    expected = [expected_accuracy(matrix, of / of.sum()) for of in counts if of.sum()]
    return {
        **{name: float(result["scores"][name]) for name in ("T_g", "T_l", "T_p", "T_r")},
        "G_FL": float(result["accuracies"]["G_FL"]),
        "P_FL_GM": float(np.nanmean(expected)),
        "P_FL_PM": float(own["P_FL_expected"]),
        "P_FL_split": float(own["P_FL_split"]),
        "drift": float(own["drift"]),
    }


def made_with(device: str) -> dict[str, str]:
    """Return device and versions of a run."""
    name = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    return {"device": f"{device}, {name}", "torch": torch.__version__, "ecgfed": __version__}
