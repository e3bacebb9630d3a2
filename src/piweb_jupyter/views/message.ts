// One message of the chat and its parts. Parts are patched, so that what a person has folded,
// scrolled or selected stays so while the model goes on.

import { h, setShown, setText } from "./dom";
import { Markdown } from "./markdown";
import type { Json } from "./model";
import type { Message, Part } from "./transcript";

// Of a long output the end is shown, and all of it when somebody wants it.
const OUTPUT_SHOWN = 8000;
const IMAGE_DATA = /^[a-z0-9+/=\s]*$/i;
const IMAGE_TYPE = /^image\/(?:png|jpe?g|gif|webp|avif|bmp)$/i;

const WHO: { [role: string]: string } = {
  user: "You",
  assistant: "Agent",
  bash: "Shell",
  custom: "Extension",
  summary: "Summary",
  notice: "",
};

interface PartView {
  readonly type: Part["type"];
  readonly el: HTMLElement;
  update(part: Part, isStreaming: boolean, isLast: boolean): void;
}

export class MessageView {
  readonly el: HTMLElement;
  readonly #isLive: boolean;
  readonly #who = h("div", { class: "piweb-who" });
  readonly #parts = h("div", { class: "piweb-parts" });
  readonly #error = h("div", { class: "piweb-message-error" });
  #views: PartView[] = [];
  #id = "";

