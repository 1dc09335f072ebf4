/** A chosen use, or a sentence of the visitor → a panel with the sentence, its group and its nearest uses. Knows no server. */

import { el } from "./dom.js";
import { expected } from "./groups.js";
import { sentence } from "./sentence.js";

const AROUND = 6;   // tokens shown on each side of a neighbour

/** onhover(id or null), onpick(id), onclose(). draw({title, tokens, position, group, near, note}) or draw(null);
    group: {kind, colour, label, size, substitutes, votes}: votes of the nearest uses, for a sentence that is not on the map
    by itself. */
export function chosen(onhover, onpick, onclose) {
  const node = el("section.chosen", { "aria-live": "polite", hidden: true });

  function draw(content) {
    node.hidden = !content;
    if (!content) return node.replaceChildren();
    const { title, tokens, position, group, near, note } = content;
    node.className = `chosen c${group.colour}`;
    node.setAttribute("aria-label", title);
    node.replaceChildren(
      el("div.chosen-head", {}, el("h2", {}, title), el("button.quiet", { type: "button", "aria-label": "Close", onclick: onclose }, "✕")),
      el("p.chosen-sentence", {}, sentence(tokens, position)),
      el("p.note", {}, el("i.swatch", { "aria-hidden": "true" }), membership(group, near.length)),
      near.length ? el("h3", {}, "Most similar uses on this map") : "",
      el("ol.near", {}, near.map(({ use, similarity, colour }) => el("li", {}, el(`button.line.c${colour}`, {
        type: "button", "data-use": use.id, onclick: () => onpick(use.id),
        onpointerenter: () => onhover(use.id), onpointerleave: () => onhover(null), onfocus: () => onhover(use.id), onblur: () => onhover(null),
      }, sentence(use.tokens, use.position, AROUND), el("span.figure", {}, similarity.toFixed(2)))))),
      note ? el("p.note", {}, note) : "");
  }

  return { node, draw };
}

function membership({ kind, label, size, votes, substitutes }, count) {
  if (!label) return ["The uses on this map do not separate into groups."];
  const name = el("strong", {}, el("bdi", {}, label));
  const instead = expected({ substitutes });
  const more = instead.length ? [" ", ...instead] : [];
  if (votes === undefined) return [`${kind} `, name, `, ${size} use${size === 1 ? "" : "s"}.`, ...more];
  return [`Nearest ${kind.toLowerCase()}: `, name, ` (${votes} of the ${count} most similar uses).`, ...more];
}
