// The page: languages, text and keyboard on one side, the server on the other.

import { Alert } from "./alert.js";
import { Problem, ask } from "./api.js";
import { cautionWords } from "./caution.js";
import { comparable, introduce, possible, showDirection } from "./direction.js";
import { Files } from "./files.js";
import { Directions, Graph } from "./graph.js";
import { Results, copies } from "./results.js";
import { showExamples, showTraining } from "./training.js";
import { SourceView } from "./views.js";

const ALTERNATIVES = 3;
const UNKNOWN = { kind: null, path: [], direct: true };
const by = (id) => document.getElementById(id);

/** What the browser keeps; with storage switched off the page works without. */
function remembered(storage, key, value) {
  try {
    if (value === undefined) return window[storage].getItem(`accord.${key}`) ?? "";
    window[storage].setItem(`accord.${key}`, value);
  } catch {
    // Nothing is kept.
  }
  return value ?? "";
}

class Page {
  settings = { charLimit: -1, keyRequired: false, frontendTimeout: 500 };
  languages = [];
  examples = {};
  directions = new Directions({});
  graph = null;
  detected = null;
  #before = ["auto", ""]; // the languages until the last choice
  #request = null;
  #timer = null;

  constructor() {
    this.text = by("text");
    this.source = by("source");
    this.target = by("target");
    this.sourceView = new SourceView(this.text, by("mirror"));
    this.results = new Results(this.sourceView);
    this.alert = new Alert(() => (this.languages.length ? this.translate() : this.start()));
    this.files = new Files(this);
    copies(by("link"), () => this.link);
    by("api-key").value = remembered("sessionStorage", "key");
    this.#listen();
    this.#typed();
  }

  /** Ask the server what it can do. The page works without the graph and the settings. */
  async start() {
    this.alert.clear();
    try {
      const [languages, graph, settings] = await Promise.all([
        ask("languages"),
        ask("graph").catch(() => ({})),
        ask("frontend/settings").catch(() => ({})),
      ]);
      this.languages = languages;
      this.directions = new Directions(graph);
      this.examples = graph.examples ?? {};
      Object.assign(this.settings, settings);
      const pairs = showTraining(graph.corpora ?? [], (code) => this.name(code));
      introduce(languages, this.directions, graph.model ?? {}, pairs);
    } catch (problem) {
      return this.failed(problem);
    }
    const unknown = this.#fill();
    if (this.text.value.trim()) await this.translate();
    if (unknown.length) this.alert.show(noSuchLanguage(unknown));
  }