  /** `isLive`: it begins before our eyes, so its tools open by themselves. */
  constructor(message: Message, isLive: boolean) {
    this.#isLive = isLive;
    this.el = h("article", {}, this.#who, this.#parts, this.#error);
    this.update(message);
  }

  update(message: Message): void {
    if (message.id !== this.#id) {
      // Another message has taken this place.
      this.#id = message.id;
      this.#views = [];
      this.#parts.replaceChildren();
    }
    // An attempt that is made again becomes a notice.
    const who = WHO[message.role] ?? message.role;
    this.el.className = `piweb-message piweb-${message.role}`;
    setShown(this.#who, who !== "");
    setText(this.#who, who);
    this.el.dataset["status"] = message.status;
    const streaming = message.status === "streaming";
    message.parts.forEach((part, p) => {
      let view = this.#views[p];
      if (!view || view.type !== part.type) {
        const fresh = makePart(part, message.role, this.#isLive);
        if (view) view.el.replaceWith(fresh.el);
        else this.#parts.append(fresh.el);
        this.#views[p] = view = fresh;
      }
      view.update(part, streaming, p === message.parts.length - 1);
    });
    for (const view of this.#views.splice(message.parts.length)) view.el.remove();
    const error = message.error ?? (message.status === "aborted" ? "Stopped" : "");
    setShown(this.#error, error !== "");
    setText(this.#error, error);
  }
}

function makePart(part: Part, role: Message["role"], isLive: boolean): PartView {
  switch (part.type) {
    case "text":
      return role === "assistant" || role === "summary" || role === "custom" ? new MarkdownPart() : new PlainPart();
    case "thinking":
      return new ThinkingPart();
    case "tool":
      return new ToolPart(part, isLive);
    case "image":
      return new ImagePart();
    case "notice":
      return new NoticePart();
    default:
      return new PlainPart(part.type);
  }
}

class MarkdownPart implements PartView {
  readonly type = "text";
  readonly #markdown = new Markdown();
  readonly el = this.#markdown.el;

  update(part: Part, isStreaming: boolean, isLast: boolean): void {
    this.#markdown.update(part.text ?? "", !(isStreaming && isLast));
  }
}

class PlainPart implements PartView {
  readonly type: Part["type"];
  readonly el = h("div", { class: "piweb-text" });

  constructor(type: Part["type"] = "text") {
    this.type = type;
  }

  update(part: Part): void {
    setText(this.el, part.text ?? "");
  }
}

class ThinkingPart implements PartView {
  readonly type = "thinking";
  readonly #summary = h("summary");
  readonly #text = h("div", { class: "piweb-text" });
  readonly el = h("details", { class: "piweb-thinking", ontoggle: () => this.#draw() }, this.#summary, this.#text);
  #part: Part | undefined;

  update(part: Part, isStreaming: boolean, isLast: boolean): void {
    this.#part = part;
    const going = isStreaming && isLast && part.done !== true;
    setText(this.#summary, going ? "Thinking…" : "Thought");
    this.el.dataset["going"] = String(going);
    setShown(this.el, going || (part.text ?? "") !== "");
    this.#draw();
  }

  #draw(): void {
    if (this.el.open) setText(this.#text, this.#part?.text ?? "");
  }
}

class ToolPart implements PartView {
  readonly type = "tool";
  readonly #name = h("span", { class: "piweb-tool-name" });
  readonly #brief = h("span", { class: "piweb-tool-brief" });
  readonly #status = h("span", { class: "piweb-tool-status" });
  readonly #args = h("pre", { class: "piweb-tool-args" });
  readonly #output = h("pre", { class: "piweb-tool-output", tabindex: "0", "aria-label": "Output" });
  readonly #all = h("button", { type: "button", class: "piweb-link", onclick: () => this.#showAll() });
  readonly #images = h("div", { class: "piweb-images" });
  readonly #cut = h("div", { class: "piweb-note" }, "Some of this was cut.");
  readonly el: HTMLDetailsElement;
  #part: Part;
  #isWhole = false;
  #drawnImages = "";

  constructor(part: Part, isLive: boolean) {
    this.#part = part;
    this.el = h(
      "details",
      { class: "piweb-tool", ontoggle: () => this.#draw() },
      h("summary", {}, this.#name, this.#brief, this.#status),
      h("div", { class: "piweb-tool-body" }, this.#args, this.#all, this.#output, this.#images, this.#cut),
    );
    this.el.open = isLive && (part.status === "running" || part.status === "pending");
  }

  update(part: Part): void {
    this.#part = part;
    const status = part.status ?? "pending";
    this.el.dataset["status"] = status;
    setText(this.#name, part.name || "tool");
    setText(this.#brief, briefOf(part));
    const took = part.durationMs === undefined ? "" : ` ${formatDuration(part.durationMs)}`;
    setText(this.#status, `${STATUS[status]}${took}`);
    this.#draw();
  }

  #draw(): void {
    if (!this.el.open) return;
    const part = this.#part;
    const args = part.argsText ?? (part.args === undefined || part.args === null ? "" : JSON.stringify(part.args, null, 2));
    setShown(this.#args, args !== "" && args !== "{}");
    setText(this.#args, args);
    const output = part.output ?? "";
    const isLong = output.length > OUTPUT_SHOWN && !this.#isWhole;
    const atEnd = this.#output.scrollHeight - this.#output.scrollTop - this.#output.clientHeight < 20;
    setShown(this.#output, output !== "");
    setText(this.#output, isLong ? output.slice(-OUTPUT_SHOWN) : output);
    if (atEnd && part.status === "running") this.#output.scrollTop = this.#output.scrollHeight;
    setShown(this.#all, isLong);
    setText(this.#all, isLong ? `Show ${output.length - OUTPUT_SHOWN} earlier characters` : "");
    setShown(this.#cut, part.cut === true);
    this.#drawImages(part.images ?? []);
  }

  #drawImages(images: Part[]): void {
    const drawn = images.map((image) => `${image.mimeType}:${image.data?.length ?? 0}`).join();
    if (drawn === this.#drawnImages) return;
    this.#drawnImages = drawn;
    this.#images.replaceChildren(...images.map(makeImage));
  }

  #showAll(): void {
    this.#isWhole = true;
    this.#draw();
  }
}

const STATUS = { pending: "waiting", running: "running", done: "done", error: "failed", aborted: "stopped" };

/** The arguments in one line: what tells this call from the next. */
function briefOf(part: Part): string {
  if (typeof part.argsText === "string") return part.argsText.slice(-120);
  const args: Json = part.args ?? null;
  if (typeof args !== "object" || args === null) return args === null ? "" : String(args).slice(0, 120);
  const entries = Array.isArray(args) ? args.map((item) => JSON.stringify(item)) : Object.entries(args).map(([key, value]) => `${key}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
  return entries.join(", ").slice(0, 120);
}

function formatDuration(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

class ImagePart implements PartView {
  readonly type = "image";
  readonly el = h("div", { class: "piweb-images" });
  #drawn = "";

  update(part: Part): void {
    const drawn = `${part.mimeType}:${part.data?.length ?? 0}:${part.attachmentId ?? ""}`;
    if (drawn === this.#drawn) return;
    this.#drawn = drawn;
    this.el.replaceChildren(makeImage(part));
  }
}

function makeImage(part: Part): HTMLElement {
  const { data, mimeType = "" } = part;
  // An SVG can ask for things; the other kinds are pixels.
  if (data && IMAGE_TYPE.test(mimeType) && IMAGE_DATA.test(data)) {
    return h("img", { src: `data:${mimeType};base64,${data}`, alt: "picture" });
  }
  const told = part.attachmentId ? `attachment ${part.attachmentId}` : part.cut ? "picture, cut" : "picture that cannot be shown";
  return h("span", { class: "piweb-note" }, `[${told}]`);
}

class NoticePart implements PartView {
  readonly type = "notice";
  readonly el = h("div", { class: "piweb-told" });

  update(part: Part): void {
    this.el.dataset["level"] = part.level ?? "info";
    const times = part.count && part.count > 1 ? ` (${part.count} times)` : "";
    setText(this.el, (part.text ?? "") + times);
  }
}
