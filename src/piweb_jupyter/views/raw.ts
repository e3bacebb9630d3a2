// A command by name, for agents that do not say which ones they have (pi-web's).

import { isDone, type Command } from "./commands";
import { h, setText } from "./dom";
import type { Runner } from "./form";
import type { Json } from "./model";
import { preview } from "./tree";

export class RawCommand {
  readonly el: HTMLElement;
  readonly #runner: Runner;
  readonly #name = h("input", { type: "text", placeholder: "action", "aria-label": "Action", autocomplete: "off", spellcheck: "false" });
  readonly #args = h("input", { type: "text", placeholder: "arguments as JSON", "aria-label": "Arguments as JSON", autocomplete: "off", spellcheck: "false" });
  readonly #button = h("button", { type: "submit", class: "piweb-button" }, "Run");
  readonly #line = h("div", { class: "piweb-stage", role: "status" });
  #command: Command | undefined;
  #fault = "";

  constructor(runner: Runner) {
    this.#runner = runner;
    this.el = h(
      "form",
      { class: "piweb-command piweb-raw", onsubmit: (event: Event) => this.#submit(event) },
      h("div", { class: "piweb-fields" }, this.#name, this.#args, this.#button),
      this.#line,
    );
  }

  update(): void {
    this.#button.disabled = !this.#runner.writable();
    let text = this.#fault;
    if (!text && this.#command) {
      const { outcome, stage } = this.#command;
      text = !isDone(this.#command) || !outcome ? stage : outcome.ok ? `done: ${preview(outcome.data ?? null)}` : `${stage}: ${outcome.error.message}`;
    }
    setText(this.#line, text);
  }

  #submit(event: Event): void {
    event.preventDefault();
    const name = this.#name.value.trim();
    if (!name || !this.#runner.writable()) return;
    let args: Json | undefined;
    this.#fault = "";
    try {
      args = this.#args.value.trim() ? (JSON.parse(this.#args.value) as Json) : undefined;
      this.#command = this.#runner.run({ name }, args);
    } catch (error) {
      this.#fault = `the arguments are no JSON: ${error instanceof Error ? error.message : String(error)}`;
    }
    this.update();
  }
}
