// The login of this page. The page keeps no token. It asks for one, and again after each connection that was lost: the answer is encrypted
// with a key of this page, so only the program that let the page in can give one. Another program that took its port gets nothing.
//
// Stored is the key of one run of the program. It is worthless when the program has ended, to whoever reads it here then. The key that is valid
// across restarts is in the memory of this script only, as one that cannot be read.

import { ApiError } from "./errors.js";

const KEPT = "mainstay-page";
const LOGGED_OUT = { title: "this page is not logged in", remedy: "run `mainstay ui`" };
// In bytes: the text that the page chooses for each question, and the start of an answer, which the program chooses.
const NONCE = 32;
const START = 12;

let session = null;
/** The keys of the session, the first of which is tried first. */
let runKey = null;
let lastingKey = null;
let token = null;
let renewAt = 0;
let asking = null;

/** Exchanges the code of a login link for a session. */
export async function logIn(code) {
  if (!globalThis.crypto?.subtle) throw new ApiError({ title: "the page needs https, or an address of this machine such as 127.0.0.1" }, 0);
  await adopt(await post("login", { code }));
  forgetToken();
}

/** A token for the next request. Fails if whatever answers here is not the program that let this page in. */
export async function pageToken() {
  if (token && Date.now() < renewAt) return token;
  asking ??= ask().finally(() => { asking = null; });
  return asking;
}

/** The connection is lost, or the token refused: what answers next may be another program. */
export function forgetToken() {
  token = null;
}

async function ask() {
  if (await renewed() || (await recall() && await renewed())) return token;
  throw new ApiError(LOGGED_OUT, 401);
}

/** Whether the program gave the next token to one of the keys. */
async function renewed() {
  token = null;
  for (const [kind, key] of [["run", runKey], ["lasting", lastingKey]]) {
    const granted = key && await granting(kind, key);
    if (!granted) continue;
    await adopt({ session, ...granted });
    token = granted.token;
    renewAt = Date.now() + granted.lifetime_ms / 2;
    return true;
  }
  return false;
}

/** What the program grants to one of the keys; `null` if the answer was not made with that key. */
async function granting(kind, key) {
  const nonce = hex(crypto.getRandomValues(new Uint8Array(NONCE)));
  let sealed = null;
  try {
    sealed = unhex((await post("token", { session, key: kind, nonce })).sealed);
  } catch (error) {
    if (error instanceof ApiError) return null;
    throw error;
  }
  try {
    const opened = await crypto.subtle.decrypt(
      { name: "AES-GCM", iv: sealed.slice(0, START), additionalData: new TextEncoder().encode(nonce) }, key, sealed.slice(START));
    return JSON.parse(new TextDecoder().decode(opened));
  } catch {
    return null;
  }
}

/** Takes the keys of a session, and keeps the one of this run. */
async function adopt(keys) {
  runKey = await imported(keys.run_key);
  lastingKey = await imported(keys.lasting_key);
  session = keys.session;
  try { localStorage.setItem(KEPT, JSON.stringify({ session, key: keys.run_key })); } catch { /* Storage may be forbidden. */ }
}

/** Takes the session that another tab, or this page before it was loaded again, has kept. Whether it is another one. */
async function recall() {
  let kept = null;
  try { kept = JSON.parse(localStorage.getItem(KEPT)); } catch { /* Storage may be forbidden. */ }
  if (!kept || kept.session === session || !globalThis.crypto?.subtle) return false;
  runKey = await imported(kept.key);
  lastingKey = null;
  session = kept.session;
  return true;
}

function imported(key) {
  return crypto.subtle.importKey("raw", unhex(key), "AES-GCM", false, ["decrypt"]);
}

async function post(path, body) {
  const response = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), credentials: "omit", cache: "no-store" });
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw new ApiError(answer, response.status);
  return answer;
}

function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function unhex(text) {
  return Uint8Array.from(String(text).match(/../g) ?? [], (byte) => parseInt(byte, 16));
}
