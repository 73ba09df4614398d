// The keys on the screen. They are built once and relabelled, so that the focus does not move.

import { element, isSentenceStart, lower, make, textarea, upper } from "./field.js";
import { touched } from "./touches.js";
import { backspace, send, typeCharacter } from "./typing.js";

const SYMBOLS = ["1234567890", "@#$&-+()/", "*\"':;!?"];
const MORE_SYMBOLS = ["[]{}<>%^=_", "\u20ac\u00a3\u00a5~`|\\\u00a7\u00b0", "\u2026\u2022\u2013\u2014\u00a1\u00bf\u00a9"];
const FLASH_MS = 110;
const DOUBLE_TAP_MS = 500;
const HELD_MS = 400;
const REPEAT_MS = 70;
const KEY_NAMES = { " ": "space", Backspace: "backspace", Enter: "send", ",": "comma", ".": "full stop" };

let letters = []; // rows, by language
let symbols = false;
let moreSymbols = false; // whether Shift shows the second page of symbols
let shift = "auto"; // "auto", "off", "once" or "locked"
let shiftTapped = -Infinity;
let capitalIsOurs = false; // the last letter was capitalised automatically
const characterKeys = []; // [button, row, column]
// Keys over the one that is held down.
const marked = make("div", { className: "marked", role: "group", ariaLabel: "Letters with marks" });
let shiftKey;
let layerKey;

const layer = () => (symbols ? (moreSymbols ? MORE_SYMBOLS : SYMBOLS) : letters);

const isUpper = () =>
  shift === "once" || shift === "locked" || (shift === "auto" && isSentenceStart());

/** Types a letter in the case of the Shift key; also used for physical keys. */
export function typeLetter(letter) {
  capitalIsOurs = shift === "auto" && isSentenceStart();
  const shown = isUpper() ? upper(letter) : letter;
  if (shift !== "locked") shift = "auto";
  return typeCharacter(shown);
}

/** Types a space. After Shift, it leaves the word as it is. */
function typeSpaceKey() {
  const corrects = shift !== "once";
  if (shift === "once") shift = "auto";
  return typeCharacter(" ", corrects);
}

export const startsSentence = () => shift === "auto" && isSentenceStart();

/** Deletes. After an automatic capital, the next letter is a small one. */
export function deleteBackwards() {
  const unwanted = capitalIsOurs;
  capitalIsOurs = false;
  const done = backspace();
  if (unwanted && isSentenceStart()) shift = "off";
  return done;
}

function pressShift(event) {
  if (symbols) {
    moreSymbols = !moreSymbols;
    showKeys();
    return;
  }
  const isDouble = event.timeStamp - shiftTapped < DOUBLE_TAP_MS;
  shiftTapped = event.timeStamp;
  if (shift === "once" && isDouble) shift = "locked";
  else if (isUpper()) shift = "off";
  else shift = "once";
  showKeys();
}

export function showKeys() {
  const rows = layer();
  const capitals = isUpper();
  marked.replaceChildren();
  for (const [button, row, column] of characterKeys) {
    const character = [...rows[row]][column] ?? ""; // there are fewer symbols than letters
    const shown = capitals && !symbols ? upper(character) : character;
    button.hidden = !character;
    if (button.textContent !== shown) label(button, shown, shown);
  }
  shiftKey.setAttribute("aria-pressed", String(symbols ? moreSymbols : capitals));
  if (symbols) label(shiftKey, "=\\<", "More symbols");
  else label(shiftKey, shift === "locked" ? "\u21ea" : "\u21e7", "Shift");
  label(layerKey, symbols ? "abc" : "?123", symbols ? "Letters" : "Symbols");
}

/**
 * @param {string[]} rows Three rows of letters.
 * @param {Object<string, string>} held Letter of a key -> letters with a mark that it offers.
 */
