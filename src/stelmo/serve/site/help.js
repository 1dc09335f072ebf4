/** How to read a map: a dialog with four sentences, and how trustworthy its distances are. */

import { el } from "./dom.js";

const SENTENCES = [
  "Each point is one sentence that contains the word; points close to each other are uses that the model finds similar.",
  "Layer 0 knows only the spelling, so all uses are in one place; the higher layers have read the sentence, and different meanings move apart.",
  "The colours are groups computed from the vectors alone, without any labels; each group is labelled with the words most typical of its sentences; beside it are the words that the model expects in place of the chosen word.",
  "Choose a point to read its sentence, type a sentence of your own to see where it lands, and press Play to watch the layers again.",
];

const JUDGEMENTS = [   // for maps of at least this trustworthiness
  [0.95, "Reliable: points that are close on this map are close in the full space."],
  [0.85, "Mostly reliable: some points that are close on this map are not close in the full space."],
  [0.0, "Read with care: many points that are close on this map are not close in the full space."],
];

/** The button and the dialog that it opens. */
export function help() {
  const close = el("button.primary", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = el("dialog.help", { "aria-labelledby": "help-title" },
    el("h2", { id: "help-title" }, "How to read the map"), el("ol", {}, SENTENCES.map((text) => el("li", {}, text))), close);
  const button = el("button.quiet.how", { type: "button", "aria-label": "How to read this", onclick: () => dialog.showModal() },
    el("span.wide", {}, "How to read this"), el("span.narrow", {}, "Help"));
  return { button, dialog };
}

/** Trustworthiness as a number, a bar and a sentence. */
export function trust() {
  const figure = el("strong.figure");
  const judgement = el("p");
  const meter = el("div.meter", {}, el("i"));
  const node = el("div.trust", { hidden: true },
    el("div.trust-line", {}, el("span", {}, "Trustworthiness"), figure), meter, judgement,
    el("details", {}, el("summary", {}, "What is this?"), el("p", {},
      "A use is a point in a space of several hundred dimensions. Two dimensions cannot keep all distances. ",
      "1 means that all neighbours on the map are true neighbours; a random map has about 0.5.")));

  /** value: 0 … 1, or null if there are too few uses; coincide: whether all uses are one point. */
  function set(value, coincide) {
    const known = value !== null && !coincide;
    node.hidden = false;
    figure.textContent = known ? value.toFixed(2) : "–";
    meter.firstChild.style.width = `${100 * (known ? value : 0)}%`;
    judgement.textContent = known ? JUDGEMENTS.find(([least]) => value >= least)[1]
      : value === null ? "Too few uses to tell."
        : "All uses are one point; they are drawn side by side only to make them visible.";
  }
  return { node, set };
}
