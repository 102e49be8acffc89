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

/** Sets the text of an element, if it differs: an unchanged row costs nothing. */
export function setText(node, text) {
  const wanted = text ?? "";
  if (node.textContent !== wanted) node.textContent = wanted;
}

/** Sets an attribute, if it differs; `null` removes it. */
export function setAttribute(node, name, value) {
  if (value === null || value === undefined) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, String(value));
  }
}

/** Makes the children of an element exactly these, moving as few as possible. */
export function setChildren(parent, wanted) {
  let at = parent.firstChild;
  for (const child of wanted) {
    if (child === at) at = at.nextSibling;
    else parent.insertBefore(child, at);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/** Calls `draw` once in the next frame, however often it is asked for, and leaves at least so many milliseconds between two. */
export function inNextFrame(draw, apart = 0) {
  let asked = false;
  let last = -Infinity;
  return () => {
    if (asked) return;
    asked = true;
    const frame = () => requestAnimationFrame(() => {
      asked = false;
      last = performance.now();
      draw();
    });
    const wait = last + apart - performance.now();
    if (wait > 0) setTimeout(frame, wait);
    else frame();
  };
}
