// The view of one surface: what the agent's state is, what can be done about it, and how things
// stand. It draws snapshots and sends commands; it never changes a trait.

import { Commands } from "./commands";
import { h, keepKeys, onFrame, setShown, setText } from "./dom";
import { CommandForm, type Runner } from "./form";
import { Link, standingOf, type Info, type Model, type Standing } from "./model";
import { OwnView, ViewModules, drawnVersion, type Page } from "./own";
import { RawCommand } from "./raw";
import { isObject, type CommandSpec } from "./schema";
import { Store } from "./store";
import { Tree } from "./tree";

interface Spec {
  domain?: string;
  title?: string;
  commands?: CommandSpec[];
  view?: string;
}

interface Shared extends Page {
  modules: ViewModules;
}

function readSpec(link: Link): Spec {
  const spec = link.get<unknown>("spec");
  return isObject(spec) ? (spec as unknown as Spec) : {};
}

class Display {
  readonly el: HTMLElement;
  readonly #page: Shared;
  readonly #title = h("span", { class: "piweb-title" });
  readonly #agent = h("span", { class: "piweb-agent" });
  readonly #label = h("span", { class: "piweb-label", role: "status" });
  readonly #restart: HTMLButtonElement;
  readonly #switch: HTMLButtonElement;
  readonly #error = h("div", { class: "piweb-error", role: "alert" });
  readonly #generic = h("div", { class: "piweb-generic" });
  readonly #tree = new Tree();
  readonly #empty = h("p", { class: "piweb-note" });
  readonly #forms = h("div", { class: "piweb-commands" });
  readonly #raw: RawCommand;
  readonly #foot = h("div", { class: "piweb-foot" });
  readonly #body: HTMLElement;
  readonly #stop: (() => void)[] = [];
  #drawnSpec: string | undefined;
  #commandForms: CommandForm[] = [];
  #own: OwnView | undefined;
  #ownFingerprint = "";
  #wantsGeneric = false;
  #failed = "";

