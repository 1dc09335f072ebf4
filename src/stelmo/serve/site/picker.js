/** Text typed → sentences whose words can be clicked. Used where one word of a text is asked about. */

import * as api from "./api.js";
import { el } from "./dom.js";
import { joined } from "./sentence.js";

const TYPING = 350;   // milliseconds of rest before the text is cut into words

/** onpick(text, number of the word among all words of the text). show → {tokens, position} of that word, or null. */
export function picker(label, onpick) {
  let timer;
  let cut = { text: null, sentences: [] };
  const area = el("textarea", { rows: 2, dir: "auto", spellcheck: "false", "aria-label": label, oninput: () => {
    clearTimeout(timer);
    timer = setTimeout(() => onpick(area.value, null), TYPING);
  } });
  const words = el("div.tokens", { role: "group", "aria-label": "Words: choose one" });
  words.addEventListener("keydown", walk);

  /** Arrow keys go from word to word. */
  function walk(event) {
    const buttons = [...words.querySelectorAll("button")];
    const rtl = getComputedStyle(document.activeElement).direction === "rtl" ? -1 : 1;
    const by = { ArrowRight: rtl, ArrowLeft: -rtl, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    buttons[(buttons.indexOf(document.activeElement) + by + buttons.length) % buttons.length]?.focus();
  }

  /** While the text is edited no word is chosen; then `word` is, if the text contains it. */
  async function show(text, asked, word) {
    if (document.activeElement !== area) area.value = text;
    if (cut.text !== text) {
      cut = { text, sentences: text.trim() ? (await api.tokenize(text)).sentences : [] };
      paint();
    }
    const among = cut.sentences.flat().indexOf(word);
    const chosen = asked ?? (among < 0 ? null : among);
    words.querySelectorAll("button").forEach((button, i) => button.setAttribute("aria-pressed", String(i === chosen)));
    return found(cut.sentences, chosen);
  }

  function paint() {
    let number = 0;
    const button = (piece) => {
      const own = number++;
      return el("button", { type: "button", "aria-pressed": "false", onclick: () => onpick(cut.text, own) }, piece.trimStart());
    };
    words.replaceChildren(...cut.sentences.map((tokens) => el("p", { dir: "auto" }, runs(tokens, button))));
  }

  return { node: el("div.picker", {}, area, words), show };
}

/** Buttons between which a line may break only where a space stands. */
function runs(tokens, button) {
  const spans = [];
  for (const piece of joined(tokens)) {
    if (piece.startsWith(" ") || !spans.length) spans.push(el("span.run"));
    spans.at(-1).append(button(piece));
  }
  return spans.flatMap((span) => [span, " "]);
}

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
