// One command of a surface as a person uses it: a button, or a form, and where the click is.

import { isDone, type Command, type Commands, type Outcome } from "./commands";
import { h, setAttribute, setShown, setText } from "./dom";
import { randomId, type Json } from "./model";
import { blame, fieldsOf, isObject, labelOf, parse, show, type CommandSpec, type Field } from "./schema";
import { preview } from "./tree";

// "Stop waiting" is offered then; before that it would only flicker.
const STOP_AFTER = 3000;

// This module is loaded once per model, and a page shows several: ids need more than a counter.
const place = randomId();
let numbers = 0;

/** What a form needs of its surroundings. */
export interface Runner {
  commands: Commands;
  /** Whether it makes sense to press now. */
  writable(): boolean;
  run(spec: CommandSpec, args: Json | undefined): Command;
}

export class CommandForm {
  readonly el: HTMLElement;
  readonly spec: CommandSpec;
  readonly #runner: Runner;
  readonly #fields: Field[];
  readonly #inputs = new Map<string, Input>();
  readonly #button: HTMLButtonElement;
  readonly #confirm: HTMLElement;
  readonly #yes = h("button", { type: "button", class: "piweb-button", onclick: () => this.#run() }, "Yes");
  readonly #line: StageLine;
  #latest: Command | undefined;
  #blamed: Command | undefined;
  #isMarked = false;

