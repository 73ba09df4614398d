// The strip. Asks the server after every change and shows the latest answer.

import { withTyped } from "./corrected.js";
import { showCounts } from "./counts.js";
import { logEvents, stripEnded, stripShown } from "./events.js";
import { afterCursor, beforeCursor, element, make } from "./field.js";
import { showOwnWords } from "./own_words.js";
import { touchesOf } from "./touches.js";

const SLOT_NAMES = ["left", "middle, best", "right"];
const ANNOUNCED_AFTER_MS = 800; // a screen reader should not speak between two quick keys

let models = [];
let strips = [];
let active = 0;
let answeredFor = null; // the text that the strips belong to
let requests = 0;
let latest = Promise.resolve();
let announcement = 0;

const textNow = () => JSON.stringify([beforeCursor(), afterCursor()]);

/** The strip on the screen. It may belong to the text before the last key. */
export const shownStrip = () => strips[active];

/** The strip for the current text, or null if its answer has not arrived yet. */
export const freshStrip = () => (answeredFor === textNow() ? strips[active] : null);

/** Resolves when the last request is answered; to false if the text has changed since. */
export async function answered() {
  const request = requests;
  await latest;
  return request === requests;
}

/**
 * Requests a new strip. Call it after every change of text or cursor.
 * @param {?{sent: string, kept: string[]}} lesson A message to learn, and its words for which the
 *   user rejected a correction.
 */
export function changed(lesson = null) {
  showCounts();
  stripEnded();
  document.body.dataset.asked = String(++requests); // tests compare it with `shown`
  latest = ask(requests, lesson);
  return latest;
}

async function ask(request, lesson) {
  const text = textNow();
  let answer = [];
  let problem = "";
  try {
    const response = await fetch("api/suggest", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({
        text: beforeCursor(), after: afterCursor(), touches: touchesOf(beforeCursor()), ...lesson,
      }),
    });
    const body = await response.json();
    if (!response.ok) throw new Error(body.error);
    answer = body.models;
  } catch (error) {
    problem = `No suggestions: ${error.message}. Check that the server is running.`;
  }
  if (lesson) showOwnWords();
  if (request !== requests) return; // a later key was faster
  strips = answer.map((strip) => withTyped(strip, beforeCursor(), afterCursor()));
  answeredFor = text;
  element("problem").textContent = problem;
  element("problem").hidden = !problem;
  show();
  stripShown(strips[active], active);
  document.body.dataset.shown = String(request);
}

function show() {
  showStrip();
  showModels();
  showWithheld();
}

function showStrip() {
  const slots = strips[active]?.slots ?? [];
  [...element("strip").children].forEach((button, place) => {
    const slot = slots[place];
    button.disabled = !slot;
    const corrects = slot && slot.word === strips[active].correction?.word;
    button.classList.toggle("correction", Boolean(corrects));
    button.textContent = slot ? slot.word : "";
    button.setAttribute(
      "aria-label",
      slot
        ? `${slot.word}, ${SLOT_NAMES[place]} suggestion${corrects ? ", accepted by space" : ""}`
        : `no ${SLOT_NAMES[place]} suggestion`,
    );
  });
  clearTimeout(announcement);
  announcement = setTimeout(() => announce(slots), ANNOUNCED_AFTER_MS);
}

function announce(slots) {
  const words = [slots[1], slots[0], slots[2]].filter(Boolean).map((slot) => slot.word);
  const text = words.length ? `Suggestions: ${words.join(", ")}` : "No suggestions";
  if (element("announcer").textContent !== text) element("announcer").textContent = text;
}

function showModels() {
  element("bar-model").textContent = models[active]?.name ?? "";
  [...element("models").children].forEach((card, index) => {
    const strip = strips[index];
    card.classList.toggle("chosen", index === active);
    card.querySelector("input").checked = index === active;
    card.querySelector(".latency").textContent = strip ? `${strip.latency_ms.toFixed(2)} ms` : "";
    card.querySelectorAll(".model-strip li").forEach((cell, place) => {
      const slot = strip?.slots[place];
      cell.replaceChildren(
        slot ? slot.word : "\u2013",
        make("small", { textContent: slot ? ` ${percent(slot.probability)}` : "" }),
      );
    });
  });
}

function showWithheld() {
  const count = strips[active]?.withheld ?? 0;
  element("withheld").textContent = `Suggestions hidden by the blocklist: ${count}.`;
  element("withheld").hidden = count === 0;
}

function percent(probability) {
  const value = 100 * probability;
  return value >= 0.1 ? `${value.toFixed(1)}%` : "<0.1%";
}

/** Loads the models and builds the strip and the cards. Resolves to the language and its keys. */
export async function buildSuggestions(onTap) {
  SLOT_NAMES.forEach((_, place) => {
    const button = make("button", { type: "button", disabled: true });
    if (place === 1) button.className = "best";
    button.addEventListener("mousedown", (event) => event.preventDefault());
    button.addEventListener("click", () => onTap(place));
    element("strip").append(button);
  });
  const known = await (await fetch("api/models")).json();
  models = known.models;
  if (known.logs_events) logEvents();
  models.forEach((model, index) => element("models").append(modelCard(model, index)));
  return known.language;
}

// A radio button would hide its content from screen readers, so only the name is its label.
function modelCard(model, index) {
  const radio = make("input", { type: "radio", name: "model", id: `model-${index}` });
  const choose = () => {
    active = index;
    show();
    if (freshStrip()) stripShown(strips[active], active);
  };
  radio.addEventListener("change", choose);
  const label = make("label", { htmlFor: radio.id, textContent: model.name });
  // A click selects the model and leaves the focus in the text.
  label.addEventListener("mousedown", (event) => event.preventDefault());
  label.addEventListener("click", (event) => {
    event.preventDefault();
    choose();
  });
  const words = make("ol", { className: "model-strip" }, make("li"), make("li"), make("li"));
  words.setAttribute("aria-label", `Suggestions of ${model.name}: left, middle, right`);
  const ngram = model.ngram_bytes ? ` + ${(model.ngram_bytes / 1e6).toFixed(2)} MB n-gram` : "";
  const facts = `${model.quantization} \u00b7 ${(model.bytes / 1e6).toFixed(2)} MB${ngram} \u00b7 ` +
    `${model.words.toLocaleString("en")} words`;
  return make("div", { className: "model" },
    make("p", { className: "model-name" }, radio, label, make("span", { className: "latency" })),
    make("p", { className: "model-facts", textContent: facts }),
    words);
}
