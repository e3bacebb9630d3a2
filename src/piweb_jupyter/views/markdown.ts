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
// Code that is being written is laid out in pieces of about so many characters.
const PIECE = 4000;
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
  #drawnCode = "";
  #text = "";
  #isDone = false;

  constructor() {
    this.el.append(this.#open);
  }

  update(text: string, isDone: boolean): void {
    if (text === this.#text && isDone === this.#isDone) return;
    if (this.#isDone) this.#reset();
    this.#text = text;
    this.#isDone = isDone;
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
    this.#blocks = new Blocks();
    this.el.replaceChildren(this.#open);
    this.#open.replaceChildren();
    this.#code = undefined;
  }

  /** A block of code that is being written: only what is new is added, and laid out. */
  #drawCode(code: { language: string; text: string }): void {
    if (!this.#code || !code.text.startsWith(this.#drawnCode)) {
      this.#drawnCode = "";
      this.#code = h("code");
      this.#open.replaceChildren(h("pre", {}, this.#code));
    }
    const added = code.text.slice(this.#drawnCode.length);
    this.#drawnCode = code.text;
    this.#code.append(added);
    const { length } = this.#code.textContent ?? "";
    if (length < PIECE || !added.endsWith("\n")) return;
    const next = h("code");
    this.#code.after(next);
    this.#code = next;
  }
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
