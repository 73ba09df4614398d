// Applies keys to the text. Every key, tap and deletion is one keystroke.

import { countKeys, countSent, countUnsent, resetCounts } from "./counts.js";
import { dropStrips, messageLeft, stripEnded, takenBack } from "./events.js";
import {
  afterCursor, beforeCursor, element, hasSelection, make, replaceAround, textarea, undoEdit,
} from "./field.js";
import { isPrivate } from "./private.js";
import { answered, changed as textChanged, freshStrip, shownStrip } from "./suggestions.js";

const PUNCTUATION = ".,!?;:)";
const EMOJI = /[\p{Extended_Pictographic}\p{Regional_Indicator}]/u;
const LETTER_OR_DIGIT = /^[\p{L}\p{N}]$/u;
const SECOND_SPACE = /[\p{L}\p{M}\p{N})"'\u2019\u201d] $/u;
const ENDED_SENTENCE = /[.!?\u2026]["'\u2019\u201d)\]]* $/u;

let spaceIsOurs = false; // the last space is automatic: punctuation may replace it
let lastOwnChange = null; // the change that Backspace undoes as a whole
const rejected = new Set(); // words of undone changes in this message; they are not changed again
const kept = new Set(); // words of this message for which the user rejected a correction
let unsettled = null; // the last message, while Backspace may bring it back

/** Types a character of a key on the screen or of a physical key. */
export function typeCharacter(character) {
  countKeys();
  const selected = hasSelection();
  const before = beforeCursor();
  const endsInOurSpace = spaceIsOurs && !selected && before.endsWith(" ");
  spaceIsOurs = false;
  if (isAddress(character)) undoChange(lastOwnChange);
  lastOwnChange = null;
  const correction = selected ? null : correctionBefore(character);
  if (endsInOurSpace && PUNCTUATION.includes(character)) {
    replaceAround(1, `${character} `);
    spaceIsOurs = true;
  } else if (correction) {
    const inserts = correction.inserts.trimEnd() + character;
    change({ ...correction, inserts }, tail(before, correction.replaces) + character, true);
  } else if (character === " " && !selected) {
    typeSpace(before, endsInOurSpace);
  } else {
    replaceAround(0, character);
  }
  return changed();
}

/** Reports a change of the text. The last message is learned, because it is final now. */
export function changed() {
  const settled = unsettled;
  unsettled = null;
  return textChanged(settled?.lesson ?? null);
}

export const cursorMoved = () => textChanged();

/** Returns the correction of the word at the cursor, unless the user has rejected it. */
function dueCorrection() {
  const correction = freshStrip()?.correction;
  const taken = correction ? tail(beforeCursor(), correction.replaces) : "";
  const isDue = correction && ![taken, ...taken.split(" ")].some((word) => rejected.has(word));
  return isDue ? correction : null;
}

/**
 * Returns the correction that punctuation or an emoji makes. A full stop after one letter may begin
 * "i.e."
 */
function correctionBefore(character) {
  const closes = PUNCTUATION.includes(character) || EMOJI.test(character);
  const correction = closes ? dueCorrection() : null;
  return character === "." && correction?.replaces === 1 ? null : correction;
}

function typeSpace(before, endsInOurSpace) {
  if (endsInOurSpace) return; // the automatic space is already there
  const correction = dueCorrection();
  if (correction) {
    change(correction, `${tail(before, correction.replaces)} `, true);
  } else if (ENDED_SENTENCE.test(before)) {
    return; // there is already a space
  } else if (SECOND_SPACE.test(before)) {
    change({ replaces: 1, inserts: ". ", replaces_after: 0 }, "  ");
  } else {
    replaceAround(0, " ");
  }
}

/** Makes a change that Backspace undoes; undoing leaves `instead` in its place. */
function change(slot, instead, corrects = false) {
  const [valueBefore, cursorBefore] = [textarea.value, textarea.selectionStart];
  // The server counts characters, the field UTF-16 units.
  const taken = tail(beforeCursor(), slot.replaces);
  const takenAfter = [...afterCursor()].slice(0, slot.replaces_after).join("");
  replaceAround(taken.length, slot.inserts, takenAfter.length);
  lastOwnChange = {
    value: textarea.value,
    cursor: textarea.selectionStart,
    inserted: slot.inserts,
    instead,
    takenAfter,
    word: taken,
    corrects,
    valueBefore,
    cursorBefore,
  };
}

const tail = (text, length) => (length ? [...text].slice(-length).join("") : "");

const canUnsend = () => unsettled?.typed !== undefined && textarea.value === "";

export const canTakeBack = () => canUnsend() ||
  lastOwnChange !== null &&
  !hasSelection() &&
  lastOwnChange.value === textarea.value &&
  lastOwnChange.cursor === textarea.selectionStart;

export function backspace() {
  countKeys();
  spaceIsOurs = false;
  if (canUnsend()) {
    unsend(unsettled);
  } else if (canTakeBack()) {
    takenBack();
    takeBack(lastOwnChange);
  } else if (hasSelection()) {
    replaceAround(0, "");
  } else {
    // Two surrogates are one character for the user.
    replaceAround([...beforeCursor()].pop()?.length ?? 0, "");
  }
  lastOwnChange = null;
  return changed();
}

/** Whether a character shows that a corrected word before a full stop begins an address. */
const isAddress = (character) =>
  lastOwnChange?.corrects && lastOwnChange.inserted.endsWith(".") && canTakeBack() &&
  LETTER_OR_DIGIT.test(character);

function takeBack(change) {
  undoChange(change);
  rejected.add(change.word);
  if (change.corrects) kept.add(change.word);
}

function undoChange({ inserted, instead, takenAfter, word, valueBefore, cursorBefore }) {
  // Undo instead of an edit: Ctrl+Z after an edit would bring the correction back.
  if (undoEdit(valueBefore, cursorBefore)) {
    replaceAround(0, instead.slice(word.length));
  } else {
    replaceAround(inserted.length, instead + takenAfter);
    const cursor = textarea.selectionStart - takenAfter.length;
    textarea.setSelectionRange(cursor, cursor);
  }
}

/** Brings the last message back into the field, as it was typed. */
function unsend({ typed, message, word, bubble, keptBefore }) {
  unsettled = null;
  replaceAround(0, typed);
  bubble.remove();
  countUnsent(message);
  rejected.add(word);
  for (const each of [...keptBefore, word]) kept.add(each);
}

/** Accepts a suggestion. If a newer strip is on its way, it must still contain the word. */
export async function accept(place) {
  let slot = shownStrip()?.slots[place];
  if (!slot) return;
  if (!freshStrip()) {
    if (!(await answered())) return;
    slot = freshStrip()?.slots.find((other) => other?.word === slot.word);
    if (!slot) return;
  }
  countKeys();
  stripEnded("accepted", place);
  const typed = tail(beforeCursor(), slot.replaces);
  if (typed && slot.word === typed && freshStrip().correction) kept.add(typed);
  change(slot, tail(beforeCursor(), slot.replaces));
  spaceIsOurs = true;
  await changed();
}

/** Corrects the last word and sends the message. If it was corrected, Backspace can bring it back. */
export function send() {
  countKeys();
  const typed = textarea.value;
  const correction = hasSelection() ? null : dueCorrection();
  if (correction) change(correction, "");
  const word = lastOwnChange?.word;
  const message = textarea.value.trim();
  const lesson = message && !isPrivate() ? { sent: message, kept: [...kept] } : null;
  countSent(message);
  if (isPrivate()) dropStrips();
  else messageLeft(message);
  const keptBefore = [...kept];
  textarea.value = "";
  forget();
  if (!message) return changed();
  const bubble = make("li", { textContent: message });
  element("messages").append(bubble);
  element("messages").scrollTop = element("messages").scrollHeight;
  if (!correction) return textChanged(lesson);
  unsettled = { typed, message, word, bubble, keptBefore, lesson };
  return textChanged();
}

export function restart() {
  if (isPrivate()) dropStrips();
  else messageLeft(textarea.value.trim());
  textarea.value = "";
  element("messages").replaceChildren();
  resetCounts();
  forget();
  return changed();
}

/** Counts a change that the browser made: paste, cut, undo, a native key. */
export function changedByBrowser(keys) {
  countKeys(keys);
  spaceIsOurs = false;
  lastOwnChange = null;
  return changed();
}

/** Whether the key of a character does more than insert it. */
export const expectsCharacter = (character) =>
  isAddress(character) ||
  PUNCTUATION.includes(character) && spaceIsOurs ||
  !hasSelection() && correctionBefore(character) !== null;

function forget() {
  spaceIsOurs = false;
  lastOwnChange = null;
  rejected.clear();
  kept.clear();
}
