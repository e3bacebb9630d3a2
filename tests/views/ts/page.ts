// A model without a kernel: what the view sends is kept, what the kernel would send is told to it.

import type { Fields, Model } from "../../../src/piweb_jupyter/views/model";

export const quietDocument = { visibilityState: "visible", addEventListener: () => {} };

export class FakeModel implements Model {
  readonly sent: Fields[] = [];
  readonly traits: Fields;
  widget_manager: unknown = undefined;
  isBroken = false;
  readonly #handlers = new Map<string, ((...args: never[]) => void)[]>();

  constructor(traits: Fields = {}) {
    this.traits = { info: { agent: "a", lifecycle: "ready", detail: "", turns: 0, epoch: 1 }, epoch: 0, rev: -1, stale: false, snapshot: undefined, ...traits };
  }

  get(name: string): unknown {
    return this.traits[name];
  }

  send(content: Fields): void {
    if (this.isBroken) throw new Error("Cannot send");
    this.sent.push(content);
  }

  on(name: string, fn: (...args: never[]) => void): void {
    this.#handlers.set(name, [...(this.#handlers.get(name) ?? []), fn]);
  }

  fire(name: string, ...args: unknown[]): void {
    for (const fn of this.#handlers.get(name) ?? []) fn(...(args as never[]));
  }

  /** The kernel sends a custom message; a body travels as a buffer. */
  tell(content: Fields, body?: unknown): void {
    this.fire("msg:custom", content, body === undefined ? [] : [encode(body)]);
  }

  /** The kernel assigns a snapshot. */
  assign(epoch: number, rev: number, value: unknown, stale = false): void {
    const snapshot = value === undefined ? undefined : encode({ value });
    Object.assign(this.traits, { epoch, rev, stale, snapshot });
    for (const name of ["snapshot", "epoch", "rev", "stale"]) this.fire(`change:${name}`);
  }

  kinds(): unknown[] {
    return this.sent.map((message) => message["kind"]);
  }

  take(kind: string): Fields[] {
    const found = this.sent.filter((message) => message["kind"] === kind);
    this.sent.splice(0, this.sent.length, ...this.sent.filter((message) => message["kind"] !== kind));
    return found;
  }
}

export function encode(value: unknown): DataView {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  return new DataView(bytes.buffer);
}
