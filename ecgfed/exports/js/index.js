/**
 * ecgfed in JavaScript: opens bundles and classifies recordings as the Python package does, in Node and in browsers.
 * Research use only, not for diagnosis.
 */

export { Bundle, openBundle } from "./bundle.js";
export { Classifier, UNCLASSIFIED } from "./classifier.js";
export { Counters, readCounters } from "./counters.js";
export { ContextStream } from "./context-stream.js";
export { DRIFT_BOUNDS, DRIFT_REASONS, Drift } from "./drift.js";
export { BundleError, EcgfedError, RecordError } from "./errors.js";
export { bandPass, bandPassTaps } from "./filters.js";
export { leadQuality } from "./quality.js";
export { DELAY_S, QrsDetector, detectQrs } from "./qrs.js";
export { POLAR_FS_HZ, POLAR_PMD, PolarEcgReader, parsePolarEcg, startPolarEcg } from "./polar.js";
export { readRecording } from "./recordings.js";
export { LineReader } from "./serial.js";
export { StreamClassifier } from "./stream.js";
export { FLAG_PADDED, FLAG_POOR_QUALITY } from "./windows.js";
