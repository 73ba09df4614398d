// libcifg in the browser: an export's files in, words out. Nothing leaves the page.

const SUGGESTION_BYTES = 16; // const char*, padding, double
const encoder = new TextEncoder();
const decoder = new TextDecoder();

export class Keyboard {
  /** Loads `cifg.wasm` and the files of an export beside it. */
  static async load(stem) {
    let memory = null;
    const view = () => new Uint8Array(memory.buffer);
    const nfkc = (text, size, out, capacity) => {
      const done = encoder.encode(decoder.decode(view().slice(text, text + size)).normalize("NFKC"));
      if (done.length <= capacity) view().set(done, out);
      return done.length;
    };
    // The C library's output, of which there is none.
    const wasi = { fd_close: () => 8, fd_seek: () => 8, fd_write: () => 8 };
    const bytes = await (await fetch("cifg.wasm")).arrayBuffer();
    const imports = { page: { nfkc }, wasi_snapshot_preview1: wasi };
    const { instance } = await WebAssembly.instantiate(bytes, imports);
    memory = instance.exports.memory;
    instance.exports._initialize();
    const file = async (ending) => {
      const response = await fetch(stem + ending);
      if (!response.ok) throw new Error(`${stem}${ending}: ${response.status}`);
      return new Uint8Array(await response.arrayBuffer());
    };
    const described = await file(".json");
    const manifest = JSON.parse(decoder.decode(described));
    const part = (name) => (manifest[name] ? file(`.${name}`) : new Uint8Array());
    const parts = [file(".tflite"), file(".vocabulary"), described, part("ngram"), part("tail")];
    return new Keyboard(instance.exports, manifest, await Promise.all(parts));
  }

  constructor(library, manifest, files) {
    this.library = library;
    this.manifest = manifest;
    const places = files.map((file) => this.#put(file));
    const table = this.#put(new Uint8Array(8 * files.length));
    files.forEach((file, i) => {
      const entry = new DataView(library.memory.buffer, table + 8 * i);
      entry.setUint32(0, places[i], true);
      entry.setUint32(4, file.length, true);
    });
    const error = this.#put(new Uint8Array(300));
    this.keyboard = library.cifg_open_files(table, error, 300);
    if (!this.keyboard) throw new Error(this.#text(error));
    for (const place of [...places, table, error]) library.free(place);
    library.use_page_nfkc(this.keyboard);
  }

  /** `{prefix, words: [[word, probability]]}`, best first, for text before the cursor. */
  strip(text, count) {
    const room = new Uint8Array(SUGGESTION_BYTES * Math.max(count, 0));
    const [typed, found, prefix] = [this.#string(text), this.#put(room), this.#put(new Uint8Array(4))];
    const number = this.library.cifg_strip(this.keyboard, typed, count, found, prefix);
    const memory = new DataView(this.library.memory.buffer);
    const words = [];
    for (let i = 0; i < number; ++i) {
      const place = found + SUGGESTION_BYTES * i;
      words.push([this.#text(memory.getUint32(place, true)), memory.getFloat64(place + 8, true)]);
    }
    const answer = { prefix: this.#text(memory.getUint32(prefix, true)), words };
    for (const place of [typed, found, prefix]) this.library.free(place);
    return answer;
  }

  tokens(text) {
    const place = this.#string(text);
    const found = this.#text(this.library.cifg_tokens(this.keyboard, place));
    this.library.free(place);
    return found ? found.split("\n") : [];
  }

  isInTable(word) {
    const place = this.#string(word);
    const id = this.library.cifg_id_of(this.keyboard, place);
    this.library.free(place);
    return id !== 3;
  }

  /** @param {string[]} words Normalised; "" is a gap. */
  learn(words, kept = []) {
    const places = [this.#string(words.join("\n")), this.#string(kept.join("\n"))];
    this.library.cifg_learn(this.keyboard, ...places);
    places.forEach((place) => this.library.free(place));
  }

  /** One word, or all for null. */
  forget(word) {
    const place = word === null ? 0 : this.#string(word);
    this.library.cifg_forget(this.keyboard, place);
    if (place) this.library.free(place);
  }

  /** What is remembered: `{uses: {word: times}, kept: [word], ...}`. */
  cache() {
    return JSON.parse(this.#text(this.library.cifg_cache(this.keyboard)).split("\n")[1]);
  }

  #put(bytes) {
    const place = this.library.malloc(Math.max(bytes.length, 1));
    new Uint8Array(this.library.memory.buffer).set(bytes, place);
    return place;
  }

  #string(text) {
    return this.#put(encoder.encode(`${text.replaceAll("\0", " ")}\0`));
  }

  #text(place) {
    const memory = new Uint8Array(this.library.memory.buffer);
    return decoder.decode(memory.slice(place, memory.indexOf(0, place)));
  }
}
