// Answers the requests of the keyboard page where there is no server: strips of libcifg, with
// capitals, sentences and blocklist as `play` has them, but without its corrections. English.

import { Keyboard } from "./engine.js";

const SLOT_RANKS = [1, 0, 2]; // the best word stands in the centre
const LOOKED_AT = 12; // words, where some of the best are not to be shown
const LOOK_BACK = 1000;
// The same rule as `sentences.py`.
const SENTENCE_END = /\n|(?:(?<![.!?\u2026])\.|(?<!\.)[!?]+(?!\.))["'\u2019\u201d)\]]*\s/gu;
const REST_OF_WORD = /^[\p{L}\p{N}'\u2019-]*[\p{L}\p{N}]/u;
const FORMS = ["I", "I'm", "I'll", "I've", "I'd", "Monday", "Tuesday", "Wednesday", "Thursday",
  "Friday", "Saturday", "Sunday"];

const online = globalThis.fetch.bind(globalThis);
const keyboard = Keyboard.load("keyboard");
const blocked = readBlocklist();
let withheld = 0;

async function readBlocklist() {
  const lines = (await (await online("blocklist.txt")).text()).split("\n");
  const entries = lines.map((line) => line.split("#")[0].trim().toLowerCase()).filter(Boolean);
  const words = new Set(entries.filter((entry) => !entry.endsWith("*")));
  const starts = entries.filter((entry) => entry.endsWith("*")).map((entry) => entry.slice(0, -1));
  return (word) => words.has(word) || starts.some((start) => word.startsWith(start));
}

function sentencesOf(text) {
  const ends = [...text.matchAll(SENTENCE_END)].map((end) => end.index + end[0].length);
  return [0, ...ends].map((start, i) => text.slice(start, ends[i] ?? text.length));
}

/** The end of the text as typed that was normalised to the prefix. */
function fragmentOf(engine, text, prefix) {
  const typed = [...text];
  const longest = prefix ? Math.min(typed.length, 3 * prefix.length + 8) : 0;
  for (let length = 1; length <= longest; ++length) {
    const fragment = typed.slice(-length).join("");
    const tokens = engine.tokens(`${fragment}x`);
    if (tokens.length === 1 && tokens[0] === `${prefix}x`) return fragment;
  }
  return "";
}

function inCaseOf(fragment, word) {
  const isCapital = (text) => text !== text.toLowerCase() && text === text.toUpperCase();
  if (fragment.length > 1 && isCapital(fragment)) return word.toUpperCase();
  return isCapital(fragment.slice(0, 1)) ? word.slice(0, 1).toUpperCase() + word.slice(1) : word;
}

async function suggest({ text, after = "", sent = "", kept = [] }) {
  const [engine, isBlocked, start] = [await keyboard, await blocked, performance.now()];
  if (sent) learn(engine, sent, kept);
  const forms = new Map([...engine.manifest.truecase, ...FORMS].map((f) => [f.toLowerCase(), f]));
  const sentence = sentencesOf(text.slice(-LOOK_BACK)).pop().trimStart();
  const { prefix, words } = engine.strip(sentence, LOOKED_AT);
  const fragment = fragmentOf(engine, sentence, prefix);
  const isStart = sentence === "";
  withheld += words.slice(0, 3).filter(([word]) => isBlocked(word)).length;
  const rest = fragment ? REST_OF_WORD.exec(after)?.[0].length ?? 0 : 0;
  const slots = words.filter(([word]) => !isBlocked(word)).slice(0, 3).map(([word, probability]) => {
    const form = inCaseOf(fragment, forms.get(word) ?? word);
    const shown = isStart ? form.slice(0, 1).toUpperCase() + form.slice(1) : form;
    return {
      word: shown,
      probability,
      replaces: [...fragment].length,
      inserts: `${shown} `,
      replaces_after: [...after.slice(0, rest + (after[rest] === " "))].length,
    };
  });
  const placed = SLOT_RANKS.map((rank) => slots[rank] ?? null);
  return { models: [{ slots: placed, correction: null, latency_ms: performance.now() - start, withheld }] };
}

/** A sentence at a time; what is glued to a digit is a gap. */
function learn(engine, message, kept) {
  const insisted = kept.flatMap((typed) => engine.tokens(typed));
  for (const sentence of sentencesOf(message)) {
    const words = sentence.split(/\s+/u).flatMap((run) =>
      engine.tokens(run).map((word) => (/\p{N}/u.test(run) ? "" : word)));
    if (words.length) engine.learn(words, insisted);
  }
}

/** Learns a word at once, in no message, as `UserHistory.add` does. */
async function add(wish) {
  const engine = await keyboard;
  const typed = wish.words.trim();
  const tokens = engine.tokens(typed);
  if (tokens.length !== 1 || /[\p{N}\s]/u.test(typed) || !/\p{L}/u.test(typed)) {
    throw new Error("This is no word that can be learned: it has digits, a space or no letter.");
  }
  engine.learn(["", tokens[0], ""], tokens);
  return words();
}

async function forget(wish) {
  const engine = await keyboard;
  if (wish.all) engine.forget(null);
  else for (const word of engine.tokens(wish.words)) engine.forget(word);
  return words();
}

async function words() {
  const engine = await keyboard;
  const { uses, kept } = engine.cache();
  const own = Object.entries(uses).filter(([word]) => !engine.isInTable(word))
    .map(([word, times]) => ({ word, times, offered: times > 1 || kept.includes(word) }));
  return { learns: true, remembered: Object.keys(uses).length, own };
}

async function models() {
  const { model, ngram, vocabulary } = (await keyboard).manifest;
  const facts = {
    name: "keyboard",
    quantization: model.quantization,
    bytes: model.bytes,
    ngram_bytes: ngram?.bytes ?? 0,
    words: vocabulary.size - 4,
  };
  const example = "Are you coming home for dinner tonight? I will call you when I get there.";
  const language = { code: "en", keys: ["qwertyuiop", "asdfghjkl", "zxcvbnm"], example };
  return { models: [facts], language, logs_events: false };
}

document.getElementById("about-corrections").textContent = "Enter sends the message.";

const ANSWERS = { models, suggest, words, add, forget };

// The requests of the page have what was typed, so none of them may reach the web server.
globalThis.fetch = async (path, options) => {
  const [, name] = /^api\/(.*)$/u.exec(String(path)) ?? [];
  if (name === undefined) return online(path, options);
  const answer = ANSWERS[name];
  if (!answer) return Response.json({ error: `${name} needs a server` }, { status: 404 });
  try {
    return Response.json(await answer(options?.body && JSON.parse(options.body)));
  } catch (error) {
    return Response.json({ error: error.message }, { status: 500 });
  }
};
