// Markdown that a model wrote, as elements that can do nothing: no script, no style, no form, no
// request. Pictures only where their bytes are in the text; links open elsewhere and say where.

import DOMPurify from "dompurify";
import { Blocks, toHtml } from "./blocks";
import { h } from "./dom";

const TAGS = [
  "a", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt", "em", "h1", "h2",
  "h3", "h4", "h5", "h6", "hr", "i", "img", "kbd", "li", "mark", "ol", "p", "pre", "q", "s", "samp",
  "small", "span", "strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead",
  "tr", "u", "ul", "var",
];
const ATTRIBUTES = ["align", "alt", "colspan", "href", "open", "rowspan", "src", "start", "title"];
const LINK = /^(?:https?:\/\/|mailto:)/i;
const IMAGE = /^data:image\/(?:png|jpe?g|gif|webp|avif|bmp);base64,[a-z0-9+/=\s]*$/i;
// Drawing a long open block again costs; it may take one part in so many of the time.
const SHARE = 8;
const CHEAP = 3;
// A text may be long and its address longer.
const SHOWN_URL = 300;

let purify: ReturnType<typeof DOMPurify> | undefined;

function getPurify(): ReturnType<typeof DOMPurify> {
  if (purify) return purify;
  // An instance of our own: hooks on the page's DOMPurify would be everybody's.
  purify = DOMPurify(window);
  purify.addHook("afterSanitizeAttributes", (node) => {
    if (node instanceof HTMLImageElement) checkImage(node);
    else if (node instanceof HTMLAnchorElement) checkLink(node);
    else if (node instanceof Element) {
      node.removeAttribute("href");
      node.removeAttribute("src");
    }
  });
  return purify;
}

function checkImage(image: HTMLImageElement): void {
  if (IMAGE.test(image.getAttribute("src") ?? "")) return;
  const told = image.getAttribute("alt") || "picture";
  const place = image.getAttribute("src");
  image.removeAttribute("src");
  image.replaceWith(`[${told}${place ? `: ${shorten(place)}` : ""}]`);
}

function checkLink(link: HTMLAnchorElement): void {
  const href = link.getAttribute("href") ?? "";
  if (!LINK.test(href)) {
    link.removeAttribute("href");
    return;
  }
  link.setAttribute("target", "_blank");
  link.setAttribute("rel", "noopener noreferrer");
  link.setAttribute("title", href);
  const text = (link.textContent ?? "").trim();
  if (text !== href && `mailto:${text}` !== href) {
    link.append(h("span", { class: "piweb-url" }, ` (${shorten(href)})`));
  }
}

function shorten(url: string): string {
  return url.length <= SHOWN_URL ? url : `${url.slice(0, SHOWN_URL)}…`;
}

export function sanitize(html: string): DocumentFragment {
  return getPurify().sanitize(html, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ATTRIBUTES,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    // Our hook decides on `data:` pictures; without this they would be gone before it runs.
    ADD_DATA_URI_TAGS: ["img"],
    RETURN_DOM_FRAGMENT: true,
  });
}

/** One markdown text that may still be growing. */
export class Markdown {
  readonly el = h("div", { class: "piweb-markdown" });
  readonly #open = h("div", { class: "piweb-open" });
  #blocks = new Blocks();
  #code: HTMLElement | undefined;
  #text = "";
  #isDone = false;
  #restAt = 0;
  #resting: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    this.el.append(this.#open);
  }

  update(text: string, isDone: boolean): void {
    if (text === this.#text && isDone === this.#isDone) return;
    if (this.#isDone) this.#reset();
    const before = this.#text;
    this.#text = text;
    this.#isDone = isDone;
    clearTimeout(this.#resting);
    const began = performance.now();
    if (!isDone && began < this.#restAt && before && text.startsWith(before)) {
      // In between, what is new stands there as it came.
      innermost(this.#open).append(text.slice(before.length));
      this.#resting = setTimeout(() => this.#draw(), this.#restAt - began);
      return;
    }
    this.#draw();
  }

  #draw(): void {
    const began = performance.now();
    this.#drawNow(this.#text, this.#isDone);
    const took = performance.now() - began;
    this.#restAt = took > CHEAP ? began + took * SHARE : 0;
  }

  #drawNow(text: string, isDone: boolean): void {
    const step = this.#blocks.update(text, isDone);
    if (step.reset) this.el.replaceChildren(this.#open);
    if (step.code) {
      this.#drawCode(step.code);
      return;
    }
    this.#code = undefined;
    if (step.closed.length > 0) {
      const fragment = sanitize(toHtml(step.closed));
      dress(fragment);
      this.el.insertBefore(fragment, this.#open);
    }
    if (step.open.length > 0) this.#open.replaceChildren(sanitize(toHtml(step.open)));
    else this.#open.replaceChildren();
  }

  #reset(): void {
    this.#text = "";
    this.#restAt = 0;
    this.#blocks = new Blocks();
    this.el.replaceChildren(this.#open);
    this.#open.replaceChildren();
    this.#code = undefined;
  }

  /** A block of code that is being written: only what is new is added. */
  #drawCode(code: { language: string; text: string }): void {
    if (!this.#code) {
      this.#code = h("code");
      this.#open.replaceChildren(h("pre", {}, this.#code));
    }
    const drawn = this.#code.textContent ?? "";
    if (code.text.startsWith(drawn)) this.#code.append(code.text.slice(drawn.length));
    else this.#code.textContent = code.text;
  }
}

/** Where a text that goes on would go on. */
function innermost(root: Element): Element {
  let el = root;
  while (el.lastElementChild && el.lastElementChild === el.lastChild) el = el.lastElementChild;
  return el;
}

/** Give finished code blocks a button to copy them. */
function dress(fragment: DocumentFragment): void {
  for (const pre of fragment.querySelectorAll("pre")) {
    const box = h("div", { class: "piweb-code" });
    const copy = h("button", { type: "button", class: "piweb-link piweb-copy", "aria-label": "Copy code" }, "Copy");
    copy.addEventListener("click", () => {
      void navigator.clipboard?.writeText(pre.textContent ?? "").then(() => {
        copy.textContent = "Copied";
        setTimeout(() => (copy.textContent = "Copy"), 1500);
      });
    });
    pre.replaceWith(box);
    box.append(pre, copy);
  }
}