  constructor(page: Shared) {
    this.#page = page;
    const { link, store, commands } = page;
    this.#restart = h("button", { type: "button", class: "piweb-button", onclick: () => this.#doRestart() }, "Restart the agent");
    this.#switch = h("button", { type: "button", class: "piweb-link", onclick: () => this.#toggle() });
    const runner: Runner = {
      commands,
      writable: () => this.#writable(this.#standing(), link.info()),
      run: (spec, args) => {
        const drawn = drawnVersion(store, link);
        return commands.run(spec.name, args, drawn, spec.guard ? drawn[1] : undefined);
      },
    };
    this.#raw = new RawCommand(runner);
    this.#generic.append(this.#empty, this.#tree.el, this.#forms, this.#raw.el);
    this.#body = h("div", { class: "piweb-body" }, this.#error, this.#generic);
    this.el = h(
      "section",
      { class: "piweb-root piweb-surface" },
      h("header", { class: "piweb-head" }, this.#title, this.#agent, this.#label, this.#restart, this.#switch),
      this.#body,
      this.#foot,
    );
    keepKeys(this.el);
    this.el.addEventListener("pointerenter", () => page.link.look());
    this.#runner = runner;
    const draw = onFrame(() => this.#draw());
    this.#stop.push(store.watch(draw), commands.watch(draw), link.watch(draw), link.display());
    // Traits have no "off" that is ours alone, so the page passes them on.
    this.#stop.push(onTraits(page, draw));
    this.#draw();
  }

  readonly #runner: Runner;

  remove(): void {
    for (const stop of this.#stop) stop();
    this.#own?.unmount();
  }

  #standing(): Standing {
    return standingOf(this.#page.link.status, this.#page.link.info());
  }

  #writable(standing: Standing, info: Info): boolean {
    // Before the agent is ready commands wait in the kernel, so they may be given.
    return standing.writable && (info.available === true || info.lifecycle === "starting");
  }

  #draw(): void {
    const { link, store } = this.#page;
    const info = link.info();
    const spec = readSpec(link);
    const standing = this.#standing();
    const domain = link.get<string>("domain");
    const ready = standing.tone === "live";
    const missing = ready && info.available !== true;
    const stale = store.held && store.stale;

    setText(this.#title, spec.title || domain);
    setText(this.#agent, info.agent);
    let label = standing.label;
    let tone: string = standing.tone;
    if (missing) {
      label = `unavailable: ${info.agent} has no surface “${domain}”`;
      tone = "dead";
    } else if (ready && stale) {
      label = "Old state: the agent was started again and has not sent it yet";
      tone = "stale";
    }
    setText(this.#label, label);
    this.#label.title = label;
    this.el.dataset["tone"] = tone;
    this.el.dataset["link"] = link.status;
    this.el.dataset["lifecycle"] = info.lifecycle;
    this.el.classList.toggle("piweb-is-stale", store.held && (store.stale || standing.tone === "dead"));
    setShown(this.#restart, standing.canRestart);
    const versions = `rev ${store.version[1]} · epoch ${store.version[0]}`;
    setText(this.#foot, store.held ? versions + (stale ? " · stale" : "") : "no state");
    this.el.dataset["rev"] = String(store.version[1]);

    const writable = this.#writable(standing, info);
    this.#drawOwn(spec, writable);
    const showGeneric = this.#own === undefined || this.#wantsGeneric || this.#failed !== "";
    setShown(this.#generic, showGeneric);
    if (this.#own) setShown(this.#own.el, !showGeneric);
    setShown(this.#switch, this.#own !== undefined && this.#failed === "");
    setText(this.#switch, this.#wantsGeneric ? "Own view" : "State");
    setShown(this.#error, this.#failed !== "");
    setText(this.#error, this.#failed && `The agent's own view failed: ${this.#failed}`);
    if (showGeneric) this.#drawGeneric(spec, missing);
  }

  #drawGeneric(spec: Spec, missing: boolean): void {
    const { store } = this.#page;
    setShown(this.#tree.el, store.held);
    setShown(this.#empty, !store.held && !missing);
    setText(this.#empty, store.held ? "" : "No state yet.");
    if (store.held) this.#tree.update(store.state);
    const drawn = JSON.stringify(spec.commands ?? null);
    if (drawn !== this.#drawnSpec) {
      this.#drawnSpec = drawn;
      this.#commandForms = (spec.commands ?? []).map((command) => new CommandForm(command, this.#runner));
      // What is only a button needs little room: those first, in one row.
      const plain = this.#commandForms.filter((form) => form.isPlain);
      const others = this.#commandForms.filter((form) => !form.isPlain);
      const row = plain.length > 0 ? [h("div", { class: "piweb-plains" }, ...plain.map((form) => form.el))] : [];
      this.#forms.replaceChildren(...row, ...others.map((form) => form.el));
    }
    for (const form of this.#commandForms) form.update();
    // pi-web's agents declare no commands: there a person has to know their names.
    setShown(this.#raw.el, spec.commands === undefined && store.held && !missing);
    this.#raw.update();
  }

  #drawOwn(spec: Spec, writable: boolean): void {
    const fingerprint = spec.view ?? "";
    const isLive = this.#page.link.status === "live";
    if (fingerprint !== this.#ownFingerprint && (isLive || fingerprint === "")) {
      this.#ownFingerprint = fingerprint;
      this.#failed = "";
      this.#own?.unmount();
      this.#own = undefined;
      if (fingerprint) {
        const own = new OwnView(this.#page, (error) => this.#fail(error));
        this.#own = own;
        this.#body.append(own.el);
        void own.mount(this.#page.modules, fingerprint);
      }
    }
    this.#own?.update(writable);
  }

  #fail(error: unknown): void {
    console.error("piweb: the agent's own view failed", error);
    if (this.#failed) return;
    this.#failed = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    this.#draw();
  }

  #toggle(): void {
    this.#wantsGeneric = !this.#wantsGeneric;
    this.#draw();
  }

  #doRestart(): void {
    this.#page.link.send({ kind: "restart" });
    this.#page.link.hello();
  }
}

const displays = new WeakMap<Shared, Set<() => void>>();

function onTraits(page: Shared, fn: () => void): () => void {
  let listeners = displays.get(page);
  if (!listeners) {
    const all = new Set<() => void>();
    displays.set(page, all);
    page.link.onTraits(["info", "spec", "domain"], () => {
      for (const listener of [...all]) listener();
    });
    listeners = all;
  }
  listeners.add(fn);
  return () => listeners.delete(fn);
}

// anywidget loads this module once per model, so what is shared lives in the closure.
export default () => {
  let page: Shared | undefined;

  function share(model: Model): Shared {
    const link = new Link(model);
    const store = new Store(link);
    const commands = new Commands(link);
    link.onMessage("pong", (content) => {
      store.want(content);
      commands.startAt(content["seq"] as number);
    });
    link.hello();
    return { link, store, commands, modules: new ViewModules(link) };
  }

  return {
    initialize({ model }: { model: Model }): void {
      page ??= share(model);
    },
    render({ model, el }: { model: Model; el: HTMLElement }): () => void {
      page ??= share(model);
      const display = new Display(page);
      el.append(display.el);
      return () => display.remove();
    },
  };
};
