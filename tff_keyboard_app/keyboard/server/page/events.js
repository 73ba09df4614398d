// Records the outcome of each strip of this message, for `play --events`. The server receives it
// with the message and writes it to the log without its words.

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
  if (index !== model) strips = []; // the log has only strips of the selected model
  model = index;
  pending = {
    ...strip.cursor,
    words: strip.slots.map((slot) => slot?.word ?? null),
    latency_us: Math.round(1000 * strip.latency_ms),
  };
}

/**
 * Ends the shown strip, if there is one.
 * @param {string} outcome "accepted", "typed" or "left".
 * @param {?number} slot Position of the accepted suggestion.
 */
export function stripEnded(outcome, slot = null) {
  if (pending) strips.push({ ...pending, outcome, slot, deleted: false });
  pending = null;
}

/** Marks the last accepted suggestion as undone. */
export function takenBack() {
  const last = strips.at(-1);
  if (last?.outcome === "accepted") last.deleted = true;
}

/** Drops the strips of this message without logging them. */
export function dropStrips() {
  strips = [];
  pending = null;
}

/** Logs the strips of a message that was sent or dropped. */
export async function messageLeft(message) {
  stripEnded("left");
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
