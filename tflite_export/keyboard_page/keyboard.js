// The keyboard page. Text and counts live here; what to suggest, and what a tap on a suggestion
// types, the server says (typing_session.py), so that the terminal keyboard does the same.

"use strict";

const LETTERS = ["qwertyuiop", "asdfghjkl", "zxcvbnm"];
const SYMBOLS = ["1234567890", "@#$&-+()/", "*\"':;!?"];
const SLOT_NAMES = ["left", "middle, best", "right"];
const PUNCTUATION = ".,!?;:)";
const FLASH_MS = 110;

const element = (id) => document.getElementById(id);
const textarea = element("text");

let models = [];
let strips = [];
let active = 0;
let keystrokes = 0;
let charactersSent = 0;
let shifted = false;
let symbols = false;
let spaceIsOurs = false; // the last space came with a suggestion, so punctuation may take its place
let latestRequest = 0;

function make(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

// --- editing

function replaceBeforeCursor(count, inserted) {
  const cursor = textarea.selectionStart;
  const start = Math.max(0, cursor - count);
  textarea.setRangeText(inserted, start, textarea.selectionEnd, "end");
  textarea.scrollTop = textarea.scrollHeight;
}

function typeCharacter(character) {
  if (spaceIsOurs && PUNCTUATION.includes(character) && beforeCursor().endsWith(" ")) {
    replaceBeforeCursor(1, character + " ");
  } else {
    replaceBeforeCursor(0, character);
  }
  keystrokes += 1;
  spaceIsOurs = false;
  changed();
}

function backspace() {
  const isRange = textarea.selectionStart !== textarea.selectionEnd;
  // A pair of surrogates is one character to a person.
  const last = [...beforeCursor()].pop();
  replaceBeforeCursor(isRange || !last ? 0 : last.length, "");
  keystrokes += 1;
  spaceIsOurs = false;
  changed();
}

function accept(place) {
  const slot = strips[active]?.slots[place];
  if (!slot) return;
  // `replaces` counts characters; the textarea counts UTF-16 units.
  const taken = slot.replaces ? [...beforeCursor()].slice(-slot.replaces).join("").length : 0;
  replaceBeforeCursor(taken, slot.inserts);
  keystrokes += 1;
  spaceIsOurs = true;
  changed();
}

function send() {
  const message = textarea.value.trim();
  charactersSent += [...textarea.value].length;
  textarea.value = "";
  spaceIsOurs = false;
  if (message) {
    element("messages").append(make("li", { textContent: message }));
    element("messages").scrollTop = element("messages").scrollHeight;
  }
  changed();
  textarea.focus();
}

function restart() {
  textarea.value = "";
  element("messages").replaceChildren();
  keystrokes = 0;
  charactersSent = 0;
  changed();
  textarea.focus();
}

function beforeCursor() {
  return textarea.value.slice(0, textarea.selectionStart);
}

// --- suggestions

async function changed() {
  showCounts();
  const request = ++latestRequest;
  try {
    const response = await fetch("api/suggest", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ text: beforeCursor() }),
    });
    const answer = await response.json();
    if (request !== latestRequest) return; // a later key was faster
    if (!response.ok) throw new Error(answer.error);
    strips = answer.models;
    element("problem").hidden = true;
  } catch (error) {
    if (request !== latestRequest) return;
    strips = [];
    element("problem").textContent = `No suggestions: ${error.message}. Is the server still running?`;
    element("problem").hidden = false;
  }
  showStrip();
  showModels();
  document.body.dataset.shown = String(request); // tests wait for this
}

function showCounts() {
  const characters = charactersSent + [...textarea.value].length;
  const saved = characters - keystrokes;
  const share = characters ? Math.round((100 * saved) / characters) : 0;
  element("saved").textContent = saved;
  element("share").textContent = `${share}%`;
  element("meter").style.width = `${Math.max(0, Math.min(100, share))}%`;
  element("characters").textContent = characters;
  element("keystrokes").textContent = keystrokes;
}

function showStrip() {
  const buttons = element("strip").children;
  for (let place = 0; place < buttons.length; place++) {
    const slot = strips[active]?.slots[place];
    const button = buttons[place];
    button.disabled = !slot;
    button.textContent = slot ? slot.word : "";
    button.setAttribute(
      "aria-label",
      slot ? `${slot.word}, ${SLOT_NAMES[place]} suggestion` : `no ${SLOT_NAMES[place]} suggestion`,
    );
  }
}

function showModels() {
  element("bar-model").textContent = models[active]?.name ?? "";
  [...element("models").children].forEach((card, index) => {
    const strip = strips[index];
    card.setAttribute("aria-checked", String(index === active));
    card.tabIndex = index === active ? 0 : -1;
    card.querySelector(".latency").textContent = strip ? `${strip.latency_ms.toFixed(2)} ms` : "";
    card.querySelectorAll(".model-strip span").forEach((cell, place) => {
      const slot = strip?.slots[place];
      cell.replaceChildren(
        slot ? slot.word : "",
        make("small", { textContent: slot ? percent(slot.probability) : "" }),
      );
    });
  });
}

