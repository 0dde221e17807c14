"""Episodes of a rhythm: where it is, how certain that is, and whether it must be reviewed."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from ecgfed.domain.events.beats import Floats, Mask

#: Source of an episode that a person accepted or renamed.
REVIEWER = "reviewer"
#: How the name of a rhythm begins that was not recognized for certain, and what fibrillation and flutter are called.
POSSIBLE, FIBRILLATION = "possible ", ("AF", "AF or flutter", "atrial flutter")


@dataclass(frozen=True)
class RhythmEpisodes:
    """A rhythm and its episodes.

    Attributes:
        rhythm: its name: ``paced``, ``AF``, ...
        episodes: (start, stop) of each episode in seconds from the start of the recording.
        source: ``signal`` where it was detected in the samples, ``rates`` where the heart rate makes it one, ``labels``
            where a file of labels marks it, ``REVIEWER`` where a person accepted or renamed it.
        certainty: the probability that each episode is of this rhythm; empty where it was not assessed.
    """

    rhythm: str
    episodes: tuple[tuple[float, float], ...]
    source: str = "signal"
    certainty: tuple[float, ...] = ()

    @property
    def seconds(self) -> float:
        """Total length of the episodes."""
        return sum(stop - start for start, stop in self.episodes)

    @property
    def longest(self) -> tuple[float, float] | None:
        """The longest episode, the first of several; None without any."""
        return max(self.episodes, key=lambda episode: episode[1] - episode[0], default=None)

    def inside(self, time_s: Floats) -> Mask:
        """Return which times (times,) in seconds lie within an episode."""
        edges = np.array(self.episodes, np.float64).reshape(-1, 2)
        number = np.searchsorted(edges[:, 0], time_s, side="right") - 1
        return np.asarray((number >= 0) & (time_s < np.append(edges[:, 1], -np.inf)[number]))

    def without(self, spans: Iterable[tuple[float, float]], least_s: float) -> "RhythmEpisodes":
        """Return the episodes without spans (start, stop) of ``least_s`` seconds and more, nor shorter parts."""
        cuts = sorted((start, stop) for start, stop in spans if stop - start >= least_s)
        parts: list[tuple[tuple[float, float], tuple[float, ...]]] = []
        for number, (start, stop) in enumerate(self.episodes):
            certainty, at = self.certainty[number : number + 1], start
            for cut in [*((a, b) for a, b in cuts if a < stop and b > start), (stop, stop)]:
                if cut[0] - at >= least_s or (at, cut[0]) == (start, stop):
                    parts.append(((at, cut[0]), certainty))
                at = max(at, cut[1])
        episodes = tuple(episode for episode, _ in parts)
        return replace(self, episodes=episodes, certainty=tuple(value for _, of in parts for value in of))

    def trimmed(self, spans: Iterable[tuple[float, float]], least_s: float) -> "RhythmEpisodes":
        """Return the episodes without the spans (start, stop) in seconds, disjoint, in which they begin or end.

        An episode that is shorter than ``least_s`` seconds then is left out.
        """
        edges = np.array(sorted(spans), np.float64).reshape(-1, 2)
        episodes: list[tuple[float, float]] = []
        certainty: list[float] = []
        for number, (start, stop) in enumerate(self.episodes):
            first = edges[(edges[:, 0] <= start) & (edges[:, 1] > start), 1]
            last = edges[(edges[:, 0] < stop) & (edges[:, 1] >= stop), 0]
            episode = max([start, *first.tolist()]), min([stop, *last.tolist()])
            if episode == (start, stop) or episode[1] - episode[0] >= least_s:
                episodes.append(episode)
                certainty += self.certainty[number : number + 1]
        return replace(self, episodes=tuple(episodes), certainty=tuple(certainty))

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-ready dictionary."""
        episodes = [[round(start, 3), round(stop, 3)] for start, stop in self.episodes]
        certainty = {"certainty": [round(value, 3) for value in self.certainty]} if self.certainty else {}
        return {
            "rhythm": self.rhythm,
            "seconds": round(self.seconds, 3),
            "episodes": episodes,
            "source": self.source,
            **certainty,
        }


def to_review(rhythm: RhythmEpisodes) -> bool:
    """Return whether a rhythm must be reviewed before it counts: one with a certainty, or a possible one."""
    return bool(rhythm.certainty) or (rhythm.rhythm.startswith(POSSIBLE) and rhythm.source != REVIEWER)
