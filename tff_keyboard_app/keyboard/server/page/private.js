// The switch "Do not learn". While it is on, sent messages do not reach the server.

import { element, textarea } from "./field.js";

const KEPT_AS = "do-not-learn"; // in this tab, also after a reload

// Set before the first message can be sent, without waiting for the server.
let isOn = kept() === "yes";

export const isPrivate = () => isOn;

function kept() {
  try {
    return sessionStorage.getItem(KEPT_AS);
  } catch {
    return null; // the browser stores nothing
  }
}

function show() {
  element("private").setAttribute("aria-pressed", String(isOn));
  textarea.placeholder = isOn ? "Type a message (not learned)" : "Type a message";
}

show();

/**
 * Shows the switch if messages are learned, or if the switch is on.
 * @param {?boolean} learns Whether the server learns; null if it did not answer.
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
