/** A chosen use, or a sentence of the visitor → a panel with the sentence, its group and its nearest uses. Knows no server. */

import { counted, el } from "./dom.js";
import { expected } from "./groups.js";
import { sentence, useButton } from "./sentence.js";

const AROUND = 6;   // tokens shown on each side of a neighbour

/** onhover(id or null), onpick(id), onclose(). draw({title, tokens, position, group, near, note}) or draw(null);
    group: {kind, colour, label, size, substitutes, votes}; votes: how many of the nearest uses are in the group, for a
    sentence of the visitor. The keyboard focus stays in the panel while its content changes. */
export function chosen(onhover, onpick, onclose) {
  const node = el("section.chosen", { "aria-live": "polite", hidden: true });
  const close = el("button.quiet", { type: "button", "aria-label": "Close", onclick: onclose }, "✕");

  function draw(content) {
    const focused = node.contains(document.activeElement) && document.activeElement;
    node.hidden = !content;
    if (!content) return node.replaceChildren();
    const { title, tokens, position, group, near, note } = content;
    node.className = `chosen c${group.colour}`;
    node.setAttribute("aria-label", title);
    node.replaceChildren(
      el("div.chosen-head", {}, el("h2", {}, title), close),
      el("p.chosen-sentence", {}, sentence(tokens, position)),
      el("p.note", {}, el("i.swatch", { "aria-hidden": "true" }), membership(group, near.length)),
      ...(near.length ? [el("h3", {}, "Most similar uses on this map")] : []),
      el("ol.near", {}, near.map(({ use, similarity, colour }) =>
        el("li", {}, useButton(use, AROUND, onhover, onpick, colour, el("span.figure", {}, similarity.toFixed(2)))))),
      ...(note ? [el("p.note", {}, note)] : []));
    if (focused) (node.querySelector(`[data-use="${focused.dataset.use}"]`) ?? close).focus();
  }

  return { node, draw };
}

function membership({ kind, label, size, votes, substitutes }, count) {
  if (!label) return ["The uses on this map do not separate into groups."];
  const name = el("strong", {}, el("bdi", {}, label));
  const instead = expected({ substitutes });
  const more = instead.length ? [" ", ...instead] : [];
  if (votes === undefined) return [`${kind} `, name, `, ${counted(size, "use")}.`, ...more];
  return [`Nearest ${kind.toLowerCase()}: `, name, ` (${votes} of the ${count} most similar uses).`, ...more];
}
