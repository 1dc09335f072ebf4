/** Tokens → a sentence to read, with one word marked. Knows no server. */

import { el } from "./dom.js";

const CLOSES = /^([.,;:!?%)\]}»”’]|'s|n't|'re|'ve|'ll|'d|'m|''|…|،|؛|؟|。|、)+$/u;
const OPENS = /^[([{«“‘]+$|^``$/u;

/** Tokens with the space before them, if any: none before what closes, none behind what opens. Straight quotes take turns. */
export function joined(tokens) {
  let quoted = false;
  let glued = true;
  return tokens.map((token) => {
    const straight = token === '"';
    const piece = (glued || CLOSES.test(token) || (straight && quoted) ? "" : " ") + token;
    if (straight) quoted = !quoted;
    glued = OPENS.test(token) || (straight && quoted);
    return piece;
  });
}

/** The sentence, or with `around` only that many tokens on each side of the marked one. Its script sets its direction. */
export function sentence(tokens, position, around = Infinity) {
  let from = Math.max(0, position - around);
  while (from > 0 && from < position && CLOSES.test(tokens[from])) from++;
  const to = Math.min(tokens.length, position + around + 1);
  const pieces = joined(tokens);
  const word = pieces[position] ?? "";
  const space = word.startsWith(" ") ? " " : "";
  return el("span.sentence", { dir: "auto" },
    from > 0 ? "…\u00a0" : "", pieces.slice(from, position).join("").trimStart() + space,
    el("mark", {}, word.trimStart()),
    pieces.slice(position + 1, to).join(""), to < tokens.length ? "\u00a0…" : "");
}

export const plain = (tokens) => joined(tokens).join("");
