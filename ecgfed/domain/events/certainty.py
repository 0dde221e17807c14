"""Names of rhythms by their certainty: an episode that is rather not of a rhythm is a possible one."""

from dataclasses import replace

from ecgfed.base.language import tr_later
from ecgfed.domain.events.rhythm_episodes import POSSIBLE, RhythmEpisodes

#: Certainty below which an episode is called possible.
LIKELY = 0.5
#: Atrial fibrillation is not assessed in a recording shorter (s) than those of CinC 2017, on which its detection was
#: measured.
SHORTEST_S = 9.0
#: The possible rhythms that there are, for pages in other languages.
_NAMES = (tr_later("possible AF or flutter"), tr_later("possible AF"))


def episode_name(rhythm: RhythmEpisodes, number: int) -> str:
    """Return what an episode is called: ``possible AF or flutter`` where its certainty is below 50%."""
    unlikely = bool(rhythm.certainty) and rhythm.certainty[number] < LIKELY
    return f"{POSSIBLE}{rhythm.rhythm}" if unlikely and not rhythm.rhythm.startswith(POSSIBLE) else rhythm.rhythm


def by_certainty(rhythm: RhythmEpisodes) -> tuple[RhythmEpisodes, ...]:
    """Return a rhythm's episodes under their names: those of its own name first, then the possible ones."""
    names = [episode_name(rhythm, number) for number in range(len(rhythm.episodes))]
    return tuple(
        replace(
            rhythm,
            rhythm=name,
            episodes=tuple(rhythm.episodes[at] for at, one in enumerate(names) if one == name),
            certainty=tuple(certainty for certainty, one in zip(rhythm.certainty, names, strict=False) if one == name),
        )
        for name in sorted(set(names), key=len)
    )
