/** Waiting, empty and failed → a quiet line that a screen reader hears. */

import { el } from "./dom.js";
import { Refusal } from "./api.js";

const SOON = 250;   // an answer that comes sooner shows no waiting line: it would only flicker

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
    waiting: (...children) => { clearTimeout(timer); timer = setTimeout(() => say("waiting", ...children), SOON); },
    empty: (...children) => say("empty", ...children),
    failed: (error) => {
      if (!(error instanceof Refusal)) throw error;
      say("failed", el("strong", {}, "Error: "), error.message, error.status === 401 ? tokenForm() : "");
    },
  };
}

/** A server open to the network requires a token; it is kept for this tab only. */
function tokenForm() {
  const input = el("input", { type: "password", "aria-label": "Token", autocomplete: "off" });
  const keep = (event) => {
    event.preventDefault();
    sessionStorage.setItem("token", input.value.trim());
    location.reload();
  };
  return el("form.token", { onsubmit: keep }, input, el("button", {}, "Use this token"));
}
