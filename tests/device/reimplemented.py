"""A second runtime, written from ``manifest.json``, ``golden.json`` and docs/bundle-format.md alone.

It imports nothing of ecgfed, and is as plain as the page it was written from: one loop a rule, no thought of speed. R
peaks are given to it: the detector is code of the package.
"""

import json
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

Floats = NDArray[np.float64]
VOID = float("nan")


class Runtime:
    """A bundle's folder, opened."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
        self.about: dict[str, Any] = self.manifest["preprocessing"]

    # the lead

    def bridged(self, x: Floats) -> Floats:
        """Straight lines across what is missing."""
        known = np.flatnonzero(np.isfinite(x))
        return np.zeros(len(x)) if not len(known) else np.interp(np.arange(len(x)), known, x[known])

    def taps(self, fs: float) -> Floats:
        said = self.about["filter"]
        if fs == said["taps"]["fs_hz"]:
            half = said["taps"]["first_half_and_middle"]
            return np.array(half + half[-2::-1])
        low, high = said["band_hz"]
        count = math.floor(math.floor(said["length_s"] * fs) / 2) * 2 + 1
        c = np.arange(count) - (count - 1) / 2
        left, right = 2 * low / fs, 2 * high / fs
        h = (right * np.sinc(right * c) - left * np.sinc(left * c)) * (
            0.54 + 0.46 * np.cos(2 * np.pi * c / (count - 1))
        )
        return np.asarray(h / np.sum(h * np.cos(np.pi * c * (left + right) / 2)))

    def filtered(self, x: Floats, fs: float) -> Floats:
        h = self.taps(fs)
        half = (len(h) - 1) // 2
        return np.convolve(np.concatenate([np.full(half, x[0]), x, np.full(half, x[-1])]), h, "valid")

    def resampled(self, x: Floats, fs: float) -> Floats:
        said = self.about["resampling"]
        if fs == said["to_fs_hz"]:
            return x
        ratio = Fraction(said["to_fs_hz"] / fs).limit_denominator(said["largest_denominator"])
        up, down = ratio.numerator, ratio.denominator
        m = max(up, down)
        half = said["reach"] * m
        c = np.arange(2 * half + 1) - half
        g = np.sinc(c / m) * np.i0(said["kaiser_beta"] * np.sqrt(1 - (c / half) ** 2))
        g = g / g.sum() * up
        out = np.zeros(math.ceil(len(x) * up / down))
        for j in range(len(out)):
            first = max(0, math.ceil((j * down - half) / up))
            last = min(len(x) - 1, (j * down + half) // up)
            i = np.arange(first, last + 1)
            out[j] = np.sum(x[i] * g[j * down + half - i * up])
        return out

    # lost stretches

    def lost(self, recorded: Floats, fs: float) -> list[list[int]]:
        said = self.about["gaps"]["no_signal"]
        gap = ~np.isfinite(recorded)
        x = np.clip(self.bridged(recorded), -said["limit_mv"], said["limit_mv"])
        rail = self._rail(x, gap, fs)
        width = math.ceil(said["flat_s"] * fs)
        flat = np.zeros(len(x), bool)
        for start in range(len(x) - width + 1):
            part = slice(start, start + width)
            if not gap[part].any() and x[part].max() - x[part].min() <= said["flat_mv"]:
                flat[part] = True
        flat &= ~rail
        gone = gap | rail | flat
        spike = np.zeros(len(x), bool) if gone.all() else self._spikes(x, gone, fs)
        return runs(gap | rail | long_runs(flat, said["flat_s"] * fs) | spike)

    def _rail(self, x: Floats, gap: NDArray[np.bool_], fs: float) -> NDArray[np.bool_]:
        said, held = self.about["gaps"]["no_signal"], x[~gap]
        rail = np.zeros(len(x), bool)
        if not len(held):
            return rail
        low, high = held.min(), held.max()
        rest = held[(held > low) & (held < high)]
        if high - low < said["rail_from_rest_mv"] or not len(rest):
            return rail
        for value in (low, high):
            if abs(value - np.median(rest)) >= said["rail_from_rest_mv"]:
                rail |= long_runs((x == value) & ~gap, max(said["rail_samples"], said["rail_s"] * fs))
        return rail

    def _spikes(self, x: Floats, gone: NDArray[np.bool_], fs: float) -> NDArray[np.bool_]:
        said = self.about["gaps"]["no_signal"]
        y = self.bridged(np.where(gone, np.nan, x))
        size = max(1, round(said["block_s"] * fs))
        blocks = math.ceil(len(y) / size)
        filled = np.concatenate([y, np.full(blocks * size - len(y), y[-1])]).reshape(blocks, size)
        medians = np.median(filled, axis=1)
        many = max(1, round(said["baseline_window_s"] / said["block_s"]))
        mirrored = np.pad(medians, (many // 2, many - 1 - many // 2), mode="symmetric")
        baseline = [np.sort(mirrored[i : i + many])[many // 2] for i in range(blocks)]
        block_of = np.arange(len(y)) // size
        deviation = np.abs(y - np.array(baseline)[block_of])
        stretch_of = block_of // max(1, round(said["height_s"] / said["block_s"]))
        tallest: list[float] = []
        for number in range(stretch_of[-1] + 1):
            here = deviation[(stretch_of == number) & ~gone]
            tallest.append(float(here.max()) if len(here) else VOID)
        reach = said["height_stretches"] // 2
        height = []
        for number in range(len(tallest)):
            around = [v for v in tallest[max(0, number - reach) : number + reach + 1] if v == v]
            height.append(float(np.median(around)) if around else VOID)
        limit = said["spike_times"] * np.array(height)[stretch_of]
        spike = ~gone & (deviation > said["spike_mv"]) & (deviation > limit)
        at = np.flatnonzero(spike)
        for one, other in pairwise(at.tolist()):
            if other - one <= round(said["spike_rings_s"] * fs):
                spike[one:other] = True
        margin, wide = round(said["spike_margin_s"] * fs), spike.copy()
        for start, stop in runs(spike):
            wide[max(0, start - margin) : stop + margin] = True
        return wide

    # windows and RR features

    def windows(self, at_360: Floats, fs: float, peaks: Sequence[int]) -> tuple[NDArray[np.float32], list[bool]]:
        said = self.about["window"]
        made, padded = [], []
        for r in peaks:
            at = min(round(r * (said["fs_hz"] / fs)), len(at_360) - 1)
            window = np.full(said["samples"], said["padding_mv"], np.float32)
            for k in range(said["samples"]):
                if 0 <= at - said["r_index"] + k < len(at_360):
                    window[k] = at_360[at - said["r_index"] + k]
            made.append(window)
            first = at - said["r_index"]
            padded.append(first < 0 or first + said["samples"] > len(at_360))
        return np.array(made).reshape(-1, said["samples"]), padded

    def beside(self, at_360: Floats, fs: float, peaks: Sequence[int]) -> NDArray[np.float32]:
        """What version 3 takes from beside the windows."""
        said, p = self.about["window"], self.about["rr"]["parameters"]
        step, made = p["strip_step_samples"], []
        for r in peaks:
            start = min(round(r * (said["fs_hz"] / fs)), len(at_360) - 1) - said["r_index"]
            firsts = [start - step * k for k in range(p["strip_before"], 0, -1)]
            firsts += [start + said["samples"] + step * k for k in range(p["strip_after"])]
            places = [[first + k for k in range(step)] for first in firsts]
            samples = [[at_360[i] if 0 <= i < len(at_360) else 0 for i in some] for some in places]
            made.append(np.array(samples, np.float32).mean(axis=1))
        return np.array(made, np.float32).reshape(len(peaks), -1)

    def rr(
        self,
        fs: float,
        peaks: Sequence[int],
        window_mv: NDArray[np.float32],
        padded: Sequence[bool],
        lost: Any,
        at_360: Floats,
    ) -> NDArray[np.float32]:
        if self.about["rr"]["version"] == 1:
            return self.rr_1([r / fs for r in peaks])
        said, window = self.about["rr"]["void"], self.about["window"]
        before = [VOID]
        for start, stop in pairwise(peaks):
            length = (stop - start) / fs
            hidden = max([min(stop, b) - max(start, a) for a, b in lost], default=0)
            void = length > said["longest_s"] or hidden >= said["hides_s"] * fs
            before.append(VOID if void else length)
        usable = []
        for r, pad in zip(peaks, padded, strict=True):
            first = r - round(window["r_index"] * fs / window["fs_hz"])
            stop = r + round((window["samples"] - window["r_index"]) * fs / window["fs_hz"])
            usable.append(not pad and not any(a < stop and b > first for a, b in lost))
        beside = self.beside(at_360, fs, peaks) if self.about["rr"]["version"] == 3 else None
        return self.rr_in_context(np.array(before[: len(peaks)]), window_mv, np.array(usable, bool), beside)

    def rr_1(self, t: Sequence[float]) -> NDArray[np.float32]:
        if len(t) < 2:
            return np.array([[0, 0, 0, 1]] * len(t), np.float32).reshape(-1, 4)
        interval = [b - a for a, b in pairwise(t)]
        last = self.about["rr"]["parameters"]["history_intervals"]
        rows = []
        for i in range(len(t)):
            before = interval[max(i - 1, 0)]
            after = interval[min(i, len(interval) - 1)]
            median = float(np.median(interval[max(0, i - last) : i])) if i else after
            rows.append([before, after, median, before / median if median > 0 else 1.0])
        return np.array(rows, np.float32)

    def rr_in_context(
        self,
        before: Floats,
        window_mv: NDArray[np.float32],
        usable: NDArray[np.bool_],
        beside_mv: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32]:
        from reimplemented_3 import Strip

        about, names = self.about["rr"], self.manifest["rr_features"]["names"]
        given = (about, names, before, window_mv, usable)
        with np.errstate(all="ignore"):
            return (Context(*given) if beside_mv is None else Strip(*given, beside_mv=beside_mv)).features()

    # the answer

    def run(self, chain: Sequence[str], inputs: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
        for name in chain:
            session = onnxruntime.InferenceSession(str(self.folder / name), providers=["CPUExecutionProvider"])
            given = {one["name"]: inputs[one["name"]] for one in self.manifest["files"][name]["graph"]["inputs"]}
            (output,) = self.manifest["files"][name]["graph"]["outputs"]
            inputs = {output["name"]: session.run([output["name"]], given)[0]}
        (value,) = inputs.values()
        return np.asarray(value)

    def answer(self, patient: str | None, inputs: dict[str, NDArray[Any]]) -> dict[str, Any]:
        entry = self.manifest["global"] if patient is None else self.manifest["patients"][patient]
        logits = self.run(entry["chain"], inputs)
        said = entry["certainty"]
        scaled = (logits / np.float32(said["temperature"])).astype(np.float64)
        power = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        probability = power / power.sum(axis=1, keepdims=True)
        label, best = probability.argmax(axis=1), probability.max(axis=1)
        unsure = (best < said["threshold"]) | (said["threshold"] >= 1)
        return {"logits": logits, "probability": best, "label": label, "unsure": unsure}


class Context:
    """RR features, version 2, of all beats of a recording: the page's steps by their numbers."""

    def __init__(
        self,
        about: Any,
        names: Sequence[str],
        before: Floats,
        window_mv: NDArray[np.float32],
        usable: NDArray[np.bool_],
    ) -> None:
        self.about, self.p, self.names, self.count = about, about["parameters"], names, len(before)
        self.before, self.usable = before, usable
        x = window_mv.astype(np.float64)
        self.x = x - np.median(x, axis=1, keepdims=True)

    def around(self, i: int) -> range:
        size, block = self.p["block_beats"], i // self.p["block_beats"]
        first, last = block - self.p["blocks_back"], block + self.p["blocks_ahead"]
        return range(max(0, first * size), min(self.count, (last + 1) * size))

    def quantile(self, values: Floats, share: float) -> float:
        known = np.sort(values[~np.isnan(values)])
        if len(known) < self.p["fewest"]:
            return VOID
        at = share * (len(known) - 1)
        low = math.floor(at)
        high = min(low + 1, len(known) - 1)
        return float(known[low] * (1 - (at - low)) + known[high] * (at - low))

    def each(self, rule: Callable[[range], Any]) -> Any:
        """Apply a rule to the beats around each beat; once a block, since they share them."""
        size = self.p["block_beats"]
        made = {block: rule(self.around(block * size)) for block in range(math.ceil(self.count / size))}
        return np.array([made[i // size] for i in range(self.count)])

    def q_of(self, values: Floats, share: float) -> Floats:
        return np.asarray(self.each(lambda near: self.quantile(values[near.start : near.stop], share)))

    def m_of(self, values: Floats, chosen: NDArray[np.bool_]) -> Floats:
        def mean(near: range) -> Any:
            some = values[[i for i in near if chosen[i]]]
            return some.mean(axis=0) if len(some) >= self.p["fewest"] else np.full(values.shape[1:], VOID)

        return np.asarray(self.each(mean))

    def alike(self, one: Floats, other: Floats) -> Floats:
        a, b = one - one.mean(axis=1, keepdims=True), other - other.mean(axis=1, keepdims=True)
        power = (a * a).sum(axis=1) * (b * b).sum(axis=1)
        return np.asarray((a * b).sum(axis=1) / np.sqrt(np.maximum(power, self.p["least_power"])))

    def width(self, d: Floats) -> float:
        slope = np.abs(np.diff(d))
        many = self.p["slope_samples"]
        sums = np.array([slope[k : k + many].sum() for k in range(len(slope) + 1 - many)])
        steep = np.flatnonzero(sums > self.p["steep_share"] * sums.max())
        return float(max(steep[-1] - steep[0], 1)) if len(steep) else len(sums) - 1.0

    def features(self) -> NDArray[np.float32]:
        p, before = self.p, self.before
        q, wave, d = (self.x[:, slice(*p[name])] for name in ("qrs_samples", "p_region_samples", "duration_samples"))
        root = np.sqrt((q * q).mean(axis=1))
        good, size = self.usable & (root > p["least_qrs_mv"]), np.maximum(root, p["least_qrs_mv"])
        width = np.array([self.width(one) for one in d])
        q, wave = q / size[:, None], wave / size[:, None]
        wave = wave - wave.mean(axis=1, keepdims=True)
        every = self.q_of(before, p["typical_quantile"])
        draft = self.m_of(q, good & (before >= every * p["at_least_share"]))
        own = good & (self.alike(q, draft) > p["own_shape_correlation"])
        between = own & np.concatenate([[False], own[:-1]])
        of_own = np.where(between, before, VOID)
        typical = self.q_of(of_own, p["typical_quantile"])
        typical = np.where(np.isnan(typical), every, typical)
        sinus = self.q_of(of_own, p["sinus_quantile"])
        sinus = np.where(np.isnan(sinus), typical, sinus)
        chosen = between & (before >= sinus * p["at_least_share"])
        q0, p0 = self.m_of(q, chosen), self.m_of(wave, chosen)
        power = self.m_of((wave * wave).sum(axis=1), chosen)
        self.size = size
        change = self.change()
        found: dict[str, Floats] = {}
        after = np.append(before[1:], VOID)
        found["previous_over_typical"] = np.log(before / typical) / p["log_unit"]
        found["next_over_sinus"] = np.log(after / sinus) / p["log_unit"]
        found["next_over_previous"] = np.log(after / before) / p["log_unit"]
        found["irregular"] = np.log(np.maximum(change, p["least_change"]) / p["irregular_at"])
        found["qrs_unlike"] = 2 * (1 - self.alike(q, q0))
        found["qrs_apart"] = np.sqrt(((q - q0) ** 2).mean(axis=1))
        for name, value in (("size", size), ("width", width)):
            found[name] = (np.log(value) - self.m_of(np.log(value), chosen)) / (2 * p["log_unit"])
        found["p_lost"] = np.clip((p0 * p0).sum(axis=1) / power, 0, 1) * (1 - self.alike(wave, p0))
        regular = 1 / (1 + np.exp((change - p["irregular_at"]) / p["irregular_width"]))
        like = np.clip((1 - found["qrs_unlike"] / 2 - p["like_from"]) / p["like_width"], 0, 1)
        early = np.minimum(np.log(before / sinus) / p["log_unit"] + p["premature_from"] / p["log_unit"], 0)
        found["premature"] = early * regular * like
        found["premature_without_p"] = found["premature"] * found["p_lost"]
        found["premature_unlike"] = early * (1 - like)
        masks = {"previous": before, "next": after, "reference": typical, "shape": q0[:, 0]}
        found |= {f"void_{name}": np.isnan(value).astype(float) for name, value in masks.items()}
        made = np.stack([found[name] for name in self.names[: len(found)]], axis=1)
        return np.clip(np.where(np.isfinite(made), made, 0), *self.about["clip"]).astype(np.float32)

    def change(self) -> Floats:
        logs, steps = np.log(self.before), []
        for i in range(self.count):
            known = [abs(logs[i] - logs[i - by]) for by in (1, 2) if i >= by]
            known = [one for one in known if one == one]
            steps.append(min(known) if known else VOID)
        window = self.p["changes"]
        found = [
            self.quantile(np.array(steps[max(0, i - window + 1) : i + 1]), self.p["change_quantile"])
            for i in range(self.count)
        ]
        return np.array([0.0 if one != one else one for one in found])


def runs(mask: NDArray[np.bool_]) -> list[list[int]]:
    """First sample, and the one behind the last, of each run of true values."""
    found: list[list[int]] = []
    for i in np.flatnonzero(mask).tolist():
        if found and found[-1][1] == i:
            found[-1][1] = i + 1
        else:
            found.append([i, i + 1])
    return found


def long_runs(mask: NDArray[np.bool_], samples: float) -> NDArray[np.bool_]:
    """Keep the runs of so many samples and more."""
    kept = np.zeros(len(mask), bool)
    for start, stop in runs(mask):
        kept[start:stop] = stop - start >= samples
    return kept
