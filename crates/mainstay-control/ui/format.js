// How figures and times read.

const MAX_TEXT = 2000;
/** A figure and its unit stay on one line. */
const FIXED_SPACE = "\u00a0";

/** Control characters, marks that change the direction of text, and characters that are not seen: those that `PlainText` removes. */
const HIDDEN = new RegExp("[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f"
  + "\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff0-\\ufffb\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]", "gu");

/** Text from elsewhere, made visible: each character that is not seen becomes a sign. */
export function plain(text, most = MAX_TEXT) {
  const whole = String(text ?? "");
  const shown = whole.length > most ? `${whole.slice(0, most)}… (${whole.length} characters)` : whole;
  return shown.replace(HIDDEN, (sign) => (sign < " " ? String.fromCharCode(0x2400 + sign.charCodeAt(0)) : "\ufffd"));
}

/** `3 s`, `12 min`, `5 h`, `3 d`. */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "";
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 100) return `${Math.round(seconds)} s`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

/** How old something is, which is drawn every five seconds: `3 s`, `25 s`, `12 min`, `5 h`, `3 d`. */
export function age(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "";
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 5) return `${seconds} s`;
  if (seconds < 60) return `${seconds - seconds % 5} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** `120 µs`, `3.4 ms`, `1.2 s`. */
export function latency(us) {
  if (us === null || us === undefined) return "–";
  if (us < 1000) return `${us}${FIXED_SPACE}µs`;
  if (us < 100000) return `${(us / 1000).toFixed(1)}${FIXED_SPACE}ms`;
  if (us < 1000000) return `${Math.round(us / 1000)}${FIXED_SPACE}ms`;
  return `${(us / 1000000).toFixed(1)}${FIXED_SPACE}s`;
}

/** `12 MB`. */
export function bytes(count) {
  if (count === null || count === undefined) return "–";
  if (count < 1e6) return `${Math.round(count / 1e3)}${FIXED_SPACE}kB`;
  if (count < 1e9) return `${Math.round(count / 1e6)}${FIXED_SPACE}MB`;
  return `${(count / 1e9).toFixed(1)}${FIXED_SPACE}GB`;
}

/** `3.2`, `120`. */
export function rate(perSecond) {
  if (!perSecond) return "0";
  return perSecond < 10 ? perSecond.toFixed(1) : String(Math.round(perSecond));
}

/** The time of day, with the date if that is not today. */
export function clock(ms) {
  const at = new Date(ms);
  const time = at.toLocaleTimeString([], { hour12: false });
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString()} ${time}`;
}

/** `connected`, `permanently failed`. */
export function words(name) {
  return String(name ?? "").replaceAll("_", " ");
}

export function plural(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
