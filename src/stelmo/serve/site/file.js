/** A page with its data in it → the map of its words, without a server. */

import { el } from "./dom.js";
import { credits } from "./export.js";
import { view } from "./meanings.js";
import * as mixes from "./mixes.js";
import * as state from "./state.js";

const data = JSON.parse(document.querySelector("#data").textContent);
const source = answers(data);

const meanings = view(data.model, (params, options) => {
  if (state.addressed) state.write("meanings", params, options);
  meanings.show(params, options);
}, source);

function show() {
  const { params } = state.addressed ? state.read() : { params: {} };
  meanings.show({ ...params, word: source.saved.includes(params.word) ? params.word : source.saved[0] });
}

document.querySelector("main").append(meanings.node, el("p.credit", {}, credits(data.model)));
if (state.addressed) addEventListener("popstate", show);
show();

/** The answers in the file to the questions that the page asks the server, for the layers that were saved.
    data: {model, words: {word: {total, uses, maps: {mix: {points, trustworthiness, near, groups, clusters}}}}}; a mix is "0" … or "mean". */
function answers(data) {
  const words = Object.keys(data.words);
  const listed = async () => ({ words: words.map((word) => ({ word, uses: data.words[word].total })) });

  async function map({ word, mixes: asked, clusters }) {
    const { total, uses, maps } = data.words[word] ?? data.words[words[0]];
    const found = asked.map(({ weights }) => maps[mixes.name(weights)] ?? maps[data.model.layers - 1]);
    const grouped = clusters === 1 ? { groups: uses.map(() => 0), clusters: [{ size: uses.length, words: [], substitutes: [], examples: [] }] } : found[0];
    return { word, total, method: "pca", maps: found, clusters: grouped.clusters,
      uses: uses.map((use, i) => ({ ...use, cluster: grouped.groups[i] })) };
  }

  return { saved: words, map, suggested: listed, words: listed, similar: listed };
}
