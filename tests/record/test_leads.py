"""Names of leads: what is the same, what stands for what, and what is never taken for an ECG."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses

from ecgfed.base.errors import RecordError
from ecgfed.domain.record.lead_names import is_another_signal, is_impersonal
from ecgfed.domain.record.leads import (
    NameMatch,
    are_ecg,
    choose_lead,
    described,
    distinct,
    find_lead,
    name_match,
    requested_alias,
    usual_name,
)

#: Pairs of names by how far one answers for the other.
MATCHES = {
    NameMatch.EXACT: [*(("II", "II"), ("", ""))],
    NameMatch.NAME: [
        *(("II", "ii"), ("MLII", "ml-ii"), ("aVR", "AVR"), ("aVR", "AVR,"), ("ECG", "ECG (2)")),
        *(("ecg(2)", "ECG (2)"), ("II", "\u2161")),
    ],
    NameMatch.LEAD: [
        *(("II", "Lead II"), ("II", "ECG II"), ("II", "ECG Lead II"), ("II", "lead_ii"), ("II", "DII"), ("II", "D2")),
        *(("III", "D3"), ("V1", "C1"), ("V1", "ECG V1"), ("vx", "X"), ("V", "ECG lead V"), ("MLII", "ML2")),
    ],
    NameMatch.MODIFIED: [
        *(("MLII", "II"), ("II", "ECG MLII"), ("V1", "MCL1"), ("V1", "mod. V1"), ("V2", "mV2"), ("MCL1", "MV1"))
    ],
    NameMatch.OTHER: [
        *(("I", "ECG 1"), ("I", "1"), ("I", "Channel I"), ("II", "III"), ("aVR", "-aVR"), ("aVR", "aVR-")),
        *(("aVR", "AVR -"), ("ECG (1)", "ECG (2)"), ("ecg(1)", "ECG (2)"), ("II (1)", "Lead II (2)"), ("MLII", "V5")),
        *(("V1", "V"), ("V1", "MCL"), ("V5", "CM5"), ("V4", "V4R"), ("V4", "V4-V3"), ("V3", "V3-V3R")),
        *(("ECG", "ECG1"), ("-", "_")),
    ],
}


@pytest.mark.parametrize(
    ("asked", "present", "how"), [(*pair, how) for how, pairs in MATCHES.items() for pair in pairs]
)
def test_how_far_one_name_answers_for_another(asked: str, present: str, how: NameMatch) -> None:
    assert name_match(asked, present) == name_match(present, asked) == how


@given(st.text(max_size=12), st.text(max_size=12))
def test_any_two_names_can_be_compared(one: str, other: str) -> None:
    assert name_match(one, other) == name_match(other, one)
    assert name_match(one, one) == NameMatch.EXACT
    assert len(set(distinct((one, other, one)))) == 3
    are_ecg((one, other), (other, one))
    is_impersonal(one)


@pytest.mark.parametrize(
    ("present", "leads", "at"),
    [
        (("ii", "II"), ("II",), 1),  # the very name first
        (("MLII", "Lead II", "ii"), ("II",), 2),
        (("MLII", "Lead II"), ("II",), 1),
        (("V1", "MLII"), ("II",), 1),
        (("MLII", "V1"), ("II", "V1"), 1),  # a name that is there before one that stands for another
        (("II", "V1"), ("MLII", "II"), 0),
        (("MCL1", "II"), ("V1",), 0),
        (("V5", "MLII"), ("#1",), 0),
        (("ECG (1)", "ECG (2)"), ("#2",), 1),
        (("ECG (1)", "ECG (2)"), ("ecg",), None),  # two of the name
        (("ECG (1)", "ECG (2)"), ("ecg(2)",), 1),
        (("ECG (1)", "ECG (2)", "ecg (2)"), ("ECG(2)",), None),  # case decides nothing
        (("ECG (2)",), ("ecg (1)", "ECG"), 0),
        (("ECG (1)", "ECG (2)"), ("ECG (2)",), 1),
    ],
)
def test_the_best_answer_is_chosen(present: tuple[str, ...], leads: tuple[str, ...], at: int | None) -> None:
    if at is None:
        with refuses(RecordError, "unknown-lead", "leads"):
            choose_lead(present, "r", leads)
    else:
        assert choose_lead(present, "r", leads) == at


def test_two_of_one_name_are_told_apart_by_their_place() -> None:
    assert distinct(("ECG", "ECG", "V1")) == ("ECG (1)", "ECG (2)", "V1")
    assert distinct(("ECG", "ECG (1)", "ECG")) == ("ECG (2)", "ECG (1)", "ECG (3)")
    with refuses(RecordError, "unknown-lead", "leads"):
        choose_lead(distinct(("ECG", "ECG")), "r", ("ECG",))
    with pytest.raises(RecordError, match="has no lead #3; it has"):
        choose_lead(("ECG (1)", "ECG (2)"), "r", ("#3",))
    assert find_lead(("a",), ("#0",)) is None


OTHERS = (
    "RESP", "Resp,", "resp (sum)", "Resp. Imp.", "Resp C", "THOR RES", "ABDO RES", "ABP", "ART", "BP", "NBP", "PAP",
    "CVP", "ICP", "Ao", "P1 ART", "PLETH", "pleth_2", "wrist_ppg", "SpO2", "SaO2", "OX stat", "CO2", "EtCO2", "Temp",
    "EEG", "EEG (C4-A1)", "EEG(sec)", "Fp1-F7", "C3-A2", "Cz", "O1", "EMG (chin)", "EOG(L)", "LOC", "ROC-LOC",
    "wrist_gyro_x", "wrist_low_noise_accelerometer_x", "marker", "Event", "Patient Event", "Status", "HR", "H.R.",
    "foot GSR", "SCG", "PCG", "noise1", "Snore", "POSITION", "NEW AIR", "Flow", "ECG status", "Trigger", "I-cal",
    "V1cal", "OFF", "IBP1", "BVP", "Breathing", "Pneumogram", "Vent", "Ventilation", "NIRS", "SKT", "Pes", "RSP", "IBI",
    "ECG cal", "ECG I cal", "ECG event marker", "ECG RESP", "ECG impedance", "ECG HR", "ECG temp", "Thorax", "Event 1",
    "sample", "chin",
)  # fmt: skip
ECGS = (
    "ECG", "ECG1", "ekg", "ECG1-ECG2", "chest_ecg", "AI4: ECG", "MLII", "ii", "AVR", "avr,", "-aVR", "V", "MCL", "V5",
    "CM5", "vx", "X", "A-S", "E-S", "A-I", "ML5", "mod.V1", "signal 1", "ch1", "Ch 0", "channel 3", "", "lead", "1",
    "D4", "V4-V3", "Ableitung II", "C3", "\u5fc3\u7535", "anything else",
    "Shimmer_E3B5_ECG_LL-RA_24BIT_CAL", "Event ECG", "Chin ECG", "ECG I (sample)", "ECG thorax", "EKG leg", "aVR-",
    "Ventricle", "abdominal fECG",
)  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_ecg_by_its_name(name: str) -> None:
    assert is_another_signal(name)
    assert are_ecg(("ECG", name)) == [True, False]


@pytest.mark.parametrize("name", ECGS)
def test_what_is_an_ecg_or_says_nothing(name: str) -> None:
    assert not is_another_signal(name)


def test_units_and_company_tell_too() -> None:
    units = ("mmHg", "%", "degC", "bpm", "mV", "uV", "\u00b5V", "", "g", "NU", "V")
    assert [unit for unit, ecg in zip(units, are_ecg(["ch"] * len(units), units), strict=True) if ecg] == [
        *("mV", "uV", "\u00b5V", "", "V")
    ]
    assert are_ecg(("C3", "V1")) == [True, True]  # IEC's third chest lead
    assert are_ecg(("C3", "Cz", "ECG")) == [False, False, True]  # over the brain
    assert choose_lead(("RESP", "x1", "II"), "r", (), ("mV", "mmHg", "mV")) == 2
    with refuses(RecordError, "unknown-lead", "leads"):
        choose_lead(("ABP", "PLETH"), "r", ())


def test_usual_names() -> None:
    names = {"ii": "II", "DII": "II", "ml2": "MLII", "avr": "aVR", "ECG V1": "V1", "MCL1": "MCL1", "ECG": "ECG"}
    assert {name: usual_name(name) for name in names} == names
    assert [described(name) for name in ("D3", "MLII", "ECG1")] == ["D3 (III)", "MLII", "ECG1"]
    assert requested_alias(("II",), "MLII") == requested_alias(("II",), "Lead II") == "II"
    assert requested_alias(("II",), "ii") == requested_alias(("V1",), "MLII") == requested_alias(("#1",), "MLII") == ""


def test_names_that_are_nobodys() -> None:
    for name in ("I", "aVR", "mod. V1", "MLII", "ECG", "ECG 2", "Ch 0", "signal 1", "RESP", "ABP", "SpO2", "ECG (1)"):
        assert is_impersonal(name)
    for name in ("Mark", "Art", "Anna", "Smith II", "lead of Anna", "ECG Miller", "", "Temple"):
        assert not is_impersonal(name)
