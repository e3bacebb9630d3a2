// A question that the agent asks: a card in the chat until somebody has answered, here or elsewhere.

import { h, setShown, setText } from "./dom";

export interface Question {
  id: string;
  method: string;
  title: string;
  message?: string;
  options?: string[];
  placeholder?: string;
  prefill?: string;
}

export type Answer = (value: string | boolean | null) => void;

// An answer that has not arrived by then may be given again.
const AGAIN = 5000;

export class QuestionCard {
  readonly el: HTMLElement;
  readonly #fault = h("div", { class: "piweb-fault", role: "alert" });
  readonly #controls = h("fieldset", { class: "piweb-answers" });
  #again: ReturnType<typeof setTimeout> | undefined;

  constructor(question: Question, answer: Answer) {
    const give: Answer = (value) => {
      // Answered exactly once: a second click has nothing to click on.
      this.#controls.disabled = true;
      clearTimeout(this.#again);
      this.#again = setTimeout(() => (this.#controls.disabled = false), AGAIN);
      answer(value);
    };
    const cancel = h("button", { type: "button", class: "piweb-button", onclick: () => give(null) }, "Cancel");
    this.#controls.append(...controlsFor(question, give), cancel);
    this.el = h(
      "section",
      { class: "piweb-question", role: "group", "aria-label": `Question: ${question.title}` },
      h("div", { class: "piweb-question-title" }, question.title || "The agent asks"),
      question.message ? h("div", { class: "piweb-text" }, question.message) : null,
      this.#controls,
      this.#fault,
    );
    this.el.dataset["method"] = question.method;
    setShown(this.#fault, false);
  }

  refuse(text: string): void {
    clearTimeout(this.#again);
    this.#controls.disabled = false;
    setText(this.#fault, text);
    setShown(this.#fault, true);
  }

  remove(): void {
    clearTimeout(this.#again);
    this.el.remove();
  }
}

function controlsFor(question: Question, give: Answer): HTMLElement[] {
  const button = (label: string, value: string | boolean) =>
    h("button", { type: "button", class: "piweb-button", onclick: () => give(value) }, label);
  switch (question.method) {
    case "select":
      return (question.options ?? []).map((option) => button(option, option));
    case "confirm":
      return [button("Yes", true), button("No", false)];
    case "input":
    case "editor": {
      const isLong = question.method === "editor";
      const label = question.title || "Answer";
      const field = isLong
        ? h("textarea", { rows: 6, "aria-label": label, placeholder: question.placeholder })
        : h("input", { type: "text", "aria-label": label, placeholder: question.placeholder, autocomplete: "off" });
      field.value = question.prefill ?? "";
      field.addEventListener("keydown", (event) => {
        const { key, ctrlKey, metaKey, isComposing } = event as KeyboardEvent;
        if (key !== "Enter" || isComposing || (isLong && !ctrlKey && !metaKey)) return;
        event.preventDefault();
        give(field.value);
      });
      const send = h("button", { type: "button", class: "piweb-button piweb-primary", onclick: () => give(field.value) }, "Answer");
      return [field, send];
    }
    default:
      return [h("span", { class: "piweb-note" }, `This kind of question (${question.method}) can only be cancelled here.`)];
  }
}
