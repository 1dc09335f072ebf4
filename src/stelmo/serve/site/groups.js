/** Groups of uses → cards with their words, substitutes and sentences, the most typical first. Knows no map. */

import { counted, el } from "./dom.js";
import { useButton } from "./sentence.js";

const FIRST = 3;     // sentences of a group that are shown before its button "All" is pressed
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
    const list = el("ul");
    const fill = () => list.replaceChildren(...uses.slice(0, unfolded.has(colour) ? undefined : FIRST).map((use) => el("li", {}, useButton(use, AROUND, onhover, onpick))));
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
      el("h3", {}, el("bdi", {}, title), el("span.count", {}, counted(uses.length, "use"))), note, list, more);
  }

  /** The substitutes, which can arrive later than the groups. */
  function instead(clusters) {
    notes.forEach((note, c) => note.replaceChildren(...expected(clusters[c])));
  }

  return { node, draw, instead };
}

/** What the language model expects in place of the uses of a group, as parts of a paragraph; empty if it is not known. */
export const expected = ({ substitutes }) => (substitutes?.length ? ["The model expects here: ", el("bdi", {}, substitutes.join(", ")), "."] : []);

/** The words that distinguish a group, or its number. */
export const groupName = (cluster, number) => cluster.words.join(" · ") || `Group ${number + 1}`;
