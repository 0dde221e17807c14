"""The labelling page's parts, from plain numbers: pictures of groups, strips of beats, its data and its policy."""

import base64
import dataclasses
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ecgfed.domain.labels.choose import shipped_rule
from ecgfed.domain.labels.groups import Groups, group_beats
from ecgfed.domain.labels.likeness import Points, points_of
from ecgfed.domain.labels.page import LABELS, LabelPage, page_data
from ecgfed.domain.labels.pictures import AVERAGED, ODD, group_pictures
from ecgfed.domain.record.recording import Recording
from ecgfed.domain.signal.chunked_quality import lead_quality
from ecgfed.reports.label_page import SCRIPTS
from ecgfed.reports.signals import DrawnLeads
from ecgfed.tasks.label_parts import label_page
from ecgfed.tasks.label_strips import STRIP_S, label_strips
from ecgfed.web.page import DATA_ID, asset

BEATS = 150


def unpacked(samples: dict[str, Any]) -> NDArray[np.float64]:
    return np.frombuffer(base64.b64decode(samples["int16"]), "<i2") / samples["per_unit"]


def windows(seed: int) -> NDArray[np.float32]:
    """Beats of two shapes, a hundred narrow and fifty wide, with noise."""
    rng = np.random.default_rng(seed)
    at = np.arange(256)
    width = np.where(np.arange(BEATS) % 3 == 2, 25.0, 6.0)[:, None]
    return (np.exp(-(((at - 100) / width) ** 2)) + rng.normal(0, 0.02, (BEATS, 256))).astype(np.float32)


LEADS = [windows(0), -windows(1)]
INTERVAL_S = np.r_[np.nan, np.random.default_rng(2).uniform(0.6, 1.0, BEATS - 1)]


def in_blocks(lead: NDArray[np.float32], many: int) -> Iterable[NDArray[np.float32]]:
    return (lead[start : start + many] for start in range(0, len(lead), many))


def grouped(leaves: int = 8) -> Groups:
    prior = np.full((BEATS, 5), 0.2)
    points: Points = points_of([lambda lead=lead: [lead] for lead in LEADS], INTERVAL_S, np.zeros((BEATS, 16)), prior)  # type: ignore[misc]
    return group_beats(points, leaves)


@pytest.mark.parametrize("many", [7, BEATS])
def test_a_group_is_shown_as_its_beats_are(many: int) -> None:
    groups = grouped()
    blocks = [lambda lead=lead: in_blocks(lead, many) for lead in LEADS]
    found = group_pictures(groups, blocks, INTERVAL_S)  # type: ignore[arg-type]
    for group in range(len(groups)):
        members = np.flatnonzero([group in groups.path(leaf) for leaf in groups.leaf.tolist()])
        if len(members) == 1:
            assert group not in found
            continue
        picture = found[group]
        some = members[np.unique(np.linspace(0, len(members) - 1, min(len(members), AVERAGED)).astype(int))]
        assert picture["averaged"] == len(some)
        for lead, drawn in zip(LEADS, picture["average"]["leads"], strict=True):
            np.testing.assert_allclose(unpacked(drawn["samples"]), lead[some, ::2].mean(0), atol=6e-4)
            if len(some) >= 5:
                np.testing.assert_allclose(unpacked(drawn["low"]), np.percentile(lead[some, ::2], 10, 0), atol=6e-4)
        own = int(groups.beat[group])
        for lead, samples in zip(LEADS, picture["beat"], strict=True):
            np.testing.assert_allclose(unpacked(samples), lead[own, ::2], atol=6e-4)
        assert len(picture["odd"]) == min(ODD, len(members) - 1)
        rows = np.hstack([lead[some, ::2] - lead[some, ::2].mean(1, keepdims=True) for lead in LEADS])
        one = np.hstack([lead[own, ::2] - lead[own, ::2].mean() for lead in LEADS])
        alike = [np.dot(row, one) / np.linalg.norm(row) / np.linalg.norm(one) for row in rows]
        assert picture["correlation"] == pytest.approx(np.median(alike), abs=1e-3)
        known = INTERVAL_S[members][np.isfinite(INTERVAL_S[members])]
        assert picture["interval_ms"] == [round(1000 * float(np.percentile(known, part))) for part in (10, 50, 90)]


