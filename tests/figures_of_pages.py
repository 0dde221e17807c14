"""The figures of the README, the docs and the benchmarks' pages that come from a results file."""

from figure_ways import (
    ALL_OF_IT,
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
    ec57_row,
    errors,
    gemm,
    grp,
    method_row,
    newcomer,
    on_mlii,
    one_seed,
    qrs,
    qrs_row,
    results_of,
    scale_row,
    short,
    stopped_in_round,
    stress_row,
    system,
    turned_over,
)
from figures import Figures, figures

README = [
    *figures(
        "README.md",
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
        "README.md",
        "default/results.json",
        {
            "T_g {2}, T_p {2} and T_r {2} (one seed), after {1} minutes on two cores": (
                *(("test", score) for score in SCENARIOS[:3]),
                ("minutes",),
            )
        },
    ),
    *figures(
        "README.md",
        "qrs/results.json",
        {
            "F1 {2}% on the 22 DS2 records it has never seen": (qrs("ecgfed", "DS2", "f1"),),
            "in {2} s of CPU for half an hour of two leads": (qrs("ecgfed", "cpu_s_per_record"),),
        },
    ),
    *figures(
        "README.md",
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

EC57_CELLS = "{2} / {2} | {1} / {1} | {1} / {1} | {1} / {1} | {1} / {1}, {1} / {1}"
EC57 = figures(
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
)

METHODS = [
    *figures(
        "benchmarks/methods/README.md",
        "methods/results.json",
        {"T_g of {3} is the model that calls every beat N": (("methods", "fedrep", "T_g"),)},
    ),
    *(
        one
        for name in results_of("methods/results.json")["methods"]
        for one in figures("benchmarks/methods/README.md", "methods/results.json", method_row(name))
    ),
]

NEWCOMERS = figures(
    "benchmarks/newcomers/README.md",
    "newcomers/results.json",
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
            "better than ours with both leads** ({2}%): pantompkins1985 {2}%, gqrs {2}%. With channel 0 alone ours has "
            "{2}%": tuple(qrs(name, "DS2", "f1") for name in ("ecgfed", "pantompkins1985", "gqrs", "ecgfed-1")),
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
    *(
        one
        for row in results_of("qrs/stress/results.json")["results"]["before"]
        for one in figures("benchmarks/qrs/stress/README.md", "qrs/stress/results.json", stress_row(row))
    ),
]

QUALITY = figures(
    "docs/quality.md",
    "quality/results.json",
    {
        "(lead MLII, {0} records, {0} s)": (clients, lambda results: clients(results) * RECORD_S),
        "Marked bad: {0} s ({1%}), {0} of the {0} beats ({1%})": (
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
        "{0%} of the {0} s they mark are found, and {1%} of what they do not mark is marked": (
            lambda results: on_mlii(results, "bad_in_marked_s") / on_mlii(results, "marked_s"),
            lambda results: on_mlii(results, "marked_s"),
            lambda results: (
                on_mlii(results, "bad_unmarked_s") / (clients(results) * RECORD_S - on_mlii(results, "marked_s"))
            ),
        ),
        "xqrs misses {1}% of the beats inside bad stretches and {1}% outside": errors("xqrs", "missed_percent"),
        "finds {1} beats a minute too many inside, {1} outside": errors("xqrs", "excess_per_min"),
        "our detector, with all leads, misses {1}% and {1}%": errors("ecgfed", "missed_percent"),
        "and finds {1} and {1} too many": errors("ecgfed", "excess_per_min"),
        "area under the ROC curve: {2}; for pSQI {2}, kSQI {2}, basSQI {2}": tuple(
            ("indices", name) for name in ("ours", "pSQI", "kSQI", "basSQI")
        ),
        "a step of 3 mV in {0}.": (damage("step 3 mV", "found_in"),),
        "at 6 dB {0%} of its time, at 12 dB {0} to {0%}, at 18 dB {0%} or less": (
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
        "Turned over, {0} of the 47 others are found": (turned_over,),
        "360 Hz called 100 is found in {0}, 128 in {0}, 250 in none, 500 in {0}, 1000 in {0}": tuple(
            ("frequency", stated) for stated in ("100", "128", "500", "1000")
        ),
        "{2} to {2} of its height in 102's V5 and both leads of 104, but {2} to {2} in 107 and 217, and up to {2}": (
            lambda results: min(results["pacing"]["102"][0], *results["pacing"]["104"]),
            lambda results: max(results["pacing"]["102"][0], *results["pacing"]["104"]),
            lambda results: min(*results["pacing"]["107"], *results["pacing"]["217"]),
            lambda results: max(*results["pacing"]["107"], *results["pacing"]["217"]),
            ("pacing", "highest_of_others"),
        ),
    },
)

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

CIFAR = figures(
    "docs/cifar10.md",
    "cifar/results.json",
    {
        "on {0} images and {0} clients, `grp-fed`'s server step (Adam, 0.01) raised the mean loss from {2} to {2}": (
            ("partition", "limit"),
            ("partition", "clients"),
            *(("methods", {"method": "grp-fed"}, "loss_mean_by_round", at) for at in (0, 1)),
        )
    },
)

FIGURES: list[Figures] = [
    *README,
    *GRP_FED,
    *EC57,
    *METHODS,
    *NEWCOMERS,
    *QRS,
    *QUALITY,
    *SCALE,
    *THROUGHPUT,
    *DECISIONS,
    *CIFAR,
]

#: Tables of figures that no results file has: page, the table's first cells, and what the page says of them.
ELSEWHERE = (
    ("benchmarks/qrs/stress/README.md", "| row | 1, all leads |", "printed, not kept in a file"),
    ("docs/grp-fed.md", "| local work | server | weights |", "no results file was kept"),
    ("docs/grp-fed.md", "| beta | gradient penalty |", "printed, not kept in a file"),
    ("benchmarks/throughput/README.md", "| changed in the plain loop |", "printed, not kept in a file"),
    (
        "docs/decisions/0011-convolution-layout-and-freed-memory.md",
        "| convolution of the reference net |",
        "torch 2.13.0, batch 64",
    ),
)
