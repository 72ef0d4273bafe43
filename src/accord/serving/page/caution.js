// When a translation is probably wrong, and how the page says so.

const DIFFERENT = 35; // agreement of both ways below which at least one of them is wrong
const by = (id) => document.getElementById(id);

/** What the sentences themselves tell: text that is unlike what the model was trained on. */
export function caution(sentences) {
  const known = sentences.flatMap((sentence) => sentence.familiarity ?? []);
  const unlike = known.filter((seen) => seen.unlike);
  // One dev sentence in a hundred is called unlike: one of many says little.
  if (!unlike.length || 4 * unlike.length < known.length) return show("unlike", "");
  const which =
    known.length === 1
      ? "This text is"
      : `${unlike.length} of these ${known.length} sentences are`;
  const strange = Math.max(...unlike.map((seen) => seen.byte_share));
  const characters = strange > 0.25 ? " It has characters that the model has never seen." : "";
  show(
    "unlike",
    `${which} unlike anything the model was trained on, so the translation is probably wrong.` +
      characters,
  );
}

/** What both ways together tell; `number` is null where there is only one. */
export function disagreement(number) {
  const words = "The direct translation and the one through the pivot have little in common: ";
  const apart = number !== null && number < DIFFERENT;
  show("differ", apart ? `${words}at least one of them is wrong.` : "");
}

/** Each kind of reason stands once; the box is there while there is any. */
function show(kind, text) {
  const box = by("caution");
  box.querySelector(`[data-kind="${kind}"]`)?.remove();
  if (text) {
    const reason = document.createElement("p");
    reason.dataset.kind = kind;
    reason.textContent = text;
    box.append(reason);
  }
  box.hidden = !box.childElementCount;
}

/** The reasons in words, for those who do not see the box. */
export function cautionWords() {
  return Array.from(by("caution").children, (reason) => ` ${reason.textContent}`).join("");
}
