/** The address → a view on the page; and the colour scheme. */

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
const themeButton = document.querySelector("#theme");
let open = { name: null, view: null };

/** Shows what the address says. A view is made when it is entered; then only its parameters change. */
async function show() {
  const { view, params } = state.read();
  const name = Object.hasOwn(VIEWS, view) ? view : "meanings";
  if (open.name !== name) await enter(name);
  if (open.name === name) open.view?.show(params);
}

async function enter(name) {
  const entered = { name, view: null };
  open = entered;
  document.querySelectorAll("nav a").forEach((a) => {
    if (a.dataset.view === name) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  });
  const says = status();
  main.replaceChildren(says.node);
  says.waiting("Loading the model …");
  let model;
  try {
    [model] = await models();
  } catch (error) {
    if (open === entered) open = { name: null, view: null };   // the next address tries again
    return says.failed(error);
  }
  if (open !== entered) return;
  document.querySelector("#model").replaceChildren("Model ", el("b", {}, model.name), `: ${model.layers} layers of ${model.width} dimensions per word.`);
  const change = (params, options) => {
    if (open !== entered) return;   // an answer or a pause in typing that came after the visitor had left
    state.write(name, params, options);
    entered.view.show(params, options);
  };
  entered.view = VIEWS[name].view(model, change);
  document.title = `${VIEWS[name].title} · stelmo`;
  main.replaceChildren(entered.view.node);
}

function setTheme(next) {
  state.remember("localStorage", "theme", next);
  document.documentElement.dataset.theme = next;
  themeButton.textContent = SIGNS[next];
  themeButton.title = THEMES[next];
  themeButton.setAttribute("aria-label", `Colours: ${THEMES[next]}`);
}

const themes = Object.keys(THEMES);
const stored = state.recall("localStorage", "theme");
setTheme(themes.includes(stored) ? stored : "auto");
themeButton.addEventListener("click", () => setTheme(themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length]));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();   // the address is that of the view
  main.focus();
});
addEventListener("popstate", show);   // also fired by a link that changes the part after #
show();
