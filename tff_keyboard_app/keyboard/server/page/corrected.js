// The corrections of a message: which of them was taken back, and the words as they were typed. The
// same rules as `corrected_words.py`, with the same cases (`tests/support/backspace_cases.json`).

let words = []; // [text before, word as typed, its correction]

/** The part of a corrected text that the user rejects by taking the correction back. */
export function rejectedPart(typed, made) {
  const [left, right] = [typed.split(" "), made.split(" ")];
  while (left.length > 1 && right.length > 1 && left.at(-1) === right.at(-1)) {
    left.pop();
    right.pop();
  }
  return left.join(" ");
}

/** Whether a text has one of the words whose correction was taken back. */
export const isExempt = (typed, exempt) =>
  [...exempt].some((word) => ` ${typed} `.includes(` ${word} `));

/** Adds the correction of `typed` to `made` after the text `before`. */
export function addCorrected(before, typed, made) {
  const rejected = rejectedPart(typed, made);
  words.push([before, rejected, made.slice(0, made.length - (typed.length - rejected.length))]);
}

export const forgetCorrected = () => { words = []; };

/** The corrected word with the cursor in it or at its end, or null. */
export function correctedAt(before, after) {
  for (const [start, typed, made] of words.toReversed()) {
    const size = before.length - start.length;
    const rest = made.slice(Math.max(size, 0));
    if (size > 0 && size <= made.length && before === start + made.slice(0, size) &&
        (!after || after.startsWith(rest)) && !/^[\p{L}\p{N}]/u.test(after.slice(rest.length))) {
      return { typed, before: size, after: after ? rest.length : 0 };
    }
  }
  return null;
}

/** A strip that offers the corrected word at the cursor as it was typed, in its last place. */
export function withTyped(strip, before, after) {
  const place = correctedAt(before, after);
  if (!place || strip.slots.some((slot) => slot?.word === place.typed)) return strip;
  const space = after[place.after] === " " ? 1 : 0;
  const slot = {
    word: place.typed,
    probability: 0,
    replaces: [...before.slice(before.length - place.before)].length,
    inserts: `${place.typed} `,
    replaces_after: [...after.slice(0, place.after)].length + space,
    takesBack: true,
  };
  return { ...strip, slots: [...strip.slots.slice(0, -1), slot] };
}
