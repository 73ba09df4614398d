// Applies keys to the text. Every key, tap and deletion is one keystroke.

import { addCorrected, forgetCorrected, isExempt, rejectedPart } from "./corrected.js";
import { countKeys, countSent, countUnsent, resetCounts } from "./counts.js";
import { dropStrips, messageLeft, stripEnded, takenBack } from "./events.js";
import {
  afterCursor, beforeCursor, element, hasSelection, make, replaceAround, textarea, undoEdit,
} from "./field.js";
import { isPrivate } from "./private.js";
import { answered, changed as textChanged, freshStrip, shownStrip } from "./suggestions.js";
import { forgetTouches, typedByBrowser, typedTo } from "./touches.js";

const PUNCTUATION = ".,!?;:)\u2026\u201d\u00bb"; // takes the place of an automatic space
const CLOSING = `${PUNCTUATION}<-"\u201c`; // ends a word, so that it is corrected
const LONGEST_SEQUENCE = 64; // of an emoji, in UTF-16 units
const EMOJI = /[\p{Extended_Pictographic}\p{Regional_Indicator}]/u;
const LETTER_OR_DIGIT = /^[\p{L}\p{N}]$/u;
const SECOND_SPACE = /[\p{L}\p{M}\p{N})"'\u2019\u201d] $/u;
const ENDED_SENTENCE = /[.!?\u2026]["'\u2019\u201d)\]]* $/u;

let spaceIsOurs = false; // the last space is automatic: punctuation may replace it
let lastOwnChange = null; // the change that Backspace undoes as a whole
const rejected = new Set(); // words of undone changes in this message; they are not changed again
const kept = new Set(); // words of this message for which the user rejected a correction
let unsettled = null; // the last message, while Backspace may bring it back

/**
 * Types a character of a key on the screen or of a physical key.
 * @param {string} character
 * @param {boolean} corrects False for a space with Shift, which leaves the word as it is.
 */
export function typeCharacter(character, corrects = true) {
  countKeys();
  const selected = hasSelection();
  const before = beforeCursor();
  const endsInOurSpace = spaceIsOurs && !selected && before.endsWith(" ");
  spaceIsOurs = false;
  if (isAddress(character)) undoChange(lastOwnChange);
  const followed = isMarkAfterCorrection(character) ? lastOwnChange : null;
  lastOwnChange = null;
  const correction = selected ? null : correctionBefore(character);
  if (endsInOurSpace && PUNCTUATION.includes(character)) {
    replaceAround(1, `${character} `);
    spaceIsOurs = true;
  } else if (correction) {
    const inserts = correction.inserts.trimEnd() + character;
    change({ ...correction, inserts }, tail(before, correction.replaces) + character, true);
  } else if (character === " " && !selected) {
    typeSpace(before, endsInOurSpace, corrects);
  } else {
    replaceAround(0, character);
  }
  if (followed && !lastOwnChange) {
    const following = followed.following + textarea.value.slice(followed.cursor, textarea.selectionStart);
    const place = { value: textarea.value, cursor: textarea.selectionStart };
    lastOwnChange = { ...followed, following, ...place };
  }
  typedTo(beforeCursor());
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
  return correction && !isExempt(taken, rejected) ? correction : null;
}

/** Returns the correction that punctuation or an emoji makes. */
function correctionBefore(character) {
  const closes = CLOSING.includes(character) || EMOJI.test(character);
  return closes ? dueCorrection() : null;
}

function typeSpace(before, endsInOurSpace, corrects) {
  if (endsInOurSpace) return; // the automatic space is already there
  const correction = dueCorrection();
  if (correction && !corrects) {
    reject(rejectedPart(tail(before, correction.replaces), correction.inserts.trimEnd()));
    replaceAround(0, " ");
  } else if (correction) {
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
  const made = slot.inserts.slice(0, slot.inserts.length - 1); // without its space or mark
  if (corrects) {
    addCorrected(valueBefore.slice(0, cursorBefore - taken.length), taken, made);
  }
  replaceAround(taken.length, slot.inserts, takenAfter.length);
  lastOwnChange = {
    value: textarea.value,
    cursor: textarea.selectionStart,
    inserted: slot.inserts,
    instead,
    takenAfter,
    word: taken,
    rejects: rejectedPart(taken, made),
    following: "", // marks and spaces that were typed after it
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
    replaceAround(lengthOfLast(beforeCursor()), "");
  }
  lastOwnChange = null;
  return changed();
}

/** Returns the length of the last emoji, which is a whole sequence, or of the last character. */
function lengthOfLast(text) {
  const cluster = [...new Intl.Segmenter().segment(text.slice(-LONGEST_SEQUENCE))].pop()?.segment ?? "";
  return EMOJI.test(cluster) ? cluster.length : [...text].pop()?.length ?? 0;
}

/** Whether a character shows that a corrected word before a full stop begins an address. */
const isAddress = (character) =>
  lastOwnChange?.corrects && lastOwnChange.inserted.endsWith(".") && !lastOwnChange.following &&
  canTakeBack() && LETTER_OR_DIGIT.test(character);

/** Whether Backspace still takes a correction back after this character. */
const isMarkAfterCorrection = (character) =>
  lastOwnChange?.corrects && canTakeBack() && ` ${CLOSING}`.includes(character);

function takeBack(change) {
  undoChange(change);
  rejected.add(change.rejects);
  if (change.corrects) kept.add(change.rejects);
}

/** Leaves a word as it was typed from now on. */
function reject(word) {
  rejected.add(word);
  kept.add(word);
}

function undoChange({
  inserted, instead, takenAfter, word, following, valueBefore, cursorBefore,
}) {
  // Undo instead of an edit: Ctrl+Z after an edit would bring the correction back.
  if (!following && undoEdit(valueBefore, cursorBefore)) {
    replaceAround(0, instead.slice(word.length));
  } else {
    replaceAround(inserted.length + following.length, instead + following + takenAfter);
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
  stripEnded(place);
  const typed = tail(beforeCursor(), slot.replaces);
  if (slot.takesBack) reject(slot.word);
  else if (typed && slot.word === typed && freshStrip().correction) kept.add(typed);
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
  const word = lastOwnChange?.rejects;
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
  typedByBrowser(beforeCursor());
  return changed();
}

/** Whether the key of a character does more than insert it. */
export const expectsCharacter = (character) =>
  isAddress(character) || isMarkAfterCorrection(character) ||
  PUNCTUATION.includes(character) && spaceIsOurs ||
  !hasSelection() && correctionBefore(character) !== null;

function forget() {
  spaceIsOurs = false;
  lastOwnChange = null;
  rejected.clear();
  kept.clear();
  forgetCorrected();
  forgetTouches();
}
