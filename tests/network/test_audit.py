"""What a server asks leaves a trace at the site, and what it may ask is bounded by the site."""

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from needs import flower

flower()

from flwr.app import RecordDict
from test_resume import KilledError, killed_after

from ecgfed.base.errors import OptionError, StorageError
from ecgfed.base.files import sha256
from ecgfed.core.federation.plan import TrainPlan
from ecgfed.core.runs.run import open_run
from ecgfed.network import audit, client_app, messages, watch
from ecgfed.network.audit import AUDIT, AUDIT_KEY, START, check_log
from ecgfed.network.config import SiteOptions
from ecgfed.network.errors import SiteError
from ecgfed.network.last_answer import GONE_S, SEEN, note_answer
from ecgfed.network.leaves import final_leaves
from ecgfed.network.limits import Limits
from ecgfed.network.roster import read_roster
from ecgfed.network.run_spec import RunSpec
from ecgfed.network.server_run import run_spec_for
from ecgfed.network.site_folder import make_site, open_site
from ecgfed.network.site_run import RoundRequest, SiteRun
from ecgfed.network.status import status_of

pytestmark = pytest.mark.usefixtures("at_once", "quick_end", "unheld")
WISH: dict[str, Any] = {"rounds": 2, "local_steps": 3, "eval_every": 1, "end": True}


@pytest.fixture
def asked(federation: Callable[..., Any]) -> tuple[Any, Any, RunSpec]:
    """A federation after its run, the run, and the first site's order."""
    made = federation("fedavg", **WISH)
    run = made.serve()
    roster = read_roster(made.server)
    assert roster is not None
    return made, run, run_spec_for(run, roster, 0)


def ask(site: Path, order: RunSpec, move: float, *, number: int = 3, last: int = 2) -> dict[str, Any]:
    """Ask for a round with other weights than any before."""
    part = SiteRun(open_site(site), order)
    model = {path: leaf + move for path, leaf in part.initial.items()}
    request = messages.round_request(RoundRequest(order, number, (0,), last, [{"model": model}]))
    return dict(client_app.handle(site, request, client_app._round)["say"])


def longer(order: RunSpec, **plan: Any) -> RunSpec:
    """Return the order of another run of ten rounds."""
    return replace(order, run="ab" * 32, plan={**order.plan, "rounds": 10, **plan})


def test_every_question_has_a_line(asked: tuple[Any, Any, RunSpec]) -> None:
    made, run, order = asked
    site = made.sites[0]
    log = check_log(site)
    expected = ["registration", "round", "scores", "round", "end"]
    assert [line["question"] for line in log.lines] == expected
    assert [line["answer"] for line in log.lines] == ["registration", "update", "scores", "update", "end"]
    assert [line["n"] for line in log.lines] == [1, 2, 3, 4, 5]
    assert [line["round"] for line in log.lines] == [None, 1, 1, 2, 2]
    assert {line["run"] for line in log.lines[1:]} == {run.identity}
    assert [line["patients"] for line in log.lines if line["question"] == "round"] == [2, 2]
    assert [line["steps"] for line in log.lines if line["question"] == "round"] == [3, 3]
    assert log.lines[1]["weights"] != log.lines[3]["weights"]
    assert log.last == sha256_of_last(site)
    assert "It was asked 5 questions, and refused 0" in " ".join(status_of(site).lines)
    ask(site, order, 0.5)
    client_app.handle(site, RecordDict({}), client_app._round)
    refused = check_log(site).lines[5:]
    assert [line["answer"] for line in refused] == ["refused: request", "refused: request"]
    assert status_of(site).values["refused"] == 2


def sha256_of_last(site: Path) -> str:
    return hashlib.sha256((site / AUDIT).read_bytes().splitlines()[-1]).hexdigest()


def changed(line: str, **other: Any) -> str:
    return json.dumps({**json.loads(line), **other}, separators=(",", ":"))


