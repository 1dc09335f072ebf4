/** Trustworthiness of a map → a figure, a bar and plain words. */

import { el } from "./dom.js";

const WORDS = [
  [0.95, "The flat map can be believed: points that lie together here belong together."],
  [0.85, "Mostly to be believed: some points that lie together here are strangers to each other."],
  [0.0, "Read it with care: many points that lie together here are strangers to each other."],
];

export function trust() {
  const figure = el("strong.figure");
  const words = el("span");
  const meter = el("div.meter", {}, el("i"));
  const node = el("div.trust", { hidden: true },
    el("div.trust-line", {}, el("span", {}, "Trustworthiness"), figure), meter, el("p", {}, words),
    el("details", {}, el("summary", {}, "What is this?"), el("p", {},
      "A use is a point in some hundred dimensions. Pressing it flat brings strangers together. This figure counts them: ",
      "1 means that nobody who stands near you on the map is a stranger; a map drawn at random has about one half.")));

  /** value: 0 … 1, or null where there is nothing to tell; heap: all uses are one point. */
  function set(value, heap) {
    const told = value !== null && !heap;
    node.hidden = false;
    figure.textContent = told ? value.toFixed(2) : "–";
    meter.firstChild.style.width = `${100 * (told ? value : 0)}%`;
    words.textContent = told ? WORDS.find(([least]) => value >= least)[1]
      : value === null ? "Too few uses to tell."
        : "All uses are one point; they are drawn beside each other only to be seen.";
  }
  return { node, set };
}
