"""The figures of the README and the docs that come from a results file."""

from figures.figures import Figures, Way, figures
from figures.of_benchmarks import OF_BENCHMARKS
from figures.ways import (
    ALL_RECORDS,
    RECORD_S,
    SCENARIOS,
    SVEB,
    VEB,
    bad_s,
    both_seeds,
    clients,
    damage,
    ec57,
    errors,
    flagship_means,
    grp,
    on_mlii,
    one_seed,
    qrs,
    stopped_in_round,
    turned_over,
)

_DS2, _MODELS = ("sets", "ds2", "twenty"), ("before", "partway, after")


def _packaged(protocol: str, model: str) -> tuple[Way, ...]:
    place = ("sets", "ds2", protocol, model)
    keys = (("f1",), ("interval", 0), ("interval", 1))
    return (*((*place, kind, *key) for kind in ("veb", "sveb") for key in keys), (*place, "without 232", "sveb", "f1"))


def _refused(rate: str) -> tuple[Way, ...]:
    return tuple(("rates", rate, "0.25", name) for name in ("bad_refused", "bad", "good_refused", "good"))


README = [
    *figures(
        "README.md",
        "flagship/results.json",
        {
            (
                "own beats: alone {2}, together {2}, personal {2}; and on all patients' beats: alone {2}, together {2},"
                " personal {2}"
            ): tuple(
                flagship_means(name, (key,))[0]
                for key in ("T_p", "T_r")
                for name in ("Local", "FedGate's global model, unchanged", "FedGate")
            ),
            "| FedGate (`ecgfed train`) | {2} | {2} | {2} | {2} |": flagship_means("FedGate"),
            "| its global model, fine-tuned by each patient (`--personal finetune`) | {2} | {2} | {2} | {2} |": (
                flagship_means("FedGate's global model, finetune")
            ),
            "| FedGate, 60 passes (`--passes 60`) | {2} | {2} | {2} | {2} |": flagship_means("FedGate, 60 passes"),
            "| GRP-FED | {2} | {2} | {2} | {2} |": flagship_means("GRP-FED"),
            "| FedAvg, restricted to each patient's classes (`--personal masked`) | {2} | {2} | {2} | {2} |": (
                flagship_means("FedAvg")
            ),
            "| each patient alone | {2} (ensemble) | {2} | {2} | {2} |": flagship_means("Local"),
        },
    ),
    *figures(
        "README.md",
        "flagship/results-chronological.json",
        {
            "(one seed), FedGate has T_g {2} and T_p {2}, and each patient alone has T_p {2}.": (
                *flagship_means("FedGate", ("T_g", "T_p")),
                *flagship_means("Local", ("T_p",)),
            )
        },
    ),
    *figures(
        "README.md",
        "clinical/packaged.json",
        {
            f"| {labels} | {{1}}% ({{1}} to {{1}}) | {{1}}% ({{1}} to {{1}}) | {{1}}% |": _packaged(protocol, model)
            for labels, protocol, model in (
                ("none", "twenty", "before"),
                ("twenty of the recording", "twenty", "partway, after"),
                ("the first five minutes, all", "five minutes", "partway, after"),
            )
        },
    ),
    *figures(
        "README.md",
        "qrs/results.json",
        {
            "R peaks on DS2: F1 {2}% here, {2}% by its default, {2}% by its `pantompkins1985`": tuple(
                qrs(name, "DS2", "f1") for name in ("ecgfed", "neurokit", "pantompkins1985")
            ),
            "R peaks on DS2: {2}% and {2}% (GQRS, XQRS), {2}%; sleepecg takes {2} s a record, ecgfed {2} s": (
                *(qrs(name, "DS2", "f1") for name in ("gqrs", "xqrs", "sleepecg")),
                *(qrs(name, "cpu_s_per_record") for name in ("sleepecg", "ecgfed")),
            ),
        },
    ),
    *figures(
        "README.md",
        "qrs/peers.json",
        {
            "R peaks on DS2, lead MLII alone: {2}% by physiokit of the same makers, {2}% here": (
                qrs("physiokit", "f1"),
                qrs("ecgfed-1", "f1"),
            ),
            "R peaks on DS2: {2}% by its `xqrs`": (qrs("torch_ecg-xqrs", "f1"),),
        },
    ),
    *figures(
        "README.md",
        "throughput/results.json",
        {"its simulation takes {2} times as long as ecgfed": (("systems", "flower", "ours_is_faster"),)},
    ),
]

