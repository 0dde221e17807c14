/** ecgfed in JavaScript. Research use only, not for diagnosis; every result needs a physician's over-read. */

/** A recording in memory. */
export interface Recording {
  /** Name for errors. */
  name?: string;
  /** Sampling frequency in Hz, 100 to 20,000. */
  fsHz: number;
  /** A row per lead, in millivolt, NaN if missing; integer arrays (raw units of an amplifier) are refused. */
  signalsMv: (Float64Array | Float32Array | number[])[];
  /** Lead names in the order of the rows; the bundle's lead is chosen among them. */
  leads?: string[];
  /** Units as the file states them. */
  units?: string[];
}

/** Prediction of one beat. */
export interface Beat {
  /** Sample number of the R peak. */
  sample: number;
  timeS: number;
  /** Class number, class name, and its WFDB symbol; -1, "" and "Q" if the beat is unclassified. */
  label: number;
  class: string;
  symbol: string;
  /** `UNCLASSIFIED` if a graph has answered with values that are not finite, so that the beat has no class; otherwise "". */
  override: "" | "Q";
  /** Probability of the class, calibrated if the bundle has a calibration; and of all classes; NaN if unclassified. */
  probability: number;
  probabilities: Float32Array;
  /** Bits: 1 the window extends past an end, 2 it overlaps a bad segment of the lead. */
  flags: number;
  /** Reasons of the bad segments, "gap+noise", or "". */
  poorQuality: string;
  /** Whether its class is unreliable: out of distribution, or of a probability below the bundle's threshold. */
  lowConfidence: boolean;
  /** Whether it is unlike any training beat. */
  outOfDistribution: boolean;
  /** @deprecated since 0.3, removed in 0.5: use `lowConfidence`. */
  uncertain: boolean;
  /** @deprecated since 0.3, removed in 0.5: use `outOfDistribution`. */
  far: boolean;
}

/**
 * What a stream reports of a beat. Of an R peak, without a class (label -1, class ""): `announced`, within a second; `added`,
 * it was not announced; `moved`, it is elsewhere; `withdrawn`, it is none after all. Of a class: `early`, from the signal so
 * far, again only where it changes; `final`, as for the whole recording.
 */
export interface StreamBeat extends Beat {
  stage: "announced" | "added" | "moved" | "withdrawn" | "early" | "final";
  /** Id: 0, 1, 2 and so on in the order in which beats became known, the same in all that is reported of a beat. */
  beat: number;
  /** Signal received since the R peak when this was reported, in seconds. */
  lateS: number;
  /** Whether its window shows nothing of the heart, so that Python and C leave it unclassified. */
  noSignal: boolean;
  /** Probability that it follows a pacing spike, in the lead in use; NaN if not assessed. */
  paced: number;
}

/** The interface of onnxruntime-node and onnxruntime-web that is used. */
export interface OnnxRuntime {
  InferenceSession: { create(model: Uint8Array, options?: object): Promise<unknown> };
  Tensor: new (type: "float32", data: Float32Array, dims: number[]) => unknown;
}

/** A zip file, files by name, files dropped on a page, or a URL. */
export type BundleSource =
  | Uint8Array
  | ArrayBuffer
  | Blob
  | string
  | URL
  | Map<string, Uint8Array | Blob>
  | Record<string, Uint8Array | Blob>
  | Iterable<File>;

/** Bad input, described in one line of plain text. */
export class EcgfedError extends Error {}
export class BundleError extends EcgfedError {}
export class RecordError extends EcgfedError {}

/** One stage of a check: its largest difference from the bundle, and the tolerance. */
export interface GoldenStage {
  name: string;
  /** Infinity if the number of values differs. */
  difference: number;
  tolerance: number;
  unit: string;
  agrees: boolean;
}

/** Result of a check of golden vectors. */
export interface GoldenCheck {
  readonly stages: GoldenStage[];
  /** The first stage that differs, the faulty one; null if all agree. */
  readonly first: GoldenStage | null;
  readonly agrees: boolean;
  /** One line. */
  readonly text: string;
}

