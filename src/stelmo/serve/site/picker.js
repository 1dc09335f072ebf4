/** Typed text → sentences whose words can be chosen. */

import * as api from "./api.js";
import { el, isShortcut, whenTyped } from "./dom.js";
import { joined } from "./sentence.js";

const TYPING = 350;   // milliseconds without typing before the text is tokenised

/** onpick(text, number of the word among all words of the text). show → {tokens, position} of that word, or null. */
export function picker(label, onpick) {
  let cut = { text: null, sentences: [] };
  let asked = null;   // the text whose words are wanted; those of cut.text are shown until they arrive
  const area = el("textarea", { rows: 2, dir: "auto", spellcheck: "false", "aria-label": label, ...whenTyped(() => {
    asked = area.value;
    onpick(asked, null);
  }, TYPING) });
  const words = el("div.tokens", { role: "group", "aria-label": "Words: choose one" });
  words.addEventListener("keydown", walk);

  /** Arrow keys go from word to word. */
  function walk(event) {
    if (isShortcut(event)) return;
    const buttons = [...words.querySelectorAll("button")];
    const rtl = getComputedStyle(document.activeElement).direction === "rtl" ? -1 : 1;
    const by = { ArrowRight: rtl, ArrowLeft: -rtl, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    buttons[(buttons.indexOf(document.activeElement) + by + buttons.length) % buttons.length]?.focus();
  }

  /** The word with this number is chosen; if the number is null, as after an edit, the first word equal to `word`. */
  async function show(text, number, word) {
    asked = text;
    if (document.activeElement !== area) area.value = text;
    if (cut.text !== text) {
      cut = { text, sentences: text.trim() ? (await api.tokenize(text)).sentences : [] };
      paint();
    }
    const among = cut.sentences.flat().indexOf(word);
    const chosen = number ?? (among < 0 ? null : among);
    words.querySelectorAll("button").forEach((button, i) => button.setAttribute("aria-pressed", String(i === chosen)));
    return found(cut.sentences, chosen);
  }

  function paint() {
    let number = 0;
    const button = (piece) => {
      const own = number++;
      return el("button", { type: "button", "aria-pressed": "false", onclick: () => { if (cut.text === asked) onpick(asked, own); } }, piece.trimStart());
    };
    words.replaceChildren(...cut.sentences.map((tokens) => el("p", { dir: "auto" }, runs(tokens, button))));
  }

  return { node: el("div.picker", {}, area, words), show };
}

/** The words as buttons; lines break only at spaces. */
function runs(tokens, button) {
  const spans = [];
  for (const piece of joined(tokens)) {
    if (piece.startsWith(" ") || !spans.length) spans.push(el("span.run"));
    spans.at(-1).append(button(piece));
  }
  return spans.flatMap((span) => [span, " "]);
}

/** The sentence that contains the word with this number, and its position there; null if there is none. */
function found(sentences, number) {
  let start = 0;
  for (const tokens of sentences) {
    if (number !== null && number < start + tokens.length) return { tokens, position: number - start };
    start += tokens.length;
  }
  return null;
}

/** The number of a word in the address, or null. */
export const wordNumber = (text) => (/^\d+$/.test(text ?? "") ? Number(text) : null);
