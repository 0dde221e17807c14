/** ecgfed in JavaScript. Research use only, not for diagnosis; every result needs a physician's over-read. */

/** A recording in memory. */
export interface Recording {
  /** What to call it in errors. */
  name?: string;
  /** Sampling frequency in Hz, 100 to 20,000. */
  fsHz: number;
  /** A row for each lead, in millivolt, NaN where there is no sample. */
  signalsMv: (Float64Array | number[])[];
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
  /** The class is not to be relied on: far, or of a probability below the bundle's threshold. */
  uncertain: boolean;
  /** The beat looks like none the model was trained on. */
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

/** An opened bundle, its files verified. */
export class Bundle {
  readonly manifest: Record<string, any>;
  readonly classes: string[];
  readonly symbols: string[];
  readonly patients: string[];
  readonly leads: string[];
  /** Version of the RR features that its graphs take, 0 for none. */
  readonly rrVersion: 0 | 1 | 2;
  /** Return a patient's classifier, or the global one. */
  classifier(patient?: string | null, options?: { int8?: boolean }): Promise<Classifier>;
  /** Read every file and compare it with the manifest. */
  verify(): Promise<void>;
}

/** Open a bundle; every file is compared with the manifest unless `verify` is false: then each when it is used. */
export function openBundle(
  source: BundleSource,
  options: { ort: OnnxRuntime; verify?: boolean; sessionOptions?: object },
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
    options: { fsHz: number; leads?: number; lead?: number; railsMv?: number[]; early?: boolean },
  );
  /** Take the next samples, a row for each lead; return the beats that are decided now. */
  push(chunkMv: (Float64Array | number[])[]): Promise<StreamBeat[]>;
  /** Say that so many samples were not recorded. */
  gap(samples: number): Promise<StreamBeat[]>;
  /** End the stream; return the beats that are left. */
  finish(): Promise<StreamBeat[]>;
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
/** Read a recording: WFDB (header and signal files together), EDF or EDF+, or a text table with --fs and --units as options. */
export function readRecording(files: NamedFile[], options?: { fsHz?: number; units?: string; columns?: string[] }): Recording & {
  name: string;
  leads: string[];
  signalsMv: Float64Array[];
};

/** Samples from a serial line: a header line `# ecgfed fs=360 leads=MLII,V1 units=mV`, then numbers line by line. */
export class LineReader {
  readonly about: { fsHz: number; leads: string[]; mvPerUnit: number; zero: number } | null;
  push(text: string): Float64Array[];
}

export const FLAG_PADDED: 1;
export const FLAG_POOR_QUALITY: 2;