/** Signature of a bundle. */
export interface Signature {
  /** Fingerprint of the public key. */
  key: string;
  /** Whether it was verified; false if this runtime lacks Ed25519. */
  verified: boolean;
  /** Whether the key is one of `trusted`. */
  trusted: boolean;
}

/** An opened bundle, its files verified. */
export class Bundle {
  readonly manifest: Record<string, any>;
  /** Its signature, or null; from a folder's URL it is read only with `trusted`. */
  readonly signature: Signature | null;
  readonly classes: string[];
  readonly symbols: string[];
  readonly patients: string[];
  readonly leads: string[];
  /** Version of the RR features of its graphs, 0 for none. */
  readonly rrVersion: 0 | 1 | 2 | 3;
  /** Return a patient's classifier, or the global one; with `int8` its int8 variant, if export accepted one. */
  classifier(patient?: string | null, options?: { int8?: boolean }): Promise<Classifier>;
  /** Verify every file with the manifest. */
  verify(): Promise<void>;
  /** Recompute the golden vectors, stage by stage, for every model, and compare. */
  checkGolden(): Promise<GoldenCheck>;
}

/**
 * Open a bundle and verify all its files; with `verify` false each file is verified when used. With `trusted`, public keys
 * in PEM, one of them must have signed the bundle.
 */
export function openBundle(
  source: BundleSource,
  options: { ort: OnnxRuntime; verify?: boolean; trusted?: string | string[]; sessionOptions?: object },
): Promise<Bundle>;

/** A chain of graphs with its calibration. */
export class Classifier {
  readonly classes: readonly string[];
  readonly symbols: readonly string[];
  readonly leads: readonly string[];
  readonly rrVersion: 0 | 1 | 2 | 3;
  /** Whether `classify` averages answers over groups of alike beats: global models with RR features of version 3. */
  readonly averagedOverAlikeBeats: boolean;
  /** Detect and classify all beats, as `ecgfed predict` does. */
  classify(recording: Recording, options?: { lead?: string | number; railsMv?: number[] }): Promise<Beat[]>;
  /** Logits of beats from windows of 256 samples in millivolt at 360 Hz and their RR features; NaN if a graph's values are not finite. */
  logits(windowMv: Float32Array[], rr: Float32Array[]): Promise<Float32Array[]>;
  /** Release the ONNX Runtime sessions and their memory; the classifier cannot be used afterwards. */
  release(): Promise<void>;
}

/** WFDB symbol of an unclassified beat. */
export const UNCLASSIFIED: "Q";

/**
 * Classifies the beats of a stream; predictions do not depend on how it is split into chunks. With `early: true` R peaks are
 * announced within a second, classes are early, and then only what changes is reported; with `"decided"` there is one early
 * class of a beat, once the detector has decided on its R peak.
 */
export class StreamClassifier {
  constructor(
    classifier: Classifier,
    options: { fsHz: number; leads?: number; lead?: number; railsMv?: number[]; early?: boolean | "decided"; drift?: Drift },
  );
  /** Whether the patient's beats have changed since the first minutes. */
  readonly drift: Drift;
  /** Counts since the stream was made. */
  readonly counters: Counters;
  /** Number of samples received of this recording, including gaps, and the same in seconds. */
  readonly sampleCount: number;
  readonly timeS: number;
  /** @deprecated since 0.3, removed in 0.5: use `sampleCount`. */
  readonly seen: number;
  /**
   * Process the next samples in millivolt, a row per lead or the samples of a single lead; returns new predictions. With
   * `atSample`, the recorder's number of the first sample, skipped numbers are a gap.
   */
  push(samplesMv: (Float64Array | Float32Array | number[])[] | Float64Array | Float32Array | number[], options?: { atSample?: number }): Promise<StreamBeat[]>;
  /** Report missing samples, one week at most. */
  gap(samples: number): Promise<StreamBeat[]>;
  /** End the recording and return its last predictions; the next `push` begins another one at sample 0. */
  finish(): Promise<StreamBeat[]>;
}

