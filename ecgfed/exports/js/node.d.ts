import { Bundle, OnnxRuntime, Recording } from "./index.js";

/** Open a bundle's folder or zip file. */
export function openBundleAt(
  path: string,
  options: { ort: OnnxRuntime; verify?: boolean; trusted?: string | string[]; sessionOptions?: object },
): Promise<Bundle>;

/** Read a recording from the disk: a WFDB record with or without its ending, an EDF file, or a text table. */
export function readRecordingAt(
  path: string,
  options?: { fsHz?: number; units?: string; columns?: string[] },
): Promise<Recording & { name: string; leads: string[]; signalsMv: Float64Array[] }>;
