// What a key does to the text. Every key, tap and deletion is one keystroke.

import { countKeys, countSent, resetCounts } from "./counts.js";
import { messageLeft, stripEnded, takenBack } from "./events.js";
import {
  afterCursor, beforeCursor, element, hasSelection, make, replaceAround, textarea,
} from "./field.js";
import { answered, changed, freshStrip, shownStrip } from "./suggestions.js";

const PUNCTUATION = ".,!?;:)";
const SECOND_SPACE = /[\p{L}\p{M}\p{N})"'\u2019\u201d] $/u;

let spaceIsOurs = false; // the last space came by itself: punctuation may take its place
let lastOwnChange = null; // what Backspace takes back as a whole
const rejected = new Set(); // corrections taken back in this message are not made again

/** A character of any key, on the screen or not. */
export function typeCharacter(character) {
  countKeys();
  const selected = hasSelection();
  const before = beforeCursor();
  const endsInOurSpace = spaceIsOurs && !selected && before.endsWith(" ");
  spaceIsOurs = false;
  lastOwnChange = null;
  if (endsInOurSpace && PUNCTUATION.includes(character)) {
    replaceAround(1, `${character} `);
    spaceIsOurs = true;
  } else if (character === " " && !selected) {
    typeSpace(before, endsInOurSpace);
  } else {
    replaceAround(0, character);
  }
  return changed();
}

function typeSpace(before, endsInOurSpace) {
  if (endsInOurSpace) return; // typed by habit: it is there already
  const correction = freshStrip()?.correction;
  if (correction && !rejected.has(tail(before, correction.replaces))) {
    change(correction, `${tail(before, correction.replaces)} `);
  } else if (SECOND_SPACE.test(before)) {
    change({ replaces: 1, inserts: ". ", replaces_after: 0 }, "  ");
  } else {
    replaceAround(0, " ");
  }
}

/** Makes a change that Backspace takes back, leaving `instead` where it was. */
function change(slot, instead) {
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
  };
}

const tail = (text, length) => (length ? [...text].slice(-length).join("") : "");

export const canTakeBack = () =>
  lastOwnChange !== null &&
  !hasSelection() &&
  lastOwnChange.value === textarea.value &&
  lastOwnChange.cursor === textarea.selectionStart;

export function backspace() {
  countKeys();
  spaceIsOurs = false;
  if (canTakeBack()) {
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

function takeBack({ inserted, instead, takenAfter, word }) {
  replaceAround(inserted.length, instead + takenAfter);
  const cursor = textarea.selectionStart - takenAfter.length;
  textarea.setSelectionRange(cursor, cursor);
  rejected.add(word);
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
  change(slot, tail(beforeCursor(), slot.replaces));
  spaceIsOurs = true;
  await changed();
}

export function send() {
  countKeys();
  const message = textarea.value.trim();
  countSent(message);
  messageLeft(message);
  textarea.value = "";
  forget();
  if (message) {
    element("messages").append(make("li", { textContent: message }));
    element("messages").scrollTop = element("messages").scrollHeight;
  }
  return changed(message);
}

export function restart() {
  messageLeft(textarea.value.trim());
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

export const expectsPunctuation = (character) => spaceIsOurs && PUNCTUATION.includes(character);

function forget() {
  spaceIsOurs = false;
  lastOwnChange = null;
  rejected.clear();
}
