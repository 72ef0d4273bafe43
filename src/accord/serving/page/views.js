// What shows a text as words that can be pointed at, and what ties two of them together.

import { words } from "./words.js";

/** A text in an element. `onpoint` are told which word is pointed at, or null. */
export class WordView {
  onpoint = [];
  pointed = null;
  spans = [];

  constructor(element) {
    this.element = element;
    this.show("");
    element.addEventListener("pointerover", (event) => this.point(this.#index(event.target)));
    element.addEventListener("pointerleave", (event) => {
      // A finger leaves with every tap; what it tapped stays until it taps elsewhere.
      if (event.pointerType !== "touch") this.point(this.#focused());
    });
    document.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "touch" && !element.contains(event.target)) this.point(null);
    });
    element.addEventListener("focusin", (event) => this.point(this.#index(event.target)));
    element.addEventListener("focusout", () => this.point(null));
    element.addEventListener("keydown", (event) => this.#walk(event));
  }

  /** Replace the text; `differing` are the places of words to mark as found in one text only. */
  show(text, differing = new Set()) {
    this.point(null);
    this.text = text;
    this.words = words(text);
    this.spans = [];
    this.onpoint = [];
    const nodes = [];
    let at = 0;
    this.words.forEach((word, i) => {
      nodes.push(text.slice(at, word.start));
      const span = document.createElement("span");
      span.className = differing.has(i) ? "word differs" : "word";
      span.textContent = word.text;
      span.dataset.index = i;
      nodes.push(span);
      this.spans.push(span);
      at = word.end;
    });
    this.element.replaceChildren(...nodes, text.slice(at));
  }

  /** Mark these words as differing, without touching what is tied to them. */
  differ(differing) {
    this.spans.forEach((span, i) => span.classList.toggle("differs", differing.has(i)));
  }

  /** Let these words be reached by keyboard: one Tab stop, arrow keys from there. */
  reach(indices, description) {
    indices.forEach((index, i) => {
      const span = this.spans[index];
      span.tabIndex = i ? -1 : 0;
      span.classList.add("tied");
      span.setAttribute("aria-describedby", description);
    });
  }

  mark(indices) {
    const wanted = new Set(indices);
    this.spans.forEach((span, i) => span.classList.toggle("marked", wanted.has(i)));
  }

  point(index) {
    if (index === this.pointed) return;
    this.pointed = index;
    this.mark(index === null ? [] : [index]);
    for (const tell of this.onpoint) tell(index);
  }

  /** The word at this place of the text. */
  at(place) {
    const index = this.words.findIndex((word) => word.start <= place && place <= word.end);
    return index < 0 ? null : index;
  }

  #index(node) {
    const span = node instanceof Element ? node.closest(".word") : null;
    return span && this.element.contains(span) ? Number(span.dataset.index) : null;
  }

  #focused() {
    return this.#index(document.activeElement);
  }

  #walk(event) {
    const stops = Array.from(this.element.querySelectorAll(".tied"));
    const here = stops.indexOf(event.target);
    const onward = getComputedStyle(this.element).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
    const steps = { Home: -here, End: stops.length - 1 - here, ArrowLeft: -1, ArrowRight: -1 };
    steps[onward] = 1;
    const goal = stops[here + steps[event.key]];
    if (here < 0 || !goal || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    stops[here].tabIndex = -1;
    goal.tabIndex = 0;
    goal.focus();
  }
}

/** A text area whose words can be marked: the same text lies behind it, letter on letter. */
export class SourceView extends WordView {
  constructor(area, mirror) {
    super(mirror);
    this.area = area;
    area.addEventListener("pointermove", (event) => {
      const under = document.elementsFromPoint(event.clientX, event.clientY);
      const span = under.find((element) => element.parentNode === mirror);
      this.point(span ? Number(span.dataset.index) : null);
    });
    area.addEventListener("pointerleave", () => this.point(null));
    area.addEventListener("blur", () => this.point(null));
    const caret = () => this.point(this.spans.length ? this.at(area.selectionStart) : null);
    area.addEventListener("click", caret);
    area.addEventListener("keyup", (event) => {
      if (/^(Arrow|Home|End|Page)/u.test(event.key)) caret();
    });
  }

  /** The text as it is being typed: the mirror gives the area its height, but has no words yet. */
  typed() {
    super.show("");
    this.element.textContent = `${this.area.value}\n`;
  }

  show(text) {
    super.show(text);
    this.element.append("\n");
  }
}

/** Mark in each view what is pointed at in the other; `readout` says it in words. */
export function tie(left, right, pairs, readout) {
  if (!pairs.length) return;
  const [rights, lefts] = [group(pairs, 0, 1), group(pairs, 1, 0)];
  const say = (text) => {
    readout.textContent = text ?? readout.dataset.hint ?? "";
    readout.classList.toggle("said", text !== null);
  };
  const spelled = (view, indices) => indices.map((i) => view.words[i].text).join(" ");
  // Either text may have changed since; what is left of the other then points at nothing.
  const [leftWords, rightWords] = [left.words, right.words];
  const current = () => left.words === leftWords && right.words === rightWords;
  left.onpoint.push((index) => {
    if (!current()) return;
    const found = (index !== null && rights.get(index)) || [];
    right.mark(found);
    say(found.length ? `${left.words[index].text} → ${spelled(right, found)}` : null);
  });
  right.onpoint.push((index) => {
    if (!current()) return;
    const found = (index !== null && lefts.get(index)) || [];
    left.mark(found);
    say(found.length ? `${right.words[index].text} ← ${spelled(left, found)}` : null);
  });
  right.reach(Array.from(lefts.keys()).sort((a, b) => a - b), readout.id);
  say(null);
}

function group(pairs, from, to) {
  const groups = new Map();
  for (const pair of pairs) {
    const known = groups.get(pair[from]) ?? [];
    if (!known.includes(pair[to])) known.push(pair[to]);
    groups.set(pair[from], known.sort((a, b) => a - b));
  }
  return groups;
}
