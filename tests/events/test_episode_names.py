"""Episodes that are rather not of a rhythm are possible ones, wherever a report names them."""

from ecgfed.domain.events.certainty import by_certainty, episode_name
from ecgfed.domain.events.rhythm_episodes import RhythmEpisodes

EPISODES = ((0.0, 40.0), (100.0, 130.0), (200.0, 260.0))


def test_episodes_below_one_half_are_possible() -> None:
    rhythm = RhythmEpisodes("AF", EPISODES, "signal", (0.9, 0.49, 0.5))
    certain, possible = by_certainty(rhythm)
    assert (certain.rhythm, certain.episodes, certain.certainty) == ("AF", (EPISODES[0], EPISODES[2]), (0.9, 0.5))
    assert (possible.rhythm, possible.episodes, possible.certainty) == ("possible AF", EPISODES[1:2], (0.49,))
    assert certain.seconds + possible.seconds == rhythm.seconds
    assert [episode_name(rhythm, number) for number in range(3)] == ["AF", "possible AF", "AF"]


def test_without_certainty_the_name_stays() -> None:
    for name in ("AF", "possible flutter"):
        (same,) = by_certainty(RhythmEpisodes(name, EPISODES, "labels"))
        assert (same.rhythm, same.episodes) == (name, EPISODES)
    (possible,) = by_certainty(RhythmEpisodes("possible flutter", EPISODES[:1], "signal", (0.3,)))
    assert possible.rhythm == "possible flutter"
