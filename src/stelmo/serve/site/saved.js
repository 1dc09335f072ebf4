/** The answers in a saved page → the same questions as to the server, for the layers that were saved. Knows no element. */

import * as mixes from "./mixes.js";

/** data: {model, words: {word: {total, uses, maps: {mix: {points, trustworthiness, near, groups, clusters}}}}}; a mix is "0" … or "mean". */
export function answers(data) {
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
