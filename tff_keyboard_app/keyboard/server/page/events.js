// Records the outcome of each strip of this message, for `play --events`. The server receives it
// with the message, and adds only counts to the log.

import { element } from "./field.js";

let logs = false;
let model = 0;
let strips = [];
let pending = null; // on the screen now

export function logEvents() {
  logs = true;
}

/** Records a shown strip: a new answer, or the answer of another model for the same text. */
export function stripShown(strip, index) {
  if (!logs || !strip?.cursor) return;
  if (index !== model) strips = []; // only strips of the selected model count
  model = index;
  pending = {
    ...strip.cursor,
    words: strip.slots.map((slot) => slot?.word ?? null),
    latency_us: Math.round(1000 * strip.latency_ms),
  };
}

/**
 * Ends the shown strip, if there is one.
 * @param {?number} slot Position of the accepted suggestion; null if none was accepted.
 */
export function stripEnded(slot = null) {
  if (pending) strips.push({ ...pending, slot, deleted: false });
  pending = null;
}

/** Marks the last accepted suggestion as undone. */
export function takenBack() {
  const last = strips.at(-1);
  if (last && last.slot !== null) last.deleted = true;
}

/** Drops the strips of this message without counting them. */
export function dropStrips() {
  strips = [];
  pending = null;
}

/** Sends the strips of a message that was sent or dropped to be counted. */
export async function messageLeft(message) {
  stripEnded();
  const left = strips;
  strips = [];
  if (!left.length) return;
  const response = await fetch("api/events", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ message, model, strips: left }),
  });
  if (response.ok) return;
  element("problem").textContent = (await response.json()).error;
  element("problem").hidden = false;
}