function percent(probability) {
  const value = 100 * probability;
  return value >= 0.1 ? `${value.toFixed(1)}%` : "<0.1%";
}

function choose(index) {
  active = index;
  showStrip();
  showModels();
}

// --- building the page

function buildStrip() {
  SLOT_NAMES.forEach((name, place) => {
    const button = make("button", { type: "button", disabled: true });
    if (place === 1) button.className = "best";
    button.addEventListener("click", () => {
      accept(place);
      textarea.focus();
    });
    element("strip").append(button);
  });
}

function buildKeys() {
  const rows = symbols ? SYMBOLS : LETTERS;
  const inCase = (character) => (shifted ? character.toUpperCase() : character);
  const characterKey = (character) => {
    const shown = inCase(character);
    return key(shown, shown, () => {
      typeCharacter(inCase(character));
      if (shifted) setShift(false);
    });
  };
  const shift = key("\u21e7", "Shift", () => setShift(!shifted), "special");
  shift.setAttribute("aria-pressed", String(shifted));
  shift.disabled = symbols;
  const layer = key(symbols ? "abc" : "?123", symbols ? "Letters" : "Symbols", () => {
    symbols = !symbols;
    shifted = false;
    buildKeys();
  }, "special");
  element("keys").replaceChildren(
    make("div", { className: "row" }, ...[...rows[0]].map(characterKey)),
    make("div", { className: "row indented" }, ...[...rows[1]].map(characterKey)),
    make("div", { className: "row" },
      shift, ...[...rows[2]].map(characterKey), key("\u232b", "Backspace", backspace, "special")),
    make("div", { className: "row" },
      layer,
      key(",", "Comma", () => typeCharacter(",")),
      key("space", "Space", () => typeCharacter(" "), "space"),
      key(".", "Full stop", () => typeCharacter(".")),
      key("\u23ce", "Send", send, "special")),
  );
}

function key(shown, label, press, kind = "") {
  const button = make("button", {
    type: "button", className: `key ${kind}`.trim(), textContent: shown, ariaLabel: label,
  });
  button.dataset.key = label.toLowerCase();
  // A mouse press must not take the cursor out of the text; a key press on the button may.
  button.addEventListener("pointerdown", (event) => event.preventDefault());
  button.addEventListener("click", press);
  return button;
}

function setShift(on) {
  shifted = on;
  buildKeys();
}

function buildModels() {
  models.forEach((model, index) => {
    const card = make("button", { type: "button", className: "model" },
      make("span", { className: "model-name" },
        make("span", { textContent: model.name }), make("span", { className: "latency" })),
      make("span", {
        className: "model-facts",
        textContent: `${model.quantization} \u00b7 ${(model.bytes / 1e6).toFixed(2)} MB \u00b7 ` +
          `${model.words.toLocaleString("en")} words`,
      }),
      make("span", { className: "model-strip" }, make("span"), make("span"), make("span")));
    card.setAttribute("role", "radio");
    card.setAttribute("aria-label", `Model ${model.name}`);
    card.addEventListener("click", () => choose(index));
    card.addEventListener("keydown", (event) => {
      if (!event.key.startsWith("Arrow")) return;
      event.preventDefault();
      choose((active + 1) % models.length);
      element("models").children[active].focus();
    });
    element("models").append(card);
  });
}

// --- physical keys

const KEY_NAMES = { " ": "space", Backspace: "backspace", Enter: "send", ",": "comma", ".": "full stop" };

function flash(pressed) {
  const name = KEY_NAMES[pressed] ?? pressed.toLowerCase();
  for (const button of element("keys").querySelectorAll(".key")) {
    if (button.dataset.key !== name) continue;
    button.classList.add("pressed");
    setTimeout(() => button.classList.remove("pressed"), FLASH_MS);
  }
}

textarea.addEventListener("keydown", (event) => {
  flash(event.key);
  if (event.altKey && ["Digit1", "Digit2", "Digit3"].includes(event.code)) {
    event.preventDefault();
    accept(Number(event.code.at(-1)) - 1);
  } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  } else if (spaceIsOurs && event.key.length === 1 && PUNCTUATION.includes(event.key)) {
    event.preventDefault();
    typeCharacter(event.key);
  }
});

textarea.addEventListener("input", (event) => {
  // A paste costs what typing it would: it is no saving of the keyboard's.
  const isPaste = event.inputType.startsWith("insertFrom");
  keystrokes += isPaste ? [...(event.data ?? event.dataTransfer?.getData("text") ?? "")].length : 1;
  spaceIsOurs = false;
  changed();
});

// The cursor was moved without typing.
for (const moved of ["click", "keyup"]) {
  textarea.addEventListener(moved, (event) => {
    if (moved === "click" || /^(Arrow|Home|End)/.test(event.key)) changed();
  });
}

element("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
element("restart").addEventListener("click", restart);

async function start() {
  buildStrip();
  buildKeys();
  models = (await (await fetch("api/models")).json()).models;
  buildModels();
  await changed();
  textarea.focus();
}

start();