TAMPERED: dict[str, Callable[[list[str]], list[str]]] = {
    "a line is removed": lambda lines: [*lines[:2], *lines[3:]],
    "two are exchanged": lambda lines: [lines[1], lines[0], *lines[2:]],
    "the first is removed": lambda lines: lines[1:],
    "a field is changed": lambda lines: [*lines[:2], changed(lines[2], patients=1), *lines[3:]],
    "the last is changed": lambda lines: [*lines[:-1], changed(lines[-1], round=9)],
    "a signature is taken from another": lambda lines: [
        *lines[:-1],
        changed(lines[-1], signature=json.loads(lines[0])["signature"]),
    ],
    "no JSON": lambda lines: [*lines[:1], "{", *lines[2:]],
    "a line twice": lambda lines: [*lines, lines[-1]],
}


@pytest.mark.parametrize("how", sorted(TAMPERED))
def test_whatever_is_changed_is_seen(how: str, asked: tuple[Any, Any, RunSpec]) -> None:
    file = asked[0].sites[0] / AUDIT
    file.write_text("".join(f"{line}\n" for line in TAMPERED[how](file.read_text().splitlines())))
    with pytest.raises(StorageError, match=r"audit.jsonl line \d"):
        check_log(file.parent)


def test_another_key_and_lines_cut_off(asked: tuple[Any, Any, RunSpec]) -> None:
    """The end of a log is held by a digest that was written down; another site's key does not verify it."""
    made = asked[0]
    site, other = made.sites[:2]
    last = check_log(site).last
    lines = (site / AUDIT).read_text().splitlines()
    (site / AUDIT).write_text("".join(f"{line}\n" for line in lines[:-1]))
    assert len(check_log(site).lines) == len(lines) - 1
    with pytest.raises(OptionError, match="holds") as caught:
        check_log(site, last)
    assert caught.value.parameter == "holds"
    (site / AUDIT_KEY).write_bytes((other / AUDIT_KEY).read_bytes())
    with pytest.raises(StorageError, match="line 1: does not bear the site's signature"):
        check_log(site)


def test_a_line_that_a_kill_cut_off(asked: tuple[Any, Any, RunSpec]) -> None:
    """It was never followed by an answer; the next line takes its place."""
    made, _, order = asked
    site = made.sites[0]
    with (site / AUDIT).open("a") as stream:
        stream.write('{"n":6,"time":"20')
    ask(site, order, 0.1)
    assert [line["n"] for line in check_log(site).lines] == [1, 2, 3, 4, 5, 6]
    (site / AUDIT).unlink()
    ask(site, order, 0.1)
    (line,) = check_log(site).lines
    assert line["previous"] == START


