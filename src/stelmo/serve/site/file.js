/** A page with its data in it → the map of its words, without a server. */

import { el } from "./dom.js";
import { credits } from "./export.js";
import { view } from "./meanings.js";
import { answers } from "./saved.js";
import * as state from "./state.js";

const data = JSON.parse(document.querySelector("#data").textContent);
const source = answers(data);
const addressed = location.protocol !== "about:";   // a cell of a notebook has no address of its own

const meanings = view(data.model, (params, options) => {
  if (addressed) state.write("meanings", params, options);
  meanings.show(params, options);
}, source);

function show() {
  const { params } = addressed ? state.read() : { params: {} };
  meanings.show({ ...params, word: source.saved.includes(params.word) ? params.word : source.saved[0] });
}

document.querySelector("main").append(meanings.node, el("p.credit", {}, credits(data.model)));
if (addressed) addEventListener("popstate", show);
show();
