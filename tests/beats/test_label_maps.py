"""Which symbol is which class, against the tables that were published."""

import json
from pathlib import Path

import numpy as np
import pytest

from ecgfed.base.errors import OptionError
from ecgfed.domain.beats.labels import BUILT_IN, LabelMap, load_label_map
from ecgfed.domain.record.wfdb_files import read_annotation

#: de Chazal, O'Dwyer and Reilly 2004, table 1, and what bxb does with escape beats.
DE_CHAZAL = {
    **dict.fromkeys("NLRej", "N"),
    **dict.fromkeys("AaJS", "S"),
    "V": "V",
    "E": "V",
    "F": "F",
    **dict.fromkeys("/fQ", "Q"),
}
DS1 = (101, 106, 108, 109, 112, 114, 115, 116, 118, 119, 122, 124, 201, 203, 205, 207, 208, 209, 215, 220, 223, 230)
DS2 = (100, 103, 105, 111, 113, 117, 121, 123, 200, 202, 210, 212, 213, 214, 219, 221, 222, 228, 231, 232, 233, 234)
#: N, S, V, F, Q of both, as published (shared ecg-facts).
PUBLISHED = {"DS1": [45866, 944, 3788, 415, 8], "DS2": [44259, 1837, 3221, 388, 7]}


def test_aami5_is_de_chazals_table() -> None:
    made = load_label_map("aami5")
    assert made.symbols == DE_CHAZAL
    assert made.classes == ("N", "S", "V", "F", "Q")


def test_aami5_bxb_moves_the_escape_beats_to_s() -> None:
    assert load_label_map("aami5-bxb").symbols == {**DE_CHAZAL, "e": "S", "j": "S"}


def test_mitbih12_is_twelve_symbols_under_their_own_names() -> None:
    made = load_label_map("mitbih12")
    assert sorted(made.classes) == sorted("NLRV/AFfjaEJ")
    assert made.symbols == {symbol: symbol for symbol in "NLRV/AFfjaEJ"}


def test_encoding_numbers_classes_and_marks_the_rest() -> None:
    made = load_label_map("aami5")
    codes = made.encode(np.array(["V", "e", "+", "Q", "A", "N", "?"]))
    assert codes.tolist() == [2, 0, -1, 4, 1, 0, -1]
    assert codes.dtype == np.int16
    assert made.encode(np.array([], dtype=np.str_)).tolist() == []


def test_a_class_is_written_with_its_own_symbol_where_it_is_one() -> None:
    made = LabelMap("x", ("V", "normal"), {"E": "V", "V": "V", "L": "normal", "N": "normal"})
    assert made.symbol_of("V") == "V"
    assert made.symbol_of("normal") == "L"


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_map_survives_a_cohort_file(name: str) -> None:
    assert LabelMap.from_json(json.loads(json.dumps(BUILT_IN[name].as_json()))) == BUILT_IN[name]


TOML = '[classes]\nventricular = ["V", "E"]\nnormal = ["N", "L", "R"]\n'
JSON = '{"classes": {"ventricular": ["V", "E"], "normal": ["N", "L", "R"]}}'


@pytest.mark.parametrize(("file", "text"), [("own.toml", TOML), ("own.TOML", TOML), ("own.json", JSON)])
def test_a_users_file_in_the_order_it_was_written(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).write_text(text)
    made = load_label_map(str(tmp_path / file))
    assert made.name == file
    assert made.classes == ("ventricular", "normal")
    assert made.symbols == {"V": "ventricular", "E": "ventricular", "N": "normal", "L": "normal", "R": "normal"}


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("a.toml", "[classes", "cannot be read"),
        *(("a.json", text, "cannot be read") for text in ("{", '{"klasses": {}}', "[1, 2]", "null")),
        ("a.json", '{"classes": ["N", "V"]}', "cannot be read"),
        ("a.json", '{"classes": {"n": 5, "v": ["V"]}}', "cannot be read"),
        ("a.json", '{"classes": {}}', "0 classes; expected two or more"),
        ("a.json", '{"classes": {"n": ["N"]}}', "1 class; expected two or more"),
        ("a.json", '{"classes": {"n": ["N"], "v": []}}', "class 'v' has no symbols"),
        ("a.json", '{"classes": {"n": ["N"], "v": ["VE"]}}', "symbol 'VE'; expected a WFDB beat symbol"),
        ("a.json", '{"classes": {"n": ["N"], "v": ["V", "N"]}}', "symbol 'N' is in 'n' and 'v'"),
    ],
)
def test_a_file_that_is_no_map_is_one_line_that_names_it(tmp_path: Path, file: str, text: str, words: str) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(OptionError) as caught:
        load_label_map(str(tmp_path / file))
    line = caught.value.line
    assert line.startswith(f"classes {tmp_path / file}: ")
    assert words in line
    assert "\n" not in line


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(OptionError, match="cannot be read"):
        load_label_map(str(tmp_path / "a.json"))


@pytest.mark.parametrize("name", ["aami6", "none.json", "", JSON * 10])
def test_an_unknown_name_lists_what_there_is(name: str) -> None:
    with pytest.raises(OptionError) as caught:
        load_label_map(name)
    assert "no known class map and no file" in caught.value.line
    assert "mitbih12, aami5, aami5-bxb, or a JSON or TOML file" in caught.value.line


@pytest.mark.mitdb
@pytest.mark.parametrize(("name", "records"), [("DS1", DS1), ("DS2", DS2)])
def test_aami5_counts_the_published_beats_of_ds1_and_ds2(mitdb: Path, name: str, records: tuple[int, ...]) -> None:
    made = load_label_map("aami5")
    counts = np.zeros(5, dtype=int)
    for record in records:
        codes = made.encode(read_annotation(mitdb / str(record)).beats().symbol)
        assert (codes >= 0).all()
        counts += np.bincount(codes, minlength=5)
    assert counts.tolist() == PUBLISHED[name]


@pytest.mark.mitdb
def test_bxb_counts_shift_e_and_j_to_s(mitdb: Path) -> None:
    """44 unpaced records: 16 e and 229 j leave N for S."""
    made = load_label_map("aami5-bxb")
    counts = np.zeros(5, dtype=int)
    for record in DS1 + DS2:
        counts += np.bincount(made.encode(read_annotation(mitdb / str(record)).beats().symbol), minlength=5)
    assert counts.tolist() == [90_125 - 245, 2781 + 245, 7009, 803, 15]
