/** Checks on file names and labels from untrusted sources (ecgfed/base/safe_io.py). */

import { safeText } from "./errors.js";

/** Return why a path leads, or may lead, out of its folder; "" if it stays inside. @param {string} name */
export function pathProblem(name) {
  if (safeText(name, Infinity) !== name) return "holds control characters";
  const parts = name.replaceAll("\\", "/").split("/");
  if (/^[/\\]/.test(name) || parts[0].includes(":")) return "is not a relative path inside the folder";
  return parts.includes("..") || parts.includes("") ? "leads out of the folder" : "";
}

/** Return why a text is not a valid label, or "". @param {unknown} text @param {number} maxLength */
export function labelProblem(text, maxLength = 255) {
  if (typeof text !== "string") return "is not text";
  if (!text.trim()) return "is empty";
  const { length } = Array.from(text); // characters, as Python counts them
  if (length > maxLength) return `has ${length} characters, more than ${maxLength}`;
  return safeText(text, Infinity) !== text ? "holds control characters" : "";
}

const FORBIDDEN = /[/\\<>:"|?*]/;
const RESERVED = /^(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])$/i;
const MAX_NAME_BYTES = 200;

/** Return why a name is not a valid file name on every common system, or "". @param {string} name */
export function nameProblem(name) {
  if (!name.trim()) return "is empty";
  const size = new TextEncoder().encode(name).length;
  if (size > MAX_NAME_BYTES) return `has ${size} bytes, more than ${MAX_NAME_BYTES}`;
  if (safeText(name, Infinity) !== name) return "holds control characters";
  if (FORBIDDEN.test(name)) return "holds characters that are not allowed";
  if (/^[. ]|[. ]$/.test(name)) return "starts or ends with a dot or a space";
  return RESERVED.test(name.split(".")[0].replace(/ +$/, "")) ? "is a device name" : "";
}
