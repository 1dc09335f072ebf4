/** Letters typed → a word of the corpus, with suggestions (the combobox pattern of ARIA). onpick is also called for a word
    that is entered again. */

import { newest, words } from "./api.js";
import { el, isShortcut } from "./dom.js";

const SHOWN = 8;

export function wordbox(onpick) {
  const list = el("ul.suggestions", { id: "suggestions", role: "listbox", "aria-label": "Words of the corpus", hidden: true });
  const input = el("input.word", {
    role: "combobox", "aria-expanded": "false", "aria-controls": "suggestions", "aria-autocomplete": "list",
    "aria-label": "A word of the corpus", autocomplete: "off", autocapitalize: "off", spellcheck: "false", dir: "auto",
    oninput: () => { resize(); typed = input.value.trim(); suggest(typed); },
    onkeydown: key,
    onfocus: () => input.select(),
    onblur: () => { close(); finish(input.value, false); },
  });
  let typed = null;   // the letters to which suggestions are wanted; null once the list was closed
  let active = -1;
  let last = "";

  const resize = () => { input.size = Math.max(input.value.length, 3); };
  const options = () => [...list.children];

  const suggest = newest(async (prefix) => {
    const found = prefix ? (await words(prefix, SHOWN).catch(() => ({ words: [] }))).words : [];
    if (prefix === typed) open(found);
  });

  function open(found) {
    list.replaceChildren(...found.map(option));
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    point(-1);
  }

  function option({ word, uses }, i) {
    const take = (event) => { event.preventDefault(); finish(word); close(); };
    return el("li", { id: `suggestion-${i}`, role: "option", "aria-selected": "false", "data-word": word, onpointerdown: take },
      el("bdi", {}, word), el("span.count", {}, uses.toLocaleString("en")));
  }

  function point(i) {
    active = i;
    options().forEach((node, o) => node.setAttribute("aria-selected", String(o === i)));
    if (i < 0) input.removeAttribute("aria-activedescendant");
    else input.setAttribute("aria-activedescendant", `suggestion-${i}`);
  }

  function close() {
    typed = null;
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
  }

  /** again: whether the word is passed on even if it is the last one. */
  function finish(word, again = true) {
    const taken = word.trim() || last;
    set(taken);
    if (again || taken !== last) { last = taken; onpick(taken); }
  }

  function key(event) {
    if (isShortcut(event)) return;
    const count = list.hidden ? 0 : options().length;
    if (event.key === "ArrowDown" && count) point((active + 1) % count);
    else if (event.key === "ArrowUp" && count) point((active - 1 + count) % count);
    else if (event.key === "Enter") { finish(active >= 0 && count ? options()[active].dataset.word : input.value); close(); }
    else if (event.key === "Escape") { close(); set(last); }
    else return;
    event.preventDefault();
  }

  function set(word) {
    input.value = word;
    resize();
  }

  /** The word of the map. What is being typed stays if the word does not change. */
  function follow(word) {
    if (word === last) return;
    last = word;
    set(word);
  }

  return { node: el("span.wordbox", {}, input, list), set: follow };
}