  constructor(spec: CommandSpec, runner: Runner) {
    this.spec = spec;
    this.#runner = runner;
    this.#fields = fieldsOf(spec.args);
    this.#button = h("button", { type: "submit", class: "piweb-button", title: spec.description }, labelOf(spec));
    this.#confirm = this.#makeConfirm();
    this.#line = new StageLine(runner.commands, labelOf(spec));
    const rows = this.#fields.map((field) => {
      const input = new Input(field);
      this.#inputs.set(field.name, input);
      return input.el;
    });
    const form = h(
      "form",
      { class: "piweb-command", novalidate: true, onsubmit: (event: Event) => this.#submit(event) },
      h("div", { class: "piweb-fields" }, ...rows, this.#button),
      this.#confirm,
      this.#line.el,
    );
    if (spec.description && this.#fields.length > 0) {
      form.prepend(h("p", { class: "piweb-hint" }, spec.description));
    }
    form.dataset["command"] = spec.name;
    form.classList.toggle("piweb-plain", this.isPlain);
    this.el = form;
  }

  /** Whether it takes no arguments. */
  get isPlain(): boolean {
    return this.#fields.length === 0;
  }

  update(): void {
    const writable = this.#runner.writable();
    if (this.#button.disabled === writable) this.#button.disabled = this.#yes.disabled = !writable;
    const outcome = this.#latest?.outcome;
    if (outcome && this.#latest !== this.#blamed) {
      this.#blamed = this.#latest;
      this.#isMarked = this.#showFault(outcome);
    }
    this.#line.update(this.#latest, this.#isMarked);
  }

  #makeConfirm(): HTMLElement {
    const no = h("button", { type: "button", class: "piweb-button", onclick: () => this.#ask(false) }, "No");
    const row = h("div", { class: "piweb-confirm", role: "group", "aria-label": "Confirm" }, h("span", {}, this.spec.confirm ?? ""), this.#yes, no);
    row.hidden = true;
    return row;
  }

  #submit(event: Event): void {
    event.preventDefault();
    if (!this.#runner.writable() || this.#read() === undefined) return;
    if (this.spec.confirm) this.#ask(true);
    else this.#run();
  }

  #ask(asked: boolean): void {
    setShown(this.#confirm, asked);
    setShown(this.#button, !asked);
    if (asked) this.#confirm.querySelector("button")?.focus();
    else this.#button.focus();
  }

  #run(): void {
    if (this.spec.confirm) this.#ask(false);
    const args = this.#read();
    if (args === undefined || !this.#runner.writable()) return;
    this.#latest = this.#runner.run(this.spec, this.#fields.length > 0 ? args : undefined);
    this.update();
  }

  /** The arguments, or undefined after the faulty fields were marked. */
  #read(): Json | undefined {
    const typed = new Map<string, string | boolean>();
    for (const [name, input] of this.#inputs) typed.set(name, input.value());
    const { args, errors } = parse(this.#fields, typed);
    for (const [name, input] of this.#inputs) input.fault(errors[name] ?? "");
    const first = this.#fields.find((field) => errors[field.name]);
    if (!first) return args;
    this.#inputs.get(first.name)?.focus();
    return undefined;
  }

  /** Whether the fields say all that was wrong. */
  #showFault(outcome: Outcome): boolean {
    if (outcome.ok || outcome.error.code !== "invalid_args") return false;
    const blamed = blame(this.#fields, outcome.error.message, outcome.error.details);
    for (const [name, input] of this.#inputs) input.fault(blamed[name] ?? "");
    const { details } = outcome.error;
    const places = isObject(details) && isObject(details["fields"]) ? Object.keys(details["fields"]).length : 1;
    return Object.keys(blamed).length >= Math.max(1, places);
  }
}

type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

/** One argument: label, control, and what is wrong with it. */
class Input {
  readonly el: HTMLElement;
  readonly #field: Field;
  readonly #control: Control;
  readonly #fault: HTMLElement;

  constructor(field: Field) {
    this.#field = field;
    const id = `piweb-field-${place}-${++numbers}`;
    this.#fault = h("span", { class: "piweb-fault", id: `${id}-fault`, role: "alert" });
    this.#control = makeControl(field);
    this.#control.id = id;
    this.#control.setAttribute("aria-describedby", `${id}-fault`);
    if (field.required) this.#control.setAttribute("aria-required", "true");
    if (field.hint) this.#control.title = field.hint;
    this.#control.addEventListener("input", () => this.fault(""));
    const label = h("label", { for: id }, field.title);
    this.el = h("div", { class: `piweb-field piweb-${field.kind}` }, label, this.#control, this.#fault);
  }

  value(): string | boolean {
    if (this.#field.kind === "boolean") return (this.#control as HTMLInputElement).checked;
    return this.#control.value;
  }

  fault(text: string): void {
    setText(this.#fault, text);
    setAttribute(this.#control, "aria-invalid", text ? "true" : null);
  }

  focus(): void {
    this.#control.focus();
  }
}

function makeControl(field: Field): Control {
  const shown = show(field, field.initial);
  switch (field.kind) {
    case "boolean":
      return h("input", { type: "checkbox", checked: field.initial === true });
    case "choice": {
      const select = h("select");
      if (!field.required || field.initial === undefined) select.append(h("option", { value: "" }, field.required ? "choose…" : "—"));
      field.choices.forEach((choice, index) => {
        select.append(h("option", { value: index }, typeof choice === "string" ? choice : JSON.stringify(choice)));
      });
      select.value = shown;
      return select;
    }
    case "json":
    case "lines": {
      const placeholder = field.kind === "json" ? "JSON" : undefined;
      const area = h("textarea", { rows: 2, placeholder, spellcheck: "false" });
      area.value = shown;
      return area;
    }
    case "integer":
    case "number": {
      // A step of "any" would switch the arrows off for integers.
      const step = field.kind === "integer" ? 1 : "any";
      const input = h("input", { type: "number", min: field.min, max: field.max, step });
      input.value = shown;
      return input;
    }
    default: {
      const input = h("input", { type: "text", maxlength: field.maxLength, autocomplete: "off" });
      input.value = shown;
      return input;
    }
  }
}

/** Where a click is, in words; while it is under way, how to end the wait. */
class StageLine {
  readonly el: HTMLElement;
  readonly #commands: Commands;
  readonly #text = h("span", { class: "piweb-stage-text" });
  readonly #cancel: HTMLButtonElement;
  readonly #forget: HTMLButtonElement;
  #command: Command | undefined;
  #late: ReturnType<typeof setTimeout> | undefined;

  constructor(commands: Commands, label: string) {
    this.#commands = commands;
    this.#cancel = h("button", { type: "button", class: "piweb-link", onclick: () => this.#command && commands.cancel(this.#command) }, "Cancel");
    this.#forget = h("button", { type: "button", class: "piweb-link", onclick: () => this.#command && commands.forget(this.#command) }, "Stop waiting");
    this.el = h("div", { class: "piweb-stage", role: "status" }, this.#text, this.#cancel, this.#forget);
    // Below a row of buttons it has to say whose it is.
    this.el.dataset["label"] = label;
    this.el.hidden = true;
  }

  /** `isMarked`: the fields say what was wrong with it. */
  update(command: Command | undefined, isMarked: boolean): void {
    if (command !== this.#command) {
      this.#command = command;
      clearTimeout(this.#late);
      this.#late = setTimeout(() => this.update(this.#command, false), STOP_AFTER);
    }
    setShown(this.el, command !== undefined);
    if (!command) return;
    const done = isDone(command);
    const others = this.#commands.of(command.action).filter((other) => !isDone(other)).length - (done ? 0 : 1);
    const word = done && isMarked ? "failed: the arguments do not fit" : wordFor(command);
    setText(this.#text, word + (others > 0 ? ` (and ${others} more)` : ""));
    this.el.dataset["stage"] = command.stage;
    this.el.dataset["pending"] = String(!done);
    setShown(this.#cancel, !done && command.stage !== "sent");
    setShown(this.#forget, !done && Date.now() - command.sentAt >= STOP_AFTER);
    if (done) clearTimeout(this.#late);
  }
}

function wordFor(command: Command): string {
  switch (command.stage) {
    case "sent":
      return command.waiting ? "waiting for the kernel (a cell is running)" : "sent";
    case "received":
      return "received; waiting for the agent";
    case "written":
      return "in the agent";
    case "running":
      return "running";
    default:
  }
  const outcome = command.outcome;
  if (!outcome) return command.stage;
  if (outcome.ok) return outcome.data === null || outcome.data === undefined ? "done" : `done: ${preview(outcome.data)}`;
  if (command.stage === "cancelled") return "cancelled";
  return `${command.stage === "lost" ? "lost" : "failed"}: ${outcome.error.message}`;
}
