// What the page says about the model and the direction in use, in all the places.

const by = (id) => document.getElementById(id);

/** The model in a line at the top and one at the bottom. */
export function introduce(languages, directions, model, pairs) {
  const plural = (count, word) =>
    `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
  const zeroShot = directions.count(({ kind, direct }) => direct && kind === "zero-shot");
  const indirect = directions.count((direction) => !direction.direct && possible(direction));
  const all = directions.count(possible);
  const detours = indirect ? `, ${indirect} only through a pivot` : "";
  const ways = `${plural(all, "direction")}, ${zeroShot} of them zero-shot${detours}`;
  const parts = [plural(languages.length, "language"), ...(all ? [ways] : [])];
  for (const element of document.querySelectorAll(".of-zero-shot")) {
    element.hidden = Boolean(all && !zeroShot);
  }
  if (pairs) parts.push(`trained on ${plural(pairs, "sentence pair")}`);
  by("summary").textContent = parts.join(" · ");
  by("model").textContent = Object.entries(model)
    .filter(([, fact]) => ["string", "number"].includes(typeof fact))
    .map(([name, fact]) => `${name === "name" ? "Model" : name} ${fact.toLocaleString("en")}`)
    .join(" · ");
}

/** Whether text can be translated at all: directly, or through pivots. */
export function possible({ path, direct }) {
  return direct || path.length > 2;
}

/** Whether there is a detour to compare the direct translation with. */
export function comparable({ kind, path, direct }) {
  return direct && kind === "zero-shot" && path.length > 2;
}

/** `from` is "" where the source language is not known (yet); `name` gives the name of a code. */
export function showDirection({ from, into, auto, direction, name }) {
  const { kind, path, direct } = direction;
  const compare = comparable(direction);
  const tag = direct ? kind : "pivot";
  by("panes").classList.toggle("compare", compare);
  by("pivot").hidden = !compare;
  by("swap").disabled = !from || from === into;
  by("kind").hidden = !kind || !possible(direction);
  by("kind").textContent = tag ?? "";
  by("kind").className = `tag ${tag ?? ""}`;
  by("source-name").textContent = auto ? "Text" : name(from);
  const detour = `${name(into)}, through ${path.slice(1, -1).map(name).join(" and ")}`;
  const only = !direct && possible(direction);
  by("direct-name").textContent = only ? detour : compare ? `${name(into)}, directly` : name(into);
  by("pivot-name").textContent = detour;
  by("direction-name").textContent = from ? `${name(from)} → ${name(into)}` : "How it works";
  by("path").replaceChildren(...(compare || only ? steps(path.map(name)) : []));
  by("introduction").hidden = Boolean(from && (kind || from === into));
  by("direction-text").textContent = explained(from && name(from), name(into), direction);
}

function steps(names) {
  return names.flatMap((name, i) => {
    const step = document.createElement("span");
    step.className = "step";
    step.textContent = name;
    return i ? [" → ", step] : [step];
  });
}

function explained(from, into, direction) {
  const { kind } = direction;
  if (from && from === into) {
    return `The text seems to be in ${into} already: choose another language.`;
  }
  if (!kind) return "";
  if (!direction.direct) return explainedDetour(from, into, direction);
  if (kind === "supervised") {
    return (
      `The model has learnt this direction from sentence pairs in ${from} and ${into} ` +
      "(supervised), so there is no detour to compare with."
    );
  }
  const start =
    `The training data has no sentence pairs in ${from} and ${into}. The model translates ` +
    "directly all the same (zero-shot)";
  return comparable(direction)
    ? `${start}; beside it stands what it makes of the detour above, where every step has data.`
    : `${start}. No chain of languages with data joins the two, so there is no detour to compare.`;
}

function explainedDetour(from, into, direction) {
  const start = `There is no model here that translates ${from} into ${into}`;
  return possible(direction)
    ? `${start} directly: the text goes the way above, where every step has one.`
    : `${start}, and no chain of models leads there: choose another language.`;
}