export function buildKeys(rows, held = {}) {
  letters = rows;
  const characters = (row) =>
    [...letters[row]].map((_, column) => {
      const button = key("", "", (event) => {
        if (symbols) return typeCharacter([...layer()[row]][column]);
        touched(event, button, letters, row, column);
        return typeLetter(letters[row][column]);
      });
      characterKeys.push([button, row, column]);
      whenHeld(button, () => offerMarked(button, symbols ? "" : held[letters[row][column]] ?? ""));
      return button;
    });
  shiftKey = key("\u21e7", "Shift", pressShift, "special");
  layerKey = key("", "", () => {
    symbols = !symbols;
    moreSymbols = false;
    showKeys();
  }, "special");
  const erase = key("\u232b", "Backspace", deleteBackwards, "special");
  whenHeld(erase, () => {
    deleteBackwards();
    showKeys();
    return REPEAT_MS;
  });
  const [columns, second] = letters.map((row) => row.length);
  element("keys").style.setProperty("--columns", columns);
  element("keys").style.setProperty("--missing", columns - second);
  element("keys").append(
    make("div", { className: "row" }, ...characters(0)),
    make("div", { className: "row indented" }, ...characters(1)),
    make("div", { className: "row" }, shiftKey, ...characters(2), erase),
    make("div", { className: "row" },
      layerKey,
      key(",", "Comma", () => typeCharacter(",")),
      key("space", "Space", typeSpaceKey, "space"),
      key(".", "Full stop", () => typeCharacter(".")),
      key("\u23ce", "Send", send, "special")),
    marked,
  );
  showKeys();
}

function key(shown, name, press, kind = "") {
  const button = make("button", { type: "button", className: `key ${kind}`.trim() });
  label(button, shown, name);
  // A press must not move the focus out of the text; a physical key on the button may.
  button.addEventListener("mousedown", (event) => event.preventDefault());
  button.addEventListener("click", async (event) => {
    if (button.dataset.held) {
      delete button.dataset.held; // holding the key has already done something
      return;
    }
    const done = press(event);
    if (document.activeElement === document.body) textarea.focus({ preventScroll: true });
    showKeys();
    await done;
  });
  return button;
}

function label(button, shown, name) {
  button.textContent = shown;
  button.ariaLabel = name;
  button.dataset.key = lower(name);
}

/** Acts when a key is held down, and again after the milliseconds that `act` returns, if any. */
function whenHeld(button, act) {
  let timer = 0;
  const hold = () => {
    button.dataset.held = "yes";
    const pause = act();
    if (pause) timer = setTimeout(hold, pause);
  };
  button.addEventListener("pointerdown", () => {
    delete button.dataset.held;
    timer = setTimeout(hold, HELD_MS);
  });
  for (const end of ["pointerup", "pointercancel", "pointerleave"]) {
    button.addEventListener(end, () => clearTimeout(timer));
  }
  button.addEventListener("contextmenu", (event) => event.preventDefault()); // of a long press
}

/** Shows keys over a key, one for each letter. The next key that is pressed removes them. */
function offerMarked(button, offered) {
  if (!offered) delete button.dataset.held; // it types its letter as usual
  marked.replaceChildren(...[...offered].map((letter) => {
    const shown = isUpper() ? upper(letter) : letter;
    return key(shown, shown, () => typeLetter(letter));
  }));
  const most = element("keys").clientWidth - marked.offsetWidth;
  marked.style.left = `${Math.max(0, Math.min(button.offsetLeft, most))}px`;
  marked.style.top = `${button.offsetTop - marked.offsetHeight}px`;
}

/** Shows on the screen which physical key was pressed. */
export function flash(pressed) {
  const name = KEY_NAMES[pressed] ?? lower(pressed);
  for (const button of element("keys").querySelectorAll(".key")) {
    if (button.dataset.key !== name) continue;
    button.classList.add("pressed");
    setTimeout(() => button.classList.remove("pressed"), FLASH_MS);
  }
}
