/** A word in a sentence → its nearest uses, beside the neighbours of a static vector (Peters et al. 2018, Table 4). */

import * as api from "./api.js";
import { barItem, choice, el } from "./dom.js";
import { exportBar } from "./export.js";
import { layerOptions } from "./mixer.js";
import * as mixes from "./mixes.js";
import { picker, wordNumber } from "./picker.js";
import { plain, sentence } from "./sentence.js";
import { status } from "./status.js";

export const title = "Neighbours";

const EXAMPLE = { text: "The bank raised its interest rate. They walked along the bank of the river.", word: "1" };
const COUNT = 12;
const AROUND = 9;   // tokens shown on each side of a neighbour

export function view(model, change) {
  let params = {};
  let shown = null;
  const set = (changes, options) => change({ ...params, ...changes }, options);
  const text = picker("Sentences", (written, word) => set({ text: written, word }, { step: word !== null }));
  const layer = choice("Layer", layerOptions(model.layers), (value) => set({ layer: value }));
  const only = el("input", { type: "checkbox", onchange: () => set({ only: only.checked ? "1" : null }) });
  const says = status();
  const contextual = el("ol");
  const fixed = el("ol");
  const word = el("b", { dir: "auto" });
  const bar = exportBar(() => ({ name: `neighbours-${shown.word}`, rows: rows(shown.answer), data: shown.answer }));
  const results = el("div.columns", { hidden: true },
    el("section.static", {}, el("h2", {}, "Without context"), el("p.note", {}, "The words most similar to ", word, " by a vector that ignores the sentence."), fixed),
    el("section.contextual", {}, el("h2", {}, "In this sentence"), el("p.note", {}, "The uses in the corpus that are most similar to this one."), contextual));
  const node = el("section.view.neighbours", {},
    el("h1", {}, "Which uses are similar?"),
    el("p.lede", {}, "Type a sentence or two, then choose a word. A static vector gives the same answer for every sentence; a contextual vector depends on the sentence."),
    text.node, el("div.controls", {}, layer.node, el("label.field", {}, only, "Only uses of the same word")),
    says.node, results, bar.node);

  const fetch = api.newest(async (asked, stale) => {
    try {
      const place = await text.show(asked.text, wordNumber(asked.word), shown?.word);
      if (stale()) return;
      if (!place) return keep(asked.text.trim() ? "Choose a word of the text." : "Type a sentence, then choose one of its words.");
      says.waiting("Searching the index …");
      const own = place.tokens[place.position];
      const question = { ...place, k: COUNT, mix: { weights: mixes.parse(asked.layer, model.layers), gamma: 1 }, ...(asked.only ? { word: own } : {}) };
      draw(own, await api.neighbours(question));
    } catch (error) {
      keep("");
      says.failed(error);
    }
  });

  /** The last answer stays, with pale bars, until the next one. */
  function keep(message) {
    says.empty(message);
    results.classList.add("stale");
  }

  function draw(own, answer) {
    shown = { word: own, answer };
    says.clear();
    word.textContent = own;
    fixed.replaceChildren(...answer.static.map(({ word: w, similarity }) => line(el("bdi", {}, w), similarity)));
    contextual.replaceChildren(...answer.contextual.map((use) => line(sentence(use.tokens, use.position, AROUND), use.similarity)));
    if (!answer.contextual.length) contextual.append(el("li.none", {}, "The index has no such use."));
    if (!answer.static.length) fixed.append(el("li.none", {}, "No static neighbours."));
    results.hidden = false;
    results.classList.remove("stale");
    bar.show(true, false);
  }

  function show(next) {
    params = next.text === undefined ? { ...EXAMPLE, ...next } : next;
    layer.set(mixes.name(mixes.parse(params.layer, model.layers)));
    only.checked = Boolean(params.only);
    fetch(params);
  }

  bar.show(false);
  return { node, show };
}

const line = (content, similarity) => barItem(el("span.what", {}, content), similarity.toFixed(2), similarity);

function rows({ contextual, static: fixed }) {
  return [
    ...fixed.map(({ word, similarity }) => ({ kind: "static", word, similarity, sentence: "" })),
    ...contextual.map((use) => ({ kind: "contextual", word: use.tokens[use.position], similarity: use.similarity, sentence: plain(use.tokens) })),
  ];
}
