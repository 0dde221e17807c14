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
  if (text.length > most) return `has ${text.length} characters, more than ${most}`;
  return shown(text, Infinity) !== text ? "holds control characters" : "";
}
