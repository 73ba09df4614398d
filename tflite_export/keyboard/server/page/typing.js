// What a key does to the text. Every key, tap and deletion is one keystroke.

import { countKeys, countSent, countUnsent, resetCounts } from "./counts.js";
import { dropStrips, messageLeft, stripEnded, takenBack } from "./events.js";
import {
  afterCursor, beforeCursor, element, hasSelection, make, replaceAround, textarea, undoEdit,
} from "./field.js";
import { isPrivate } from "./private.js";
import { answered, changed as textChanged, freshStrip, shownStrip } from "./suggestions.js";

const PUNCTUATION = ".,!?;:)";
const SECOND_SPACE = /[\p{L}\p{M}\p{N})"'\u2019\u201d] $/u;
const ENDED_SENTENCE = /[.!?\u2026]["'\u2019\u201d)\]]* $/u;

let spaceIsOurs = false; // the last space came by itself: punctuation may take its place
let lastOwnChange = null; // what Backspace takes back as a whole
const rejected = new Set(); // what was taken back in this message is not made again
const kept = new Set(); // words of it of which a correction was taken back
let unsettled = null; // the last message, while Backspace may bring it back

/** A character of any key, on the screen or not. */
export function typeCharacter(character) {
  countKeys();
  const selected = hasSelection();
  const before = beforeCursor();
  const endsInOurSpace = spaceIsOurs && !selected && before.endsWith(" ");
  spaceIsOurs = false;
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

/** The text changed; what can no longer be brought back is learnt. */
export function changed() {
  const settled = unsettled;
  unsettled = null;
  return textChanged(settled?.lesson ?? null);
}

export const cursorMoved = () => textChanged();

/** The correction of the word at the cursor, unless it was taken back. */
function dueCorrection() {
  const correction = freshStrip()?.correction;
  const isDue = correction && !rejected.has(tail(beforeCursor(), correction.replaces));
  return isDue ? correction : null;
}

/** That which punctuation makes; a full stop leaves one letter, which may begin "i.e." */
function correctionBefore(character) {
  const correction = PUNCTUATION.includes(character) ? dueCorrection() : null;
  return character === "." && correction?.replaces === 1 ? null : correction;
}

function typeSpace(before, endsInOurSpace) {
  if (endsInOurSpace) return; // typed by habit: it is there already
  const correction = dueCorrection();
  if (correction) {
    change(correction, `${tail(before, correction.replaces)} `, true);
  } else if (ENDED_SENTENCE.test(before)) {
    return; // by habit, too
  } else if (SECOND_SPACE.test(before)) {
    change({ replaces: 1, inserts: ". ", replaces_after: 0 }, "  ");
  } else {
    replaceAround(0, " ");
  }
}

/** Makes a change that Backspace takes back, leaving `instead` where it was. */
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
    // A pair of surrogates is one character to a person.
    replaceAround([...beforeCursor()].pop()?.length ?? 0, "");
  }
  lastOwnChange = null;
  return changed();
}

function takeBack({ inserted, instead, takenAfter, word, corrects, valueBefore, cursorBefore }) {
  // Undone and not edited: Ctrl+Z would make an edit of ours what it was, corrected.
  if (undoEdit(valueBefore, cursorBefore)) {
    replaceAround(0, instead.slice(word.length));
  } else {
    replaceAround(inserted.length, instead + takenAfter);
    const cursor = textarea.selectionStart - takenAfter.length;
    textarea.setSelectionRange(cursor, cursor);
  }
  rejected.add(word);
  if (corrects) kept.add(word);
}

/** Brings the last message back as it was typed. */
function unsend({ typed, message, word, bubble, keptBefore }) {
  unsettled = null;
  replaceAround(0, typed);
  bubble.remove();
  countUnsent(message);
  rejected.add(word);
  for (const each of [...keptBefore, word]) kept.add(each);
}

/** Takes a suggestion; one that was tapped before the answer to the last key, if it still fits. */
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

/** Sends the message, its last word corrected as by a space; then Backspace brings it back. */
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

/** The field changed by other hands: paste, cut, undo, a native key. */
export function changedByBrowser(keys) {
  countKeys(keys);
  spaceIsOurs = false;
  lastOwnChange = null;
  return changed();
}

/** Whether punctuation does more than to stand there. */
export const expectsPunctuation = (character) =>
  PUNCTUATION.includes(character) &&
  (spaceIsOurs || !hasSelection() && correctionBefore(character) !== null);

function forget() {
  spaceIsOurs = false;
  lastOwnChange = null;
  rejected.clear();
  kept.clear();
}