def test_nothing_is_answered_that_is_not_written_down(
    asked: tuple[Any, Any, RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _, order = asked
    monkeypatch.setattr(audit, "MAX_BYTES", 10)
    before = sha256(made.sites[0] / AUDIT)
    assert ask(made.sites[0], longer(order), 0.1, number=1, last=0) == {"refused": "storage"}
    assert sha256(made.sites[0] / AUDIT) == before
    assert "audit.jsonl: has more than" in (made.sites[0] / "log.txt").read_text()


def test_a_round_is_not_asked_for_again_and_again(asked: tuple[Any, Any, RunSpec]) -> None:
    """For other weights each time; the same question once more has the same answer and counts once."""
    made, _, order = asked
    site = made.sites[0]
    make_site(site, open_site(site).cohort_path, SiteOptions(max_questions=3))
    order = longer(order)
    for move in (0.1, 0.2, 0.2, 0.3):
        assert "refused" not in ask(site, order, move, number=1, last=0)
    assert [line["answer"] for line in check_log(site).lines[-4:]] == ["update", "update", "stored update", "update"]
    assert ask(site, order, 0.4, number=1, last=0) == {"refused": "bound"}
    assert "asks again after 3 answers in round 1" in (site / "log.txt").read_text()
    assert "refused" not in ask(site, order, 0.3, number=1, last=0)  # stored
    assert check_log(site).lines[-1]["answer"] == "stored update"
    assert "refused" not in ask(site, order, 0.5, number=2, last=1)
    make_site(site, open_site(site).cohort_path, SiteOptions(max_questions=4))
    assert "refused" in ask(site, order, 0.4, number=1, last=0)  # behind: round 1 has been committed


def test_scores_are_bounded(asked: tuple[Any, Any, RunSpec]) -> None:
    made, run, order = asked
    site = made.sites[0]
    make_site(site, open_site(site).cohort_path, SiteOptions(max_scores=2))
    request = messages.end_request(order, 2, final_leaves(run.method, run.state().server), "valid")
    assert messages.refusal_reason(client_app.handle(site, request, client_app._finish)) is None
    reply = client_app.handle(site, request, client_app._finish)
    assert dict(reply["say"]) == {"refused": "bound"}


def test_a_run_that_is_only_scored_counts_as_a_run(asked: tuple[Any, Any, RunSpec]) -> None:
    """The number of scores is limited for each run, and a server invents as many runs as it likes."""
    made, run, order = asked
    site = made.sites[0]
    make_site(site, open_site(site).cohort_path, SiteOptions(max_runs=2))
    leaves = final_leaves(run.method, run.state().server)
    answers = [
        messages.refusal_code(
            client_app.handle(
                site, messages.end_request(replace(order, run=name * 32), 0, leaves, "valid"), client_app._finish
            )
        )
        for name in ("ab", "cd")
    ]
    assert answers == [None, "limit"]


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ({"local_steps": 10**9}, "trains 1,000,000,000 steps of a patient; expected at most 10,000"),
        ({"local_steps": None, "local_epochs": 10**9}, "steps of a patient; expected at most 10,000"),
        ({"batch_size": 1}, "has batches of 1; expected at least 8"),
    ],
)
def test_work_is_bounded(plan: dict[str, Any], why: str, asked: tuple[Any, Any, RunSpec]) -> None:
    site = asked[0].sites[0]
    assert ask(site, longer(asked[2], **plan), 0.1, number=1, last=0) == {"refused": "bound"}
    assert why in (site / "log.txt").read_text()
    assert not (site / "runs" / ("ab" * 8)).exists()


@pytest.mark.parametrize(("beats", "width", "is_taken"), [(4096, 1, True), (4097, 1, False), (257, 16, False)])
def test_the_memory_of_a_step_is_bounded(beats: int, width: float, is_taken: bool) -> None:
    """However large the batches of the plan are, a patient has so many beats."""
    plan = TrainPlan(rounds=1, local_epochs=None, local_steps=1, batch_size=10**9)
    if is_taken:
        Limits().check_work(plan, 1, beats, width)
        return
    with pytest.raises(SiteError, match="a product of at most 4,096"):
        Limits().check_work(plan, 1, beats, width)


