"""One round of GRP-FED on the demo cohort, in numbers: ``python docs/images/grp-fed/round.py`` writes ``round.json``.

The run is stopped before the round and after it, so that both states can be looked at; ``draw.py`` makes the pictures
of what is written here, and ``tests/test_grp_fed_pictures.py`` works the equations out again.
"""

import json
import shutil
import tempfile
from pathlib import Path

import torch

import ecgfed
from ecgfed.core.federation.data import TrainingData, training_data
from ecgfed.core.federation.state import State
from ecgfed.core.methods.base import Tree
from ecgfed.core.nets.discriminator import discriminate
from ecgfed.core.nets.layers import Params
from ecgfed.core.nets.parts import extractor_of
from ecgfed.core.runs.run import Run

HERE = Path(__file__).parent
#: Rounds of the run, and the one that is shown: the third in which patients train an extractor of their own.
ROUNDS, SHOWN = 25, 23
#: The patient whose local update is shown.
CLIENT = 3


def stopped_after(folder: Path, cohort: ecgfed.Cohort, rounds: int, *, resume: bool) -> Run:
    """Train until a round is finished; the plan stays the whole run's."""
    begun = ecgfed.open_run(folder).state().round if resume else 0
    left = iter(range(begun + 1, rounds + 1))
    return ecgfed.train(
        cohort,
        folder,
        method="grp-fed",
        rounds=ROUNDS,
        local_steps=4,
        seed=0,
        eval_every=0,
        checkpoint_every=1,
        engine="threads",
        resume=resume,
        should_stop=lambda: next(left, rounds) >= rounds,
    )


def verdicts(run: Run, before: State, after: State, data: TrainingData) -> dict[str, list[float]]:
    """Return what each patient's D says of global and of its own features, the mean over its training beats.

    D, the local extractor and the received one are those of the round's last step.
    """
    found: dict[str, list[float]] = {"of_global": [], "of_local": []}
    for client in range(len(data.clients)):
        local, batch = after.client_states[client]["local"], data.batch(data.rows[client])
        for name, extractor in (("of_global", extractor_of(before.server["model"])), ("of_local", local["extractor"])):
            with torch.no_grad():
                told = discriminate(local["discriminator"], run.net.extract(extractor, batch.inputs, {})).sigmoid()
            found[name].append(float(told.mean()))
    return found


def lengths(run: Run, before: Tree, after: Tree) -> dict[str, dict[str, float]]:
    """Return how far the weighted mean of the clients lies from the model, and how far the server stepped, L2.

    The mean is worked back from the server's velocity: v' = m v + (1 - m) (mean - model).
    """
    m = run.method.settings.server_momentum  # type: ignore[attr-defined]
    change: Params = {
        name: (after["server_velocity"][name] - m * value) / (1 - m)
        for name, value in before["server_velocity"].items()
    }
    step: Params = {name: after["model"][name] - before["model"][name] for name in change}

    def norm(some: Params, *, head: bool) -> float:
        of_part = [value.double().square().sum() for name, value in some.items() if name.startswith("head") == head]
        return float(torch.stack(of_part).sum().sqrt())

    return {
        name: {"extractor": norm(some, head=False), "head": norm(some, head=True)}
        for name, some in (("mean", change), ("step", step))
    }


def of_tree(tree: Tree) -> int:
    """Return the bytes of a tree's tensors."""
    return sum(of_tree(one) if isinstance(one, dict) else one.nbytes for one in tree.values())


def sent(run: Run, before: State, after: State) -> dict[str, int]:
    """Return bytes of one patient's round: down, up, and what it keeps."""
    model = of_tree(before.server["model"])
    kept = after.client_states[CLIENT]
    loss = kept["loss"].nbytes
    return {"down": model, "up": model + loss, "kept": of_tree({name: kept["local"][name] for name in kept["local"]})}


def answers(run: Run) -> list[dict[str, object]]:
    """Return T_p, T_r and each patient's score for the global answer, GRP-FED's own and the gated one."""
    found: list[dict[str, object]] = []
    for name, personal in (("own", None), ("gated", "gated")):
        scores = ecgfed.evaluate(run, personal=personal, local_models=False)
        rows = scores.rows("per_patient", "client", "global_f1", "personal_f1")
        if not found:
            common = {client: one for client, ((one,), _) in rows}
            found.append({"name": "global", "T_p": scores.mean("T_p_global"), "T_r": scores.T_g, "each": common})
        found.append(
            {"name": name, "T_p": scores.T_p, "T_r": scores.T_r, "each": {client: one for client, (_, (one,)) in rows}}
        )
    return found


def main() -> None:
    """Train, look and write."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        cohort = ecgfed.prepare_demo(folder / "cohort", patients=8, minutes=2)
        run = stopped_after(folder / "run", cohort, SHOWN - 1, resume=False)
        shutil.copytree(folder / "run", folder / "before")
        run = stopped_after(folder / "run", cohort, SHOWN, resume=True)
        before, after = ecgfed.open_run(folder / "before").state(), run.state()
        data = training_data(cohort, rr=True)
        line = run.history()[-1]
        said = {
            "rounds": ROUNDS,
            "round": after.round,
            "client": CLIENT,
            "classes": list(cohort.classes),
            "clients": [client.id for client in cohort.clients],
            "counts": [data.class_counts(client).tolist() for client in range(len(cohort.clients))],
            "settings": {name: run.meta["settings"][name] for name in ("beta", "eta_q", "local_lr", "lr", "server_lr")},
            "loss": [float(after.client_states[client]["loss"]) for client in range(len(cohort.clients))],
            "this_round": line["losses"],
            "sigma": [float(before.server["sigma"]), float(after.server["sigma"])],
            "q": [float(before.server["q"]), float(after.server["q"])],
            "q_all": [one["q"] for one in run.history()],
            "effective_clients": float(after.server["effective_clients"]),
            "verdicts": verdicts(run, before, after, data),
            "lengths": lengths(run, before.server, after.server),
            "bytes": sent(run, before, after),
        }
        run = stopped_after(folder / "run", cohort, ROUNDS, resume=True)
        said["answers"] = answers(run)
    (HERE / "round.json").write_text(json.dumps(said, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
