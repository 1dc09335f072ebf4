/** The address → a view on the page. Knows the views by name only. */

import { models } from "./api.js";
import { el } from "./dom.js";
import * as state from "./state.js";
import * as compare from "./compare.js";
import * as guess from "./guess.js";
import * as layers from "./layers.js";
import * as meanings from "./meanings.js";
import * as neighbours from "./neighbours.js";
import { status } from "./status.js";

const VIEWS = { meanings, neighbours, compare, guess, layers };
const THEMES = { auto: "Same as the system", light: "Light", dark: "Dark" };
const SIGNS = { auto: "◐", light: "○", dark: "●" };

const main = document.querySelector("main");
let open = { name: null, view: null };

/** Shows what the address says. A view is made once per visit and then told its parameters. */
async function show() {
  const { view, params } = state.read();
  if (view === "main") return;   // the skip link
  const name = view in VIEWS ? view : "meanings";
  if (open.name !== name) await enter(name);
  if (open.name === name) open.view?.show(params);
}

async function enter(name) {
  open = { name, view: null };
  document.querySelectorAll("nav a").forEach((a) => {
    if (a.dataset.view === name) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  });
  const says = status();
  main.replaceChildren(says.node);
  says.waiting("Loading the model …");
  const model = await models().then((found) => found[0]).catch(says.failed);
  if (!model || open.name !== name) return;
  describe(model);
  const change = (params, options) => {
    state.write(name, params, options);
    open.view.show(params, options);
  };
  open.view = VIEWS[name].view(model, change);
  document.title = `${VIEWS[name].title} · stelmo`;
  main.replaceChildren(open.view.node);
}

function describe(model) {
  const figures = `${model.layers} layers of ${model.width} numbers per word`;
  document.querySelector("#model").replaceChildren("Model ", el("b", {}, model.name), `: ${figures}.`);
}

function theme(next) {
  localStorage.setItem("theme", next);
  document.documentElement.dataset.theme = next;
  const button = document.querySelector("#theme");
  button.textContent = SIGNS[next];
  button.title = THEMES[next];
  button.setAttribute("aria-label", `Colours: ${THEMES[next]}`);
}

const themes = Object.keys(THEMES);
theme(themes.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto");
document.querySelector("#theme").addEventListener("click", () =>
  theme(themes[(themes.indexOf(localStorage.getItem("theme")) + 1) % themes.length]));
addEventListener("popstate", show);   // also fired by a link that changes the hash
show();
