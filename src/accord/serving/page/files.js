// Files that are dropped or opened: plain text goes into the box, the rest through the server.

import { Problem, ask } from "./api.js";

const PLAIN = /\.(txt|text)$/iu;
const LONGEST = 4; // bytes of a character in UTF-8, at most
const by = (id) => document.getElementById(id);

export class Files {
  #page;
  #request = null;

  /** `page` has settings, languages and key, takes a text, and shows problems. */
  constructor(page) {
    this.#page = page;
    by("open-file").addEventListener("click", () => by("file").click());
    by("file").addEventListener("change", () => {
      const [file] = by("file").files;
      if (file) this.take(file);
      by("file").value = "";
    });
    this.#listen();
  }

  #listen() {
    const carries = (event) => event.dataTransfer?.types.includes("Files");
    const over = (on) => by("translator").classList.toggle("dropping", on);
    for (const name of ["dragenter", "dragover"]) {
      document.addEventListener(name, (event) => {
        if (!carries(event)) return;
        event.preventDefault();
        over(true);
      });
    }
    document.addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) over(false); // it has left the window
    });
    document.addEventListener("drop", (event) => {
      if (!carries(event)) return;
      event.preventDefault(); // else the browser would open it in the page's place
      over(false);
      const [file] = event.dataTransfer.files;
      if (file) this.take(file);
    });
  }

  /** What becomes of a file. */
  async take(file) {
    this.clear();
    try {
      if (PLAIN.test(file.name) && (await this.#asText(file))) return;
      await this.#throughServer(file);
    } catch (problem) {
      this.clear();
      if (problem.name !== "AbortError") this.#page.failed(problem);
    }
  }

  clear() {
    this.#request?.abort();
    by("file-state").hidden = true;
    by("file-link").hidden = true;
  }

  /** Put a plain text into the box; false where it is too long and the server takes files. */
  async #asText(file) {
    const limit = this.#page.settings.charLimit;
    const takes = this.#formats().includes(".txt");
    if (limit > 0 && file.size > LONGEST * limit) {
      if (takes) return false;
      throw tooLong(file, limit);
    }
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      const advice = "It must be in UTF-8: save it so, and open it again.";
      throw new Problem(`“${file.name}” cannot be read as text.`, advice, { final: true });
    }
    if (limit > 0 && Array.from(text).length > limit) {
      if (takes) return false;
      throw tooLong(file, limit);
    }
    this.#page.takeText(text);
    return true;
  }

  #formats() {
    const formats = this.#page.settings.supportedFilesFormat ?? [];
    return formats.map((ending) => ending.toLowerCase());
  }

  async #throughServer(file) {
    const ending = /\.[^.]+$/u.exec(file.name)?.[0].toLowerCase() ?? "";
    const formats = this.#formats();
    if (!formats.includes(ending)) {
      const advice = `It takes ${(formats.length ? formats : [".txt"]).join(", ")}.`;
      const title = `This server does not translate ${ending ? `${ending} files` : "this file"}.`;
      throw new Problem(title, advice, { final: true });
    }
    const form = new FormData();
    const { source, target, via, key } = this.#page.asked;
    const fields = { source, target, ...(via ? { via } : {}), ...(key ? { api_key: key } : {}) };
    for (const [name, value] of Object.entries(fields)) form.append(name, value);
    form.append("file", file, file.name);
    this.#say(`“${file.name}” is being translated…`);
    const { signal } = (this.#request = new AbortController());
    const answer = await ask("translate_file", form, signal);
    const found = address(answer?.translatedFileUrl);
    if (!found) throw new Problem("The server's answer has no file.", "Trying again may help.");
    this.#say(`“${file.name}” is translated.`);
    by("file-link").href = found;
    by("file-link").setAttribute("download", "");
    by("file-link").hidden = false;
  }

  #say(words) {
    by("file-words").textContent = words;
    by("file-state").hidden = false;
  }
}

function tooLong(file, limit) {
  return new Problem(
    `“${file.name}” is too long for this server.`,
    `It may have ${limit.toLocaleString("en")} characters: translate it in parts.`,
    { final: true },
  );
}

/** An address that a link may have; behind a proxy the server may not know its own host. */
function address(text) {
  try {
    const found = new URL(text, document.baseURI);
    return /^https?:$/u.test(found.protocol) ? found.href : null;
  } catch {
    return null;
  }
}
