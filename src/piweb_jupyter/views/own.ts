// An agent's own view: its module comes by message, never in a trait (a trait is saved, and would
// run when the notebook is opened again); it runs with the page's rights, like the agent itself.

import type { Commands, Failure, Outcome, RunOptions } from "./commands";
import { h } from "./dom";
import { decodeText, standingOf, type Info, type Json, type Link } from "./model";
import type { Store } from "./store";

/** What a view module may use. Functions never throw: what went wrong is in what they give. */
export interface SurfaceApi {
  readonly state: Json;
  readonly rev: number;
  readonly epoch: number;
  readonly available: boolean;
  readonly channel: "prompt" | "command" | "unavailable";
  readonly status: "live" | "starting" | "waiting" | "stale" | "offline";
  run(action: string, args?: Json, opts?: RunOptions): Promise<Outcome>;
  /** Have `fn(surface)` called after each change of the above, at most once per frame. */
  subscribe(fn: (surface: SurfaceApi) => void): () => void;
  submitOp(op: Json): Promise<Json>;
  bringToConversation(refs: string[], summary?: string): Promise<Json>;
  onTurnEnd(fn: () => void): () => void;
  attachmentUrl(id: string): string | null;
  upload(file: File): Promise<Json>;
}

interface ViewModule {
  default?: { render?: (context: { surface: SurfaceApi; el: HTMLElement }) => unknown };
}

/** What the displays of one model share. */
export interface Page {
  link: Link;
  store: Store;
  commands: Commands;
}

const NO_ATTACHMENTS = { ok: false, error: { code: "unavailable", message: "this version has no attachments" } };

export class SurfaceAccess implements SurfaceApi {
  readonly #page: Page;
  readonly #listeners = new Set<(surface: SurfaceApi) => void>();
  readonly #turnEnds = new Set<() => void>();
  readonly #report: (error: unknown) => void;
  #turns: number;

  constructor(page: Page, report: (error: unknown) => void) {
    this.#page = page;
    this.#report = report;
    this.#turns = page.link.info().turns;
  }

  get state(): Json {
    return this.#page.store.state;
  }

  get rev(): number {
    return this.#page.store.version[1];
  }

  get epoch(): number {
    return this.#page.store.version[0];
  }

  get available(): boolean {
    return this.#info.available === true && standingOf(this.#page.link.status, this.#info).writable;
  }

  get channel(): "prompt" | "command" | "unavailable" {
    return this.#page.link.usable ? (this.#info.channel ?? "unavailable") : "unavailable";
  }

  get status(): SurfaceApi["status"] {
    const { tone } = standingOf(this.#page.link.status, this.#info);
    if (tone === "dead") return "offline";
    if (tone === "pending") return this.#info.lifecycle === "starting" ? "starting" : "waiting";
    return this.#page.store.stale ? "stale" : "live";
  }

  get #info(): Info {
    return this.#page.link.info();
  }

  run = (action: string, args?: Json, opts: RunOptions = {}): Promise<Outcome> => {
    const { store, commands, link } = this.#page;
    return commands.run(action, args, drawnVersion(store, link), opts.ifRev).end;
  };

  subscribe = (fn: (surface: SurfaceApi) => void): (() => void) => {
    this.#listeners.add(fn);
    return () => this.#listeners.delete(fn);
  };

  submitOp = (op: Json): Promise<Json> => this.#operate({ op });

  bringToConversation = (refs: string[], summary?: string): Promise<Json> =>
    this.#operate({ refs, summary: summary ?? null });

  onTurnEnd = (fn: () => void): (() => void) => {
    this.#turnEnds.add(fn);
    return () => this.#turnEnds.delete(fn);
  };

  attachmentUrl = (_id: string): string | null => null;

  upload = (_file: File): Promise<Json> => Promise.resolve(NO_ATTACHMENTS);