/** Counts of a recording. */
export class Counters {
  constructor(classes: number);
  /** Samples of the lead in use, and those missing. */
  samples: number;
  missing: number;
  /** Final beats; sample number of the last one. */
  beats: number;
  lastBeat: number;
  /** Unclassified beats: a graph gave values that are not finite, or the window shows nothing of the heart. */
  noLogits: number;
  noSignal: number;
  /** Classified beats of low confidence, those out of distribution included; and those out of distribution. */
  lowConfidence: number;
  outOfDistribution: number;
  /** Beats whose window extends past an end; beats of poor quality, and by reason. */
  padded: number;
  poor: number;
  poorBy: Record<string, number>;
  /** Classified beats by class number. */
  classes: number[];
  /** Beats whose pacing was assessed; clearly paced ones; runs of ten and more of these. */
  pacingAssessed: number;
  clearlyPaced: number;
  pacedRuns: number;
  /** Whether more than 30% of ten or more assessed beats are clearly paced. */
  readonly paced: boolean;
  addSamples(samplesMv: ArrayLike<number>): void;
  add(beat: StreamBeat): void;
}

/** Counts of a device; those after `classes` only where it runs the monitor. */
export type DeviceCounters = Omit<Counters, "addSamples" | "add"> & {
  saturated: number;
  flat: number;
  /** Stretches of signal: the first, and one after each gap of more than 40 ms. */
  stretches: number;
  /** Beats whose quality is known. */
  watched: number;
  /** How often each change has begun, by reason, and the changes that are active. */
  drift: Record<string, number>;
  active: string[];
};
/** Read the counts of a device: the bytes of `ecgfed_counters_write` or `ecgfed_monitor_write`. */
export function readCounters(bytes: Uint8Array): DeviceCounters;

/** Bounds above which a change is reported. */
export interface DriftBounds {
  /** Number of reference beats: the first ones of good quality. */
  first: number;
  /** Number of current beats: the last ones, of any quality. */
  last: number;
  /** Increase of the fraction of good-quality beats that are out of distribution, or of low confidence. */
  far: number;
  uncertain: number;
  /** Total variation distance between the class distributions. */
  classes: number;
  /** 1 minus the correlation between the mean beats of the most frequent reference class. */
  shape: number;
  /** Increase of the fraction of poor-quality beats. */
  poor: number;
  /** Ratio, or inverse ratio, between the QRS amplitudes of the most frequent reference class. */
  size: number;
  /** Time without beats, in seconds. */
  silenceS: number;
  /** A change ends when its value falls below this fraction of its bound. */
  end: number;
}
export const DRIFT_BOUNDS: DriftBounds;
/** Reasons of drift with their messages. */
export const DRIFT_REASONS: Readonly<Record<string, string>>;

/** Start or end of a change, at the time of the beat at which it was detected. */
export interface DriftEvent {
  timeS: number;
  reason: string;
  began: boolean;
}

/** What `Drift` uses of a beat. */
export type DriftBeat = Pick<Beat, "timeS" | "label" | "flags"> &
  Partial<Pick<Beat, "lowConfidence" | "outOfDistribution" | "uncertain" | "far">>;

/** Detects drift in the predictions of a stream: whether this patient's beats have changed since the first minutes. */
export class Drift {
  constructor(classes: number, bounds?: Partial<DriftBounds>);
  readonly bounds: DriftBounds;
  /** Changes that are active. */
  readonly reasons: string[];
  /** Whether new labels are worth having; not for `poor` and `silence`, which are due to the signal. */
  readonly labelAgain: boolean;
  /** One sentence, or "" without changes. */
  readonly text: string;
  /** Each change as a fraction of its bound. */
  readonly values: Record<string, number>;
  /** The last thousand events. */
  readonly events: DriftEvent[];
  /** Add one beat with its window of 256 samples in millivolt; a stream calls it. */
  add(beat: DriftBeat, windowMv: ArrayLike<number>): void;
  /** Report the time without beats in seconds; a stream calls it. */
  quiet(timeS: number, forS: number): void;
  /** Restart with new reference beats: after new labels, or for another patient. */
  restart(): void;
}

