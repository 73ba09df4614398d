// Where the letters at the cursor were touched on the keys of the page, in the units of touches.py.

const REMEMBERED = 64; // characters; a word is shorter
// The white space of Python, where the server splits the text.
const SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/u;

let next = null; // the touch of the character that is typed now
const touches = new Map(); // text up to a character -> the touch of this character

/**
 * Notes the touch of a key before its letter is typed.
 * @param {PointerEvent} event A click. One of a physical key has no place.
 * @param {HTMLElement} button The key.
 * @param {string[]} rows Rows of letters, which the page shows in the middle.
 */
export function touched(event, button, rows, row, column) {
  next = null;
  if (!event.detail) return;
  const { left, top, width, height } = button.getBoundingClientRect();
  const longest = Math.max(...rows.map((letters) => [...letters].length));
  const indent = (longest - [...rows[row]].length) / 2;
  next = [indent + column + (event.clientX - left) / width, row + (event.clientY - top) / height];
}

/** Takes the noted touch for the last character of a text that was just typed. */
export function typedTo(before) {
  touches.delete(before);
  if (next) touches.set(before, next);
  next = null;
  if (touches.size > REMEMBERED) touches.delete(touches.keys().next().value);
}

/** Forgets the touches of what another key has typed or deleted, up to a text. */
export function typedByBrowser(before) {
  for (const text of [...touches.keys()]) {
    if (text.length >= before.length) touches.delete(text);
  }
}

export const forgetTouches = () => touches.clear();

/** Returns the touches of the characters after the last white space, or null if none is known. */
export function touchesOf(before) {
  const run = [...before.split(SPACE).pop()];
  let text = before.slice(0, before.length - run.join("").length);
  const places = run.map((character) => {
    text += character;
    return touches.get(text) ?? null;
  });
  return places.some((place) => place !== null) ? places : null;
}
