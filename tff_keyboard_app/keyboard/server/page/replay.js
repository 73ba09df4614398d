// "Type this for me": types a text, and accepts a suggestion as soon as it is the right word.

import { beforeCursor, element, lower, textarea } from "./field.js";
import { freshStrip } from "./suggestions.js";
import { accept, backspace, restart, send, typeCharacter } from "./typing.js";

const PAUSE_MS = 90;
const BEHIND_A_WORD = /^($|[\s.,!?;:)])/u;
const STEPS_PER_CHARACTER = 4; // if it takes more, the keyboard prevents this text

let running = false;

const plain = (text) => lower(text.replaceAll("\u2019", "'"));

/** Whether more typing after `text` can still give `target`. An automatic space may go. */
const leadsTo = (target, text) =>
  plain(`${target} `).startsWith(plain(text)) || plain(target).startsWith(plain(text.trimEnd()));

function rightSlot(target, text) {
  return (freshStrip()?.slots ?? []).findIndex((slot) => {
    if (!slot) return false;
    const kept = [...text].slice(0, [...text].length - slot.replaces).join("");
    const result = kept + slot.inserts.trimEnd();
    return result.length > text.length && plain(target).startsWith(plain(result)) &&
      BEHIND_A_WORD.test(target.slice(result.length));
  });
}

async function step(target) {
  const text = beforeCursor();
  if (!leadsTo(target, text)) return backspace();
  const place = rightSlot(target, text);
  if (place >= 0) return accept(place);
  const reached = plain(`${target} `).startsWith(plain(text)) ? text : text.trimEnd();
  return typeCharacter(target[reached.length]);
}

async function replay(target) {
  await restart();
  const pause = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : PAUSE_MS;
  const most = STEPS_PER_CHARACTER * target.length;
  for (let steps = 0; running && steps < most; steps++) {
    if (plain(textarea.value.trimEnd()) === plain(target)) {
      await send();
      return;
    }
    await step(target);
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

export function buildReplay(example, onStep) {
  element("replay-text").value = example;
  const button = element("replay");
  button.addEventListener("click", async () => {
    if (running) {
      running = false;
      return;
    }
    const target = element("replay-text").value.trim().replace(/\s+/gu, " ");
    running = true;
    location.hash = ""; // on a phone, back to the keyboard
    button.textContent = "Stop";
    document.body.dataset.replay = "running"; // tests wait for this
    await replay(target);
    running = false;
    button.textContent = "Type this for me";
    document.body.dataset.replay = "done";
    onStep();
  });
}
