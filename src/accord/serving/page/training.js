// What the model was trained on, and sentences of its dev set to try.

const by = (id) => document.getElementById(id);
const MOST = 8; // examples of all languages together, while the source language is open

/** The table of corpora; `name` gives the name of a language. Old exports tell nothing. */
export function showTraining(corpora, name) {
  by("training-card").hidden = !corpora.length;
  const total = corpora.reduce((sum, { sentences }) => sum + sentences, 0);
  by("training-text").textContent =
    `${total.toLocaleString("en")} pairs of sentences. Text of another kind it has never seen: ` +
    "what it makes of that is a guess.";
  by("corpora").replaceChildren(
    ...corpora.map(({ pair, sentences, names }) => {
      const languages = pair.split("-").map(name).join(" – ");
      const row = document.createElement("tr");
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = languages;
      const cells = [sentences.toLocaleString("en"), names.join(", ")].map((text) => {
        const cell = document.createElement("td");
        cell.textContent = text;
        return cell;
      });
      row.append(head, ...cells);
      return row;
    }),
  );
  return total;
}

/** Sentences of `language`, or a few of each where it is open; `take(language, text)` gets one. */
export function showExamples(examples, language, take) {
  const codes = language ? [language] : Object.keys(examples);
  const each = language ? MOST : Math.max(1, Math.floor(MOST / codes.length));
  const chosen = codes
    .flatMap((code) => (examples[code] ?? []).slice(0, each).map((text) => [code, text]))
    .slice(0, MOST);
  by("examples").hidden = !chosen.length;
  by("examples-list").replaceChildren(
    ...chosen.map(([code, text]) => {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", className: "chip", textContent: text, title: text });
      button.lang = code.replaceAll("_", "-");
      button.dir = "auto";
      button.addEventListener("click", () => take(code, text));
      const item = document.createElement("li");
      item.append(button);
      return item;
    }),
  );
}