WHOLE_PATH = [
    *figures(
        "docs/whole-path.md",
        "grp_fed/results.json",
        {
            "{0} passes over the training beats, macro-F1 on the test split": (grp("grp", 0, "passes"),),
            "| GRP-FED | {2}, {2} | {2}, {2} | {2}, {2} |": both_seeds("grp"),
            "| FedAvg | {2}, {2} | {2}, {2} | {2}, {2} |": both_seeds("fedavg"),
            "| FedAvg with GRP-FED's server step | {2}, {2} | {2}, {2} | {2}, {2} |": both_seeds("fedavg-adam"),
            "| Local | {2}, {2} (ensemble) | {2}, {2} | {2}, {2} |": both_seeds("local"),
        },
    ),
    *figures(
        "docs/whole-path.md",
        "flagship/results.json",
        {"T_g {2}, T_p {2} and T_r {2}\n(means of three seeds": flagship_means("GRP-FED", SCENARIOS[:3])},
    ),
    *figures(
        "docs/whole-path.md",
        "qrs/results.json",
        {
            "F1 {2}% on the 22 DS2 records it has never seen": (qrs("ecgfed", "DS2", "f1"),),
            "in {2} s of CPU for half an hour of two leads": (qrs("ecgfed", "cpu_s_per_record"),),
        },
    ),
    *figures(
        "docs/whole-path.md",
        "ec57/results.json",
        {
            "sensitivity {1}% and positive predictivity {1}%, supraventricular ones with {1}% and {1}%": ec57(
                "grp-fed", ALL_RECORDS, *VEB, *SVEB
            )
        },
    ),
]

GRP_FED = figures(
    "docs/grp-fed.md",
    "grp_fed/results.json",
    {
        "{0} passes over the training beats ({0} rounds of 4 steps), 46 clients": (
            grp("grp", 0, "passes"),
            grp("grp", 0, "rounds"),
        ),
        **{
            f"| {label} | {seed} | {' | '.join(['{3}'] * 6)} |": one_seed(name, seed)
            for label, name, seed in (
                ("**GRP-FED** (beta 0.5)", "grp", 0),
                ("GRP-FED, beta 0.1", "grp-beta.1", 0),
                ("GRP-FED, beta 0.9", "grp-beta.9", 0),
                ("FedAvg, same server", "fedavg-adam", 0),
                ("FedAvg", "fedavg", 0),
                ("Local", "local", 0),
            )
        },
        "| | 1 | {3} | {3} | {3} | {3} | {3} | {3} | | GRP-FED, beta 0.1": one_seed("grp", 1),
        "| | 1 | {3} | {3} | {3} | {3} | {3} | {3} | | FedAvg | 0": one_seed("fedavg-adam", 1),
        "| | 1 | {3} | {3} | {3} | {3} | {3} | {3} | | Local | 0": one_seed("fedavg", 1),
        "| | 1 | {3} | {3} | {3} | {3} | {3} | {3} | Effective clients": one_seed("local", 1),
        "of GRP-FED over the run: {1} to {1} (seed 0), {1} to {1} (seed 1)": tuple(
            grp("grp", seed, "effective_clients", end) for seed in (0, 1) for end in (0, 1)
        ),
        "on the test split with both seeds ({3} and {3} against {3} and {3})": tuple(
            grp(name, seed, "test", "T_g") for name in ("grp", "fedavg-adam") for seed in (0, 1)
        ),
        "on the validation split with one of two ({3} and {3} against {3} and {3})": tuple(
            grp(name, seed, "valid", "T_g") for name in ("grp", "fedavg-adam") for seed in (0, 1)
        ),
        "seed 0 in round {0} (a model that is infinite), seed 1 in round {0}": (
            stopped_in_round(0),
            stopped_in_round(1),
        ),
    },
)

LABELS = [
    *figures(
        "docs/labels.md",
        "clinical/packaged.json",
        {
            (
                "raise the F1 of ventricular beats from {1}% to {1}%,"
                " and that of supraventricular ones from {1}% to {1}%"
            ): tuple((*_DS2, model, kind, "f1") for kind in ("veb", "sveb") for model in _MODELS),
            "without it, their F1 is {1}% ({1}% without a label)": tuple(
                (*_DS2, model, "without 232", "sveb", "f1") for model in reversed(_MODELS)
            ),
        },
    ),
    *figures(
        "docs/labels.md",
        "clinical/errors.json",
        {
            "for {1%} of the simulated people on DS1, and for {1%} on DS2": tuple(
                (part, "all", "covered") for part in ("ds1", "ds2")
            ),
            "for {1%} if all answers are right, {1%} if 15% of the doubtful ones are wrong, and {1%} with 40 labels": (
                *(("ds2", "by_rate", rate, "covered") for rate in ("0.0", "0.15")),
                ("ds2", "by_answers", "40", "covered"),
            ),
            (
                "a record of DS1 has {1} wrong beats on average and an expected number of {1}; "
                "one of DS2 has {1} and an expected {1}."
            ): tuple((part, "by_answers", "20", name) for part in ("ds1", "ds2") for name in ("wrong", "expected")),
        },
    ),
    *figures(
        "docs/labels.md",
        "clinical/adoption.json",
        {
            "refuses {0} of {0} bad models and {0} of {0} good ones if all": _refused("0"),
            "it refuses {0} of {0} bad models and {0} of {0} good ones: eight": _refused("0.15"),
        },
    ),
    *figures(
        "docs/labels.md",
        "clinical/second.json",
        {
            "it adds {2} questions a record": (("rates", "0", "two", "questions"),),
            (
                "{2} more questions raise V F1 from {1}% to {1}%, S from {1}% to {1}%, and F from {1}% to {1}%. "
                "They lower the beats with a wrong label from {1} to {1} a record."
            ): (
                ("rates", "0.15", "two", "questions"),
                *(("rates", "0.15", way, kind) for kind in "VSF" for way in ("one", "two")),
                *(("rates", "0.15", way, "wrong") for way in ("one", "two")),
            ),
        },
    ),
]

