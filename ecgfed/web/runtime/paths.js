/** Names from strangers: which may be a file's, which a label's (ecgfed/gate.py). */

import { shown } from "./errors.js";

/** Say why a path leads, or may lead, out of its folder; "" where it stays inside. @param {string} name */
export function pathFault(name) {
  if (shown(name, Infinity) !== name) return "holds control characters";
  const parts = name.replaceAll("\\", "/").split("/");
  if (/^[/\\]/.test(name) || parts[0].includes(":")) return "is no path inside the folder";
  return parts.includes("..") || parts.includes("") ? "leads out of the folder" : "";
}

/** Say why a text cannot be a label to be shown, or "". @param {unknown} text @param {number} most */
export function labelFault(text, most = 255) {
  if (typeof text !== "string") return "is no text";
  if (!text.trim()) return "is empty";
  const { length } = Array.from(text); // characters, as Python counts them
  if (length > most) return `has ${length} characters, more than ${most}`;
  return shown(text, Infinity) !== text ? "holds control characters" : "";
}

const FORBIDDEN = /[/\\<>:"|?*]/;
const RESERVED = /^(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])$/i;
const MOST_NAME_BYTES = 200;

/** Say why a name cannot be a file's on every common system, or "". @param {string} name */
export function nameFault(name) {
  if (!name.trim()) return "is empty";
  const size = new TextEncoder().encode(name).length;
  if (size > MOST_NAME_BYTES) return `has ${size} bytes, more than ${MOST_NAME_BYTES}`;
  if (shown(name, Infinity) !== name) return "holds control characters";
  if (FORBIDDEN.test(name)) return "holds what no file's name can";
  if (/^[. ]|[. ]$/.test(name)) return "begins with a dot or a blank, or ends in one";
  return RESERVED.test(name.split(".")[0].replace(/ +$/, "")) ? "is a device's" : "";
}
