/** Tokens → a sentence to read, with one word marked; a use → the button that stands for it in a list. Knows no server. */

import { el } from "./dom.js";

const CLOSES = /^([.,;:!?%)\]}»”’]|'s|n't|'re|'ve|'ll|'d|'m|''|…|،|؛|؟|。|、)+$/u;
const OPENS = /^[([{«“‘]+$|^``$/u;

/** Tokens with the space before them, if any: none before closing punctuation, none after opening punctuation. Straight
    quotes open and close in turn. */
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

/** A button with the sentence of a use. onhover(id or null) is called as the pointer or the focus comes and goes, onpick(id)
    when it is pressed; colour: of its group. */
export function useButton(use, around, onhover, onpick, colour = null, ...more) {
  const [enter, leave] = [() => onhover(use.id), () => onhover(null)];
  return el(`button.line${colour === null ? "" : `.c${colour}`}`, {
    type: "button", "data-use": use.id, onclick: () => onpick(use.id), onpointerenter: enter, onpointerleave: leave, onfocus: enter, onblur: leave,
  }, sentence(use.tokens, use.position, around), more);
}

/** The sentence as a string. */
export const plain = (tokens) => joined(tokens).join("");