QUALITY = figures(
    "docs/quality.md",
    "quality/results.json",
    {
        "(lead MLII, {0} records, {0} s)": (clients, lambda results: clients(results) * RECORD_S),
        "Marked as poor: {0} s ({1%}), {0} of the {0} beats ({1%})": (
            bad_s,
            lambda results: bad_s(results) / clients(results) / RECORD_S,
            ("beats", "flagged"),
            ("beats", "beats"),
            lambda results: results["beats"]["flagged"] / results["beats"]["beats"],
        ),
        "most in 108 ({1%} of the record)": (lambda results: bad_s(results, "108") / RECORD_S,),
        "noise {0}, baseline {0}, rail {1} (all in 116)": tuple(
            lambda results, reason=reason: on_mlii(results, reason) for reason in ("noise", "baseline", "rail")
        ),
        "{0%} of the {0} s that they mark, and {1%} of what they do not mark.": (
            lambda results: on_mlii(results, "bad_in_marked_s") / on_mlii(results, "marked_s"),
            lambda results: on_mlii(results, "marked_s"),
            lambda results: (
                on_mlii(results, "bad_unmarked_s") / (clients(results) * RECORD_S - on_mlii(results, "marked_s"))
            ),
        ),
        "xqrs misses {1}% of the beats inside poor stretches and {1}% outside": errors("xqrs", "missed_percent"),
        "detects {1} false beats a minute inside, {1} outside": errors("xqrs", "excess_per_min"),
        "Our detector, with all leads, misses {1}% and {1}%": errors("ecgfed", "missed_percent"),
        "with {1} and {1} false beats a minute": errors("ecgfed", "excess_per_min"),
        "area under the ROC curve is {2}; for pSQI {2}, kSQI {2}, basSQI {2}": tuple(
            ("indices", name) for name in ("ours", "pSQI", "kSQI", "basSQI")
        ),
        "a step of 3 mV in {0}.": (damage("step 3 mV", "found_in"),),
        "the marked share of its time is {0%} at 6 dB, {0} to {0%} at 12 dB, and {0%} or less at 18 dB.": (
            damage("white noise, 6 dB"),
            lambda results: 100 * results["damage"]["white noise, 12 dB"]["share_marked"],
            damage("muscle noise 20-150 Hz, 12 dB"),
            damage("muscle noise 20-150 Hz, 18 dB"),
        ),
        "a spike of 5 mV in {0} of {0}": (
            lambda results: (
                results["damage"]["spike 5 mV, 20 ms"]["of"] - results["damage"]["spike 5 mV, 20 ms"]["found_in"]
            ),
            damage("spike 5 mV, 20 ms", "of"),
        ),
        "If the signal is inverted, {0} of the 47 others are detected": (turned_over,),
        "360 Hz called 100 is detected in {0}, 128 in {0}, 250 in none, 500 in {0}, 1000 in {0}": tuple(
            ("frequency", stated) for stated in ("100", "128", "500", "1000")
        ),
    },
)

DECISIONS = [
    *figures(
        "docs/decisions/0018-a-learned-qrs-detector.md",
        "qrs/first_weights.json",
        {"(DS2 F1 {2}%, and {2}% with channel 0)": tuple(qrs(name, "DS2", "f1") for name in ("ecgfed", "ecgfed-1"))},
    ),
    *figures(
        "docs/decisions/0003-group-norm.md",
        "baselines/results.json",
        {
            f"| {label}, {work} | {norm} | {{3}} | {{3}} | {{3}} |": tuple(
                ("rows", {"method": label.lower(), "work": kind, "norm": norm}, "scores", score)
                for score in SCENARIOS[:3]
            )
            for label in ("FedAvg", "Local")
            for work, kind in (("1 epoch", "local-epochs 1"), ("4 steps", "local-steps 4"))
            for norm in ("group", "batch")
        },
    ),
    *figures(
        "docs/decisions/0003-group-norm.md",
        "baselines/centralised.json",
        {
            "{3} after 8 epochs against {3} after 8 and {3} after 12": tuple(
                ("rows", {"norm": norm, "epochs": epochs}, "test_macro_f1", "any")
                for norm, epochs in (("batch", 8), ("group", 8), ("group", 12))
            )
        },
    ),
    *figures(
        "docs/decisions/0016-local-models-after-the-run.md",
        "grp_fed/results.json",
        {"T_p {3} of the global model": (grp("fedavg-adam", 0, "test", "T_p"),)},
    ),
]

FIGURES: list[Figures] = [*README, *WHOLE_PATH, *GRP_FED, *LABELS, *QUALITY, *DECISIONS, *OF_BENCHMARKS]
