// Elements without a framework: made once, patched afterwards, so that focus and scroll stay.

export type Child = Node | string | null | undefined | false;
type Props = Record<string, unknown>;

/** An element with properties (`class`, `onclick`, attributes) and children. Text is text. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props: Props = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") el.className = String(value);
    else if (name.startsWith("on") && typeof value === "function") {
      el.addEventListener(name.slice(2), value as EventListener);
    } else el.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child) el.append(child);
  return el;
}

/** Set a text only if it differs: assigning equal text would still drop a selection. */
export function setText(el: Element, text: string): void {
  if (el.textContent !== text) el.textContent = text;
}

export function setShown(el: HTMLElement, shown: boolean): void {
  if (el.hidden === shown) el.hidden = !shown;
}

export function setAttribute(el: Element, name: string, value: string | null): void {
  if (value === null) el.removeAttribute(name);
  else if (el.getAttribute(name) !== value) el.setAttribute(name, value);
}

/**
 * Keys typed here are the page's, not Jupyter's: `b` on a button would insert a cell.
 *
 * JupyterLab listens behind us. Notebook 7 listens before us, but passes over an element that is
 * marked; the mark has to be on the very element that has the focus.
 */
export function keepKeys(root: HTMLElement): void {
  root.addEventListener("keydown", (event) => event.stopPropagation());
  root.addEventListener("focusin", (event) => {
    if (event.target instanceof Element) event.target.setAttribute("data-lm-suppress-shortcuts", "true");
  });
}

// A screen shows no more.
const FRAME = 1000 / 60;
// Of the time, one part in so many is for drawing: keys and clicks have the rest.
const SHARE = 4;

/**
 * Runs `fn` soon, once, however often it is asked for: at once after a pause, since a person waits
 * for what they have clicked; then with the frames, or less often where drawing takes long. A hidden
 * page has no frames.
 */
export function onFrame(fn: () => void): () => void {
  let asked = false;
  let restsUntil = 0;
  const run = () => {
    if (!asked) return;
    asked = false;
    const began = performance.now();
    fn();
    restsUntil = began + Math.max(FRAME, (performance.now() - began) * SHARE);
  };
  return () => {
    if (asked) return;
    asked = true;
    const rest = restsUntil - performance.now();
    if (rest <= 0) {
      // Not here and now: one message changes several traits, and tells of each.
      queueMicrotask(run);
    } else if (document.visibilityState !== "visible") {
      setTimeout(run, 100);
    } else if (rest <= FRAME) {
      requestAnimationFrame(run);
      // A frame may never come: a page that is hidden in the meantime draws late, but it draws.
      setTimeout(run, 500);
    } else {
      setTimeout(run, rest);
    }
  };
}
