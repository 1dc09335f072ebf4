/** Groups of uses → cards with their words, substitutes and sentences, the most typical first. Knows no map. */

import { el } from "./dom.js";
import { sentence } from "./sentence.js";

const FIRST = 3;     // sentences of a group before "all"
const AROUND = 6;    // tokens shown on each side of the word

/** onhover(id or null), onpick(id), ondim(cluster or null). */
export function groups(onhover, onpick, ondim) {
  const node = el("div.groups");
  const unfolded = new Set();
  let notes = [];   // one for each group

  function draw({ uses, clusters, colours }) {
    const alone = clusters.length === 1;
    notes = [];
    node.replaceChildren(...clusters.map((cluster, c) => {
      const typical = cluster.examples.map((place) => uses[place]);
      const others = uses.filter((use) => use.cluster === c && !typical.includes(use));
      return card([...typical, ...others], cluster, colours[c], c, alone);
    }));
    instead(clusters);
  }

  function card(uses, cluster, colour, c, alone) {
    const list = el("ul", {});
    const fill = () => list.replaceChildren(...uses.slice(0, unfolded.has(colour) ? undefined : FIRST).map(line));
    const more = uses.length > FIRST && el("button.quiet.more", { type: "button", "aria-expanded": String(unfolded.has(colour)), onclick: () => {
      if (!unfolded.delete(colour)) unfolded.add(colour);
      more.setAttribute("aria-expanded", String(unfolded.has(colour)));
      label();
      fill();
    } });
    const label = () => { if (more) more.textContent = unfolded.has(colour) ? "Fewer" : `All ${uses.length}`; };
    label();
    fill();
    const note = el("p.note.instead");
    notes.push(note);
    const title = alone ? "All uses together" : groupName(cluster, c);
    return el(`section.group.c${colour}`, { onpointerenter: () => ondim(alone ? null : c), onpointerleave: () => ondim(null) },
      el("h3", {}, el("bdi", {}, title), el("span.count", {}, `${uses.length} use${uses.length === 1 ? "" : "s"}`)), note, list, more || "");
  }

  /** The substitutes, which can come later than the groups. */
  function instead(clusters) {
    notes.forEach((note, c) => note.replaceChildren(...expected(clusters[c])));
  }

  const line = (use) => el("li", {}, el("button.line", {
    type: "button", "data-use": use.id, onclick: () => onpick(use.id),
    onpointerenter: () => onhover(use.id), onpointerleave: () => onhover(null),
    onfocus: () => onhover(use.id), onblur: () => onhover(null),
  }, sentence(use.tokens, use.position, AROUND)));

  return { node, draw, instead };
}

/** What the language model would put in the place of the uses of a group, as parts of a paragraph; empty if it is not known. */
export const expected = ({ substitutes }) => (substitutes?.length ? ["In its place the model expects: ", el("bdi", {}, substitutes.join(", ")), "."] : []);

/** The words that distinguish a group, or its number. */
export const groupName = (cluster, number) => cluster.words.join(" · ") || `Group ${number + 1}`;
