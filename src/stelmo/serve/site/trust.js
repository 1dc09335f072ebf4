/** Trustworthiness of a map → a figure, a bar and plain words. */

import { el } from "./dom.js";

const WORDS = [
  [0.95, "Reliable: points that are close on this map are close in the full space."],
  [0.85, "Mostly reliable: some points that are close on this map are not close in the full space."],
  [0.0, "Read with care: many points that are close on this map are not close in the full space."],
];

export function trust() {
  const figure = el("strong.figure");
  const words = el("span");
  const meter = el("div.meter", {}, el("i"));
  const node = el("div.trust", { hidden: true },
    el("div.trust-line", {}, el("span", {}, "Trustworthiness"), figure), meter, el("p", {}, words),
    el("details", {}, el("summary", {}, "What is this?"), el("p", {},
      "A use is a point in a space of several hundred dimensions. Two dimensions cannot keep all distances. ",
      "1 means that all neighbours on the map are true neighbours; a random map has about 0.5.")));

  /** value: 0 … 1, or null if there are too few uses; heap: all uses are one point. */
  function set(value, heap) {
    const told = value !== null && !heap;
    node.hidden = false;
    figure.textContent = told ? value.toFixed(2) : "–";
    meter.firstChild.style.width = `${100 * (told ? value : 0)}%`;
    words.textContent = told ? WORDS.find(([least]) => value >= least)[1]
      : value === null ? "Too few uses to tell."
        : "All uses are one point; they are drawn side by side only to make them visible.";
  }
  return { node, set };
}
