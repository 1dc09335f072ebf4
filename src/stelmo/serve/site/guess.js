/** A sentence and one of its words → the words that the language model expects there, forward, backward and both. */

import * as api from "./api.js";
import { barItem, el } from "./dom.js";
import { exportBar } from "./export.js";
import { picker, wordNumber } from "./picker.js";
import { status } from "./status.js";

export const title = "Guess";

const EXAMPLE = { text: "He was born in the city of London.", word: "5" };
const COUNT = 10;
const WAYS = [
  ["forward", "Reading forward", "sees only the words before it"],
  ["both", "Both directions", "combines both"],
  ["backward", "Reading backward", "sees only the words after it"],
];

export function view(model, change) {
  let shown = null;
  let last;   // the word that was predicted
  const text = picker("A sentence", (written, word) => change({ text: written, word }, { step: word !== null }));
  const says = status();
  const columns = el("div.columns.three", { hidden: true });
  const bar = exportBar(() => ({ name: "guess", rows: rows(shown), data: shown }));
  const node = el("section.view.guess", {}, el("h1", {}, "Which word fits here?"),
    el("p.lede", {}, "Choose a word. The model predicts, without seeing it, which words fit in its place."),
    text.node, says.node, columns, bar.node);

  const fetch = api.newest(async (asked, stale) => {
    try {
      const place = await text.show(asked.text, wordNumber(asked.word), last);
      if (stale()) return;
      if (!place) return keep(asked.text.trim() ? "Choose a word of the sentence." : "Type a sentence, then choose one of its words.");
      says.waiting("Computing …");
      draw(place.tokens[place.position], await api.guess(place.tokens, place.position, COUNT));
    } catch (error) {
      keep("");
      says.failed(error);
    }
  });

  /** The last answer stays, with pale bars, until the next one. */
  function keep(message) {
    says.empty(message);
    columns.classList.add("stale");
  }

  function draw(own, answer) {
    shown = answer;
    last = own;
    says.clear();
    columns.replaceChildren(...WAYS.map(([way, name, note]) => el(`section.${way}`, {},
      el("h2", {}, name), el("p.note", {}, note), list(answer[way], own))));
    columns.hidden = false;
    columns.classList.remove("stale");
    bar.show(true, false);
  }

  function show(next) {
    if (!model.has_softmax) {
      text.node.hidden = true;
      return keep("This model has no softmax layer, so it cannot predict words. Models trained with stelmo have one.");
    }
    fetch(next.text === undefined ? { ...EXAMPLE, ...next } : next);
  }

  bar.show(false);
  return { node, show };
}

/** Bars show the probability relative to that of the most probable word; the word of the sentence is marked. */
function list(guesses, own) {
  const most = d3.max(guesses, (guess) => guess.probability) || 1;
  return el("ol", {}, guesses.map(({ word, probability }) =>
    barItem(el("bdi.what", {}, word), percent(probability), probability / most, word === own ? "li.own" : "li")));
}

const percent = (probability) => (probability >= 0.001 ? `${(100 * probability).toFixed(1)} %` : "< 0.1 %");
const rows = (answer) => WAYS.flatMap(([way]) => answer[way].map((guess) => ({ way, ...guess })));
