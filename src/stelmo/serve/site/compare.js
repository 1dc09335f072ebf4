/** Two sentences → the similarity of every pair of their words, layer by layer. */

import * as api from "./api.js";
import { choice, el, whenTyped } from "./dom.js";
import { credits, exportBar } from "./export.js";
import { heatmap, two } from "./heatmap.js";
import { layerOptions } from "./mixer.js";
import { status } from "./status.js";

export const title = "Compare";

const EXAMPLE = { a: "The bank raised its interest rate.", b: "They fished from the bank of the river." };
const TYPING = 400;   // milliseconds without typing before the sentences are compared
const LONGEST = 40;   // words: a larger matrix is not readable

export function view(model, change) {
  let params = {};
  let shown = null;   // the sentences and a matrix per layer
  const set = (changes, options) => change({ ...params, ...changes }, options);
  const field = (label) => el("input.line", { type: "text", dir: "auto", spellcheck: "false", "aria-label": label,
    ...whenTyped(() => set({ a: inputs.a.value, b: inputs.b.value }, { step: false }), TYPING) });
  const inputs = { a: field("First sentence"), b: field("Second sentence") };
  const options = layerOptions(model.layers).filter(([value]) => value !== "mean");
  const layer = choice("Layer", options, (value) => set({ layer: value }));
  const says = status();
  const readout = el("p.readout", { "aria-live": "polite" });
  const heat = heatmap((r, c) => { readout.replaceChildren(...reading(shown, current(), r, c)); });
  const bar = exportBar(() => ({ name: "compare", svgs: [heat.svg], rows: rows(shown), data: shown,
    picture: { title: `Similarity of words on layer ${current()}`, credit: credits(model) } }));
  const cut = el("p.note.cut");
  const body = el("div", { hidden: true }, heat.node, cut, readout, bar.node);
  const node = el("section.view.compare", {}, el("h1", {}, "Do two words mean the same?"),
    el("p.lede", {}, "The similarity of every word of one sentence with every word of the other. On layer 0 only the spelling counts; ",
      "on higher layers the same word with another meaning is less similar."),
    el("div.pair", {}, inputs.a, inputs.b), el("div.controls", {}, layer.node), says.node, body);

  /** The layer of the address, or the top layer. */
  const current = () => (options.some(([value]) => value === params.layer) ? Number(params.layer) : model.layers - 1);

  const fetch = api.newest(async ({ a, b }) => {
    const key = JSON.stringify([a, b]);
    if (shown?.key === key) return draw();
    if (!a.trim() || !b.trim()) {
      body.hidden = true;
      return says.empty("Type two sentences.");
    }
    says.waiting("Comparing …");
    try {
      const words = await Promise.all([a, b].map(async (text) => (await api.tokenize(text)).sentences.flat()));
      const [first, second] = words.map((all) => all.slice(0, LONGEST));
      shown = { ...(await api.similarity(first, second)), key, lengths: words.map((all) => all.length) };
      draw();
    } catch (error) {
      body.hidden = true;
      says.failed(error);
    }
  });

  function draw() {
    says.clear();
    body.hidden = false;
    cut.textContent = shortened(shown.lengths);
    cut.hidden = !cut.textContent;
    heat.draw({ first: shown.first, second: shown.second, similarity: shown.layers[current()] });
  }

  function show(next) {
    params = { ...EXAMPLE, ...next };
    for (const key of ["a", "b"]) if (document.activeElement !== inputs[key]) inputs[key].value = params[key];
    layer.set(current());
    fetch(params);
  }

  return { node, show };
}

/** A note on sentences that are longer than what is compared; "" if there are none. */
function shortened(lengths) {
  const long = ["first", "second"].filter((_, i) => lengths[i] > LONGEST);
  const counts = lengths.filter((length) => length > LONGEST).join(" and ");
  return long.length ? `Only the first ${LONGEST} words are compared: the ${long.join(" and the ")} text ${long.length > 1 ? "have" : "has"} ${counts}.` : "";
}

function reading(shown, layer, r, c) {
  if (!shown || r < 0) return ["Point at a square or tap it to see its pair of words."];
  return [el("bdi", {}, shown.first[r]), " and ", el("bdi", {}, shown.second[c]), ` on layer ${layer}: `,
    el("b", {}, two(shown.layers[layer][r][c]))];
}

function rows({ first, second, layers }) {
  return layers.flatMap((matrix, layer) => first.flatMap((word, r) =>
    second.map((other, c) => ({ layer, first: word, second: other, similarity: matrix[r][c] }))));
}