@pytest.mark.parametrize(("what", "code"), [("time", "bound"), ("server", "gone")])
@pytest.mark.parametrize("budget", [None, 1000.0])
def test_a_training_stops(
    what: str, code: str, budget: float | None, federation: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the site's seconds, and where the server has not answered for long; with a privacy budget, too."""
    private = {} if budget is None else {"dp_clip": 0.1, "dp_noise": 1.0, "dp_at": "patient"}
    made = federation("fedavg", rounds=1, local_steps=5, end=True, **private)
    made.serve()
    site = made.sites[0]
    roster = read_roster(made.server)
    assert roster is not None
    order = longer(run_spec_for(open_run_at(made), roster, 0))
    make_site(site, open_site(site).cohort_path, SiteOptions(max_epsilon=budget))
    note_answer(site)
    clock, steps = [time.monotonic()], []  # from now on, as the file of the last answer has the same clock
    monkeypatch.setattr(watch.time, "monotonic", lambda: clock[0])
    step = type(SiteRun(open_site(site), order).method).step

    def counted(self: Any, *arguments: Any) -> Any:
        steps.append(1)
        clock[0] += 3000.0 if what == "time" else watch.LOOK_S
        if what == "time":
            note_answer(site)  # the server is there all the time
        if what == "server" and len(steps) == 2:
            old = (site / SEEN).stat().st_mtime - 2 * GONE_S
            os.utime(site / SEEN, (old, old))
        return step(self, *arguments)

    monkeypatch.setattr(type(SiteRun(open_site(site), order).method), "step", counted)
    reply = ask(site, order, 0.1, number=1, last=0)
    assert reply == {"refused": code}
    assert len(steps) < 5  # two of them on noise, which tell the form of an answer
    assert not (site / "runs" / ("ab" * 8) / "pending" / "checkpoint" / "progress.json").exists()


def open_run_at(made: Any) -> Any:
    return open_run(made.server / "run")


def test_limits_are_kept_and_refused(parts: list[Path], tmp_path: Path) -> None:
    options = SiteOptions(max_questions=1, max_scores=2, max_steps=3, max_seconds=4, min_batch=5)
    site = make_site(tmp_path / "site", parts[0], options)
    assert open_site(tmp_path / "site").limits == site.limits
    assert make_site(tmp_path / "site", parts[0], SiteOptions(max_steps=9)).limits == replace(site.limits, steps=9)
    for name in ("max_questions", "max_scores", "max_steps", "max_seconds", "min_batch"):
        for value in (0, -1, 10**10, True, 1.5):
            with pytest.raises(OptionError) as caught:
                SiteOptions(**{name: value})
            assert caught.value.parameter == name


def test_a_killed_server_s_questions(federation: Callable[..., Any]) -> None:
    """What it asks again is there as asked again, with the answer that was stored."""
    made = federation("fedavg", rounds=2, local_steps=1, end=True)
    killed_after(made.grid, 2, 3)
    with pytest.raises(KilledError):
        made.serve()
    del made.grid.push_messages
    made.serve()
    answers = [line["answer"] for line in check_log(made.sites[0]).lines]
    assert answers == ["registration", "update", "update", "registration", "stored update", "end"]


def test_the_log_is_read_once(asked: tuple[Any, Any, RunSpec], monkeypatch: pytest.MonkeyPatch) -> None:
    """And again where the counts beside it are gone, damaged, or older than the log, as after a kill."""
    made, _, order = asked
    site, reads = made.sites[0], []
    real = audit.answered
    monkeypatch.setattr(audit, "answered", lambda *given: (reads.append(1), real(*given))[1])
    counts = json.loads((site / audit.COUNTS).read_text())
    assert (counts["n"], counts["last"]) == (5, sha256_of_last(site))
    run = check_log(site).lines[1]["run"]
    assert counts["counts"] == {f"{run} round 1": 1, f"{run} round 2": 1, f"{run} scores": 1}
    make_site(site, open_site(site).cohort_path, SiteOptions(max_questions=3))
    other = longer(order)
    for move in (0.1, 0.2, 0.3):
        assert "refused" not in ask(site, other, move, number=1, last=0)
    assert not reads
    key = f"{other.run} round 1"
    for damage in (
        lambda: (site / audit.COUNTS).unlink(),
        lambda: (site / audit.COUNTS).write_text("{"),
        lambda: (site / audit.COUNTS).write_text(json.dumps({**counts, "counts": {}})),
    ):
        damage()
        reads.clear()
        assert ask(site, other, 0.4, number=1, last=0) == {"refused": "bound"}
        assert len(reads) == 1
        assert json.loads((site / audit.COUNTS).read_text())["counts"][key] == 3


def test_the_chain_is_checked_at_the_start(asked: tuple[Any, Any, RunSpec]) -> None:
    site = asked[0].sites[0]
    assert audit.check_at_start(site) == ""
    lines = (site / AUDIT).read_text().splitlines()
    with (site / AUDIT).open("a") as stream:
        stream.write('{"n":6,"ti')  # a kill cut it off
    assert audit.check_at_start(site) == ""
    (site / AUDIT).write_text("".join(f"{line}\n" for line in lines[1:]))
    assert "audit.jsonl line 1: does not follow" in audit.check_at_start(site)


def test_no_audit_log(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="does not exist"):
        check_log(tmp_path)
    with pytest.raises(SiteError, match="asks again after 0 questions"):
        audit.check_questions(tmp_path, 0, "questions", "")
