/** Reasons for which a part of a lead is bad (ecgfed/domain/signal/quality.py). */

/** Every reason, in Python's order. */
export const REASONS = Object.freeze(["gap", "flat", "rail", "spike", "noise", "baseline"]);
/** Reasons without any signal to detect beats in. */
export const NO_SIGNAL = Object.freeze(["gap", "flat", "rail", "spike"]);
/** Each reason alone. @type {Readonly<Record<string, readonly string[]>>} */
export const ALONE = Object.freeze(Object.fromEntries(REASONS.map((reason) => [reason, Object.freeze([reason])])));