def test_the_least_alike_of_two_shapes_are_of_the_other_one() -> None:
    groups = grouped()
    picture = group_pictures(groups, [lambda: [LEADS[0]], lambda: [LEADS[1]]], INTERVAL_S)[0]

    def wide(samples: NDArray[np.float64]) -> bool:
        return bool(np.abs(samples[60]) > 0.3)  # 20 samples of 180 Hz after the R peak's own

    own = wide(unpacked(picture["beat"][0]))
    assert [wide(unpacked(one[0])) for one in picture["odd"]] == [not own] * ODD
    assert picture["correlation"] < 1


def made_recording(fs_hz: float = 360.0, seconds: float = 20.0) -> Recording:
    rng = np.random.default_rng(3)
    signals = rng.normal(0, 0.1, (2, round(seconds * fs_hz)))
    return Recording("made", Path("made"), "MLII", ("MLII", "V1"), fs_hz, signals, ())


@pytest.mark.parametrize("fs_hz", [128.0, 360.0, 1000.0])
def test_a_strip_shows_its_beat_even_at_an_end(fs_hz: float) -> None:
    recording = made_recording(fs_hz)
    quality = {name: lead_quality(recording.signals_mv[i], fs_hz) for i, name in enumerate(recording.leads)}
    leads = DrawnLeads.of(recording, quality)
    r_samples = np.round(np.arange(0.2, 20, 0.8) * fs_hz).astype(np.int64)
    found = label_strips(leads, r_samples, range(len(r_samples)))
    for beat, strip in found.items():
        at = strip["start_s"] + strip["beats"][strip["asked"]] / strip["fs"]
        assert at == pytest.approx(r_samples[beat] / fs_hz, abs=1 / fs_hz)
        assert strip["beats"] == sorted(strip["beats"])
        assert 0 <= strip["start_s"] <= 20 - STRIP_S + 1e-9
        assert [len(unpacked(one["samples"])) for one in strip["leads"]] == [round(STRIP_S * strip["fs"])] * 2
        middle = at - strip["start_s"]
        assert middle == pytest.approx(3, abs=0.01) or strip["start_s"] in (0, pytest.approx(20 - STRIP_S))


def made_page() -> LabelPage:
    groups = grouped()
    sample = np.arange(1, BEATS + 1) * 16
    return LabelPage(
        "made",
        "ab" * 16,
        "ecgfed/model",
        256.0,
        60.0,
        5,
        ("MLII", "V1"),
        groups,
        sample,
        shipped_rule(),
        {},
        {},
        INTERVAL_S,
    )


def test_the_data_say_every_group_and_only_the_beats_that_stand_for_one() -> None:
    page = made_page()
    data = json.loads(json.dumps(page_data(page)))
    assert [one["beat"] for one in data["groups"]] == page.groups.beat.tolist()
    assert [one["parent"] for one in data["groups"]] == [None, *page.groups.parent[1:].tolist()]
    assert sorted(map(int, data["points"])) == np.unique(page.groups.beat).tolist()
    for beat, point in data["points"].items():
        assert point["at"] == page.groups.points.at[int(beat)].tolist()  # every digit: what is nearest depends on it
        assert point["sample"] == 16 * (int(beat) + 1)
        assert f"{point['time_s']:.3f}" == f"{point['sample'] / 256:.3f}"
    other = dataclasses.replace(page, groups=grouped(7))
    assert page_data(other)["digest"] != data["digest"]
    assert page_data(dataclasses.replace(page, count=9))["digest"] == data["digest"]


def test_keys_are_told_apart() -> None:
    keys = [key or symbol for symbol, key, _ in LABELS]
    assert len(set(keys)) == len(keys)
    assert not {key.casefold() for key in keys} & set("smuy")  # what the page does besides


def test_a_page_talks_to_nobody_but_the_server_it_came_from() -> None:
    page = made_page()
    alone, served = label_page(page), label_page(page, file="made-labels.csv")
    policies = [re.search(r'Content-Security-Policy" content="([^"]+)"', html) for html in (alone, served)]
    assert all(policies)
    texts = [found[1] for found in policies if found]
    assert "default-src 'none'" in texts[0]
    assert "connect-src" not in texts[0]
    assert texts[1] == f"{texts[0]}; connect-src 'self'"
    assert 'id="done"' in served
    assert 'id="done"' not in alone
    held = re.search(rf'id="{DATA_ID}">(.*?)</script>', served)
    assert held
    assert json.loads(held[1])["file"] == "made-labels.csv"
    for name in SCRIPTS:
        text = asset(name).replace("http://www.w3.org/2000/svg", "")
        words = ("http:", "https:", "XMLHttpRequest", "innerHTML", "insertAdjacent", "document.write", "eval(")
        for word in (*words, "Function("):
            assert word not in text, (name, word)
        assert ("fetch(" in text) == (name == "keep.js")