  async #operate(fields: { [name: string]: Json }): Promise<Json> {
    const outcome = await this.#page.commands.operate(fields);
    return outcome.ok ? outcome.data : { ok: false, error: { ...(outcome.error as Failure) } as Json };
  }

  /** Something has changed; called once per frame. */
  notify(): void {
    for (const fn of [...this.#listeners]) this.#call(() => fn(this));
    const { turns } = this.#info;
    if (turns === this.#turns) return;
    this.#turns = turns;
    for (const fn of [...this.#turnEnds]) this.#call(fn);
  }

  #call(fn: () => unknown): void {
    try {
      const returned = fn();
      if (returned instanceof Promise) returned.catch(this.#report);
    } catch (error) {
      this.#report(error);
    }
  }
}

/** The life and revision a click belongs to: those on the screen. */
export function drawnVersion(store: Store, link: Link): readonly [number, number] {
  return store.version[1] < 0 ? [link.info().epoch, -1] : store.version;
}

/** Fetches the module's text, once per text, whoever asks. */
export class ViewModules {
  readonly #link: Link;
  readonly #loads = new Map<string, Promise<{ module: ViewModule; css: string }>>();
  readonly #waiting: ((text: { view: string; module: string; css: string }) => void)[] = [];

  constructor(link: Link) {
    this.#link = link;
    link.onMessage("view", (content, buffers) => {
      const text = {
        view: String(content["view"]),
        module: decodeText(buffers[0]),
        css: decodeText(buffers[1]),
      };
      for (const take of this.#waiting.splice(0)) take(text);
    });
  }

  load(fingerprint: string): Promise<{ module: ViewModule; css: string }> {
    let load = this.#loads.get(fingerprint);
    if (!load) {
      load = this.#fetch();
      this.#loads.set(fingerprint, load);
      // What failed may work when it is tried again.
      load.catch(() => this.#loads.delete(fingerprint));
    }
    return load;
  }

  async #fetch(): Promise<{ module: ViewModule; css: string }> {
    const text = await new Promise<{ module: string; css: string }>((resolve) => {
      this.#waiting.push(resolve);
      this.#link.send({ kind: "view", page: this.#link.page });
    });
    const url = URL.createObjectURL(new Blob([text.module], { type: "text/javascript" }));
    try {
      return { module: (await import(url)) as ViewModule, css: text.css };
    } finally {
      URL.revokeObjectURL(url);
    }
  }
}

/** One display of an own view. What goes wrong in it is told to `onError`, once. */
export class OwnView {
  // Disabling a fieldset disables every control in it: a dead agent's buttons look dead.
  readonly el = h("fieldset", { class: "piweb-own" });
  readonly #page: Page;
  readonly #onError: (error: unknown) => void;
  #surface: SurfaceAccess | undefined;
  #cleanup: unknown;
  #isGone = false;

  constructor(page: Page, onError: (error: unknown) => void) {
    this.#page = page;
    this.#onError = onError;
  }

  async mount(modules: ViewModules, fingerprint: string): Promise<void> {
    try {
      const { module, css } = await modules.load(fingerprint);
      if (this.#isGone) return;
      const render = module.default?.render;
      if (typeof render !== "function") {
        throw new TypeError("the module's default export must be { render({ surface, el }) }");
      }
      const root = h("div", { class: "piweb-own-root" });
      this.el.replaceChildren(...(css ? [h("style", {}, css)] : []), root);
      const surface = new SurfaceAccess(this.#page, this.#onError);
      this.#surface = surface;
      this.#cleanup = await render({ surface, el: root });
      if (this.#isGone) this.#clean();
    } catch (error) {
      this.#onError(error);
    }
  }

  update(writable: boolean): void {
    if (this.el.disabled === writable) this.el.disabled = !writable;
    this.#surface?.notify();
  }

  unmount(): void {
    this.#isGone = true;
    this.#clean();
    this.el.remove();
  }

  #clean(): void {
    const cleanup = this.#cleanup;
    this.#cleanup = undefined;
    this.#surface = undefined;
    if (typeof cleanup !== "function") return;
    try {
      cleanup();
    } catch (error) {
      console.error("piweb: an own view could not clean up", error);
    }
  }
}
