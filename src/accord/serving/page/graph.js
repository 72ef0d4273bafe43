// The translation graph as a drawing: solid lines have training data, dotted ones have none.

const SVG = "http://www.w3.org/2000/svg";
const NODE = 23;
const ARROW = 10;
const MARGIN = 30;
const NAME = 24; // height of a name over or under its language
const MOST_FULL = 12; // with more languages, only the lines with data and the chosen ones are drawn

function draw(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** What is known of the directions, from the server's answer: of each the kind (by the data), the
 * path through its pivots, and whether the model translates it directly. */
export class Directions {
  constructor(graph) {
    this.languages = graph.languages ?? [];
    this.known = new Map();
    for (const { source, target, kind, via, direct = true } of graph.directions ?? []) {
      const between = (via ?? []).filter((code) => code !== source && code !== target);
      const path = [source, ...between, target];
      this.known.set(`${source}-${target}`, { kind, path, direct });
    }
  }

  /** {kind, path, direct}; the kind is null where the server did not say. */
  get(source, target) {
    const unknown = { kind: null, path: [source, target], direct: true };
    return this.known.get(`${source}-${target}`) ?? unknown;
  }

  /** The kind of line between two languages; null where nothing leads there directly. */
  line(source, target) {
    const { kind, direct } = this.get(source, target);
    return direct ? kind : null;
  }

  /** Whether every language is translated into this one directly. */
  allDirect(target) {
    return this.languages.every(({ code }) => this.get(code, target).direct);
  }

  supervised(source, target) {
    return this.get(source, target).kind === "supervised";
  }

  count(wanted) {
    return Array.from(this.known.values()).filter(wanted).length;
  }
}

/** The drawing. `choose(source, target)` is called when two languages have been picked. */
export class Graph {
  #svg;
  #directions;
  #choose;
  #hint;
  #picked = null;
  #places = new Map();
  #nodes = new Map();
  #hub = null;
  #lines = new Map();
  #over = draw("g", { class: "chosen" });

  constructor(svg, hint, directions, choose) {
    this.#svg = svg;
    this.#hint = hint;
    this.#directions = directions;
    this.#choose = choose;
    this.#place();
    this.#paint();
    this.#pick(null);
    svg.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.#pick(null);
    });
  }

  /** Show the direction in use, and the way through its pivots. */
  highlight(source, target) {
    this.#pick(null);
    for (const [code, node] of this.#nodes) {
      node.classList.toggle("source", code === source);
      node.classList.toggle("target", code === target);
      node.classList.remove("via");
    }
    this.#over.replaceChildren();
    for (const line of this.#lines.values()) line.classList.remove("under");
    const chosen = this.#places.has(source) && this.#places.has(target) && source !== target;
    this.#svg.classList.toggle("choice", chosen);
    if (!chosen) return;
    const { kind, path, direct } = this.#directions.get(source, target);
    for (let i = 1; path.length > 2 && i < path.length; i += 1) {
      if (this.#places.has(path[i - 1]) && this.#places.has(path[i])) {
        this.#emphasise(path[i - 1], path[i], "supervised");
      }
      this.#nodes.get(path[i])?.classList.toggle("via", i < path.length - 1);
    }
    if (direct) this.#emphasise(source, target, kind ?? "zero-shot");
  }

  #emphasise(source, target, kind) {
    this.#over.append(this.#line(source, target, kind, "strong"));
    this.#lines.get(`${source}-${target}`)?.classList.add("under");
  }

  #codes() {
    return this.#directions.languages.map((language) => language.code);
  }

  /** A language with data to all others stands in the middle, the others around it. */
  #place() {
    const codes = this.#codes();
    const linked = (a, b) => this.#directions.supervised(a, b) || this.#directions.supervised(b, a);
    const hubs = codes.filter((a) => codes.every((b) => a === b || linked(a, b)));
    this.#hub = hubs.length === 1 && codes.length > 3 ? hubs[0] : null;
    const ring = codes.filter((code) => code !== this.#hub);
    const radius = Math.max(110, (ring.length * (2 * NODE + 26)) / (2 * Math.PI));
    // No language stands straight below the middle, where the name of the one there is.
    const turn = ring.length % 2 ? 0 : Math.PI / ring.length;
    const first = ring.length === 2 ? Math.PI : turn - Math.PI / 2;
    ring.forEach((code, i) => {
      const angle = first + (2 * Math.PI * i) / ring.length;
      // An oval leaves more room for the names than a circle.
      this.#places.set(code, [1.35 * radius * Math.cos(angle), radius * Math.sin(angle)]);
    });
    if (this.#hub) this.#places.set(this.#hub, [0, 0]);
  }

  #paint() {
    const places = Array.from(this.#places.values());
    const [xs, ys] = [0, 1].map((axis) => places.map((place) => place[axis]));
    const [left, top] = [Math.min(...xs) - NODE - MARGIN, Math.min(...ys) - NODE - NAME];
    const width = Math.max(...xs) + NODE + MARGIN - left;
    const height = Math.max(...ys) + NODE + NAME - top;
    this.#connect();
    const lines = Array.from(new Set(this.#lines.values()));
    lines.sort((a, b) => b.classList.contains("zero-shot") - a.classList.contains("zero-shot"));
    this.#svg.setAttribute("viewBox", `${left} ${top} ${width} ${height}`);
    for (const { code, name } of this.#directions.languages) {
      this.#nodes.set(code, this.#node(code, name));
    }
    this.#svg.replaceChildren(
      draw("defs", {}, ...["supervised", "zero-shot"].map(arrowhead)),
      draw("g", { class: "lines" }, ...lines),
      this.#over,
      ...this.#nodes.values(),
    );
  }

  /** One line for a pair whose directions are alike, two for a pair with data one way only. */
  #connect() {
    const codes = this.#codes();
    for (const from of codes) {
      for (const to of codes) {
        const [there, back] = [this.#directions.line(from, to), this.#directions.line(to, from)];
        const hidden = codes.length > MOST_FULL && there !== "supervised";
        if (from === to || !there || hidden) continue;
        const twin = there === back ? this.#lines.get(`${to}-${from}`) : null;
        const role = there === back ? "" : "one-way";
        this.#lines.set(`${from}-${to}`, twin ?? this.#line(from, to, there, role));
      }
    }
  }

  #line(from, to, kind, role) {
    const [start, end] = [this.#places.get(from), this.#places.get(to)];
    const bend = this.#bend(from, to);
    const gap = NODE + 3;
    const arrow = role ? ARROW : 0;
    const [x1, y1] = towards(start, bend, gap);
    const [x2, y2] = towards(end, bend, gap + arrow);
    const line = draw("path", {
      class: `${kind} ${role}`.trim(),
      d: `M${x1} ${y1}Q${bend[0]} ${bend[1]} ${x2} ${y2}`,
    });
    if (role) line.setAttribute("marker-end", `url(#arrow-${kind})`);
    return line;
  }

  /** Lines pass by the language in the middle, and by the line of the other direction. */
  #bend(from, to) {
    const [a, b] = [this.#places.get(from), this.#places.get(to)];
    const middle = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
    const length = Math.hypot(b[0] - a[0], b[1] - a[1]);
    const side = [-(b[1] - a[1]) / length, (b[0] - a[0]) / length];
    const alike = this.#directions.line(from, to) === this.#directions.line(to, from);
    const aside = alike ? 0 : 18;
    const past = this.#hub && from !== this.#hub && to !== this.#hub;
    const distance = Math.hypot(...middle);
    if (!past || distance > NODE + 22) return middle.map((x, i) => x + aside * side[i]);
    // Straight through the middle: both directions pass over it.
    const sign = side[1] > 0 || (side[1] === 0 && side[0] > 0) ? -1 : 1;
    const away = distance > 1 ? middle.map((x) => x / distance) : side.map((x) => sign * x);
    return middle.map((x, i) => x + (2 * (NODE + 14) - distance) * away[i] + aside * side[i]);
  }

  #node(code, name) {
    const [x, y] = this.#places.get(code);
    const parts = code.split("_");
    const size = parts.length > 1 || code.length > 3 ? 11 : 15;
    const spelled = parts.map((part, i) => {
      const line = draw("tspan", { x, y: y + size * (0.36 + 1.1 * (i - (parts.length - 1) / 2)) });
      line.textContent = part;
      return line;
    });
    const label = draw("text", { class: "name", x, y: y < -1 ? y - NODE - 8 : y + NODE + 16 });
    label.textContent = name;
    const node = draw(
      "g",
      { class: "language", role: "button", tabindex: 0, "data-code": code },
      draw("circle", { cx: x, cy: y, r: NODE }),
      draw("text", { class: "code", "font-size": size }, ...spelled),
      label,
    );
    node.setAttribute("aria-label", name);
    node.addEventListener("click", () => this.#clicked(code));
    node.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      this.#clicked(code);
    });
    return node;
  }

  #clicked(code) {
    if (this.#picked === null) return this.#pick(code);
    const from = this.#picked;
    this.#pick(null);
    if (from !== code) this.#choose(from, code);
  }

  #pick(code) {
    this.#picked = code;
    const name = this.#directions.languages.find((language) => language.code === code)?.name;
    this.#hint.textContent = name
      ? `From ${name} into which language? Choose it here; Esc takes it back.`
      : "Choose a language to translate from, then one to translate into.";
    for (const [each, node] of this.#nodes) {
      node.classList.toggle("picked", each === code);
      node.setAttribute("aria-pressed", String(each === code));
    }
  }
}

function towards([x, y], goal, distance) {
  const length = Math.hypot(goal[0] - x, goal[1] - y);
  return [x + ((goal[0] - x) * distance) / length, y + ((goal[1] - y) * distance) / length];
}

function arrowhead(kind) {
  return draw(
    "marker",
    {
      id: `arrow-${kind}`,
      markerUnits: "userSpaceOnUse",
      markerWidth: ARROW + 1,
      markerHeight: ARROW,
      refX: 0.5,
      refY: ARROW / 2,
      orient: "auto",
    },
    draw("path", { class: `head ${kind}`, d: `M0 0L${ARROW} ${ARROW / 2}L0 ${ARROW}Z` }),
  );
}
