/** A question → the server's answer, or a Refusal with its sentence. Knows no element. */

import { recall } from "./state.js";

export class Refusal extends Error {
  constructor(sentence, status = 0) {
    super(sentence);
    this.status = status;
  }
}

const PATIENCE = 3;       // attempts while the server is busy (429)
const JOB_PAUSE = 400;    // milliseconds between two polls of a job

async function ask(method, path, body = undefined) {
  for (let attempt = 1; ; attempt++) {
    const response = await send(method, `v1/${path}`, body);
    const answer = await response.json().catch(() => null);
    if (response.ok && answer === null) throw new Refusal("The answer of the server is incomplete. Try again.");
    if (response.ok) return answer;
    if (response.status !== 429 || attempt === PATIENCE) throw new Refusal(sentence(response, answer), response.status);
    await pause(1000 * (Number(response.headers.get("Retry-After")) || 1));
  }
}

async function send(method, path, body) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const token = recall("sessionStorage", "token");
  if (token) headers.Authorization = `Bearer ${token}`;
  try {
    return await fetch(path, { method, headers, body: JSON.stringify(body) });
  } catch {
    throw new Refusal("The server does not answer. Is stelmo still running?");
  }
}

/** The server's message as a sentence: with a capital letter and a full stop. */
function sentence(response, answer) {
  const clause = answer?.detail ?? `the server answered ${response.status}`;
  return clause[0].toUpperCase() + clause.slice(1) + (/[.!?]$/.test(clause) ? "" : ".");
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

let described = null;   // the answer of models: asked once, and again after a failure

export const models = () => (described ??= ask("GET", "models").catch((error) => { described = null; throw error; }));
export const tasks = () => ask("GET", "tasks");
export const learned = async () => (await send("GET", "site/learned.json")).json();
export const words = (prefix, limit) => ask("GET", `words?${new URLSearchParams({ prefix, limit })}`);
export const suggested = () => ask("GET", "words/suggested");
export const known = (words) => ask("GET", `words/known?${new URLSearchParams(words.map((word) => ["word", word]))}`);
export const similar = (word) => ask("GET", `words/similar?${new URLSearchParams({ word })}`);
export const tokenize = (text) => ask("POST", "tokenize", { text });
export const similarity = (first, second) => ask("POST", "similarity", { first, second, layers: "each" });
export const neighbours = (question) => ask("POST", "neighbours", question);
export const guess = (tokens, position, k) => ask("POST", "guess", { tokens, position, k });
export const substitutes = (groups) => ask("POST", "substitutes", { groups });
export const map = (question) => ask("POST", "map", question);

/** A slow map, computed as a job. stopped() is called between two polls; a stopped job is cancelled and gives null. */
export async function slowMap(question, onprogress, stopped) {
  const { job } = await ask("POST", "map/jobs", question);
  for (;;) {
    if (stopped()) {
      await ask("DELETE", `map/jobs/${job}`);
      return null;
    }
    const answer = await ask("GET", `map/jobs/${job}`);
    if (answer.state === "done") return answer.map;
    if (answer.state === "failed") throw new Refusal(answer.error ?? "The map could not be computed.");
    onprogress(answer.progress);
    await pause(JOB_PAUSE);
  }
}

/** One request at a time. While it runs only the newest further one is kept, so dragging never builds a queue.
    answer(question, stale): stale() tells whether a newer question waits. */
export function newest(answer) {
  let running = false;
  let waiting = null;
  return async (question) => {
    waiting = { question };
    if (running) return;
    running = true;
    try {
      while (waiting) {
        const { question: next } = waiting;
        waiting = null;
        await answer(next, () => waiting !== null);
      }
    } finally {
      running = false;
    }
  };
}
