"""The figures of the benchmarks' pages that come from a results file."""

from figures.figures import Figures, figures
from figures.of_calibration import CALIBRATION
from figures.of_mcu import MCU
from figures.ways import (
    ALL_OF_IT,
    ALL_RECORDS,
    VEB,
    ec57,
    ec57_row,
    gemm,
    newcomer,
    placed_row,
    qrs,
    qrs_peers_row,
    qrs_row,
    results_of,
    scale_row,
    short,
    stress_row,
    system,
)

EC57_CELLS = "{2} / {2} | {1} / {1} | {1} / {1} | {1} / {1} | {1} / {1}, {1} / {1}"

EC57 = [
    *figures(
        "benchmarks/ec57/README.md",
        "ec57/version_1.json",
        {f"| GRP-FED, RR features version 1, with the detector of then | {EC57_CELLS} |": ec57_row("grp-fed")},
    ),
    *figures(
        "benchmarks/ec57/README.md",
        "ec57/results.json",
        {
            "as EC57 asks (VEB {1} / {1})": ec57("grp-fed", "from_5_minutes", *VEB),
            **{
                f"| {label} | {EC57_CELLS} |": ec57_row(method)
                for label, method in (("GRP-FED, defaults", "grp-fed"), ("FedAvg, same server step", "fedavg"))
            },
            **{
                f"| {name} | {' | '.join(['{0}'] * 7)} |": tuple(
                    ("methods", "grp-fed", ALL_RECORDS, "gross", "counts", row, column) for column in range(7)
                )
                for row, name in enumerate("NSVFQOX")
            },
        },
    ),
]

NEWCOMERS = figures(
    "benchmarks/newcomers/README.md",
    "newcomers/ten_patients.json",
    {
        "36 train for {0} rounds of 4 local steps": (("methods", "fedavg", "rounds"),),
        **{
            f"| {label} | {passes} | {{3}} ({{3}}) | {{3}} ({{3}}) | {{3}}, {{3}} |": newcomer(name, *ALL_OF_IT)
            for label, name, passes in (
                ("`fedavg` (GRP-FED's server step), local training", "fedavg", "10"),
                ("`fed-rod-hyper`", "fed-rod-hyper", "10"),
                ("`per-fedavg` (the same server step)", "per-fedavg", "one step"),
                ("`grp-fed`", "grp-fed", "30"),
                ("`ditto` (the same server step)", "ditto", "10"),
                ("`pfedme`", "pfedme", "30"),
                ("nothing federated: a model from scratch (`local`; before: the ensemble of 36)", "local", "30"),
            )
        },
        "class mix of those minutes alone | 0 | | {3} ({3}) | {3} |": newcomer(
            "fed-rod-hyper", "mix F", "mix f", "mix a"
        ),
        "a model trained on them from scratch scores {3}": newcomer("local", "after F"),
        "nothing on these patients ({3} at best)": newcomer("fedavg", "after F"),
        "a class mix alone gives {3}, the global model {3}": (
            *newcomer("fed-rod-hyper", "mix F"),
            *newcomer("fedavg", "before F"),
        ),
        "(accuracy {3} against {3})": newcomer("grp-fed", "after a", "before a"),
    },
)

QRS = [
    *figures(
        "benchmarks/qrs/README.md",
        "qrs/results.json",
        {
            "All {0} records, {0} beats from 5:00 on": (("records",), qrs("ecgfed", "all", "beats")),
            "DS2 without 202 has F1 {2}% with both leads": (qrs("ecgfed", "DS2 without 202", "f1"),),
            "pantompkins1985 is as good on DS2 as ours ({2}%). With both leads ours has {2}%": tuple(
                qrs(name, "DS2", "f1") for name in ("pantompkins1985", "ecgfed")
            ),
            "{1} ms at the median without the paced records and {1} ms over all their beats": tuple(
                qrs("ecgfed", "all but paced", key) for key in ("record_sd_ms", "pooled_sd_ms")
            ),
            "on DS1 it has F1 {2}%": (qrs("manikandan2012", "DS1", "f1"),),
            "bring the pooled spread with both leads to {1} ms": (qrs("ecgfed", "all", "pooled_sd_ms"),),
        },
    ),
    *figures(
        "benchmarks/qrs/README.md",
        "qrs/first_weights.json",
        {
            "reported on DS2 ({2}% with both leads, {2}% with channel 0; `first_weights.json`)": tuple(
                qrs(name, "DS2", "f1") for name in ("ecgfed", "ecgfed-1")
            )
        },
    ),
    *(
        one
        for row in results_of("qrs/results.json")["results"]
        for one in figures("benchmarks/qrs/README.md", "qrs/results.json", qrs_row(row["detector"]))
    ),
    *figures(
        "benchmarks/qrs/README.md",
        "qrs/peers.json",
        {"The {0} DS2 records, {0} beats from 5:00 on": (("records",), qrs("ecgfed", "beats"))},
    ),
    *(
        one
        for row in results_of("qrs/peers.json")["results"]
        for one in figures("benchmarks/qrs/README.md", "qrs/peers.json", qrs_peers_row(row["detector"]))
    ),
    *(
        one
        for kind in results_of("qrs/results.json")["results"][0]["placed"]
        if placed_row(kind)
        for one in figures("benchmarks/qrs/README.md", "qrs/results.json", placed_row(kind))
    ),
    *(
        one
        for row in results_of("qrs/stress/results.json")["results"]["before"]
        for one in figures("benchmarks/qrs/stress/README.md", "qrs/stress/results.json", stress_row(row))
    ),
]

