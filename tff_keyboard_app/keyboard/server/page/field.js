// The text field: the text around the cursor, and edits that the browser can undo.

export const element = (id) => document.getElementById(id);
export const textarea = element("text");

// The same rules as `sentences.py`: a newline or one mark ends a sentence; dots that trail off and
// those of abbreviations do not. White space, \u00bf and \u00a1 may precede the first word.
const ABBREVIATION = "(?<![\\p{L}\\p{N}_.])(?:etc|i\\.e|e\\.g|approx|mr|mrs|ms|dr|prof|vs" +
  "|z\\.b|d\\.h|u\\.a|bzw|ca|usw|ggf|evtl|inkl|\u00f6rn|bkz|vb" +
  "|sr|sra|ud|uds|p\\.ej|p\\.ex|bijv|bv|enz|d\\.w\\.z|o\\.a|i\\.p\\.v|m\\.b\\.t)";
const SENTENCE_END = new RegExp(
  `\\n|(?:(?<![.!?\\u2026]|${ABBREVIATION})\\.|(?<!\\.)[!?]+(?!\\.))["'\\u2019\\u201d)\\]]*\\s`, "iu",
);

let isOurEdit = false;
let language = "en";

/** Sets the language of the page, which decides how letters are capitalised. */
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
  return /^[\s\u00bf\u00a1]*$/u.test(beforeCursor().split(SENTENCE_END).pop());
}

/** Whether an `input` event comes from `replaceAround`, which has counted it already. */
export const isOurs = () => isOurEdit;

/** Undoes the last edit like Ctrl+Z. Returns false if the result is not `value`. */
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
 * Replaces the text around the cursor, and puts the cursor after the new text.
 * @param {number} before UTF-16 units to replace before the cursor or the selection.
 * @param {string} inserted
 * @param {number} after UTF-16 units to replace after it.
 */
export function replaceAround(before, inserted, after = 0) {
  const start = Math.max(0, textarea.selectionStart - before);
  const end = Math.min(textarea.value.length, textarea.selectionEnd + after);
  if (start === end && !inserted) return;
  const focused = document.activeElement;
  isOurEdit = true;
  try {
    textarea.focus({ preventScroll: true }); // the command works on the focused element
    textarea.setSelectionRange(start, end);
    // Deprecated, but still the only way to make an edit that Ctrl+Z can undo.
    const done = document.execCommand(inserted ? "insertText" : "delete", false, inserted);
    if (!done) textarea.setRangeText(inserted, start, end, "end");
  } finally {
    isOurEdit = false;
    if (focused !== textarea && focused !== document.body) focused.focus({ preventScroll: true });
  }
  textarea.scrollTop = textarea.scrollHeight;
}
