// The card of what was learnt of the owner: hidden where no model learns.

import { element, make } from "./field.js";

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

/** Shows what is remembered now, or what is left once a wish to forget is granted. */
export async function showOwnWords(wish = null) {
  try {
    show(await answer(wish ? "api/forget" : "api/words", wish));
  } catch (error) {
    element("problem").textContent = `Own words: ${error.message}`;
    element("problem").hidden = false;
  }
}

function show({ learns, remembered, own }) {
  element("own-card").hidden = !learns;
  element("remembered").textContent = remembered;
  element("own-words").replaceChildren(...own.map(({ word }) => {
    const button = make("button", { type: "button", className: "chip", textContent: word });
    button.setAttribute("aria-label", `Forget ${word}`);
    button.dataset.word = word;
    return make("li", {}, button);
  }));
  element("no-own-words").hidden = own.length > 0;
}

/** Wires the card; `onForgotten` asks for a new strip. */
export function buildOwnWords(onForgotten) {
  const forget = async (wish) => {
    await showOwnWords(wish);
    await onForgotten();
  };
  element("own-words").addEventListener("click", (event) => {
    const { word } = event.target.dataset;
    if (word) forget({ words: word });
  });
  element("forget-all").addEventListener("click", () => forget({ all: true }));
  return showOwnWords();
}
