// Texts as words: where they lie, what two texts have in common, which words stand for one another.

// Scripts without spaces have no words to find, so that each letter counts as one.
const ALONE =
  "[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}\\p{Script=Lao}" +
  "\\p{Script=Khmer}\\p{Script=Myanmar}]\\p{M}*";
const LETTER = `(?:(?!${ALONE})[\\p{L}\\p{N}\\p{M}])`;
const WORD = new RegExp(`${ALONE}|${LETTER}+(?:['’\\-‑.,]${LETTER}+)*|\\S`, "gu");

const LONGEST_SEQUENCE = 6;
const MOST_CELLS = 4e6;
const FARTHEST = 24; // letters that a token may be off, where the model has mended the text

/** The words and punctuation marks of a text: {text, start, end}. */
export function words(text) {
  return Array.from(text.matchAll(WORD), (match) => ({
    text: match[0],
    start: match.index,
    end: match.index + match[0].length,
  }));
}

/** How much two texts share, 0 to 100: the mean F1 over letter sequences of one to six letters. */
export function agreement(one, other) {
  if (one === other) return 100;
  const texts = [one, other].map((text) => Array.from(text.replace(/\s+/gu, "")));
  const shares = [];
  for (let length = 1; length <= LONGEST_SEQUENCE; length += 1) {
    const [first, second] = texts.map((letters) => sequences(letters, length));
    const all = total(first) + total(second);
    if (all) shares.push((2 * common(first, second)) / all);
  }
  const mean = shares.reduce((sum, share) => sum + share, 0) / (shares.length || 1);
  // Only the same text may have the full number.
  return Math.min(99, Math.round(100 * mean));
}

function sequences(letters, length) {
  const counts = new Map();
  for (let i = 0; i + length <= letters.length; i += 1) {
    const key = letters.slice(i, i + length).join("");
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return counts;
}

function total(counts) {
  let sum = 0;
  for (const count of counts.values()) sum += count;
  return sum;
}

function common(first, second) {
  let sum = 0;
  for (const [key, count] of first) sum += Math.min(count, second.get(key) ?? 0);
  return sum;
}

/** For two lists of words, the places in each that are in no longest common subsequence. */
export function differences(one, other) {
  const a = one.map((word) => word.text);
  const b = other.map((word) => word.text);
  const kept = (a.length + 1) * (b.length + 1) > MOST_CELLS ? inBoth(a, b) : shared(a, b);
  return [places(a.length, kept[0]), places(b.length, kept[1])];
}

function places(count, without) {
  const all = Array.from({ length: count }, (_, i) => i);
  return new Set(all.filter((i) => !without.has(i)));
}

/** The quick way for very long texts: whatever occurs anywhere in the other text. */
function inBoth(a, b) {
  const pick = (list, known) => new Set(list.flatMap((word, i) => (known.has(word) ? [i] : [])));
  return [pick(a, new Set(b)), pick(b, new Set(a))];
}

function shared(a, b) {
  const width = b.length + 1;
  const best = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      best[i * width + j] =
        a[i] === b[j]
          ? best[(i + 1) * width + j + 1] + 1
          : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
    }
  }
  const kept = [new Set(), new Set()];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) {
      kept[0].add(i++);
      kept[1].add(j++);
    } else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) {
      i += 1;
    } else {
      j += 1;
    }
  }
  return kept;
}

/** A place counted in characters, as the server counts, in units of a JavaScript string. */
export function units(text, characters) {
  let place = 0;
  for (const character of text) {
    if (characters <= 0) break;
    place += character.length;
    characters -= 1;
  }
  return place;
}

/** Where each of a model's tokens lies in the text: [start, end], or null where it is not found. */
export function locate(tokens, text) {
  const spans = [];
  let at = 0;
  for (const { spelling, count } of spelled(tokens)) {
    while (/\s/u.test(text.charAt(at))) at += 1;
    const found = spelling ? text.indexOf(spelling, at) : -1;
    const near = found >= 0 && found - at <= FARTHEST;
    if (near) at = found + spelling.length;
    const span = near ? [found, at] : null;
    for (let i = 0; i < count; i += 1) spans.push(span);
  }
  return spans;
}

/** Tokens without the mark of a word's start; a run of bytes is one piece of text. */
function* spelled(tokens) {
  let bytes = [];
  const flush = () => {
    const spelling = new TextDecoder().decode(Uint8Array.from(bytes));
    const count = bytes.length;
    bytes = [];
    return { spelling, count };
  };
  for (const token of tokens) {
    const byte = /^<0x([0-9A-F]{2})>$/u.exec(token);
    if (byte) {
      bytes.push(parseInt(byte[1], 16));
      continue;
    }
    if (bytes.length) yield flush();
    yield { spelling: token.replaceAll("▁", " ").trim(), count: 1 };
  }
  if (bytes.length) yield flush();
}

/** Pairs [word of the source, word of the target] of a sentence.
 *
 * `source` and `target` are {text, words, start, end}: all words of a text, and the sentence in it.
 */
export function aligned(sentence, source, target) {
  const [from, to] = [
    [source, sentence.source_tokens],
    [target, sentence.target_tokens],
  ].map(([side, tokens]) => wordsOf(side, tokens ?? []));
  const pairs = [];
  (sentence.alignment ?? []).forEach((place, token) => {
    for (const left of from[place] ?? []) {
      for (const right of to[token] ?? []) pairs.push([left, right]);
    }
  });
  return pairs;
}

/** For each token, the words that it is a part of. */
function wordsOf({ text, words: list, start, end }, tokens) {
  let first = 0;
  return locate(tokens, text.slice(start, end)).map((span) => {
    if (!span) return [];
    const [from, to] = [span[0] + start, span[1] + start];
    while (first < list.length && list[first].end <= from) first += 1;
    const found = [];
    for (let i = first; i < list.length && list[i].start < to; i += 1) found.push(i);
    return found;
  });
}
