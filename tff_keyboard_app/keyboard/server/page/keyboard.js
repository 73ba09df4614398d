// The keyboard page. The page has the text and the counts. The server decides which words to suggest
// and what a tap on a suggestion types (typing_session.py), so the terminal keyboard does the same.

import { element, isOurs, setLanguage, textarea } from "./field.js";
import { buildKeys, deleteBackwards, flash, showKeys, startsSentence, typeLetter } from "./keys.js";
import { buildOwnWords } from "./own_words.js";
import { buildReplay } from "./replay.js";
import { buildSuggestions } from "./suggestions.js";
import {
  accept, canTakeBack, changed, changedByBrowser, cursorMoved, expectsCharacter, restart, send,
  typeCharacter,
} from "./typing.js";

const SLOT_CODES = ["Digit1", "Digit2", "Digit3"];
const SMALL_LETTER = /^\p{Ll}$/u;

/** Returns the action of a physical key, or null if the browser handles the key. */
function action(event) {
  if (event.isComposing) return null;
  if (event.altKey && SLOT_CODES.includes(event.code)) {
    return () => accept(SLOT_CODES.indexOf(event.code));
  }
  if (event.ctrlKey || event.altKey || event.metaKey) return null;
  if (event.key === "Enter" && !event.shiftKey) return send;
  if (event.key === "Backspace" && (canTakeBack() || startsAfterOneLetter())) return deleteBackwards;
  if (event.key === " " && event.shiftKey) return () => typeCharacter(" ", false);
  if (event.key === " " || expectsCharacter(event.key)) return () => typeCharacter(event.key);
  if (SMALL_LETTER.test(event.key) && startsSentence()) return () => typeLetter(event.key);
  return null;
}

// If the first letter of a sentence is deleted, its automatic capital may be unwanted.
const startsAfterOneLetter = () =>
  textarea.selectionStart === textarea.selectionEnd &&
  /(^|\s)\p{Lu}$/u.test(textarea.value.slice(0, textarea.selectionStart));

textarea.addEventListener("keydown", (event) => {
  flash(event.key);
  const act = action(event);
  if (!act) return;
  event.preventDefault();
  act();
  showKeys();
});

// An emoji has no key. It comes from a picker or from a phone's own keyboard.
textarea.addEventListener("beforeinput", (event) => {
  if (isOurs() || event.inputType !== "insertText" || event.isComposing) return;
  if (!event.data || !expectsCharacter(event.data)) return;
  event.preventDefault();
  setTimeout(() => { // an edit inside the event would not be one step for the browser's undo
    typeCharacter(event.data);
    showKeys();
  });
});

textarea.addEventListener("input", (event) => {
  if (isOurs()) return;
  // A paste costs as many keystrokes as typing it, because the keyboard did not save them.
  const isPaste = event.inputType.startsWith("insertFrom");
  const pasted = event.data ?? event.dataTransfer?.getData("text") ?? "";
  changedByBrowser(isPaste ? [...pasted].length : 1);
  showKeys();
});

// The cursor was moved without typing.
for (const moved of ["click", "keyup"]) {
  textarea.addEventListener(moved, (event) => {
    if (moved === "keyup" && !/^(Arrow|Home|End)/.test(event.key)) return;
    cursorMoved();
    showKeys();
  });
}

element("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
  textarea.focus();
  showKeys();
});

element("restart").addEventListener("click", () => {
  restart();
  textarea.focus();
  showKeys();
});

async function start() {
  // On a touch screen, use the keys on the page and do not open the phone's own keyboard.
  if (matchMedia("(pointer: coarse)").matches) textarea.inputMode = "none";
  const language = await buildSuggestions(async (place) => {
    await accept(place);
    if (document.activeElement === document.body) textarea.focus({ preventScroll: true });
    showKeys();
  });
  setLanguage(language.code);
  buildKeys(language.keys, language.held);
  buildReplay(language.example, showKeys);
  await buildOwnWords(changed);
  await changed();
  textarea.focus({ preventScroll: true });
}

start();
