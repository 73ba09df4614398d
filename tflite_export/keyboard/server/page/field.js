// The text field: what stands around the cursor, and edits that the browser's undo knows.

export const element = (id) => document.getElementById(id);
export const textarea = element("text");

// The same rule as `sentences.py`: a newline or one mark ends a sentence; dots that trail off do not.
const SENTENCE_END = /\n|(?:(?<![.!?\u2026])\.|(?<!\.)[!?]+(?!\.))["'\u2019\u201d)\]]*\s/u;

let isOurEdit = false;
let language = "en";

/** Capitals and small letters are those of this language from now on. */
export function setLanguage(code) {
  language = code;
  for (const id of ["text", "messages", "strip", "replay-text"]) element(id).lang = code;
}

export const upper = (text) => text.replaceAll("\u00df", "\u1e9e").toLocaleUpperCase(language);
export const lower = (text) => text.toLocaleLowerCase(language);

export function make(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

export const beforeCursor = () => textarea.value.slice(0, textarea.selectionStart);
export const afterCursor = () => textarea.value.slice(textarea.selectionEnd);
export const hasSelection = () => textarea.selectionStart !== textarea.selectionEnd;

export function isSentenceStart() {
  return beforeCursor().split(SENTENCE_END).pop().trim() === "";
}

/** Whether an `input` event comes from `replaceAround` and is counted already. */
export const isOurs = () => isOurEdit;

/** Undoes the last edit as Ctrl+Z would; false where that did not leave `value`. */
export function undoEdit(value, cursor) {
  const focused = document.activeElement;
  isOurEdit = true;
  try {
    textarea.focus({ preventScroll: true });
    document.execCommand("undo");
    if (textarea.value !== value) {
      document.execCommand("redo");
      return false;
    }
    textarea.setSelectionRange(cursor, cursor);
    return true;
  } finally {
    isOurEdit = false;
    if (focused !== textarea && focused !== document.body) focused.focus({ preventScroll: true });
  }
}

/**
 * Puts text in the place of what stands around the cursor, and the cursor behind it.
 * @param {number} before UTF-16 units in front of the cursor, or of the selection.
 * @param {string} inserted
 * @param {number} after UTF-16 units behind.
 */
export function replaceAround(before, inserted, after = 0) {
  const start = Math.max(0, textarea.selectionStart - before);
  const end = Math.min(textarea.value.length, textarea.selectionEnd + after);
  if (start === end && !inserted) return;
  const focused = document.activeElement;
  isOurEdit = true;
  try {
    textarea.focus({ preventScroll: true }); // the command works on what has the focus
    textarea.setSelectionRange(start, end);
    // Deprecated, and still the only way of editing that Ctrl+Z takes back.
    const done = document.execCommand(inserted ? "insertText" : "delete", false, inserted);
    if (!done) textarea.setRangeText(inserted, start, end, "end");
  } finally {
    isOurEdit = false;
    if (focused !== textarea && focused !== document.body) focused.focus({ preventScroll: true });
  }
  textarea.scrollTop = textarea.scrollHeight;
}
