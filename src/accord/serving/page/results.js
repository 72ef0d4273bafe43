// The answers on the page: both translations, what they have in common, and other translations.

import { caution, disagreement } from "./caution.js";
import { agreement, aligned, differences, units, words } from "./words.js";
import { WordView, tie } from "./views.js";

const TOUCH = matchMedia("(hover: none)").matches;
const HINT = `${TOUCH ? "Tap" : "Point at"} a word to see its origin.`;
const WAITING = "Translating…";
const by = (id) => document.getElementById(id);

/** Copy a text; without a safe connection browsers offer only the old way. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    const focused = document.activeElement;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    focused?.focus();
  }
}

/** Have a button copy what `text()` gives, and say so for a moment. */
export function copies(button, text) {
  const words = button.textContent;
  button.addEventListener("click", async () => {
    await copy(text());
    button.textContent = "Copied";
    by("status").textContent = "Copied.";
    setTimeout(() => (button.textContent = words), 1600);
  });
}

/** A translation and its frame. */
class Pane {
  constructor(id) {
    this.section = by(id);
    this.output = this.section.querySelector(".output");
    this.view = new WordView(this.output);
    this.button = this.section.querySelector(".copy");
    this.readout = this.section.querySelector(".readout");
    this.readout.dataset.hint = HINT;
    copies(this.button, () => this.view.text);
  }

  busy(on) {
    this.section.classList.toggle("busy", on);
    this.output.setAttribute("aria-busy", String(on));
    if (on) this.readout.textContent = WAITING;
    else if (this.readout.textContent === WAITING) this.readout.textContent = "";
  }

  show(text, language) {
    this.output.lang = language.replaceAll("_", "-");
    this.view.show(text);
    this.readout.textContent = "";
    this.button.disabled = !text;
    this.busy(false);
  }

  /** The parts of the text that are the sentences, as far as they are found. */
  parts(sentences) {
    let at = 0;
    return sentences.map((sentence) => {
      const start = sentence.target ? this.view.text.indexOf(sentence.target, at) : -1;
      if (start < 0) return null;
      at = start + sentence.target.length;
      return { text: this.view.text, words: this.view.words, start, end: at };
    });
  }
}

export class Results {
  constructor(source) {
    this.source = source;
    this.direct = new Pane("direct");
    this.pivot = new Pane("pivot");
    this.between = by("pivot").querySelector(".between");
    this.betweenText = this.between.querySelector("[dir]");
  }

  clear() {
    this.direct.show("", "");
    caution([]);
    this.clearPivot();
    this.#others([], "");
  }

  busy(on) {
    this.direct.busy(on);
    this.pivot.busy(on);
  }

  showDirect(answer, text, target) {
    this.direct.show(answer.translatedText, target);
    this.source.show(text);
    this.#tie(this.direct, answer, text);
    caution(answer.details?.[0] ?? []);
    this.#others(answer.alternatives ?? [], target);
  }

  showPivot(answer, text, target, name, language) {
    this.pivot.show(answer.translatedText, target);
    this.#tie(this.pivot, answer, text);
    const between = (answer.details?.[0] ?? []).map((sentence) => sentence.pivot ?? "");
    this.#showBetween(between.join(" ").trim(), name, language);
    this.#compare();
  }

  /** The pivot translation failed while the direct one is there. */
  failPivot(problem) {
    this.clearPivot();
    this.pivot.output.dataset.empty = `${problem.title} ${problem.advice}`.trim();
  }

  /** There is no detour. Until there is an answer, the one before stays, lest the page jump. */
  clearPivot() {
    this.pivot.show("", "");
    this.pivot.output.dataset.empty = "The same, taken through a third language, for comparison.";
    this.between.hidden = true;
    by("agreement").hidden = true;
    disagreement(null);
  }

  #showBetween(text, name, language) {
    this.between.hidden = !text;
    by("between-name").textContent = `In ${name}:`;
    this.betweenText.lang = language.replaceAll("_", "-");
    this.betweenText.textContent = text;
  }

  /** Where the words come from; also through a pivot, alignments lead back to the source. */
  #tie(pane, answer, text) {
    const sentences = answer.details?.[0] ?? [];
    const pairs = pane.parts(sentences).flatMap((part, i) => {
      return part ? aligned(sentences[i], this.#inSource(sentences[i], text), part) : [];
    });
    tie(this.source, pane.view, pairs, pane.readout);
  }

  #inSource(sentence, text) {
    const [start, end] = [sentence.start ?? 0, sentence.end ?? text.length];
    return { text, words: this.source.words, start: units(text, start), end: units(text, end) };
  }

  #compare() {
    const [direct, pivot] = [this.direct.view, this.pivot.view];
    const [one, other] = differences(direct.words, pivot.words);
    direct.differ(one);
    pivot.differ(other);
    const number = agreement(direct.text, pivot.text);
    const counted = [direct, pivot].map((view) => view.words.filter(hasLetters).length);
    const same = direct.words.filter((word, i) => hasLetters(word) && !one.has(i)).length;
    disagreement(number);
    by("agreement-number").textContent = number;
    by("agreement-bar").setAttribute("width", number);
    by("agreement").classList.toggle("low", number < 60);
    by("agreement-verdict").textContent = verdict(number);
    by("agreement-words").textContent =
      `${same} of ${Math.max(...counted)} words in common.`;
    by("agreement").hidden = false;
  }

  #others(texts, target) {
    const best = this.direct.view;
    const fresh = Array.from(new Set(texts)).filter((text) => text && text !== best.text);
    by("others").hidden = !fresh.length;
    by("others-list").replaceChildren(
      ...fresh.map((text) => {
        const item = document.createElement("li");
        const shown = document.createElement("span");
        shown.dir = "auto";
        shown.lang = target.replaceAll("_", "-");
        new WordView(shown).show(text, differences(best.words, words(text))[1]);
        const button = document.createElement("button");
        Object.assign(button, { type: "button", className: "quiet", textContent: "Copy" });
        copies(button, () => text);
        item.append(shown, button);
        return item;
      }),
    );
  }
}

function hasLetters(word) {
  return /[\p{L}\p{N}]/u.test(word.text);
}

function verdict(number) {
  if (number === 100) return "Both ways say exactly the same.";
  if (number >= 85) return "Both ways say almost the same.";
  if (number >= 60) return "Both ways are much alike.";
  if (number >= 35) return "The two ways agree in part.";
  return "The two ways differ: read with care.";
}
