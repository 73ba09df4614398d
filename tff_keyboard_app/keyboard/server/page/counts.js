// Counts keystrokes and computes `kss_with_spaces`, as defined in `typing_session.py`.

import { element, textarea } from "./field.js";

const MIN_SHOWN = -99; // after select-all and one letter the share is meaningless

let keystrokes = 0;
let charactersSent = 0;

export function countKeys(number = 1) {
  keystrokes += number;
}

/** Counts the characters of a sent message, without the space at its end. */
export function countSent(message) {
  charactersSent += [...message.trim()].length;
}

/** Removes the characters of a message that was brought back into the field. */
export function countUnsent(message) {
  charactersSent -= [...message.trim()].length;
}

export function resetCounts() {
  keystrokes = 0;
  charactersSent = 0;
}

export function showCounts() {
  const characters = charactersSent + [...textarea.value].length;
  const saved = characters - keystrokes;
  const share = characters ? Math.round((100 * saved) / characters) : 0;
  const shown = share < MIN_SHOWN ? `< ${MIN_SHOWN}%` : `${share}%`;
  element("saved").textContent = saved;
  element("share").textContent = shown;
  element("bar-saved").textContent = saved < 0 ? "none saved" : `${share}% saved`;
  element("below-zero").hidden = saved >= 0;
  element("meter").style.width = `${Math.max(0, Math.min(100, share))}%`;
  element("characters").textContent = characters;
  element("keystrokes").textContent = keystrokes;
}
