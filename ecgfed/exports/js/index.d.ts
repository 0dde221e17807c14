/** ecgfed in JavaScript. Research use only, not for diagnosis; every result needs a physician's over-read. */

/** A recording in memory. */
export interface Recording {
  /** What to call it in errors. */
  name?: string;
  /** Sampling frequency in Hz, 100 to 20,000. */
  fsHz: number;
  /** A row for each lead, in millivolt, NaN where there is no sample; whole-number arrays (an amplifier's steps) are refused. */
  signalsMv: (Float64Array | Float32Array | number[])[];
  /** The leads' names, in the rows' order; the bundle's lead is looked for among them. */
  leads?: string[];
  /** Units as the file states them. */
  units?: string[];
}

/** What is said of one beat. */
export interface Beat {
  /** Sample number of the R peak. */
  sample: number;
  timeS: number;
  /** Number of the class, its name, and the WFDB symbol that stands for it. */
  label: number;
  class: string;
  symbol: string;
  /** Probability of the class, calibrated where the bundle says how; and of all classes. */
  probability: number;
  probabilities: Float32Array;
  /** Bits: 1 the window reaches past an end, 2 it overlaps a bad stretch of the lead. */
  flags: number;
  /** Reasons of the bad stretches, "gap+noise", or "". */
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
 * A beat of a stream: `final`, what the whole recording gives; `early`, what it would be if none followed, and a final
 * one comes later; or `withdrawn`: it was told early and is none.
 */
export interface StreamBeat extends Beat {
  stage: "early" | "final" | "withdrawn";
}

/** The part of onnxruntime-node and onnxruntime-web that is used. */
export interface OnnxRuntime {
  InferenceSession: { create(model: Uint8Array, options?: object): Promise<unknown> };
  Tensor: new (type: "float32", data: Float32Array, dims: number[]) => unknown;
}

/** A zip file, files by name, files as dropped on a page, or an address. */
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

/** One stage of a check: what was computed, the largest difference from what the bundle says, and the largest let through. */
export interface GoldenStage {
  name: string;
  /** Infinity where another number of values came out. */
  difference: number;
  tolerance: number;
  unit: string;
  agrees: boolean;
}

/** What a check of golden vectors found. */
export interface GoldenCheck {
  readonly stages: GoldenStage[];
  /** The first stage that differs, the one at fault; null where all agree. */
  readonly first: GoldenStage | null;
  readonly agrees: boolean;
  /** One line. */
  readonly text: string;
}

/** Who signed a bundle. */
export interface Signature {
  /** Fingerprint of the signer's public key. */
  key: string;
  /** Whether it was checked and holds; false where this runtime does not know Ed25519. */
  verified: boolean;
  /** Whether the key is one of those that were named. */
  trusted: boolean;
}

/** An opened bundle, its files verified. */
export class Bundle {
  readonly manifest: Record<string, any>;
  /** Who signed it, or null; of a folder's address it is asked for only with `trusted`. */
  readonly signature: Signature | null;
  readonly classes: string[];
  readonly symbols: string[];
  readonly patients: string[];
  readonly leads: string[];
  /** Version of the RR features that its graphs take, 0 for none. */
  readonly rrVersion: 0 | 1 | 2;
  /** Return a patient's classifier, or the global one; with `int8` its int8 form, where export accepted one. */
  classifier(patient?: string | null, options?: { int8?: boolean }): Promise<Classifier>;
  /** Read every file and compare it with the manifest. */
  verify(): Promise<void>;
  /** Compute the bundle's golden vectors again, stage by stage, for every model it holds, and compare. */
  checkGolden(): Promise<GoldenCheck>;
}

/**
 * Open a bundle; every file is compared with the manifest unless `verify` is false: then each when it is used. With
 * `trusted`, public keys in PEM, one of them has to have signed it.
 */
export function openBundle(
  source: BundleSource,
  options: { ort: OnnxRuntime; verify?: boolean; trusted?: string | string[]; sessionOptions?: object },
): Promise<Bundle>;

/** A chain of graphs with what its probabilities are worth. */
export class Classifier {
  readonly classes: readonly string[];
  readonly symbols: readonly string[];
  readonly leads: readonly string[];
  readonly rrVersion: 0 | 1 | 2;
  /** Find and classify every beat, as `ecgfed predict` does. */
  classify(recording: Recording, options?: { lead?: string | number; railsMv?: number[] }): Promise<Beat[]>;
  /** Logits of beats that have been cut: windows of 256 samples in millivolt at 360 Hz, and their RR features. */
  logits(windowMv: Float32Array[], rr: Float32Array[]): Promise<Float32Array[]>;
}

/** Finds and classifies the beats of a stream; they do not depend on how it is cut into chunks. */
export class StreamClassifier {
  constructor(
    classifier: Classifier,
    options: { fsHz: number; leads?: number; lead?: number; railsMv?: number[]; early?: boolean; drift?: Drift },
  );
  /** Whether the patient's beats have changed since the first minutes. */
  readonly drift: Drift;
  /** Number of samples received of this recording, including gaps, and the same in seconds. */
  readonly sampleCount: number;
  readonly timeS: number;
  /** @deprecated since 0.3, removed in 0.5: use `sampleCount`. */
  readonly seen: number;
  /**
   * Take the next samples in millivolt, a row for each lead, or of one lead its samples alone; return the beats that are
   * decided now. With `atSample`, the recorder's number of the first of them, what was left out is a gap.
   */
  push(samplesMv: (Float64Array | Float32Array | number[])[] | Float64Array | Float32Array | number[], options?: { atSample?: number }): Promise<StreamBeat[]>;
  /** Say that so many samples were not recorded, a week at most. */
  gap(samples: number): Promise<StreamBeat[]>;
  /** End the recording; return the beats that are left. The next `push` begins another one at sample 0. */
  finish(): Promise<StreamBeat[]>;
}

/** When a change counts. */
export interface DriftBounds {
  /** Beats that are compared with: the first ones of good quality. */
  first: number;
  /** Beats that are compared: the last ones, of any quality. */
  last: number;
  /** So much more of the beats of good quality are far, or uncertain, than at first: shares. */
  far: number;
  uncertain: number;
  /** Share of the beats that would have to change their class for the classes to be as at first. */
  classes: number;
  /** Of the class that was the commonest at first, 1 less the correlation of the mean beat with that at first. */
  shape: number;
  /** So much more of the beats are of poor quality than at first, a share. */
  poor: number;
  /** The QRS of the class that was the commonest at first is so many times higher or lower. */
  size: number;
  /** No beat for so long, in seconds. */
  silenceS: number;
  /** A change is over where it is below so much of its bound. */
  end: number;
}
export const DRIFT_BOUNDS: DriftBounds;
/** What may have changed, and what is to be done: the words of a line, by reason. */
export const DRIFT_REASONS: Readonly<Record<string, string>>;

/** A change that began, or was over; the time is that of the beat with which it was noticed. */
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
  /** What has changed and is so still. */
  readonly reasons: string[];
  /** Whether new labels are worth having; `poor` and `silence` are the electrodes' and not the heart's. */
  readonly labelAgain: boolean;
  /** One sentence, or "" where nothing has changed. */
  readonly text: string;
  /** How much of its bound each change is. */
  readonly values: Record<string, number>;
  /** Changes, the last thousand. */
  readonly events: DriftEvent[];
  /** Take one beat with its window of 256 samples in millivolt; a stream does it. */
  add(beat: DriftBeat, windowMv: ArrayLike<number>): void;
  /** Say how long no beat has come, in seconds; a stream does it. */
  quiet(timeS: number, forS: number): void;
  /** Take the beats to come as the first ones: after new labels, or with another patient. */
  restart(): void;
}

/** R peaks of a stream, at the latest this many seconds late. */
export const DELAY_S: number;
export class QrsDetector {
  constructor(fsHz: number, leads?: number, lead?: number);
  push(chunkMv: Float64Array[]): number[];
  finish(): number[];
}
export function detectQrs(signalsMv: Float64Array[], fsHz: number, lead?: number): number[];

/** RR features of version 2 as beats come, up to 104 beats late. */
export class ContextStream {
  push(beats: { beforeS: number; windowMv: Float32Array; usable: boolean }[]): Float32Array[];
  finish(): Float32Array[];
}

export interface Stretch {
  start: number;
  stop: number;
  reason: string;
}
/** The bad stretches of one lead. */
export function leadQuality(
  recordedMv: Float64Array,
  fsHz: number,
  railsMv?: number[],
): { samples: number; fsHz: number; stretches: Stretch[]; usableS: number };

/** The 0.5 to 40 Hz band-pass, delay compensated, and its taps. */
export function bandPass(signalMv: Float64Array, fsHz: number): Float64Array;
export function bandPassTaps(fsHz: number): Float64Array;

/** A file that was dropped or read: its name and its bytes. */
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
