"""Labels of a single class say nothing of the others: they are not propagated over beats that the model tells apart."""

from pathlib import Path

import ecgfed


def test_labels_of_a_single_class_are_not_propagated_over_the_others(mitdb: Path, tmp_path: Path) -> None:
    """Twenty right N of record 208, of which a third are V and F: the global model stands in for the rest."""
    beats = ecgfed.read_annotation(mitdb / "208").beats()
    normal = beats.sample[beats.symbol == "N"][:200:10]
    table = "sample,label\n" + "".join(f"{sample},N\n" for sample in normal.tolist())
    (tmp_path / "n.csv").write_text(table)
    model = ecgfed.personalize_labels(mitdb / "208", tmp_path / "own", labels=tmp_path / "n.csv", minutes=5, force=True)
    assert model.exported == "global"
    assert (model.labels.symbol == "V").sum() > 100
    told = " ".join(model.sentences())
    assert "Only N was labelled" in told
    assert "highest estimate" not in told  # every predictor had all right: the single class decided
