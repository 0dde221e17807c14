"""``ecgfed methods``: the table, one method in full, JSON, and names as people type them."""

import json

import pytest
from support import Command, assert_refused

from ecgfed.core.methods.registry import methods


def test_the_table_has_every_method_on_one_line_at_80_columns(ecgfed: Command) -> None:
    said = ecgfed("methods")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert len(lines) > 20
    assert max(map(len, lines)) <= 80
    starts = [line.split()[0] for line in lines if line.split()]
    assert [name for name in starts if name in methods()] == list(methods())
    (fedfomo,) = [line for line in lines if line.split()[:1] == ["fedfomo"]]
    assert "some others'" in fedfomo
    assert fedfomo.split()[-2:] == ["837,", "167"]  # five models of 167 kB down, one up


def test_on_a_narrow_terminal_the_table_is_a_list_and_nothing_is_cut(
    ecgfed: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    told = ecgfed("methods")
    assert (told.code, told.err) == (0, "")
    said = told.out
    assert "…" not in said
    assert max(map(len, said.splitlines())) <= 40
    assert [line.split()[1] for line in said.splitlines() if line.startswith("method ")] == list(methods())
    assert "837, 167" in said


@pytest.mark.parametrize("asked", ["grp-fed", "GRPFED", "Grp_Fed"])
def test_one_method_in_full(ecgfed: Command, asked: str) -> None:
    said = ecgfed("methods", asked)
    assert (said.code, said.err) == (0, "")
    text = " ".join(said.out.split())
    for told in (
        "grp-fed: GRP-FED (Chou et al., 2021)",
        r"q' = q + \eta_q \frac{\sigma' - \sigma}{(\sigma' + \sigma)/2} \tag{2}",  # its equation
        "personal extractor, discriminator (local; with personalise=true, personal_start<1)",
        "its loss (loss; goes up as it is)",
        "validation beats of all patients together (meta; with risk=meta-bsm)",
        "late: 167,440 bytes down, 167,448 up",
        "lr=0.02 (0 to 100) learning rate eta.",
        "regulariser=non-saturating (printed, non-saturating)",
        "personalise=true (true, false) false trains the global model only.",
    ):
        assert told in text


def test_a_paragraph_is_as_wide_as_the_terminal(ecgfed: Command) -> None:
    words = [line for line in ecgfed("methods", "fedprox").out.splitlines() if "\\" not in line]
    assert max(map(len, words)) <= 80


def test_with_a_setting_it_shows_what_travels_then(ecgfed: Command) -> None:
    plain = json.loads(ecgfed("methods", "mtl", "--json").out)
    learned = json.loads(ecgfed("methods", "mtl", "--set", "Relation=learned", "--json").out)
    assert [entry["name"] for entry in learned["down"]] == ["mean", "others", "own"]
    assert {tuple(entry["when"]) for entry in plain["down"]} == {(), ("relation=learned",), ("risk=meta-bsm",)}
    assert (plain["up_bytes"], learned["up_bytes"]) == (167_440, 2 * 167_440)
    assert learned["first_down_bytes"] == 167_440
    assert learned["down_bytes"] == 2 * 167_440 + 8


def test_json_has_everything(ecgfed: Command) -> None:
    about = json.loads(ecgfed("methods", "fedabc", "--json").out)
    assert about["settings"]["m_p"] == {
        "default": 0.85,
        "type": "float",
        "low": 0,
        "high": 1,
        "choices": None,
        "meaning": "positives less probable than this count (m_p).",
    }
    assert about["settings"]["server_schedule"]["choices"] == ["constant", "cosine"]
    assert about["keeps"] == [{"name": "model", "what": "personal model", "known": "as it is", "when": []}]
    assert about["text"].startswith("FedABC (Wang et al.")
    assert [entry["name"] for entry in about["down"]] == ["model"]  # it takes no meta-bsm
    assert about["beside"] == {"train_examples": "how many training beats it has", "clients": "its number"}


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (("scafold",), ("'scafold'", "did you mean scaffold?")),
        (("mtl", "--set", "relation=lerned"), ("--set relation", "'lerned'", "did you mean learned?")),
        (("mtl", "--set", "lambda=1"), ("--set lambda", "no setting", "did you mean lam?")),
        (("mtl", "--set", "lam"), ("--set", "NAME=VALUE")),
        (("--set", "lam=1"), ("--set", "without a method")),
    ],
)
def test_what_is_refused(ecgfed: Command, arguments: tuple[str, ...], fragments: tuple[str, ...]) -> None:
    assert_refused(ecgfed("methods", *arguments), *fragments)
