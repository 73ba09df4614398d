// The card "Your words". It is hidden if no model learns.

import { element, make } from "./field.js";
import { buildPrivate } from "./private.js";

async function answer(path, wish = null) {
  const response = await fetch(path, wish && {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(wish),
  });
  const body = await response.json();
  if (!response.ok) throw new Error(body.error);
  return body;
}

/** Shows the learned words, after adding or forgetting some of them if `wish` is given. */
export async function showOwnWords(wish = null, path = "api/forget") {
  try {
    const words = await answer(wish ? path : "api/words", wish);
    show(words);
    return words.learns;
  } catch (error) {
    element("problem").textContent = `Your words: ${error.message}`;
    element("problem").hidden = false;
    return null;
  }
}

function show({ learns, remembered, own }) {
  element("own-card").hidden = !learns;
  element("remembered").textContent = remembered;
  element("own-words").replaceChildren(...own.map(({ word, offered }) => {
    const button = make("button", { type: "button", className: "chip", textContent: word });
    button.classList.toggle("waiting", !offered);
    button.setAttribute("aria-label", `Forget ${word}${offered ? "" : ", not suggested yet"}`);
    button.dataset.word = word;
    return make("li", {}, button);
  }));
  element("no-own-words").hidden = own.length > 0;
}

/** Wires the card. `settle` learns the last message and requests a new strip. */
export async function buildOwnWords(settle) {
  const change = async (wish, path) => {
    await settle(); // otherwise the last message would be learned after this
    const isDone = await showOwnWords(wish, path) !== null;
    if (isDone) await settle(); // a new strip would hide the message of an error
    return isDone;
  };
  const forget = (wish) => change(wish, "api/forget");
  element("own-words").addEventListener("click", (event) => {
    const { word } = event.target.dataset;
    if (word) forget({ words: word });
  });
  element("add-word").addEventListener("submit", async (event) => {
    event.preventDefault();
    const field = element("new-word");
    if (field.value.trim() && await change({ words: field.value }, "api/add")) field.value = "";
  });
  element("forget-all").addEventListener("click", () => forget({ all: true }));
  buildPrivate(await showOwnWords());
}
