"""The rows of a report about its model: training, scores, calibration, signature."""

from collections.abc import Mapping

from ecgfed.base.errors import BundleError
from ecgfed.base.files import read_json
from ecgfed.exports.device.bundle import Bundle
from ecgfed.exports.device.shipped import CARD, CARD_DATA, MODEL, SHIPPED, name_of
from ecgfed.tasks.predict import describe_model
from ecgfed.tasks.prediction_warnings import certain_share


def model_rows(bundle: Bundle, patient: str | None) -> tuple[tuple[str, str], ...]:
    """Return names and values of a bundle's model, and its scores where the manifest has them."""
    manifest = bundle.manifest
    cohort = manifest.get("cohort")
    trained = str(cohort.get("kind", "")) if isinstance(cohort, dict) else ""
    split = f", {cohort['split']} split" if isinstance(cohort, dict) and cohort.get("split") else ""
    rounds = f", {manifest['rounds']} rounds" if "rounds" in manifest else ""
    window = f"{manifest['window_samples']} samples at {manifest['fs_hz']:g} Hz"
    rows = [
        ("Model", f"{describe_model(patient)}, in the bundle {name_of(bundle.path)}"),
        ("Method", f"{manifest['method']}{rounds}"),
        ("Trained on", f"{trained or 'not recorded'}{split}; lead {' or '.join(bundle.leads)}"),
        ("Personal models in the bundle", f"{len(bundle.patients):,}"),
        ("Classes", " ".join(bundle.classes)),
        ("Input", f"one beat at a time: {window}; {manifest['filter']}"),
        ("RR features", f"version {bundle.rr_version}" if bundle.rr_version else "none"),
    ]
    rows += _scores(manifest, patient)
    rows += _unseen(bundle)
    rows += _certainty(bundle, patient)
    signature = bundle.signature
    if signature is None:
        signed = "not signed"
    else:
        signed = f"{signature.as_json()['key']}, {'verified' if signature.as_json()['verified'] else 'not checked'}"
    return (*rows, ("Signed by", signed))


def _scores(manifest: Mapping[str, object], patient: str | None) -> list[tuple[str, str]]:
    """Return the model's scores on this patient and on its cohort's test beats."""
    rows = []
    run, patients = manifest.get("scores"), manifest.get("patients")
    if patient is not None and isinstance(patients, dict):
        patient_scores = patients.get(patient, {}).get("scores")
        text = "not scored"
        if isinstance(patient_scores, dict) and "macro_f1" in patient_scores:
            beats = f"{patient_scores['beats']:,} {patient_scores['split']} beats"
            text = f"macro-F1 {patient_scores['macro_f1']:.3f} on {beats} of this patient"
        rows.append((f"Scored on patient {patient}", text))
    if isinstance(run, dict):
        names = {
            "T_g": "the global model on every patient's test beats",
            "T_p": "the personal models, each on its own patient's",
        }
        parts = [f"{name} {run[name]:.3f} ({what})" for name, what in names.items() if isinstance(run.get(name), float)]
        rows.append(("Scored on its cohort", "; ".join(parts) or "not scored"))
    if patient is None:
        rows.append(("Scored on this patient", "not scored: it is not a personal model"))
    return rows


def _unseen(bundle: Bundle) -> list[tuple[str, str]]:
    """Return scores on unseen patients from the card of the model in the package; other bundles have none."""
    if name_of(bundle.path) != SHIPPED:
        return [("On unseen patients", "not assessed: the bundle has no such scores")]
    card = read_json(MODEL / CARD_DATA, BundleError)
    rows = [
        f"{row['what']}: QRS {row['QRS']}, ventricular {row['VEB']}, supraventricular {row['SVEB']}"
        for row in card["unseen"]
    ]
    text = "sensitivity / positive predictivity in percent, by models trained in the same way without them"
    return [("On unseen patients", f"{text}; {'; '.join(rows)} ({SHIPPED}/{CARD})")]


def _certainty(bundle: Bundle, patient: str | None) -> list[tuple[str, str]]:
    """Return the calibration of a model's probabilities, where the manifest has it."""
    overview = bundle.manifest.get("certainty")
    entry = bundle.manifest["global"] if patient is None else bundle.manifest["patients"][patient]
    calibration = entry.get("certainty")
    if overview is None or calibration is None:
        return [("Calibration", "not assessed: the probabilities are uncalibrated, and no beat is marked uncertain")]
    text = f"uncertain below p {calibration['threshold']:.3f}, at a temperature of {calibration['temperature']:.2f}"
    text += certain_share(bundle, patient)
    source = overview if calibration.get("fitted_on") is None else calibration
    before, after = source.get("ece_before"), source.get("ece_after")
    if isinstance(before, float) and isinstance(after, float):
        text += f"; expected calibration error {before:.3f} before, {after:.3f} after"
    return [("Calibration", text)]
