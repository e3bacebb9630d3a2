// The view of the conversation: messages as they stream, questions, a composer, and how the agent is.

import { Composer } from "./composer";
import { ChatStore } from "./chatstore";
import { h, keepKeys, onFrame, setShown, setText } from "./dom";
import { MessageView } from "./message";
import { Link, standingOf, type Model } from "./model";
import { QuestionCard } from "./question";

// Messages that are drawn at first, and with each press of "earlier".
const WINDOW = 150;
// So close to the end a person is reading the end.
const AT_END = 48;

interface Page {
  link: Link;
  store: ChatStore;
  draw: Set<() => void>;
}

class Display {
  readonly el: HTMLElement;
  readonly #page: Page;
  readonly #title = h("span", { class: "piweb-title" });
  readonly #model = h("span", { class: "piweb-agent" });
  readonly #label = h("span", { class: "piweb-label", role: "status" });
  readonly #restart = h("button", { type: "button", class: "piweb-button", onclick: () => this.#doRestart() }, "Restart the agent");
  readonly #menu: HTMLDetailsElement;
  readonly #stopItem: HTMLButtonElement;
  readonly #restartItem: HTMLButtonElement;
  readonly #logs: HTMLElement;
  readonly #logText = h("pre", { class: "piweb-log", tabindex: "0", "aria-label": "Log" });
  readonly #list = h("div", { class: "piweb-messages", role: "log", "aria-live": "polite", "aria-label": "Conversation", tabindex: "0" });
  readonly #earlier = h("button", { type: "button", class: "piweb-link piweb-earlier", onclick: () => this.#showEarlier() });
  readonly #pending = h("div", { class: "piweb-pending" });
  readonly #jump = h("button", { type: "button", class: "piweb-button piweb-jump", onclick: () => this.#scrollToEnd(true) }, "↓ Latest");
  readonly #hello = h("p", { class: "piweb-note piweb-hello" });
  readonly #questions = h("div", { class: "piweb-questions" });
  readonly #ambient = h("div", { class: "piweb-ambient" });
  readonly #changeText = h("span", {});
  readonly #changed = h("div", { class: "piweb-changed", role: "status" }, this.#changeText, h("button", { type: "button", class: "piweb-button", onclick: () => this.#doRestart() }, "Restart"));
  readonly #fault = h("div", { class: "piweb-error", role: "alert" });
  readonly #composer: Composer;
  readonly #foot = h("div", { class: "piweb-chat-foot" });
  readonly #stop: (() => void)[] = [];
  readonly #views = new Map<number, MessageView>();
  readonly #cards = new Map<string, QuestionCard>();
  #scrolledTo = 0;
  #first = 0;
  #drawnLoad = false;
  #follows = true;
  #editorText = 0;

