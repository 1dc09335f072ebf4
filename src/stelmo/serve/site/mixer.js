/** Layer buttons and sliders → shares s₀ … s_L and γ. Knows no map. */

import { choice, el } from "./dom.js";
import * as mixes from "./mixes.js";

const SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉";
const subscript = (number) => [...String(number)].map((digit) => SUBSCRIPTS[digit]).join("");

/** count: the number of layers, with layer 0; onchange(weights, gamma, dragging). */
export function mixer(legend, count, onchange) {
  let weights = mixes.single(count, count - 1);
  let gamma = 1;

  const change = (next, nextGamma, dragging) => {
    set(next, nextGamma);
    onchange(weights, gamma, dragging);
  };
  const presets = choice(legend, layerOptions(count), (value) => change(mixes.parse(value, count), gamma, false));
  const shares = weights.map((_, layer) => slider(`s${subscript(layer)}`, `Share of layer ${layer}`, 0, 1, 0.01,
    (value, dragging) => change(mixes.withShare(weights, layer, value), gamma, dragging)));
  const scale = slider("γ", "Gamma, the scale of all vectors", mixes.SMALLEST, mixes.LARGEST, 0.05,
    (value, dragging) => change(weights, value, dragging));

  function set(next, nextGamma) {
    weights = next;
    gamma = nextGamma;
    presets.set(mixes.name(weights));
    shares.forEach((share, layer) => share.set(weights[layer]));
    scale.set(gamma);
  }

  return { presets: presets.node, sliders: el("div.sliders", {}, shares.map((share) => share.node), scale.node), set };
}

export function layerOptions(count) {
  const layers = Array.from({ length: count }, (_, l) => [String(l), String(l), `Layer ${l} alone`]);
  return [...layers, ["mean", "Mean", "All layers in equal shares"]];
}

/** A range input with its letter and its value. onmove(value, dragging): dragging while it is still being moved. */
function slider(letter, title, min, max, step, onmove) {
  const output = el("output");
  const move = (dragging) => () => onmove(Number(input.value), dragging);
  const input = el("input", { type: "range", min, max, step, "aria-label": title, oninput: move(true), onchange: move(false) });
  return {
    node: el("label.slider", { title }, el("span.letter", {}, letter), input, output),
    set: (value) => {
      input.value = value;
      input.style.setProperty("--filled", `${(100 * (value - min)) / (max - min)}%`);
      output.textContent = value.toFixed(2);
    },
  };
}