/** Maximum delay of R peaks in a stream, in seconds. */
export const DELAY_S: number;
export class QrsDetector {
  constructor(fsHz: number, leads?: number, lead?: number);
  push(chunkMv: Float64Array[]): number[];
  finish(): number[];
}
export function detectQrs(signalsMv: Float64Array[], fsHz: number, lead?: number): number[];

/** RR features of version 2 or 3 of a stream, up to 104 beats late. */
export class ContextStream {
  constructor(version?: 2 | 3);
  /** For version 3, `besideMv` holds means of four samples at 360 Hz: 47 before the window, 33 after it. */
  push(beats: { beforeS: number; windowMv: Float32Array; usable: boolean; besideMv?: Float32Array | null }[]): Float32Array[];
  finish(): Float32Array[];
}

export interface Stretch {
  start: number;
  stop: number;
  reason: string;
}
/** The bad segments of one lead. */
export function leadQuality(
  recordedMv: Float64Array,
  fsHz: number,
  railsMv?: number[],
): { samples: number; fsHz: number; stretches: Stretch[]; usableS: number };

/** The 0.5 to 40 Hz band-pass, delay compensated, and its taps. */
export function bandPass(signalMv: Float64Array, fsHz: number): Float64Array;
export function bandPassTaps(fsHz: number): Float64Array;

/** A file: name and bytes. */
export interface NamedFile {
  name: string;
  bytes: Uint8Array;
}
/** Read a recording: WFDB (header and signal files together), EDF or EDF+, or a text table, whose sampling frequency and units are options. */
export function readRecording(files: NamedFile[], options?: { fsHz?: number; units?: string; columns?: string[] }): Recording & {
  name: string;
  leads: string[];
  signalsMv: Float64Array[];
};

/** Samples from a serial line: a header line `# ecgfed fs=360 leads=MLII,V1 units=mV`, then numbers line by line. */
export class LineReader {
  readonly format: { fsHz: number; leads: string[]; mvPerUnit: number; zero: number } | null;
  /** @deprecated since 0.3, removed in 0.5: use `format`. */
  readonly about: LineReader["format"];
  push(text: string): Float64Array[];
}

export const FLAG_PADDED: 1;
export const FLAG_POOR_QUALITY: 2;

/** UUIDs of Polar's measurement data service, of its control point and of its data, for Web Bluetooth. */
export const POLAR_PMD: Readonly<{ service: string; control: string; data: string }>;
/** Nominal sampling frequency of the Polar H10's ECG, in Hz. */
export const POLAR_FS_HZ: 130;
/** Read one frame: time of its last sample on the sensor's clock, in nanoseconds since 2000, and its samples in millivolt. */
export function parsePolarEcg(frame: ArrayBuffer | ArrayBufferView): { timestampNs: bigint; samplesMv: Float64Array };
/** Reads consecutive frames; the numbers of samples that were lost are skipped. */
export class PolarEcgReader {
  /** Number of the next sample. */
  readonly sampleCount: number;
  /** Read the next frame; `atSample` is the number of its first sample, as `StreamClassifier.push` takes it. */
  push(frame: ArrayBuffer | ArrayBufferView): { atSample: number; samplesMv: Float64Array };
}
/** Start the ECG of a connected Polar H10 (a `BluetoothRemoteGATTServer`); returns what stops it. */
export function startPolarEcg(server: object, onFrame: (frame: DataView) => void): Promise<() => Promise<void>>;