  constructor(page: Page) {
    this.#page = page;
    const { link, store } = page;
    this.#composer = new Composer({
      send: (text, mode) => {
        this.#say("");
        this.#follows = true;
        this.#own();
        store.say(text, mode);
      },
      stop: () => {
        this.#own();
        link.send({ kind: "abort", page: link.page });
      },
      takeBack: () => {
        this.#own();
        link.send({ kind: "queue", page: link.page });
      },
    });
    this.#stopItem = h("button", { type: "button", class: "piweb-item", onclick: () => this.#doStop() }, "Stop the agent");
    this.#restartItem = h("button", { type: "button", class: "piweb-item", onclick: () => this.#doRestart() }, "Restart the agent");
    this.#menu = this.#makeMenu();
    this.#logs = h(
      "div",
      { class: "piweb-logs" },
      h("div", { class: "piweb-logs-head" }, h("span", {}, "Log"), h("button", { type: "button", class: "piweb-link", onclick: () => this.#askLogs() }, "Refresh"), h("button", { type: "button", class: "piweb-link", onclick: () => this.#hideLogs() }, "Close")),
      this.#logText,
    );
    this.#list.append(this.#earlier, this.#hello, this.#pending);
    this.#list.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    this.el = h(
      "section",
      { class: "piweb-root piweb-chat", "aria-label": "Chat" },
      h("header", { class: "piweb-head" }, this.#title, this.#model, this.#label, this.#restart, this.#menu),
      this.#changed,
      this.#logs,
      h("div", { class: "piweb-scroller" }, this.#list, this.#jump),
      this.#questions,
      this.#ambient,
      this.#fault,
      this.#composer.el,
      this.#foot,
    );
    keepKeys(this.el);
    this.el.addEventListener("pointerenter", () => page.link.look());
    for (const el of [this.#changed, this.#logs, this.#jump, this.#fault, this.#restart, this.#earlier]) setShown(el, false);
    const draw = onFrame(() => this.#draw());
    this.#stop.push(store.watch(draw), link.watch(draw), link.display());
    // JupyterLab takes cells out of the page that are scrolled away; what comes back is scrolled to
    // its beginning.
    const seen = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) this.#takePlace();
    });
    seen.observe(this.#list);
    this.#stop.push(() => seen.disconnect());
    page.draw.add(draw);
    this.#stop.push(() => page.draw.delete(draw));
    this.#draw();
  }

  /** What comes back of what is sent now belongs into this display's composer. */
  #own(): void {
    const { store } = this.#page;
    store.onReturned = (texts) => this.#composer.restore(texts.join("\n"));
    store.onRefused = (refusal) => {
      const card = this.#cards.get(refusal.id);
      if (card) card.refuse(refusal.message);
      else this.#say(refusal.message);
    };
  }

  remove(): void {
    for (const stop of this.#stop) stop();
    for (const card of this.#cards.values()) card.remove();
  }

  // ---------------------------------------------------------------- drawing

  #draw(): void {
    const { link, store } = this.#page;
    const info = link.info();
    const standing = standingOf(link.status, info);
    const { meta } = store.transcript;
    const busy = standing.tone !== "dead" && (meta.busy ?? info.busy);
    setText(this.#title, meta.title || info.title || info.agent);
    setText(this.#model, meta.model || info.model || "");
    let { label } = standing;
    if (standing.tone === "live") label = meta.compacting ? "Making room in the context" : busy ? "Working" : "Ready";
    setText(this.#label, label);
    this.#label.title = label;
    this.el.dataset["tone"] = standing.tone;
    this.el.dataset["link"] = link.status;
    this.el.dataset["lifecycle"] = info.lifecycle;
    this.el.dataset["busy"] = String(busy);
    setShown(this.#restart, standing.canRestart);
    const usable = link.usable && !info.closed;
    const changes = info.changes ?? [];
    setShown(this.#changed, usable && changes.length > 0 && info.lifecycle === "ready");
    setText(this.#changeText, `${changes.slice(0, 3).join(", ")}${changes.length > 3 ? ", …" : ""} changed: restart to use it`);
    this.#stopItem.disabled = !usable || info.lifecycle === "ended" || info.lifecycle === "error";
    this.#restartItem.disabled = !usable;
    // A prompt to an agent that has ended starts it again.
    const writable = standing.writable || (standing.canRestart && link.usable);
    this.#drawMessages();
    this.#drawQuestions();
    this.#drawAmbient();
    if (store.logs && !this.#logs.hidden) this.#drawLogs(store.logs);
    this.#composer.update({
      busy,
      writable,
      placeholder: writable ? info.hint || `Message ${info.agent}` : label,
      queue: meta.queue ?? { steering: [], followUp: [] },
    });
    const text = meta.editorText;
    if (text && text.n !== this.#editorText) {
      this.#editorText = text.n;
      if (this.#drawnLoad) this.#composer.replace(text.text);
    }
    setText(this.#foot, describeUsage(meta.usage));
    this.#drawnLoad ||= store.loaded;
  }

  #drawMessages(): void {
    const { store } = this.#page;
    const { transcript } = store;
    const { messages } = transcript;
    const { reset, dirty } = this.#takeChange();
    const isLive = this.#drawnLoad && !reset;
    if (reset) {
      for (const view of this.#views.values()) view.el.remove();
      this.#views.clear();
      this.#first = Math.max(0, messages.length - WINDOW);
    }
    // What lies above the window is not drawn, however long the chat gets.
    if (this.#follows && messages.length - this.#first > 2 * WINDOW) this.#dropEarlier(messages.length - WINDOW);
    for (let i = this.#first; i < messages.length; i += 1) {
      const message = messages[i];
      if (!message) continue;
      const view = this.#views.get(i);
      if (!view) {
        const fresh = new MessageView(message, isLive);
        this.#views.set(i, fresh);
        this.#list.insertBefore(fresh.el, this.#pending);
      } else if (dirty.has(i)) view.update(message);
      if (!view || dirty.has(i)) this.#hideEcho(i);
    }
    setShown(this.#earlier, this.#first > 0);
    setText(this.#earlier, `Show earlier messages (${this.#first})`);
    this.#drawPending();
    setShown(this.#hello, messages.length === 0 && store.sent.length === 0);
    setText(this.#hello, store.loaded ? "No messages yet." : "");
    this.#list.setAttribute("aria-busy", String(transcript.streaming));
    if (this.#follows) this.#scrollToEnd(false);
    else setShown(this.#jump, true);
  }

  #changes: { reset: boolean; dirty: Set<number> } = { reset: true, dirty: new Set() };

  /** Every display draws every change, though the transcript tells each only once. */
  noteChange(reset: boolean, dirty: Set<number>): void {
    this.#changes.reset ||= reset;
    for (const i of dirty) this.#changes.dirty.add(i);
  }

  #takeChange(): { reset: boolean; dirty: Set<number> } {
    const change = this.#page.store.transcript.takeChange();
    for (const display of displaysOf(this.#page)) display.noteChange(change.reset, change.dirty);
    const mine = this.#changes;
    this.#changes = { reset: false, dirty: new Set() };
    return mine;
  }

  #dropEarlier(first: number): void {
    for (let i = this.#first; i < first; i += 1) {
      this.#views.get(i)?.el.remove();
      this.#views.delete(i);
    }
    this.#first = first;
  }

  #showEarlier(): void {
    const { messages } = this.#page.store.transcript;
    const before = this.#list.scrollHeight - this.#list.scrollTop;
    const first = Math.max(0, this.#first - WINDOW);
    const anchor = this.#views.get(this.#first)?.el ?? this.#pending;
    for (let i = first; i < this.#first; i += 1) {
      const message = messages[i];
      if (!message) continue;
      const view = new MessageView(message, false);
      this.#views.set(i, view);
      this.#list.insertBefore(view.el, anchor);
    }
    this.#first = first;
    this.#follows = false;
    setShown(this.#earlier, first > 0);
    setText(this.#earlier, `Show earlier messages (${first})`);
    this.#list.scrollTop = this.#list.scrollHeight - before;
  }

  /** A notice that only repeats the error of the message above it says nothing. */
  #hideEcho(i: number): void {
    const { messages } = this.#page.store.transcript;
    const message = messages[i];
    const el = this.#views.get(i)?.el;
    if (message?.role !== "notice" || !el) return;
    const above = messages[i - 1]?.error;
    setShown(el, above === undefined || message.parts.some((part) => part.text !== above));
  }

  #drawPending(): void {
    const rows = this.#page.store.sent.map((sent) => {
      const state = sent.waiting ? "waiting for the kernel (a cell is running)" : sent.received ? "waiting for the agent" : "sending";
      return { text: sent.text, state };
    });
    const drawn = JSON.stringify(rows);
    if (this.#pending.dataset["drawn"] === drawn) return;
    this.#pending.dataset["drawn"] = drawn;
    this.#pending.replaceChildren(
      ...rows.map(({ text, state }) =>
        h("article", { class: "piweb-message piweb-user piweb-sending" }, h("div", { class: "piweb-who" }, "You"), h("div", { class: "piweb-text" }, text), h("div", { class: "piweb-note" }, state)),
      ),
    );
  }

  #drawQuestions(): void {
    const { link, store } = this.#page;
    const open = new Set(store.questions.map((question) => question.id));
    for (const [id, card] of this.#cards) {
      if (open.has(id)) continue;
      card.remove();
      this.#cards.delete(id);
    }
    for (const question of store.questions) {
      if (this.#cards.has(question.id)) continue;
      const card = new QuestionCard(question, (value) => {
        this.#own();
        link.send({ kind: "answer", question: question.id, value });
      });
      this.#cards.set(question.id, card);
      this.#questions.append(card.el);
    }
    setShown(this.#questions, this.#cards.size > 0);
  }

  #drawAmbient(): void {
    const { status = {}, widgets = {} } = this.#page.store.transcript.meta;
    const lines = [...Object.values(widgets).flatMap((widget) => widget.lines), ...Object.values(status)];
    setShown(this.#ambient, lines.length > 0);
    setText(this.#ambient, lines.join("\n"));
  }

  // ---------------------------------------------------------------- scrolling

  #onScroll(): void {
    const { scrollHeight, scrollTop, clientHeight } = this.#list;
    if (clientHeight === 0) return;
    this.#scrolledTo = scrollTop;
    this.#follows = scrollHeight - scrollTop - clientHeight < AT_END;
    setShown(this.#jump, !this.#follows);
  }

  #takePlace(): void {
    if (this.#follows) this.#scrollToEnd(false);
    else if (this.#list.scrollTop !== this.#scrolledTo) this.#list.scrollTop = this.#scrolledTo;
  }

  #scrollToEnd(asked: boolean): void {
    this.#follows = true;
    this.#list.scrollTop = this.#list.scrollHeight;
    setShown(this.#jump, false);
    if (asked) this.#list.focus({ preventScroll: true });
  }

  // ---------------------------------------------------------------- the menu

  #makeMenu(): HTMLDetailsElement {
    const logs = h("button", { type: "button", class: "piweb-item", onclick: () => this.#askLogs() }, "Show the log");
    const menu = h(
      "details",
      { class: "piweb-menu" },
      h("summary", { "aria-label": "Menu", title: "Menu" }, "⋯"),
      h("div", { class: "piweb-items" }, logs, this.#restartItem, this.#stopItem),
    );
    menu.addEventListener("click", (event) => {
      if ((event.target as HTMLElement).classList.contains("piweb-item")) menu.open = false;
    });
    menu.addEventListener("focusout", (event) => {
      if (!menu.contains(event.relatedTarget as Node | null)) menu.open = false;
    });
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      menu.open = false;
      menu.querySelector("summary")?.focus();
    });
    return menu;
  }

  #askLogs(): void {
    const { link } = this.#page;
    setShown(this.#logs, true);
    setText(this.#logText, link.usable ? "…" : "The log went with the kernel.");
    link.send({ kind: "logs", page: link.page });
  }

  #drawLogs(lines: string[]): void {
    const text = lines.length > 0 ? lines.join("\n") : "The agent has written nothing.";
    if (this.#logText.textContent === text) return;
    setText(this.#logText, text);
    this.#logText.scrollTop = this.#logText.scrollHeight;
  }

  #hideLogs(): void {
    this.#page.store.logs = undefined;
    setShown(this.#logs, false);
  }

  #doRestart(): void {
    this.#page.link.send({ kind: "restart" });
    this.#page.link.hello();
  }

  #doStop(): void {
    this.#page.link.send({ kind: "stop" });
    this.#page.link.hello();
  }

  #say(text: string): void {
    setText(this.#fault, text);
    setShown(this.#fault, text !== "");
  }
}

const displays = new WeakMap<Page, Set<Display>>();

function displaysOf(page: Page): Set<Display> {
  let all = displays.get(page);
  if (!all) displays.set(page, (all = new Set()));
  return all;
}

function describeUsage(usage: { [name: string]: number } | null | undefined): string {
  if (!usage) return "";
  const { input = 0, output = 0, cost = 0, context = 0 } = usage;
  const parts = [`${input} in`, `${output} out`];
  if (context > 0) parts.push(`context ${context}`);
  if (cost > 0) parts.push(`$${cost.toFixed(cost < 0.1 ? 4 : 2)}`);
  return `Tokens: ${parts.join(" · ")}`;
}

// anywidget loads this module once per model, so what is shared lives in the closure.
export default () => {
  let page: Page | undefined;

  function share(model: Model): Page {
    const link = new Link(model);
    const store = new ChatStore(link);
    const draw = new Set<() => void>();
    link.onTraits(["info"], () => {
      for (const fn of [...draw]) fn();
    });
    link.hello();
    store.resync();
    return { link, store, draw };
  }

  return {
    initialize({ model }: { model: Model }): void {
      page ??= share(model);
    },
    render({ model, el }: { model: Model; el: HTMLElement }): () => void {
      page ??= share(model);
      const shared = page;
      const display = new Display(shared);
      displaysOf(shared).add(display);
      el.append(display.el);
      return () => {
        displaysOf(shared).delete(display);
        display.remove();
      };
    },
  };
};
