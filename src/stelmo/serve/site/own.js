/** A sentence typed by the visitor → the word of the map in it, or words of it that have a map. */

import { Refusal } from "./api.js";
import { el, whenTyped } from "./dom.js";

const TYPING = 600;   // milliseconds without typing before the sentence is placed
const OFFERED = 6;    // words of the sentence that are offered instead
const FEWEST = 3;     // uses of a word that is offered
const FAULTS = [413, 422];   // statuses of an answer that refuses the text itself

const onPhone = () => matchMedia("(pointer: coarse)").matches;

/** source: where sentences are cut into words and words are looked up; onsentence(text or null), also for a sentence that
    was submitted again; onword(word). */
export function ownSentence(source, onsentence, onword) {
  const typed = whenTyped(submit, TYPING);
  const input = el("textarea", { id: "own", rows: 2, dir: "auto", spellcheck: "false", oninput: () => {
    if (!onPhone()) typed.oninput();   // on a phone the page then scrolls to the map, which would disturb typing
  }, onchange: typed.onchange, onkeydown: (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    submit();
  } });
  const label = el("label", { for: "own" });
  const said = el("div.own-note", { "aria-live": "polite" });
  const node = el("form.own-sentence", { onsubmit: (event) => { event.preventDefault(); submit(); } },
    label, el("div.own-row", {}, input, el("button.primary", { type: "submit" }, "Show")), said);

  function submit() {
    if (onPhone()) input.blur();
    onsentence(input.value.trim() || null);
  }

  /** The word in the text: {tokens, position}, or null if there is none; then the note says what to do. */
  async function locate(text, word) {
    said.replaceChildren();
    if (!text) return null;
    const { sentences } = await source.tokenize(text).catch(refuse);
    if (!sentences) return null;
    for (const tokens of sentences) {
      const position = tokens.findIndex((token) => token.toLowerCase() === word.toLowerCase());
      if (position >= 0) return { tokens, position };
    }
    const written = [...new Set(sentences.flat().map((token) => token.toLowerCase()).filter((token) => /\p{L}{3,}/u.test(token)))];
    const { words } = written.length ? await source.known(written.slice(0, 60)) : { words: [] };
    const offered = words.filter(({ uses }) => uses >= FEWEST).sort((a, b) => a.uses - b.uses).slice(0, OFFERED);   // rare words first: "the" comes last
    said.append(el("p", {}, "Your sentence does not contain ", el("strong", {}, word), ". ",
      offered.length ? "Choose a word of your sentence to see its map:" : "Type a sentence with this word."));
    if (offered.length) said.append(el("p.chips", {}, offered.map(({ word: other }) => el("button.chip", { type: "button", onclick: () => onword(other) }, el("bdi", {}, other)))));
    return null;
  }

  /** Shows under the field why the server refused the sentence; any other error is thrown again. */
  function refuse(error) {
    if (!(error instanceof Refusal) || !FAULTS.includes(error.status)) throw error;
    said.replaceChildren(el("p.failed", {}, el("strong", {}, "Error: "), error.message));
    return {};
  }

  function set(text, word) {
    label.replaceChildren("Type a sentence with ", el("strong", {}, el("bdi", {}, word)), " and see where it lands");
    input.placeholder = `… ${word} …`;
    if (document.activeElement !== input) input.value = text ?? "";
  }

  return { node, set, locate, refuse };
}
