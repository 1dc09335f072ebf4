/** A button → four sentences on how to read the map. */

import { el } from "./dom.js";

const SENTENCES = [
  "Each point is one sentence that contains the word; points close to each other are uses that the model finds similar.",
  "Layer 0 knows only the spelling, so all uses are in one place; the higher layers have read the sentence, and different meanings move apart.",
  "The colours are groups computed from the vectors alone, without any labels; each group is named after the words that occur near it most typically, and beside it are the words that the model expects in its place.",
  "Choose a point to read its sentence, type a sentence of your own to see where it lands, and press Play to watch the layers again.",
];

export function help() {
  const close = el("button.primary", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = el("dialog.help", { "aria-labelledby": "help-title" },
    el("h2", { id: "help-title" }, "How to read the map"), el("ol", {}, SENTENCES.map((text) => el("li", {}, text))), close);
  const button = el("button.quiet.how", { type: "button", "aria-label": "How to read this", onclick: () => dialog.showModal() },
    el("span.wide", {}, "How to read this"), el("span.narrow", {}, "Help"));
  return { button, dialog };
}
