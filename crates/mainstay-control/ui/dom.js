// Builds the page from elements and text nodes only. Nothing here reads markup from a string, so text that a server or a
// client sent can never become markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes, listeners (`onclick`) and children (elements or text). */
export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An element of a drawing. */
export function drawing(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const TEXT = Symbol("text");

/** Sets the text of an element, if it differs: an unchanged row costs nothing. Only this function sets the text of such an element. */
export function setText(node, text) {
  const wanted = text ?? "";
  if (node[TEXT] === wanted) return;
  node[TEXT] = wanted;
  node.textContent = wanted;
}

/** Sets an attribute, if it differs; `null` removes it. */
export function setAttribute(node, name, value) {
  if (value === null || value === undefined) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, String(value));
  }
}

/** Makes the children of an element exactly these, and moves as few as possible: each one that moves is laid out again. */
export function setChildren(parent, wanted) {
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const places = new Map([...parent.childNodes].map((child, place) => [child, place]));
  const staying = longestAscending(wanted, places);
  const isWanted = new Set(wanted);
  for (const child of places.keys()) if (!isWanted.has(child)) child.remove();
  let next = null;
  for (let at = wanted.length - 1; at >= 0; at -= 1) {
    if (!staying.has(wanted[at])) parent.insertBefore(wanted[at], next);
    next = wanted[at];
  }
  // An element that moves loses the focus, and a person at the keyboard their place.
  if (focused && focused !== document.activeElement && parent.contains(focused)) focused.focus({ preventScroll: true });
}

/** The most children that can stay where they are: those of a longest subsequence of `wanted` that is in the order of `places`. */
function longestAscending(wanted, places) {
  // `ends[n]` is the last child of the best subsequence of n + 1 children; `before` leads back from there.
  const ends = [];
  const before = new Map();
  for (const child of wanted) {
    const place = places.get(child);
    if (place === undefined) continue;
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (places.get(ends[middle]) < place) low = middle + 1;
      else high = middle;
    }
    before.set(child, ends[low - 1]);
    ends[low] = child;
  }
  const staying = new Set();
  for (let child = ends.at(-1); child; child = before.get(child)) staying.add(child);
  return staying;
}

/** Calls `draw` soon, however often it is asked for, and leaves so many milliseconds between two. In a page that is seen it is called in a frame. */
export function soon(draw, apart) {
  let isAsked = false;
  let last = -Infinity;
  const run = () => {
    isAsked = false;
    last = performance.now();
    draw();
  };
  return () => {
    if (isAsked) return;
    isAsked = true;
    // A hidden page has no frames.
    const begin = () => (document.hidden ? run() : requestAnimationFrame(run));
    const wait = last + apart - performance.now();
    if (wait > 0) setTimeout(begin, wait);
    else begin();
  };
}

/** Calls `draw` once in the next frame, however often it is asked for. */
export function inNextFrame(draw) {
  let isAsked = false;
  return () => {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => {
      isAsked = false;
      draw();
    });
  };
}
