// Where a person writes. Enter sends, Shift+Enter begins a line; while the agent works, Enter
// reaches it now and Alt+Enter when it is done; Escape takes back what waits, then stops.

import { h, setShown, setText } from "./dom";
import type { PromptMode } from "./model";

const TALLEST = 180;
// The browser grows the field by itself where it can; measuring it at each key costs a layout.
const GROWS = typeof CSS !== "undefined" && CSS.supports("field-sizing", "content");

export interface ComposerActions {
  send(text: string, mode: PromptMode): void;
  stop(): void;
  takeBack(): void;
}

export class Composer {
  readonly el: HTMLElement;
  readonly #actions: ComposerActions;
  readonly #field: HTMLTextAreaElement;
  readonly #send: HTMLButtonElement;
  readonly #stop: HTMLButtonElement;
  readonly #queue = h("div", { class: "piweb-queue" });
  readonly #queueText = h("span", { class: "piweb-queue-text" });
  #isBusy = false;
  #isWritable = true;
  #isQueued = false;
  readonly #said: string[] = [];
  #recalled = -1;

  constructor(actions: ComposerActions) {
    this.#actions = actions;
    this.#field = h("textarea", {
      class: "piweb-input",
      rows: 1,
      "aria-label": "Message to the agent",
      oninput: () => this.#fit(),
      onkeydown: (event: KeyboardEvent) => this.#onKey(event),
    });
    this.#send = h("button", { type: "button", class: "piweb-button piweb-primary", onclick: () => this.#submit(this.#isBusy ? "steer" : "prompt") }, "Send");
    this.#stop = h("button", { type: "button", class: "piweb-button", title: "Stop the agent (Escape)", onclick: () => actions.stop() }, "Stop");
    const back = h("button", { type: "button", class: "piweb-link", onclick: () => actions.takeBack() }, "Take back");
    this.#queue.append(this.#queueText, back);
    this.el = h(
      "div",
      { class: "piweb-composer" },
      this.#queue,
      h("div", { class: "piweb-compose" }, this.#field, this.#send, this.#stop),
    );
  }

  update(state: { busy: boolean; writable: boolean; placeholder: string; queue: { steering: string[]; followUp: string[] } }): void {
    this.#isBusy = state.busy;
    this.#isWritable = state.writable;
    if (this.#field.placeholder !== state.placeholder) this.#field.placeholder = state.placeholder;
    if (this.#field.readOnly === state.writable) this.#field.readOnly = !state.writable;
    this.#send.disabled = !state.writable;
    setText(this.#send, state.busy ? "Steer" : "Send");
    this.#send.title = state.busy ? "Reach the agent now (Enter); afterwards: Alt+Enter" : "Send (Enter)";
    setShown(this.#stop, state.busy);
    this.#stop.disabled = !state.writable;
    const { steering, followUp } = state.queue;
    const waiting = [...steering.map((text) => `now: ${text}`), ...followUp.map((text) => `afterwards: ${text}`)];
    this.#isQueued = waiting.length > 0;
    setShown(this.#queue, this.#isQueued);
    setText(this.#queueText, `Queued · ${waiting.join(" · ")}`);
  }

  /** Put a text back that could not be sent, or was taken back; what is typed stays behind it. */
  restore(text: string): void {
    const typed = this.#field.value;
    this.#field.value = typed.trim() ? `${text}\n${typed}` : text;
    this.#fit();
  }

  /** An extension writes the text. */
  replace(text: string): void {
    this.#field.value = text;
    this.#fit();
  }

  #onKey(event: KeyboardEvent): void {
    if (event.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.#submit(event.altKey ? "followUp" : this.#isBusy ? "steer" : "prompt");
    } else if (event.key === "Escape") {
      event.preventDefault();
      if (this.#isQueued) this.#actions.takeBack();
      else if (this.#isBusy) this.#actions.stop();
    } else if (event.key === "ArrowUp" && (this.#field.value === "" || this.#recalled >= 0)) {
      this.#recall(event, 1);
    } else if (event.key === "ArrowDown" && this.#recalled >= 0) {
      this.#recall(event, -1);
    } else if (event.key.length === 1 || event.key === "Backspace") {
      this.#recalled = -1;
    }
  }

  #recall(event: KeyboardEvent, step: number): void {
    const next = this.#recalled + step;
    if (next >= this.#said.length) return;
    event.preventDefault();
    this.#recalled = Math.max(-1, next);
    this.#field.value = this.#recalled < 0 ? "" : (this.#said.at(-1 - this.#recalled) ?? "");
    this.#fit();
  }

  #submit(mode: PromptMode): void {
    const text = this.#field.value;
    if (!text.trim() || !this.#isWritable) return;
    this.#field.value = "";
    this.#recalled = -1;
    if (this.#said.at(-1) !== text) this.#said.push(text);
    this.#fit();
    this.#actions.send(text, mode === "followUp" && !this.#isBusy ? "prompt" : mode);
  }

  #fit(): void {
    if (GROWS) return;
    const field = this.#field;
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, TALLEST)}px`;
  }
}
