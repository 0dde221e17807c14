"""A kill or a full disk at every single write of a server's and its sites' folders: the same bits in the end."""

import errno
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from needs import flower

flower()

from kill_walk import at_every_step, full_at, in_a_child, killed_at, one_of_each, steps_of

from ecgfed.base.files import is_temporary, sha256
from ecgfed.network import client_app
from ecgfed.network.status import status_of

pytestmark = pytest.mark.usefixtures("at_once", "quick_end")
WISH: dict[str, Any] = {"rounds": 2, "local_steps": 1, "eval_every": 1, "end": True}
OLD_STATE = re.compile(r"checkpoint/(client\d+|server)\.\d+\.safetensors$")
#: So many parts of the walk, each a test.
PARTS = 8


@pytest.fixture
def made(federation: Callable[..., Any]) -> Callable[[str], Any]:
    """Make a federation with kept states, scores on the way, and an end."""
    return lambda name: federation("scaffold", name=name, **WISH)


def left(made: Any) -> dict[str, str]:
    """Every file that a federation leaves, but logs, locks and what says how long something took.

    What a kill left under a temporary name goes when that name is written again.
    """
    folders = (made.server, *made.sites)
    files = [file for folder in folders for file in sorted(folder.rglob("*")) if file.is_file()]
    root = made.server.parent
    return {
        str(file.relative_to(root)): sha256(file)
        for file in files
        if file.name
        not in (
            "timing.jsonl",
            "log.txt",
            "site.json",
            "audit.jsonl",
            "audit-counts.json",
            "audit.pub",
            "key",
            "key.pub",
            "messages.txt",
            "counts.json",
        )
        and file.suffix != ".lock"
        and not any(is_temporary(part) for part in (file, *file.parents))
    }


def check_left(made: Any, whole: dict[str, str], step: int = 0) -> None:
    """The same files with the same bytes; a state that no checkpoint names any more may be there until the next."""
    found = left(made)
    more = [name for name in found.keys() - whole.keys() if not OLD_STATE.search(name)]
    other = [name for name in whole if found.get(name) != whole[name]]
    assert (more, other) == ([], []), step


def serve(made: Any) -> None:
    made.serve()


@pytest.fixture
def undisturbed(made: Callable[[str], Any]) -> tuple[dict[str, str], list[int]]:
    """What is left where nothing goes wrong, and the steps to be walked through."""
    whole, steps = made("whole"), made("steps")
    assert in_a_child(lambda: serve(whole))[0] == 0
    return left(whole), one_of_each(steps_of(lambda: serve(steps)))


def check_kill(made: Any, step: int, whole: dict[str, str]) -> None:
    """Kill it there, go on, and compare every file."""
    code, said = in_a_child(lambda: serve(made), killed_at(step))
    assert code == -9, (step, code, said)
    code, said = in_a_child(lambda: serve(made))
    assert code == 0, (step, said)
    check_left(made, whole, step)


def check_full(made: Any, step: int, whole: dict[str, str], after: int) -> None:
    """Let the disk be full from there on: one line at most; then somebody makes room."""
    code, said = in_a_child(lambda: serve(made), full_at(step, after))
    assert code in (0, 2), (step, said)  # what is not needed may fail in silence
    assert code == 0 or "\n" not in said
    code, said = in_a_child(lambda: serve(made))
    assert code == 0, (step, said)
    check_left(made, whole, step)


def test_some_kills(made: Callable[[str], Any], undisturbed: tuple[dict[str, str], list[int]]) -> None:
    whole, steps = undisturbed
    for step in steps[5 :: len(steps) // 4]:
        check_kill(made(f"killed-{step}"), step, whole)


def test_some_full_disks(made: Callable[[str], Any], undisturbed: tuple[dict[str, str], list[int]]) -> None:
    whole, steps = undisturbed
    for step in steps[3 :: len(steps) // 3]:
        check_full(made(f"full-{step}"), step, whole, 1 << 30)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_kill_at_every_write(
    part: int, made: Callable[[str], Any], undisturbed: tuple[dict[str, str], list[int]]
) -> None:
    whole, steps = undisturbed
    for step in steps[part::PARTS]:
        check_kill(made(f"killed-{step}"), step, whole)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_full_disk_at_every_write(
    part: int, made: Callable[[str], Any], undisturbed: tuple[dict[str, str], list[int]]
) -> None:
    """For one call, or until somebody makes room."""
    whole, steps = undisturbed
    for turn, step in enumerate(steps[part::PARTS]):
        check_full(made(f"full-{step}"), step, whole, 1 if turn % 2 else 1 << 30)


def test_status_at_every_write(made: Callable[[str], Any]) -> None:
    """Whoever looks while something is written sees what was before or after it, and changes nothing."""
    looked, whole = made("looked"), made("whole")
    seen: list[list[Any]] = []

    def look(number: int, name: str) -> None:
        status = status_of(looked.server)
        now = [status.values["round"], "result" in status.values]
        for site in looked.sites:
            now += [status_of(site).values["runs"], "result" in status_of(site).values["results"]]
        if not seen or seen[-1] != now:
            seen.append(json.loads(json.dumps(now)))

    def watched() -> Any:
        serve(looked)
        return seen

    code, found = in_a_child(watched, lambda: at_every_step(look))
    assert code == 0, found
    assert in_a_child(lambda: serve(whole))[0] == 0
    check_left(looked, left(whole))
    rounds = [one[0] for one in found]
    assert rounds == sorted(rounds)
    assert {0, 1, 2} == set(rounds)
    assert all(found[-1][place] for place in (3, 5, 7))  # each site's result


@pytest.mark.parametrize("where", ["lock", "log"])
def test_a_full_disk_before_anything_is_done(
    where: str, made: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where neither a lock nor the log can be written a site answers with a word."""
    from flwr.app import RecordDict

    from ecgfed.network import messages

    site = made("a").sites[0]
    real_open, real_path_open = os.open, Path.open

    def full(path: Any, flags: int, *more: Any, **how: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return real_open(path, flags, *more, **how)

    def full_path(path: Path, mode: str = "r", *more: Any, **how: Any) -> Any:
        if set(mode) & set("wa"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return real_path_open(path, mode, *more, **how)

    if where == "lock":
        monkeypatch.setattr(os, "open", full)
    monkeypatch.setattr(Path, "open", full_path)
    reply = client_app.handle(site, RecordDict({}), client_app._register)
    assert messages.refusal_reason(reply) in (
        "it could not read or write its files",
        "it cannot use the server's request",
    )
    assert not (site / "log.txt").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A file system of its own, of the size that is asked for, and again."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = False

    def size(text: str) -> Path:
        nonlocal mounted
        how = ["-o", f"remount,size={text}"] if mounted else ["-t", "tmpfs", "-o", f"size={text}", "none"]
        done = subprocess.run(["mount", *how, str(place)], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("nothing may be mounted here")
        mounted = True
        return place

    yield size
    if mounted:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("kib", [40, 400, 1200, 2500, 4000, 6000])
def test_a_disk_that_is_really_full(
    kib: int, made: Callable[[str], Any], small_disk: Callable[[str], Path], tmp_path: Path
) -> None:
    """Server and sites on a file system of a few megabytes; then it grows."""
    whole = made("whole")
    assert in_a_child(lambda: serve(whole))[0] == 0
    disk = small_disk(f"{kib}k")
    one = made("disk/full")
    code, said = in_a_child(lambda: serve(one))
    assert code == 2, said
    assert "\n" not in said
    assert small_disk("64m") == disk
    code, said = in_a_child(lambda: serve(one))
    assert code == 0, said
    check_left(one, left(whole))
