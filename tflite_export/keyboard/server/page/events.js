// What became of each strip of this message, for `play --events`. The server gets it with the
// message and writes it without a word.

import { element } from "./field.js";

let logs = false;
let model = 0;
let strips = [];
let pending = null; // on the screen now

export function logEvents() {
  logs = true;
}

/** A strip is on the screen: the answer for a text, or that of another model for the same text. */
export function stripShown(strip, index) {
  if (!logs || !strip?.cursor) return;
  if (index !== model) strips = []; // a log is of the model that was typed with
  model = index;
  pending = {
    ...strip.cursor,
    words: strip.slots.map((slot) => slot?.word ?? null),
    latency_us: Math.round(1000 * strip.latency_ms),
  };
}

/**
 * It makes place for the next one; does nothing where it has already.
 * @param {string} outcome "accepted", "typed" or "left".
 * @param {?number} slot Place of what was accepted.
 */
export function stripEnded(outcome, slot = null) {
  if (pending) strips.push({ ...pending, outcome, slot, deleted: false });
  pending = null;
}

/** What was accepted last is taken back, before anything else was typed. */
export function takenBack() {
  const last = strips.at(-1);
  if (last?.outcome === "accepted") last.deleted = true;
}

/** Nothing of this message goes to the log. */
export function dropStrips() {
  strips = [];
  pending = null;
}

/** The message is sent or dropped: its strips go to the log. */
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
