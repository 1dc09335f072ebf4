/** Uses found by a word in their sentences, or selected on the map → a list that can be saved. Knows no map. */

import { counted, el, whenTyped } from "./dom.js";
import { csv, download } from "./export.js";
import { plain, useButton } from "./sentence.js";

const TYPING = 250;   // milliseconds without typing before the sentences are searched
const AROUND = 7;     // tokens shown on each side of the word
const MOST = 60;      // sentences in the list; the file has all

/** onfind(text), onclear(), onhover(id or null), onpick(id); rows(uses) → what is saved. */
export function finder(onfind, onclear, onhover, onpick, rows) {
  const input = el("input.line", { type: "search", dir: "auto", spellcheck: "false", placeholder: "Search the sentences", "aria-label": "Search the sentences",
    ...whenTyped(() => onfind(input.value.trim()), TYPING) });
  const count = el("span", { role: "status" });
  const list = el("ul.found");
  let chosen = [];
  const save = el("button.quiet", { type: "button", onclick: () => download("selection.csv", "text/csv", csv(rows(chosen))) }, "Save as CSV");
  const clear = el("button.quiet", { type: "button", onclick: onclear }, "Clear");
  const results = el("div", { hidden: true }, el("p.found-head", {}, count, save, clear), list);
  const node = el("section.find", { "aria-label": "Selection" }, input, results);

  /** uses: those selected, or null for no selection; found: by the search. */
  function draw(uses, found) {
    results.hidden = uses === null;
    chosen = uses ?? [];
    save.hidden = !chosen.length;
    count.textContent = uses === null ? "" : `${counted(chosen.length, "sentence")} ${found ? "found" : "selected"}`;
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.use : null;
    list.replaceChildren(...chosen.slice(0, MOST).map((use) => el("li", {}, useButton(use, AROUND, onhover, onpick, use.colour))));
    if (focused !== null) list.querySelector(`[data-use="${focused}"]`)?.focus();
    if (chosen.length > MOST) list.append(el("li.note", {}, `The first ${MOST} are listed; the file has all of them.`));
  }

  return { node, draw, set: (text) => { if (document.activeElement !== input) input.value = text; } };
}

/** Whether a sentence contains the text, ignoring case. */
export const contains = (use, text) => plain(use.tokens).toLowerCase().includes(text.toLowerCase());