SCALE = [
    *figures(
        "benchmarks/scale/README.md",
        "scale/per_round_50.json",
        {
            "Saving after every round of a single step took {0} to": (
                lambda results: 100 * min(row["writer_share"] for row in results["rows"]),
            ),
            **{
                f"| {number:,} | {{2}} | {{0}} | {{0}} | {{0}} |": scale_row(
                    number, "round_s", "peak_mib", "own_mib", "files"
                )
                for number in (100, 1000, 10_000)
            },
        },
    ),
    *figures(
        "benchmarks/scale/README.md",
        "scale/results.json",
        {
            "to {0%} of the CPU time here": (lambda results: max(row["writer_share"] for row in results["rows"]),),
            **{
                f"| {number:,} | {{0}} | {{2}} | {{0}} | {{0}} | {{0}} |": scale_row(
                    number, "participants", "round_s", "peak_mib", "own_mib", "disk_mb"
                )
                for number in (100, 1000, 10_000)
            },
        },
    ),
]

THROUGHPUT = [
    *figures(
        "benchmarks/throughput/README.md",
        "throughput/results.json",
        {
            "| ecgfed, 2 worker threads | {2} ({2} to {2}) | {0} | {1} |": system("ours"),
            **{
                f"| {label} | {{2}} ({{2}} to {{2}}) | {{0}} | {{1}} | {{2}} x | {{e}} |": system(
                    name, "ours_is_faster", "weight_difference"
                )
                for label, name in (
                    ("plain loop, 2 torch threads", "loop"),
                    ("the same loop in blazefl's environment", "control"),
                    ("blazefl, 2 threads", "blazefl"),
                    ("Flower simulation, 2 Ray actors", "flower"),
                )
            },
            "moves a trainable weight by up to {3}": (("systems", "ours", "weights_moved_in_first_round"),),
        },
    ),
    *figures(
        "benchmarks/throughput/README.md",
        "throughput/short_rounds.json",
        {
            **{
                f"| {case} | {steps} | {{3}} | {{0%}} | {{0%}} |": short(case, steps)
                for case in ("fedavg", "grp-fed, local steps on", "grp-fed, personalise=false")
                for steps in (1, 4)
            },
            "{0} rounds each, medians of rounds and of repeats": (("results", 0, "rounds"),),
        },
    ),
    *figures(
        "benchmarks/throughput/README.md",
        "throughput/gemm.json",
        {
            "reference net {0%} / {0%} ({0} and {0} GFLOP/s; `conv1d` {0%} / {0%})": gemm("reference"),
            "default net {0%} / {0%} ({0} and {0}; `conv1d` {0%} / {0%})": gemm("default"),
            "(one channel in: {0%} and {0%} forward)": tuple(
                ("nets", net, "layers", {"layer": "stem"}, "ours_forward_share") for net in ("reference", "default")
            ),
            "A whole step: {1} ms, {1} of it convolutions": tuple(
                ("nets", "reference", "step", key) for key in ("step_ms", "conv_ms")
            ),
            "(reference, BatchNorm); {1} ms, {1} of it convolutions": tuple(
                ("nets", "default", "step", key) for key in ("step_ms", "conv_ms")
            ),
        },
    ),
]

_RULE_COLUMNS = ("accepted", "mean_loss", "mean_agreement", "worst_agreement", "global_loss", "global_agreement")
DEVICE = [
    one
    for page, names in (
        ("benchmarks/device/README.md", ("`whole`", "`percentile` (the default)", "`least-squares`")),
        ("docs/decisions/0047-int8.md", ("whole range", "between ten-thousandths", "least squares")),
    )
    for name, rule in zip(names, ("whole", "percentile", "least-squares"), strict=True)
    for one in figures(
        page,
        "device/ranges.json",
        {
            f"| {name} | {{0}} | {' | '.join(['{4}'] * 5)} |": tuple(
                ("rules", {"rule": rule}, column) for column in _RULE_COLUMNS
            )
        },
    )
]

OF_BENCHMARKS: list[Figures] = [*CALIBRATION, *DEVICE, *EC57, *MCU, *NEWCOMERS, *QRS, *SCALE, *THROUGHPUT]
