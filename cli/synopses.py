"""A few words about each command for the lists of commands, and an example for its own help."""

from typing import Any

import typer
from typer.core import TyperGroup

#: command -> (what it does, in at most 60 characters; a line that can be typed), in the order a user meets them
SYNOPSES = {
    "prepare": ("Make a cohort from recordings.", ""),
    "prepare demo": ("Make up synthetic patients and a cohort from them.", "ecgfed prepare demo --out cohort"),
    "prepare mitbih": (
        "Make a cohort from the MIT-BIH Arrhythmia Database.",
        "ecgfed prepare mitbih --source mitdb --out cohort",
    ),
    "prepare svdb": (
        "Make a cohort from the Supraventricular Arrhythmia Database.",
        "ecgfed prepare svdb --source svdb --out cohort",
    ),
    "prepare qtdb": ("Make a cohort from the QT Database.", "ecgfed prepare qtdb --source qtdb --out cohort"),
    "prepare cinc2017": (
        "Make a cohort from the strips of the Challenge 2017.",
        "ecgfed prepare cinc2017 --source cinc2017 --out cohort",
    ),
    "prepare folder": (
        "Make a cohort from your own annotated recordings.",
        "ecgfed prepare folder recordings --out cohort",
    ),
    "prepare cifar10": ("Make a cohort of images from CIFAR-10.", "ecgfed prepare cifar10 --download --out images"),
    "prepare unpack": ("Make a cohort from a packed file.", "ecgfed prepare unpack cohort.packed --out cohort"),
    "train": ("Train one method on a cohort.", "ecgfed train cohort --out run"),
    "evaluate": ("Score a run: for everybody, for each patient and class.", "ecgfed evaluate run --split valid"),
    "export": ("Export a run as ONNX models for a device.", "ecgfed export run --out bundle"),
    "personalize": (
        "Make a patient's own model, from a few labels or a run.",
        "ecgfed personalize mitdb/208 --labels 208-labels.csv --out bundle",
    ),
    "predict": ("Classify every beat of a recording.", "ecgfed predict mitdb/208 --out predictions"),
    "report": ("Make a page of a recording, a folder, or a run.", "ecgfed report mitdb/208 --out 208.html"),
    "label": ("Choose the beats worth a label, and label them.", "ecgfed label mitdb/208 --out labels"),
    "serve": ("Open a page for recordings: report, label, replay.", "ecgfed serve --work my-recordings"),
    "agreement": (
        "Compare two readers' labels of one recording.",
        "ecgfed agreement first/208-labels.csv second/208-labels.csv",
    ),
    "inspect": ("Say how much of a recording can be used.", "ecgfed inspect mitdb/203 --out 203.png"),
    "detect": ("Find the R peaks of recordings.", "ecgfed detect mitdb --out peaks"),
    "ec57": ("Score beat annotations by ANSI/AAMI EC57.", "ecgfed ec57 mitdb --test qrs --test-folder peaks"),
    "convert": ("Write a recording as a WFDB record.", "ecgfed convert holter.edf --out records"),
    "cohort": ("Join cohorts, or divide one anew.", ""),
    "cohort resplit": (
        "Divide a cohort's beats anew, or leave patients out.",
        "ecgfed cohort resplit mitbih --seed 1 --out mitbih-1",
    ),
    "cohort join": ("Join cohorts into one federation of sites.", "ecgfed cohort join mitbih svdb --out both"),
    "runs": ("List runs, show one, or compare some.", ""),
    "runs list": ("List the runs below a folder.", "ecgfed runs list runs"),
    "runs show": ("Show one run: settings, scores so far, speed.", "ecgfed runs show runs/grp-fed"),
    "runs compare": (
        "Compare runs: settings, scores, classes, patients.",
        "ecgfed runs compare runs/fedavg runs/grp-fed",
    ),
    "sweep": (
        "Train every combination of settings, compare on validation.",
        "ecgfed sweep cohort --out swept --grid lr=0.01,0.05 --rounds 20",
    ),
    "federate": ("Train across hospitals, on Flower.", ""),
    "federate try": ("Try a federation on this machine.", "ecgfed federate try cohort --out federation"),
    "federate server": (
        "Run a federation's server.",
        "ecgfed federate server federation --keys keys --name fed.example.org",
    ),
    "federate site": (
        "Run a site: it dials the server and trains.",
        "ecgfed federate site north --cohort cohort --prepare",
    ),
    "federate preflight": (
        "Check a site before it connects.",
        "ecgfed federate preflight site --cohort c --server h:9092 --ca ca.crt",
    ),
    "federate audit": ("Verify and show what a site was asked.", "ecgfed federate audit north"),
    "federate status": ("Say how a server or a site stands.", "ecgfed federate status federation"),
    "delta": ("Show or apply a signed update of a model.", ""),
    "delta show": ("Say what a delta does, and who signed it.", "ecgfed delta show 208.delta"),
    "delta apply": (
        "Make the new model of the old one and a delta.",
        "ecgfed delta apply 2.delta --base old --trusted key.pub.pem --out new",
    ),
    "keys": ("Make keys to sign bundles with, and show them.", ""),
    "keys new": ("Make a key: one file to sign with, one to give away.", "ecgfed keys new clinic"),
    "keys show": ("Show a key's fingerprint, to compare it.", "ecgfed keys show clinic.pub.pem"),
    "methods": ("List what can be trained.", "ecgfed methods"),
    "reproduce": ("Run a table of a paper again.", "ecgfed reproduce fedabc --table 1 --source data"),
    "doctor": ("Say what is installed, and try it.", "ecgfed doctor"),
}


class CommandGroup(TyperGroup):
    """A group that lists its commands in the order of ``SYNOPSES``, others after them."""

    def list_commands(self, ctx: Any) -> list[str]:  # typer's own Context, or click's in older versions of typer
        """Return the commands' names in order."""
        order = [name.split()[-1] for name in SYNOPSES]
        return sorted(super().list_commands(ctx), key=lambda name: order.index(name) if name in order else len(order))


def add_synopses(app: typer.Typer, path: str = "") -> None:
    """Give each command its words and its example, those of groups inside too."""
    for command in app.registered_commands:
        synopsis, example = SYNOPSES.get(f"{path}{command.name}", ("", ""))
        if example:
            command.short_help = synopsis
            # \b: the parser is not to fill the line up with what comes next
            command.epilog = f"\b\nExample: {example}"
    for group in app.registered_groups:
        group.cls = CommandGroup
        group.short_help = SYNOPSES.get(f"{path}{group.name}", ("", ""))[0]
        if group.typer_instance is not None:
            add_synopses(group.typer_instance, f"{path}{group.name} ")
