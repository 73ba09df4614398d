// The switch "Do not learn": what is sent while it is on never reaches the server.

import { element, textarea } from "./field.js";

const KEPT_AS = "do-not-learn"; // for this tab, over reloads

// Known before the first message can be sent, whatever the server answers and when.
let isOn = kept() === "yes";

export const isPrivate = () => isOn;

function kept() {
  try {
    return sessionStorage.getItem(KEPT_AS);
  } catch {
    return null; // a browser that keeps nothing
  }
}

function show() {
  element("private").setAttribute("aria-pressed", String(isOn));
  textarea.placeholder = isOn ? "Type a message: nothing is learnt" : "Type a message";
}

show();

/**
 * Shows the switch where something would be learnt, or is not because it is on.
 * @param {?boolean} learns Whether the server learns; null where it did not say.
 */
export function buildPrivate(learns) {
  const button = element("private");
  button.hidden = learns === false && !isOn;
  button.addEventListener("mousedown", (event) => event.preventDefault()); // the text keeps the focus
  button.addEventListener("click", () => {
    isOn = !isOn;
    sessionStorage.setItem(KEPT_AS, isOn ? "yes" : "no");
    show();
  });
}
