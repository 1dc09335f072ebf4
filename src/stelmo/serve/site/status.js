/** Waiting, nothing to show, failed → a line of text that a screen reader announces. */

import { el } from "./dom.js";
import { Refusal } from "./api.js";
import { remember } from "./state.js";

const SOON = 250;   // milliseconds: for an answer that comes sooner no waiting line is shown, because it would flicker

export function status() {
  const node = el("div.status", { role: "status", "aria-live": "polite" });
  let timer;
  const say = (kind, ...children) => {
    clearTimeout(timer);
    node.dataset.kind = kind;
    node.replaceChildren(...children);
  };
  return {
    node,
    clear: () => say(""),
    waiting: (...children) => { clearTimeout(timer); timer = setTimeout(say, SOON, "waiting", ...children); },
    empty: (...children) => say("empty", ...children),
    failed: (error) => {
      clearTimeout(timer);
      if (!(error instanceof Refusal)) throw error;   // a mistake in this program
      say("failed", el("strong", {}, "Error: "), error.message, error.status === 401 ? tokenForm() : "");
    },
  };
}

/** A server open to the network requires a token; it is kept for this tab only. */
function tokenForm() {
  const input = el("input", { type: "password", "aria-label": "Token", autocomplete: "off" });
  const keep = (event) => {
    event.preventDefault();
    remember("sessionStorage", "token", input.value.trim());
    location.reload();
  };
  return el("form.token", { onsubmit: keep }, input, el("button", {}, "Use this token"));
}
