// What is asked of a bundle's models, in Node and in a page alike (models.mjs).

/** Rows of a matrix that lies in a file of float32. */
const rowsOf = (values, width) => Array.from({ length: values.length / width }, (_, i) => values.subarray(width * i, width * (i + 1)));

/** Numbers that JSON has no word for, as text. */
const spoken = (value) => (Number.isFinite(value) ? value : String(value));

async function golden(bundle) {
  const { stages, first, agrees, text } = await bundle.checkGolden();
  return { stages: stages.map((stage) => ({ ...stage, difference: spoken(stage.difference) })), first: first?.name ?? null, agrees, text };
}

async function logits(bundle, { patient = null, int8 = false, window, rr }, floats) {
  const classifier = await bundle.classifier(patient, { int8 });
  const beats = rowsOf(await floats(window), 256);
  const features = rr ? await floats(rr) : new Float32Array(0);
  const rows = await classifier.logits(beats, rr ? rowsOf(features, features.length / beats.length) : []);
  return { temperature: classifier.certainty.temperature, threshold: classifier.certainty.threshold, found: rows };
}

async function signature(bundle) {
  return bundle.signature;
}

/**
 * Do one job; a refusal is its one line.
 * @param {(path: string, options: object) => Promise<any>} open a bundle
 * @param {(path: string) => Promise<Float32Array>} floats of a file
 */
export async function runJob(job, open, floats) {
  try {
    const bundle = await open(job.bundle, job.trusted === undefined ? {} : { trusted: job.trusted });
    return { answer: await { golden, logits, signature }[job.call](bundle, job, floats) };
  } catch (error) {
    if (error.name !== "EcgfedError") throw error;
    return { error: error.message };
  }
}
