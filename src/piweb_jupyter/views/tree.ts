// A JSON value as a tree that a person can read. It is patched in place: what is folded stays
// folded, what is focused stays focused, and a list is drawn only as far as somebody looked.

import { h, setText } from "./dom";
import type { Json } from "./model";

// Entries drawn at first, and with each press of "more".
const FIRST = 50;
const MORE = 200;
// A text is cut here until somebody wants all of it.
const TEXT = 1000;
// A value that was quiet for so long is marked when it changes.
const CALM = 1000;
// Branches below this depth, or larger than that, begin folded.
const OPEN_DEPTH = 3;
const OPEN_SIZE = 25;

type Branch = Json[] | { [key: string]: Json };

function isBranch(value: Json): value is Branch {
  return typeof value === "object" && value !== null;
}

/** The whole tree. `update` draws a value; `el` stays the same element. */
export class Tree {
  readonly el = h("div", { class: "piweb-tree" });
  #root: Rows | undefined;
  #leaf: Leaf | undefined;

  update(value: Json): void {
    if (isBranch(value)) {
      if (!this.#root) {
        this.#leaf = undefined;
        this.#root = new Rows(0);
        this.el.replaceChildren(this.#root.el);
      }
      this.#root.update(value);
    } else {
      if (!this.#leaf) {
        this.#root = undefined;
        this.#leaf = new Leaf();
        this.el.replaceChildren(this.#leaf.el);
      }
      this.#leaf.update(value);
    }
  }
}

/** The entries of one object or list. */
class Rows {
  readonly el = h("div", { class: "piweb-rows" });
  readonly #depth: number;
  readonly #rows: Row[] = [];
  readonly #more = h("button", { type: "button", class: "piweb-more", onclick: () => this.#showMore() });
  #shown = FIRST;
  #value: Branch = [];

  constructor(depth: number) {
    this.#depth = depth;
    this.#more.hidden = true;
    this.el.append(this.#more);
  }

  update(value: Branch): void {
    this.#value = value;
    const isList = Array.isArray(value);
    const keys = isList ? undefined : Object.keys(value);
    const size = keys ? keys.length : (value as Json[]).length;
    const drawn = Math.min(size, this.#shown);
    for (let i = 0; i < drawn; i += 1) {
      const key = keys ? (keys[i] as string) : String(i);
      const item = keys ? (value as { [key: string]: Json })[key] : (value as Json[])[i];
      let row = this.#rows[i];
      if (!row) {
        row = new Row(this.#depth);
        this.#rows.push(row);
        this.el.insertBefore(row.el, this.#more);
      }
      row.update(key, isList, item ?? null);
    }
    for (const row of this.#rows.splice(drawn)) row.el.remove();
    this.el.classList.toggle("piweb-empty", size === 0);
    if (size === 0) this.el.dataset["empty"] = isList ? "empty list" : "empty";
    this.#more.hidden = drawn >= size;
    if (drawn < size) setText(this.#more, `… ${size - drawn} more`);
  }

  #showMore(): void {
    this.#shown += MORE;
    this.update(this.#value);
  }
}

/** One entry: its key, and a leaf or a branch that can be folded. */
class Row {
  readonly el = h("div", { class: "piweb-row" });
  readonly #depth: number;
  readonly #key = h("span", { class: "piweb-key" });
  #leaf: Leaf | undefined;
  #branch: Fold | undefined;

  constructor(depth: number) {
    this.#depth = depth;
  }

  update(key: string, isIndex: boolean, value: Json): void {
    setText(this.#key, key);
    this.#key.classList.toggle("piweb-index", isIndex);
    if (isBranch(value)) {
      if (!this.#branch) {
        this.#leaf = undefined;
        this.#branch = new Fold(this.#depth + 1, this.#key, value);
        this.el.replaceChildren(this.#branch.el);
      }
      this.#branch.update(value);
    } else {
      if (!this.#leaf) {
        this.#branch = undefined;
        this.#leaf = new Leaf();
        this.el.replaceChildren(this.#key, this.#leaf.el);
      }
      this.#leaf.update(value);
    }
  }
}

/** A nested object or list. While it is folded nothing below it is drawn. */
class Fold {
  readonly el: HTMLDetailsElement;
  readonly #size = h("span", { class: "piweb-size" });
  readonly #rows: Rows;
  readonly #depth: number;
  #value: Branch;
  #isDue = true;
  #isPlaced = false;

  constructor(depth: number, key: HTMLElement, value: Branch) {
    this.#rows = new Rows(depth);
    this.#value = value;
    this.el = h(
      "details",
      { class: "piweb-fold", ontoggle: () => this.#draw() },
      h("summary", {}, key, this.#size),
      this.#rows.el,
    );
    this.#depth = depth;
  }

  update(value: Branch): void {
    this.#value = value;
    const size = sizeOf(value);
    if (!this.#isPlaced && size > 0) {
      // Once, when there is something to see; from then on it is the person's.
      this.#isPlaced = true;
      this.el.open = this.#depth < OPEN_DEPTH && size <= OPEN_SIZE;
    }
    const what = Array.isArray(value) ? "item" : "field";
    setText(this.#size, size === 0 ? "empty" : `${size} ${what}${size === 1 ? "" : "s"}`);
    this.#isDue = true;
    this.#draw();
  }

  #draw(): void {
    if (!this.el.open || !this.#isDue) return;
    this.#isDue = false;
    this.#rows.update(this.#value);
  }
}

/** A text, number, boolean or null. */
class Leaf {
  readonly el = h("span", { class: "piweb-leaf" });
  #value: Json | undefined;
  #changedAt = 0;
  #isWhole = false;

  update(value: Json): void {
    if (value === this.#value) return;
    const isFirst = this.#value === undefined;
    this.#value = value;
    this.el.dataset["type"] = value === null ? "null" : typeof value;
    const text = typeof value === "string" ? value : String(value);
    if (text.length <= TEXT || this.#isWhole) setText(this.el, text);
    else {
      const more = h(
        "button",
        { type: "button", class: "piweb-more", onclick: () => this.#showWhole() },
        `… ${text.length - TEXT} more characters`,
      );
      this.el.replaceChildren(text.slice(0, TEXT), more);
    }
    const now = performance.now();
    // What changes all the time needs no mark, and to fade it would keep the page painting.
    if (!isFirst && now - this.#changedAt > CALM) {
      this.el.dataset["changed"] = this.el.dataset["changed"] === "a" ? "b" : "a";
    }
    this.#changedAt = now;
  }

  #showWhole(): void {
    this.#isWhole = true;
    if (typeof this.#value === "string") this.el.textContent = this.#value;
  }
}

function sizeOf(value: Branch): number {
  return Array.isArray(value) ? value.length : Object.keys(value).length;
}

export function preview(value: Json, limit = 160): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length <= limit ? text : `${text.slice(0, limit)} …`;
}

