// The switch "Do not learn": what is sent while it is on never reaches the server.

import { element, textarea } from "./field.js";

const KEPT_AS = "do-not-learn"; // for this tab, over reloads

let isOn = false;

export const isPrivate = () => isOn;

function show() {
  element("private").setAttribute("aria-pressed", String(isOn));
  textarea.placeholder = isOn ? "Type a message: nothing is learnt" : "Type a message";
}

/** Shows the switch where something would be learnt. */
export function buildPrivate(learns) {
  const button = element("private");
  button.hidden = !learns;
  isOn = learns && sessionStorage.getItem(KEPT_AS) === "yes";
  show();
  button.addEventListener("mousedown", (event) => event.preventDefault()); // the text keeps the focus
  button.addEventListener("click", () => {
    isOn = !isOn;
    sessionStorage.setItem(KEPT_AS, isOn ? "yes" : "no");
    show();
  });
}
