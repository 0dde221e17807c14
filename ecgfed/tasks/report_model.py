"""The rows of a report about its model: training, scores, calibration, signature."""

from collections.abc import Mapping

from ecgfed.base.errors import BundleError
from ecgfed.base.files import read_json
from ecgfed.base.language import number, tr, translated, trn
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.federation import OTHER_LEAD, OWN, SYNTHETIC, Federation, federation_in
from ecgfed.exports.device.shipped import CARD, CARD_DATA, MODEL, SHIPPED, name_of
from ecgfed.tasks.prediction_warnings import certain_share


def model_rows(bundle: Bundle, patient: str | None) -> tuple[tuple[str, str], ...]:
    """Return names and values of a bundle's model and its scores, where it has them, in the current language."""
    manifest = bundle.manifest
    cohort = manifest.get("cohort")
    trained = str(cohort.get("kind", "")) if isinstance(cohort, dict) else ""
    split = tr(", {split} split", split=cohort["split"]) if isinstance(cohort, dict) and cohort.get("split") else ""
    rounds = trn(", {n:d} round", ", {n:d} rounds", manifest["rounds"]) if "rounds" in manifest else ""
    model = tr("global model, in the bundle {bundle}", bundle=name_of(bundle.path))
    if patient:
        model = tr("model of patient {patient}, in the bundle {bundle}", patient=patient, bundle=name_of(bundle.path))
    federation = federation_in(manifest)
    rows = [
        (tr("Model"), model),
        (tr("Method"), f"{manifest['method']}{rounds}"),
        *([] if federation is None else [(tr("Trained on"), _federated(federation))]),
        (
            tr("Trained on") if federation is None else tr("Personal models and scores"),
            tr(
                "{cohort}{split}; lead {leads}",
                cohort=trained or tr("not recorded"),
                split=split,
                leads=tr(" or ").join(bundle.leads),
            ),
        ),
        (tr("Personal models in the bundle"), number(len(bundle.patients))),
        (tr("Classes"), " ".join(bundle.classes)),
        (
            tr("Input"),
            tr(
                "one beat at a time: {samples} samples at {fs:g} Hz; {filter}",
                samples=manifest["window_samples"],
                fs=manifest["fs_hz"],
                filter=manifest["filter"],
            ),
        ),
        (tr("RR features"), tr("version {version}", version=bundle.rr_version) if bundle.rr_version else tr("none")),
    ]
    rows += _scores(manifest, patient)
    rows += _unseen(bundle)
    rows += _certainty(bundle, patient)
    signature = bundle.signature
    if signature is None:
        signed = tr("not signed")
    elif signature.as_json()["verified"]:
        signed = tr("{key}, verified", key=signature.as_json()["key"])
    else:
        signed = tr("{key}, not checked", key=signature.as_json()["key"])
    return (*rows, (tr("Signed by"), signed))


def _federated(federation: Federation) -> str:
    """Return the sites that trained a model together, with their recordings."""
    known = {OWN: tr("own recordings"), SYNTHETIC: tr("synthetic recordings"), OTHER_LEAD: tr("other")}
    each = (
        tr(
            "{site} (patients: {patients}, training examples: {examples}, lead {leads}, {rates} Hz, {databases})",
            site=source.name,
            patients=number(source.patients),
            examples=number(source.training_examples),
            leads=tr(" or ").join(known.get(lead, lead) for lead in source.leads),
            rates=tr(" or ").join(number(rate, "g") for rate in source.recorded_hz),
            databases=tr("; ").join(known.get(name, name) for name in source.databases),
        )
        for source in federation.sites
    )
    sites = trn("{n:d} site", "{n:d} sites", len(federation.sites))
    return tr("{sites}, federation's run {run}: {each}", sites=sites, run=federation.run[:16], each=tr("; ").join(each))


def _scores(manifest: Mapping[str, object], patient: str | None) -> list[tuple[str, str]]:
    """Return the model's scores on this patient and on its cohort's test beats."""
    rows = []
    run, patients = manifest.get("scores"), manifest.get("patients")
    if patient is not None and isinstance(patients, dict):
        patient_scores = patients.get(patient, {}).get("scores")
        text = tr("not scored")
        if isinstance(patient_scores, dict) and "macro_f1" in patient_scores:
            text = tr(
                "macro-F1 {score:.3f} on {n} {split} beats of this patient",
                score=patient_scores["macro_f1"],
                n=patient_scores["beats"],
                split=patient_scores["split"],
            )
        rows.append((tr("Scored on patient {patient}", patient=patient), text))
    if isinstance(run, dict):
        names = {
            "T_g": tr("the global model on every patient's test beats"),
            "T_p": tr("the personal models, each on its own patient's"),
        }
        parts = [
            f"{name} {number(run[name], '.3f')} ({what})"
            for name, what in names.items()
            if isinstance(run.get(name), float)
        ]
        rows.append((tr("Scored on its cohort"), tr("; ").join(parts) or tr("not scored")))
    if patient is None:
        rows.append((tr("Scored on this patient"), tr("not scored: it is not a personal model")))
    return rows


def _unseen(bundle: Bundle) -> list[tuple[str, str]]:
    """Return scores on unseen patients from the card of the model in the package; other bundles have none."""
    if name_of(bundle.path) != SHIPPED:
        return [(tr("On unseen patients"), tr("not assessed: the bundle has no such scores"))]
    card = read_json(MODEL / CARD_DATA, BundleError)
    rows = [
        tr(
            "{what}: QRS {qrs}, ventricular {veb}, supraventricular {sveb}",
            what=row["what"],
            qrs=row["QRS"],
            veb=row["VEB"],
            sveb=row["SVEB"],
        )
        for row in card["unseen"]
    ]
    text = tr("sensitivity / positive predictivity in percent, by models trained in the same way without them")
    return [(tr("On unseen patients"), f"{tr('; ').join((text, *rows))} ({SHIPPED}/{CARD})")]


def _certainty(bundle: Bundle, patient: str | None) -> list[tuple[str, str]]:
    """Return the calibration of a model's probabilities, where the manifest has it."""
    overview = bundle.manifest.get("certainty")
    entry = bundle.manifest["global"] if patient is None else bundle.manifest["patients"][patient]
    calibration = entry.get("certainty")
    if overview is None or calibration is None:
        text = tr("not assessed: the probabilities are uncalibrated, and no beat is marked uncertain")
        return [(tr("Calibration"), text)]
    text = tr(
        "uncertain below p {threshold:.3f}, at a temperature of {temperature:.2f}",
        threshold=calibration["threshold"],
        temperature=calibration["temperature"],
    )
    text += translated(certain_share(bundle, patient))
    source = overview if calibration.get("fitted_on") is None else calibration
    before, after = source.get("ece_before"), source.get("ece_after")
    if isinstance(before, float) and isinstance(after, float):
        text += tr("; expected calibration error {before:.3f} before, {after:.3f} after", before=before, after=after)
    return [(tr("Calibration"), text)]