  #listen() {
    by("translator").addEventListener("submit", (event) => {
      event.preventDefault();
      remembered("sessionStorage", "key", by("api-key").value);
      this.#now();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.#now();
      }
    });
    this.text.addEventListener("input", (event) => {
      this.#typed();
      this.files.clear();
      if (this.tooLong) this.#now();
      else if (!event.isComposing) this.#soon();
    });
    this.text.addEventListener("compositionend", () => this.#soon());
    this.source.addEventListener("change", () => this.choose(this.source.value, null));
    this.target.addEventListener("change", () => this.choose(null, this.target.value));
    by("swap").addEventListener("click", () => this.swap());
    by("clear").addEventListener("click", () => {
      this.takeText("");
      this.text.focus();
    });
  }

  /** The languages in the lists, and those of the link or the last visit chosen.
   *
   * Returns what the link names and nobody knows here.
   */
  #fill() {
    const option = ({ code, name }) => new Option(name, code);
    const detect = new Option("Detect language", "auto");
    this.source.replaceChildren(detect, ...this.languages.map(option));
    this.target.replaceChildren(...this.languages.map(option));
    const codes = this.languages.map((language) => language.code);
    const known = (...wanted) => wanted.find((code) => codes.includes(code));
    const { source, target } = this.settings.language ?? {};
    const link = new URLSearchParams(location.search);
    const [fromLink, intoLink] = ["source", "target"].map((name) => link.get(name) ?? "");
    const from = fromLink ? known(fromLink) : known(remembered("localStorage", "source"));
    const into = known(intoLink, remembered("localStorage", "target"), target?.code, source?.code);
    if (!this.text.value) this.text.value = link.get("q") ?? "";
    for (const id of ["source", "target", "open-file"]) by(id).disabled = false;
    by("translate").disabled = false;
    by("key").hidden = !this.settings.keyRequired;
    by("graph-card").hidden = !this.directions.known.size;
    if (this.directions.known.size) {
      const choose = (from, to) => this.choose(from, to);
      this.graph = new Graph(by("graph"), by("graph-hint"), this.directions, choose);
    }
    this.source.value = from ?? "auto";
    this.target.value = into ?? codes[0];
    if (this.target.value === this.source.value) this.target.value = codes.find((c) => c !== from);
    this.#before = [this.source.value, this.into];
    this.#typed();
    this.#direction();
    return [fromLink, intoLink].filter((code) => code && code !== "auto" && !codes.includes(code));
  }

  /** The address that shows what is on the page now. */
  get link() {
    const found = new URL(location.pathname, location.href);
    const { source, target } = this.asked;
    found.search = new URLSearchParams({ source, target, q: this.text.value });
    return found.href;
  }

  /** What goes with every question. */
  get asked() {
    const key = by("api-key").value.trim();
    const source = this.source.value;
    return { source, target: this.into, via: this.#via(source), key };
  }

  /** `auto` where text goes through pivots alone, or may have to; else null, for straight there. */
  #via(source) {
    const direct =
      source === "auto"
        ? this.directions.allDirect(this.into)
        : this.directions.get(source, this.into).direct;
    return direct ? null : "auto";
  }

  /** A text from elsewhere: an example, a file. */
  takeText(text) {
    this.text.value = text;
    this.#typed();
    this.#now();
  }

  /** The source language, also where it was detected; "" where it is not known. */
  get from() {
    return this.source.value === "auto" ? (this.detected?.language ?? "") : this.source.value;
  }

  get into() {
    return this.target.value;
  }

  name(code) {
    return this.languages.find((language) => language.code === code)?.name ?? code;
  }

  get direction() {
    const known = this.from && this.from !== this.into;
    return known ? this.directions.get(this.from, this.into) : UNKNOWN;
  }

  /** Change one language or both; a language that is taken changes places with the other. */
  choose(source, target) {
    const [fromBefore, intoBefore] = this.#before;
    if (source !== null) this.source.value = source;
    if (target !== null) this.target.value = target;
    if (this.source.value === this.into) {
      if (source !== null && target === null) this.target.value = this.#free(fromBefore);
      else this.source.value = this.#free(intoBefore);
    }
    if (source !== null) this.#detect(null);
    remembered("localStorage", "source", this.source.value);
    remembered("localStorage", "target", this.into);
    this.#before = [this.source.value, this.into];
    this.#direction();
    this.#now();
  }

  /** `code`, unless it is taken or unknown. */
  #free(code) {
    const taken = [this.source.value, this.into];
    const codes = this.languages.map((language) => language.code);
    const others = codes.filter((each) => !taken.includes(each));
    return others.includes(code) ? code : (others[0] ?? this.into);
  }

  swap() {
    const [from, into] = [this.from, this.into];
    if (!from || from === into) return;
    const translated = this.results.direct.view.text;
    if (translated) this.text.value = translated;
    this.#typed();
    this.choose(into, from);
  }

  #detect(detected) {
    this.detected = detected;
    const how = detected?.confidence >= 50 ? "detected" : "perhaps";
    const same = detected?.language === this.into ? ", the language to translate into" : "";
    by("detected").textContent = detected ? `${how}: ${this.name(detected.language)}${same}` : "";
  }

  #direction() {
    showDirection({
      from: this.from,
      into: this.into,
      auto: this.source.value === "auto",
      direction: this.direction,
      name: (code) => this.name(code),
    });
    this.text.lang = this.from.replaceAll("_", "-");
    this.graph?.highlight(this.from, this.into);
    const chosen = this.source.value === "auto" ? "" : this.source.value;
    showExamples(this.examples, chosen, (language, text) => {
      this.text.value = text;
      this.#typed();
      this.choose(language, null);
    });
  }

  /** Everything that changes with every keystroke. */
  #typed() {
    const length = Array.from(this.text.value).length;
    const limit = this.settings.charLimit;
    this.tooLong = limit > 0 && length > limit;
    by("count").textContent = this.tooLong
      ? `${length - limit} characters over the limit of ${limit}`
      : limit > 0
        ? `${length} / ${limit}`
        : `${length}`;
    by("count").classList.toggle("over", this.tooLong);
    by("clear").hidden = !length;
    by("link").disabled = !length || this.tooLong;
    this.sourceView.typed();
  }

  #soon() {
    clearTimeout(this.#timer);
    this.#request?.abort();
    this.#timer = setTimeout(() => this.#now(), this.settings.frontendTimeout);
  }

  #now() {
    this.alert.reset();
    this.translate();
  }

  /** Translate what is there now; an answer to an earlier question is no longer wanted. */
  async translate() {
    clearTimeout(this.#timer);
    this.#request?.abort();
    const text = this.text.value;
    if (!this.languages.length) return;
    if (!text.trim() || this.tooLong) return this.#nothing();
    this.files.clear();
    const { signal } = (this.#request = new AbortController());
    this.results.busy(true);
    try {
      await this.#both(text, this.into, signal);
      this.alert.reset();
    } catch (problem) {
      if (!signal.aborted) this.failed(problem);
    } finally {
      if (!signal.aborted) this.results.busy(false);
    }
  }

  async #both(text, into, signal) {
    // Where the way depends on the language, that has to be known first.
    if (this.source.value === "auto" && this.#via("auto")) await this.#detectFirst(text, signal);
    // Both at once where the source is known; otherwise the first answer tells it.
    const auto = this.source.value === "auto" && !this.#via("auto");
    const source = auto ? "auto" : this.from;
    if (!auto && !possible(this.direction)) throw this.#noWay();
    const early = auto ? null : this.#detour(text, signal);
    const also = { alternatives: ALTERNATIVES };
    const answer = await this.#ask(text, source, this.#via(source), signal, also);
    if (auto) this.#detect(answer.detectedLanguage ?? null);
    if (auto) this.#direction();
    this.results.showDirect(answer, text, into);
    const said = `${this.name(into)}: ${answer.translatedText.slice(0, 400)}`;
    by("status").textContent = said + cautionWords();
    const detour = auto ? this.#detour(text, signal) : early;
    if (!detour) return this.results.clearPivot();
    const found = await detour;
    if (signal.aborted) return;
    if (found.problem) return this.results.failPivot(found.problem);
    const last = this.direction.path.at(-2);
    this.results.showPivot(found.answer, text, into, this.name(last), last);
    const number = by("agreement-number").textContent;
    const agreed = ` Agreement with the pivot: ${number} of 100.`;
    by("status").textContent = said + agreed + cautionWords();
  }

  /** The translation through a pivot, {answer} or {problem}; null where there is no detour. */
  #detour(text, signal) {
    if (!comparable(this.direction)) return null;
    return this.#ask(text, this.from, "auto", signal).then(
      (answer) => ({ answer }),
      (problem) => ({ problem }),
    );
  }

  async #detectFirst(text, signal) {
    const { key } = this.asked;
    const [found] = await ask("detect", { q: text, ...(key ? { api_key: key } : {}) }, signal);
    this.#detect(found);
    this.#direction();
  }

  #noWay() {
    const title = `${this.name(this.from)} is not translated into ${this.name(this.into)} here.`;
    return new Problem(title, "Choose another language above.", { final: true });
  }

  async #ask(text, source, via, signal, also = {}) {
    const { target, key } = this.asked;
    const body = { q: text, source, target, format: "text", details: true, ...also };
    if (via) body.via = via;
    if (key) body.api_key = key;
    const answer = await ask("translate", body, signal);
    if (typeof answer?.translatedText !== "string") {
      throw new Problem("The server's answer has no translation.", "Reload the page.");
    }
    return answer;
  }

  #nothing() {
    this.results.clear();
    this.results.busy(false);
    if (this.source.value === "auto") this.#detect(null);
    this.#direction();
    if (this.tooLong) this.alert.show(tooLong(this.text.value, this.settings.charLimit));
  }

  failed(problem) {
    this.results.clear();
    if (problem.status === 403) {
      by("key").hidden = false;
      // Whoever is still typing a text must not type it into the key.
      if (document.activeElement !== this.text) by("api-key").focus();
    }
    const known = problem instanceof Problem;
    this.alert.show(known ? problem : new Problem("The page made a mistake.", String(problem)));
  }
}

function tooLong(text, limit) {
  const [length, most] = [Array.from(text).length, limit].map((n) => n.toLocaleString("en"));
  const advice = `It has ${length} characters, and ${most} are translated at once: shorten it, or `;
  const title = "The text is too long for this server.";
  return new Problem(title, `${advice}translate it in parts.`, { final: true });
}

function noSuchLanguage(codes) {
  const title = `The link asks for a language that this model does not have: ${codes.join(", ")}.`;
  return new Problem(title, "Choose another above.", { final: true });
}

new Page().start();
