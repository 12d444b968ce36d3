// Draws a run: lanes of spans over time, marks, and the list of events.
//
// The run is the JSON text of the element `data`. All times are microseconds since its start. The
// fragment of the URL holds the state of the view, so a link shows a moment:
// `#from=0&to=1000&filter=text&collapsed=group&selected=span:lane:index`.
//
// Texts of the run come from servers and may be hostile. Elements show them through `textContent`.

const root = document.documentElement;

// Tests read the errors of the page from this attribute.
function report(message) {
  root.dataset.errors = `${root.dataset.errors ?? ""}${message}\n`;
}
window.addEventListener("error", (event) => report(event.message));
window.addEventListener("unhandledrejection", (event) => report(`${event.reason}`));

// Rows in the list of events. More rows make the list slow.
const MAX_ROWS = 500;
// Events in the details of a span.
const MAX_RELATED = 20;
// The shortest time window, in microseconds.
const MIN_WINDOW = 10;
// Time that the button "Go to the failure" shows before and after the failure.
const BEFORE_FAILURE = 2_000_000;
const AFTER_FAILURE = 500_000;
// Heights in pixels. The axis has a row for faults, a row for other marks, and a row for times.
const AXIS_ROW = 22;
const AXIS_HEIGHT = 3 * AXIS_ROW;
const OVERVIEW_HEIGHT = 34;
const GROUP_HEIGHT = 24;
const SINGLE_ROW = 22;
const OPERATION_ROW = 15;
const CONNECTION_ROW = 11;
const LANE_MARGIN = 3;
const RESULT_HEIGHT = 3;
// Lines of faults and members over the lanes. With more of them, the lanes could not be seen.
const MAX_WEAK_LINES = 200;
// Opacity of what does not match the filter.
const DIMMED = 0.15;
// Pixels between the pointer and a span or a mark that it still hits.
const REACH = 4;

const KINDS = [
  ["Servers", ["primary", "secondary", "arbiter", "mongos", "standalone", "balancer", "other",
    "unknown", "down"]],
  ["Connections", ["establishing", "idle", "used"]],
  ["Operations", ["selecting", "waiting", "exchanging", "backoff"]],
  ["Results", ["succeeded", "failed", "abandoned"]],
];
const KNOWN_KINDS = new Set(KINDS.flatMap(([, kinds]) => kinds));
const MARK_KINDS = ["fault", "disaster", "failure", "member"];
const MARK_ORDER = ["member", "fault", "disaster", "failure"];
const RESULTS = new Set(["succeeded", "failed", "abandoned"]);
// Spans of these kinds are drawn last and at least three pixels wide, so none is overlooked.
const IMPORTANT = new Set(["failed", "abandoned", "down"]);
// Lines over the colour: a kind can be told without its colour.
const HATCHES = {
  unknown: "/", down: "x", establishing: "\\", waiting: "\\", backoff: "/", arbiter: "x",
};

const element = (id) => document.getElementById(id);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const list = (value) => (Array.isArray(value) ? value : []);
const number = (value) => (Number.isFinite(value) ? value : 0);

// Control characters and characters that change the direction of text are shown as escapes.
const UNSEEN = new RegExp("[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u061c"
  + "\\u200b-\\u200f\\u202a-\\u202e\\u2060\\u2066-\\u2069\\ufeff]", "g");

function plain(value) {
  const escape = (char) => `\\u{${char.codePointAt(0).toString(16)}}`;
  return `${value ?? ""}`.replace(UNSEEN, escape);
}

const oneLine = (text) => text.replace(/\s+/g, " ");

// ---- Times ----

const UNITS = [
  { name: "µs", size: 1, digits: 0 },
  { name: "ms", size: 1e3, digits: 3 },
  { name: "s", size: 1e6, digits: 6 },
];
const MINUTE = 60e6;

// Digits after the point, so that times that differ by `step` have different texts.
function digitsFor(step, unit) {
  return clamp(Math.ceil(-Math.log10(step / unit.size) - 1e-9), 0, unit.digits);
}

function unitOf(time) {
  const length = Math.abs(time);
  return UNITS[length < 1e3 ? 0 : length < 1e6 ? 1 : 2];
}

function formatTime(time, step = 1) {
  if (time === 0) return step < 1e3 ? "0 µs" : step < 1e6 ? "0 ms" : "0 s";
  if (Math.abs(time) < 2 * MINUTE) {
    const unit = unitOf(time);
    return `${(time / unit.size).toFixed(digitsFor(step, unit))} ${unit.name}`;
  }
  const digits = digitsFor(step, UNITS[2]);
  // Rounded first: 59.99 s must not become 60 s.
  const rounded = Math.round(time / 1e6 * 10 ** digits) / 10 ** digits;
  const minutes = Math.trunc(rounded / 60);
  return `${minutes} min ${(rounded - 60 * minutes).toFixed(digits)} s`;
}

function formatDuration(time) {
  if (time >= 2 * MINUTE) return formatTime(time, 1e3);
  const unit = unitOf(time);
  const text = (time / unit.size).toFixed(unit.digits).replace(/\.?0+$/, "");
  return `${unit.digits === 0 ? time.toFixed(0) : text} ${unit.name}`;
}

// The least round step that is at least this long.
function roundStep(least) {
  if (least > 1e7) {
    const steps = [15e6, 30e6, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE];
    const found = steps.find((step) => step >= least);
    return found ?? Math.ceil(least / (60 * MINUTE)) * 60 * MINUTE;
  }
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least);
}

// ---- The run ----

// Spans in the order of their start, with the latest end so far for a binary search.
function ordered(spans) {
  spans.sort((left, right) => left.from - right.from);
  const ends = new Float64Array(spans.length);
  let latest = -Infinity;
  spans.forEach((span, index) => {
    latest = Math.max(latest, span.to);
    ends[index] = latest;
  });
  return { spans, ends };
}

// Returns the first index for which the condition holds. The condition holds for all later ones.
function firstIndex(length, holds) {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

function readLane(lane, index) {
  const read = {
    index, group: plain(lane.group), name: plain(lane.name), spans: [], rows: [], matches: true,
  };
  const rowCount = list(lane.spans).reduce(
    (count, span) => Math.max(count, number(span.row) + 1), Math.max(number(lane.rows), 1));
  const rows = Array.from({ length: rowCount }, () => ({ phases: [], results: [] }));
  for (const span of list(lane.spans)) {
    const from = number(span.from);
    const own = {
      lane: read, index: read.spans.length, row: number(span.row), kind: plain(span.kind), from,
      to: Math.max(number(span.to), from), text: plain(span.text), matches: true,
    };
    read.spans.push(own);
    rows[own.row][RESULTS.has(own.kind) ? "results" : "phases"].push(own);
  }
  read.rows = rows.map((row) => ({
    phases: ordered(row.phases), results: ordered(row.results),
  }));
  read.hasResults = rows.some((row) => row.results.length > 0);
  read.rowHeight = read.hasResults ? OPERATION_ROW : rowCount === 1 ? SINGLE_ROW : CONNECTION_ROW;
  read.height = rowCount * read.rowHeight + 2 * LANE_MARGIN;
  return read;
}

function readRun() {
  const data = JSON.parse(element("data").textContent);
  const marks = list(data.marks).map((mark) => (
    { at: number(mark.at), kind: plain(mark.kind), text: plain(mark.text), mark: true }
  ));
  const events = list(data.events).map((event) => (
    { at: number(event.at), group: plain(event.group), text: plain(event.text), mark: false }
  ));
  const failure = data.failure && {
    at: number(data.failure.at), kind: plain(data.failure.kind), text: plain(data.failure.text),
  };
  if (failure && !marks.some((mark) => mark.kind === "failure")) {
    marks.push({ at: failure.at, kind: "failure", text: failure.text, mark: true });
  }
  const lanes = list(data.lanes).map(readLane);
  const entries = [...marks, ...events].sort((left, right) => left.at - right.at);
  entries.forEach((entry, index) => {
    entry.index = index;
    entry.matches = true;
  });
  marks.sort((left, right) => left.at - right.at);
  const last = entries.reduce((latest, entry) => Math.max(latest, entry.at), number(data.end));
  return {
    title: plain(data.title), summary: plain(data.summary), failure,
    replay: data.replay ? plain(data.replay) : null, lanes, marks, entries,
    end: Math.max(last, MIN_WINDOW), groups: [...new Set(lanes.map((lane) => lane.group))],
  };
}

const run = readRun();

// The view shows some time before the start and after the end, so that marks there can be seen.
const MARGIN = Math.max(run.end * 0.01, 1);
const WHOLE = { from: -MARGIN, to: run.end + MARGIN };

const state = {
  from: WHOLE.from, to: WHOLE.to, filter: "", collapsed: new Set(), selected: null,
};

// ---- The fragment of the URL ----

const isWhole = () => state.from <= WHOLE.from && state.to >= WHOLE.to;

function fragment() {
  const parts = new URLSearchParams();
  if (!isWhole()) {
    parts.set("from", Math.round(state.from));
    parts.set("to", Math.round(state.to));
  }
  if (state.filter !== "") parts.set("filter", state.filter);
  for (const group of state.collapsed) parts.append("collapsed", group);
  const { selected } = state;
  if (selected?.lane) parts.set("selected", `span:${selected.lane.index}:${selected.index}`);
  else if (selected) parts.set("selected", `event:${selected.index}`);
  return parts.toString();
}

function writeFragment() {
  const text = fragment();
  if (text === window.location.hash.slice(1)) return;
  const { pathname, search } = window.location;
  window.history.replaceState(null, "", text === "" ? `${pathname}${search}` : `#${text}`);
}

function readFragment() {
  const parts = new URLSearchParams(window.location.hash.slice(1));
  const time = (name, otherwise) => {
    const text = parts.get(name);
    return text !== null && text !== "" && Number.isFinite(Number(text)) ? Number(text) : otherwise;
  };
  setWindow(time("from", WHOLE.from), time("to", WHOLE.to));
  state.collapsed = new Set(parts.getAll("collapsed"));
  const [type, first, second] = (parts.get("selected") ?? "").split(":");
  if (type === "span") state.selected = run.lanes[Number(first)]?.spans[Number(second)] ?? null;
  else if (type === "event") state.selected = run.entries[Number(first)] ?? null;
  else state.selected = null;
  element("filter").value = parts.get("filter") ?? "";
  applyFilter();
  showDetails();
}

// ---- The time window ----

function setWindow(from, to) {
  const length = clamp(to - from, MIN_WINDOW, WHOLE.to - WHOLE.from);
  state.from = clamp(from, WHOLE.from, WHOLE.to - length);
  state.to = state.from + length;
  changed();
}

const move = (share) => {
  const distance = (state.to - state.from) * share;
  setWindow(state.from + distance, state.to + distance);
};

// Changes the length of the window by a factor; the time `around` keeps its place.
function zoom(factor, around = (state.from + state.to) / 2) {
  const length = clamp((state.to - state.from) * factor, MIN_WINDOW, WHOLE.to - WHOLE.from);
  const share = (around - state.from) / (state.to - state.from);
  const from = around - share * length;
  setWindow(from, from + length);
}

const showAll = () => setWindow(WHOLE.from, WHOLE.to);

// Moves the window so that this time is in its middle. A long window becomes shorter.
function centre(at) {
  const length = Math.min(state.to - state.from, (WHOLE.to - WHOLE.from) / 4);
  setWindow(at - length / 2, at + length / 2);
}

const size = { width: 0, height: 0, names: 0 };
const toX = (time) => ((time - state.from) / (state.to - state.from)) * size.width;
const toTime = (x) => state.from + (x / size.width) * (state.to - state.from);

// ---- The filter ----

// Phases match if the result of their operation matches.
function matchPhases({ phases, results }) {
  let place = 0;
  for (const phase of phases.spans) {
    while (place < results.spans.length && results.spans[place].to < phase.to) place += 1;
    const result = results.spans[place];
    if (result !== undefined && result.from <= phase.from && result.matches) phase.matches = true;
  }
}

function applyFilter() {
  state.filter = element("filter").value;
  const needle = state.filter.trim().toLowerCase();
  const has = (text) => text.toLowerCase().includes(needle);
  let spans = 0;
  for (const lane of run.lanes) {
    const whole = needle === "" || has(`${lane.group} ${lane.name}`);
    lane.matches = whole;
    for (const span of lane.spans) {
      span.matches = whole || has(`${span.kind} ${span.text}`);
      if (!span.matches) continue;
      spans += 1;
      lane.matches = true;
    }
    if (lane.matches && !whole) lane.rows.forEach(matchPhases);
  }
  let events = 0;
  for (const entry of run.entries) {
    entry.matches = needle === "" || has(`${entry.mark ? entry.kind : entry.group} ${entry.text}`);
    if (entry.matches) events += 1;
  }
  const count = (value, name) => `${value.toLocaleString("en")} ${name}${value === 1 ? "" : "s"}`;
  element("matches").textContent = needle === "" ? ""
    : `${count(spans, "span")} and ${count(events, "event")} match`;
  density.width = 0;
  arrange();
}

function clearFilter() {
  if (element("filter").value === "") return;
  element("filter").value = "";
  applyFilter();
}

// ---- The names of the lanes ----

// Group headings and lanes from top to bottom, each with its position.
let items = [];

function arrange() {
  items = [];
  let y = 0;
  for (const group of run.groups) {
    const lanes = run.lanes.filter((lane) => lane.group === group && lane.matches);
    if (lanes.length === 0) continue;
    items.push({ group, lanes, y, height: GROUP_HEIGHT });
    y += GROUP_HEIGHT;
    if (state.collapsed.has(group)) continue;
    for (const lane of lanes) {
      items.push({ group, lane, y, height: lane.height });
      y += lane.height;
    }
  }
  element("inner").style.height = `${y}px`;
  element("no-lanes").hidden = y > 0;
  element("no-lanes").textContent = run.lanes.length === 0
    ? "The run has no lanes." : "No lane matches the filter.";
  element("names").replaceChildren(...items.map(nameOf));
  resize();
}

function nameOf(item) {
  const button = document.createElement("button");
  button.type = "button";
  button.style.top = `${item.y}px`;
  button.style.height = `${item.height}px`;
  if (item.lane) {
    button.className = "lane";
    button.title = `${item.lane.name}: select its first span in the window`;
    const text = document.createElement("span");
    text.dir = "auto";
    text.textContent = item.lane.name;
    button.append(text);
    button.addEventListener("click", () => selectFirst(item.lane));
    return button;
  }
  const open = !state.collapsed.has(item.group);
  button.className = "group";
  button.setAttribute("aria-expanded", `${open}`);
  button.textContent = `${open ? "▾" : "▸"} ${item.group}`;
  button.addEventListener("click", () => {
    if (open) state.collapsed.add(item.group);
    else state.collapsed.delete(item.group);
    const place = [...element("names").children].indexOf(button);
    arrange();
    element("names").children[place]?.focus();
  });
  return button;
}

// ---- Painting ----

let colours = {};
let hatches = {};

function readColours() {
  const style = getComputedStyle(root);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  colours = { font: getComputedStyle(document.body).fontFamily };
  for (const name of ["back", "panel", "band", "text", "faint", "line", "accent", "hatch",
    "hatch-light", "kind-neutral", "mark-neutral"]) {
    colours[name] = colour(name);
  }
  for (const kind of KNOWN_KINDS) colours[`kind-${kind}`] = colour(`kind-${kind}`);
  for (const kind of MARK_KINDS) colours[`mark-${kind}`] = colour(`mark-${kind}`);
  hatches = {};
}

const kindColour = (kind) => colours[`kind-${KNOWN_KINDS.has(kind) ? kind : "neutral"}`];
const markColour = (kind) => colours[`mark-${MARK_KINDS.includes(kind) ? kind : "neutral"}`];

// Black or white, whichever can be read better on the colour `#rrggbb`.
function textOn(colour) {
  const part = (at) => (parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2;
  const light = 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
  return light > 0.22 ? "#000000" : "#ffffff";
}

function hatch(context, kind) {
  const shape = HATCHES[kind];
  if (shape === undefined) return null;
  if (hatches[kind] === undefined) {
    const tile = document.createElement("canvas");
    tile.width = 6;
    tile.height = 6;
    const pen = tile.getContext("2d");
    pen.strokeStyle = colours[kind === "down" ? "hatch-light" : "hatch"];
    pen.beginPath();
    // Parts outside the corners join the lines of neighbouring tiles.
    for (const shift of [-6, 0, 6]) {
      if (shape !== "\\") {
        pen.moveTo(shift - 1, 7);
        pen.lineTo(shift + 7, -1);
      }
      if (shape !== "/") {
        pen.moveTo(shift - 1, -1);
        pen.lineTo(shift + 7, 7);
      }
    }
    pen.stroke();
    hatches[kind] = context.createPattern(tile, "repeat");
  }
  return hatches[kind];
}

// Paints a phase: the full height, with the text if there is room for it.
function paintPhase(context, kind, text, x, y, width, height) {
  const colour = kindColour(kind);
  const shown = width > 3 ? width - 1 : width;
  context.fillStyle = colour;
  if (width <= 6) {
    // Much faster than a path. A long run has thousands of such spans in sight.
    context.fillRect(x, y, shown, height);
    return;
  }
  context.beginPath();
  context.roundRect(x, y, shown, height, 2);
  context.fill();
  const pattern = hatch(context, kind);
  if (pattern !== null) {
    context.fillStyle = pattern;
    context.fill();
  }
  if (text === "" || width < 34 || height < 10) return;
  const line = oneLine(text);
  context.save();
  context.clip();
  context.fillStyle = textOn(colour);
  const left = Math.max(x, 0) + 4;
  if (pattern !== null) {
    // The lines would make the text hard to read.
    const background = context.fillStyle;
    context.fillStyle = colour;
    context.fillRect(left - 2, y, context.measureText(line).width + 4, height);
    context.fillStyle = background;
  }
  // Left-to-right isolates: a text of another direction stays in its place.
  context.fillText(`\u2066${line}\u2069`, left, y + height / 2 + 0.5);
  context.restore();
}

// Paints the result of an operation: a line along the bottom of its row.
function paintResult(context, kind, x, y, width, height) {
  context.fillStyle = kindColour(kind);
  const line = kind === "succeeded" ? 2 : RESULT_HEIGHT;
  if (kind === "abandoned" && width > 8) {
    for (let dash = 0; dash < width; dash += 7) {
      context.fillRect(x + dash, y + height - line, Math.min(4, width - dash), line);
    }
  } else {
    context.fillRect(x, y + height - line, width, line);
  }
  if (kind !== "failed") return;
  // A failed operation also has a frame and ends with a solid block.
  context.fillRect(x + Math.max(width - 4, 0), y, Math.min(4, width), height);
  if (width > 10) {
    context.strokeStyle = context.fillStyle;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
  }
}

function paintMark(context, kind, x, y) {
  context.fillStyle = markColour(kind);
  context.beginPath();
  if (kind === "failure") {
    context.lineWidth = 3;
    context.strokeStyle = context.fillStyle;
    context.moveTo(x - 5, y - 5);
    context.lineTo(x + 5, y + 5);
    context.moveTo(x + 5, y - 5);
    context.lineTo(x - 5, y + 5);
    context.stroke();
  } else if (kind === "disaster") {
    context.moveTo(x, y - 7);
    context.lineTo(x + 7, y);
    context.lineTo(x, y + 7);
    context.lineTo(x - 7, y);
    context.fill();
  } else if (kind === "fault") {
    context.moveTo(x - 5, y - 5);
    context.lineTo(x + 5, y - 5);
    context.lineTo(x, y + 5);
    context.fill();
  } else {
    context.arc(x, y, 3.5, 0, 2 * Math.PI);
    context.fill();
  }
}

function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.textBaseline = "middle";
  context.direction = "ltr";
  context.font = `11px ${colours.font}`;
  return context;
}

function ticks() {
  const step = roundStep(((state.to - state.from) / size.width) * 110);
  const times = [];
  for (let at = Math.ceil(state.from / step) * step; at <= state.to; at += step) {
    if (at >= 0) times.push(at);
  }
  return { step, times };
}

const isStrong = (mark) => mark.kind === "failure" || mark.kind === "disaster";

// Failures stay in sight, whatever the filter.
const markOpacity = (mark) => (mark.matches || isStrong(mark) ? 1 : 0.4);

// Returns the marks in the window, the most important ones last. Of marks of one kind that are
// closer than this number of pixels, only the first is returned.
function marksInView(distance) {
  const found = [];
  const last = new Map();
  const first = firstIndex(run.marks.length, (index) => run.marks[index].at >= state.from);
  for (let index = first; index < run.marks.length; index += 1) {
    const mark = run.marks[index];
    if (mark.at > state.to) break;
    const key = `${mark.kind} ${mark.matches}`;
    const x = toX(mark.at);
    if (x - (last.get(key) ?? -Infinity) < distance) continue;
    last.set(key, x);
    found.push(mark);
  }
  return found.sort((left, right) => (
    MARK_ORDER.indexOf(left.kind) - MARK_ORDER.indexOf(right.kind)));
}

function drawAxis() {
  const context = prepare(element("axis"), size.width, AXIS_HEIGHT);
  const { step, times } = ticks();
  context.fillStyle = colours.line;
  context.fillRect(0, 2 * AXIS_ROW, size.width, 1);
  for (const at of times) {
    const x = toX(at);
    context.fillStyle = colours.line;
    context.fillRect(Math.round(x), 2 * AXIS_ROW, 1, AXIS_ROW);
    context.fillStyle = colours.faint;
    context.fillText(formatTime(at, step), x + 4, 2.5 * AXIS_ROW + 1);
  }
  const marks = marksInView(4);
  drawMarkRow(context, marks.filter((mark) => mark.kind !== "fault"), 0);
  drawMarkRow(context, marks.filter((mark) => mark.kind === "fault"), AXIS_ROW);
}

// Draws the signs of marks, and their texts where there is room.
function drawMarkRow(context, marks, top) {
  const middle = top + AXIS_ROW / 2;
  for (const mark of marks) {
    context.globalAlpha = markOpacity(mark);
    paintMark(context, mark.kind, toX(mark.at), middle);
  }
  // The texts of important marks come first.
  const taken = marks.map((mark) => [toX(mark.at) - 6, toX(mark.at) + 6]);
  const free = (x) => Math.min(size.width, ...taken.filter(([, right]) => right > x + 7)
    .map(([left]) => Math.max(left, x)));
  for (const mark of [...marks].reverse()) {
    const x = toX(mark.at);
    const text = oneLine(mark.text);
    const whole = context.measureText(text).width + 2;
    const least = isStrong(mark) ? 30 : Math.min(whole, 60);
    const room = Math.min(free(x) - x - 12, whole);
    if (room < least) continue;
    taken.push([x + 8, x + 8 + room]);
    context.save();
    context.beginPath();
    context.rect(x + 9, top, room, AXIS_ROW);
    context.clip();
    context.globalAlpha = markOpacity(mark);
    context.fillStyle = markColour(mark.kind);
    context.fillText(`\u2066${text}\u2069`, x + 9, middle);
    context.restore();
  }
  context.globalAlpha = 1;
}

// Events, failed operations and marks of the whole run, and the time window.
const density = { width: 0, counts: [], failures: [] };

function measureDensity() {
  if (density.width === size.width) return;
  density.width = size.width;
  const columns = Math.max(Math.ceil(size.width / 3), 1);
  const column = (at) => clamp(
    Math.floor(((at - WHOLE.from) / (WHOLE.to - WHOLE.from)) * columns), 0, columns - 1);
  density.counts = new Array(columns).fill(0);
  density.failures = new Array(columns).fill(0);
  for (const entry of run.entries) {
    if (entry.matches && !entry.mark) density.counts[column(entry.at)] += 1;
  }
  for (const lane of run.lanes) {
    for (const span of lane.spans) {
      if (span.kind === "failed" && span.matches) density.failures[column(span.to)] += 1;
    }
  }
}

function drawOverview() {
  measureDensity();
  const context = prepare(element("overview"), size.width, OVERVIEW_HEIGHT);
  const place = (time) => ((time - WHOLE.from) / (WHOLE.to - WHOLE.from)) * size.width;
  context.fillStyle = colours.panel;
  context.fillRect(0, 0, size.width, OVERVIEW_HEIGHT);
  const most = Math.log1p(Math.max(1, ...density.counts));
  density.counts.forEach((count, column) => {
    const height = (Math.log1p(count) / most) * 24;
    context.fillStyle = colours["kind-neutral"];
    context.fillRect(column * 3, 28 - height, 2, height);
    if (density.failures[column] === 0) return;
    context.fillStyle = colours["kind-failed"];
    context.fillRect(column * 3, 29, 3, 5);
  });
  const last = new Map();
  for (const mark of run.marks) {
    const x = Math.round(place(mark.at));
    const key = `${mark.kind} ${mark.matches}`;
    if (last.get(key) === x) continue;
    last.set(key, x);
    context.fillStyle = markColour(mark.kind);
    context.globalAlpha = markOpacity(mark);
    const strong = isStrong(mark);
    context.fillRect(x - (strong ? 1 : 0), 0, strong ? 3 : 1, 28);
  }
  context.globalAlpha = 1;
  if (isWhole()) return;
  const left = place(state.from);
  const right = Math.max(place(state.to), left + 3);
  context.globalAlpha = 0.7;
  context.fillStyle = colours.back;
  context.fillRect(0, 0, left, OVERVIEW_HEIGHT);
  context.fillRect(right, 0, size.width - right, OVERVIEW_HEIGHT);
  context.globalAlpha = 1;
  context.strokeStyle = colours.accent;
  context.lineWidth = 2;
  context.strokeRect(left, 1, right - left, OVERVIEW_HEIGHT - 2);
}

// Spans in the last drawing, for tests: the attribute `data-spans` of the canvas.
let drawn = 0;

// Calls `paint` for the spans of a row that the window shows. Of spans that share one pixel, only
// the first is painted.
function visit(row, paint) {
  const first = firstIndex(row.spans.length, (index) => row.ends[index] >= state.from);
  let painted = -1;
  for (let index = first; index < row.spans.length; index += 1) {
    const span = row.spans[index];
    if (span.from > state.to) return;
    if (span.to < state.from) continue;
    const left = Math.max(toX(span.from), -20);
    const right = Math.min(toX(span.to), size.width + 20);
    const least = IMPORTANT.has(span.kind) ? 3 : 1;
    if (right <= painted && least === 1) continue;
    const width = Math.max(right - left, least);
    painted = left + width;
    drawn += 1;
    paint(span, left, width);
  }
}

function drawLane(context, lane, top) {
  context.fillStyle = colours.line;
  context.fillRect(0, top + lane.height - 1, size.width, 1);
  lane.rows.forEach((row, index) => {
    const y = top + LANE_MARGIN + index * lane.rowHeight;
    if (y > size.height || y + lane.rowHeight < 0) return;
    const height = lane.rowHeight - 2;
    const phaseHeight = lane.hasResults ? height - RESULT_HEIGHT : height;
    visit(row.phases, (span, x, width) => {
      context.globalAlpha = span.matches ? 1 : DIMMED;
      paintPhase(context, span.kind, span.text, x, y, width, phaseHeight);
    });
    const important = [];
    const paintOne = (span, x, width) => {
      context.globalAlpha = span.matches ? 1 : DIMMED;
      paintResult(context, span.kind, x, y, width, height);
    };
    visit(row.results, (...place) => {
      if (IMPORTANT.has(place[0].kind)) important.push(place);
      else paintOne(...place);
    });
    for (const place of important) paintOne(...place);
  });
  context.globalAlpha = 1;
}

// A collapsed group still shows where its operations failed.
function drawGroup(context, item) {
  context.fillStyle = colours.band;
  context.fillRect(0, item.top, size.width, GROUP_HEIGHT);
  if (!state.collapsed.has(item.group)) return;
  for (const lane of item.lanes) {
    for (const row of lane.rows) {
      visit(row.results, (span, x, width) => {
        if (span.kind !== "failed" || !span.matches) return;
        context.fillStyle = kindColour(span.kind);
        context.fillRect(x, item.top + 8, width, 8);
      });
    }
  }
}

function drawMarks(context, height) {
  const marks = marksInView(1);
  const isDense = marks.filter((mark) => !isStrong(mark)).length > MAX_WEAK_LINES;
  for (const mark of marks) {
    if (isDense && !isStrong(mark)) continue;
    const x = Math.round(toX(mark.at));
    context.strokeStyle = markColour(mark.kind);
    const strong = isStrong(mark);
    context.lineWidth = mark.kind === "failure" ? 3 : strong ? 2 : 1;
    context.setLineDash(strong ? [] : mark.kind === "member" ? [1, 3] : [4, 3]);
    context.globalAlpha = markOpacity(mark) * (strong ? 0.9 : 0.5);
    context.beginPath();
    context.moveTo(x + 0.5, 0);
    context.lineTo(x + 0.5, height);
    context.stroke();
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
}

// Frames the selected span, or draws a line at the selected event.
function drawSelected(context, scrolled) {
  const { selected } = state;
  if (selected === null) return;
  context.strokeStyle = colours.text;
  context.lineWidth = 2;
  if (!selected.lane) {
    const x = toX(selected.at);
    context.fillStyle = colours.text;
    context.fillRect(x - 1, 0, 2, size.height);
    return;
  }
  const item = items.find((one) => one.lane === selected.lane);
  if (item === undefined || selected.to < state.from || selected.from > state.to) return;
  const left = Math.max(toX(selected.from), -5);
  const right = Math.min(toX(selected.to), size.width + 5);
  const y = item.y - scrolled + LANE_MARGIN + selected.row * item.lane.rowHeight;
  context.strokeRect(left - 1, y - 1, Math.max(right - left, 3) + 1, item.lane.rowHeight);
}

function drawLanes() {
  const context = prepare(element("lanes"), size.width, size.height);
  const scrolled = element("scroller").scrollTop;
  drawn = 0;
  context.fillStyle = colours.line;
  context.globalAlpha = 0.6;
  for (const at of ticks().times) context.fillRect(Math.round(toX(at)), 0, 1, size.height);
  context.globalAlpha = 1;
  context.font = `11px ${colours.font}`;
  for (const item of items) {
    item.top = item.y - scrolled;
    if (item.top > size.height || item.top + item.height < 0) continue;
    if (item.lane) drawLane(context, item.lane, item.top);
    else drawGroup(context, item);
  }
  drawMarks(context, size.height);
  drawSelected(context, scrolled);
  element("lanes").dataset.spans = drawn;
}

function draw() {
  if (size.width <= 0) return;
  drawOverview();
  drawAxis();
  drawLanes();
  const from = clamp(state.from, 0, run.end);
  const to = clamp(state.to, 0, run.end);
  const step = (state.to - state.from) / 1000;
  const start = formatTime(from, from === 0 ? to : step);
  element("window").textContent =
    `${start} to ${formatTime(to, step)} (${formatTime(to - from, step)})`;
}

function resize() {
  const scroller = element("scroller");
  size.names = element("lanes").offsetLeft;
  size.width = Math.max(scroller.clientWidth - size.names, 50);
  size.height = scroller.clientHeight;
  changed();
}

// Draws in the next frame, and lists the events when the view rests.
let frame = 0;
let resting = 0;

function changed() {
  if (root.dataset.ready === undefined) return;
  if (frame === 0) {
    frame = requestAnimationFrame(() => {
      frame = 0;
      draw();
    });
  }
  clearTimeout(resting);
  resting = setTimeout(rest, 120);
}

function rest() {
  listEvents();
  writeFragment();
}

// ---- Events and details ----

// Returns the entries in the window that match the filter.
function entriesBetween(from, to) {
  const first = firstIndex(run.entries.length, (index) => run.entries[index].at >= from);
  const last = firstIndex(run.entries.length, (index) => run.entries[index].at > to);
  return run.entries.slice(first, last);
}

function cell(className, text) {
  const span = document.createElement("span");
  span.className = className;
  span.dir = "auto";
  span.textContent = text;
  return span;
}

function rowOf(entry) {
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.index = entry.index;
  if (entry.mark) {
    const kind = MARK_KINDS.includes(entry.kind) ? entry.kind : "";
    button.className = `mark ${kind === "failure" ? "failure-mark" : kind}`;
  }
  if (entry === state.selected) button.setAttribute("aria-current", "true");
  button.append(cell("time", formatTime(entry.at)),
    cell("group", entry.mark ? entry.kind : entry.group), cell("text", oneLine(entry.text)));
  button.title = entry.text;
  return button;
}

function listEvents() {
  const found = entriesBetween(state.from, state.to).filter((entry) => entry.matches);
  // The rows around the selected event, or the first rows.
  const place = Math.max(found.indexOf(state.selected), 0);
  const start = clamp(place - MAX_ROWS / 2, 0, Math.max(found.length - MAX_ROWS, 0));
  const rows = found.slice(start, start + MAX_ROWS);
  const box = element("events");
  const focused = box.contains(document.activeElement)
    ? document.activeElement.dataset.index : undefined;
  box.replaceChildren(...rows.map(rowOf));
  const total = found.length.toLocaleString("en");
  element("events-note").textContent = found.length === 0
    ? "No events." : rows.length === found.length ? `${total} events.`
      : `${total} events, of which ${(found.length - rows.length).toLocaleString("en")} are not `
        + "shown. Zoom in or filter to see them.";
  if (focused !== undefined) box.querySelector(`[data-index="${focused}"]`)?.focus();
  box.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
}

function select(selected) {
  state.selected = selected;
  showDetails();
  changed();
}

function selectEntry(entry) {
  centre(entry.at);
  select(entry);
}

function selectFirst(lane) {
  const found = lane.spans.find((span) => span.to >= state.from && span.from <= state.to
    && span.matches) ?? lane.spans[0];
  if (found !== undefined) select(found);
}

// Selects the span before or after the selected one in the same lane, and moves the window to it.
function step(direction) {
  const { selected } = state;
  if (!selected?.lane) {
    const lane = items.find((item) => item.lane)?.lane;
    if (lane !== undefined) selectFirst(lane);
    return;
  }
  const spans = [...selected.lane.spans].sort((left, right) => (
    left.from - right.from || left.index - right.index));
  const next = spans[spans.indexOf(selected) + direction];
  if (next === undefined) return;
  if (next.to < state.from || next.from > state.to) {
    const length = state.to - state.from;
    setWindow(next.from - length / 4, next.from + length * 0.75);
  }
  select(next);
}

function facts(pairs) {
  const found = document.createElement("dl");
  for (const [name, value] of pairs) {
    const term = document.createElement("dt");
    const text = document.createElement("dd");
    term.textContent = name;
    text.dir = "auto";
    text.textContent = value;
    found.append(term, text);
  }
  return found;
}

// Returns the result and the phases of the operation that this span belongs to.
function sameOperation(span) {
  const row = span.lane.rows[span.row];
  const result = RESULTS.has(span.kind) ? span
    : row.results.spans.find((one) => one.from <= span.from && one.to >= span.to);
  if (result === undefined) return null;
  const phases = row.phases.spans.filter((one) => one.from >= result.from && one.to <= result.to);
  return { result, phases };
}

function relatedEvents(span) {
  const found = entriesBetween(span.from, span.to).filter((entry) => (
    entry.mark || entry.group === span.lane.group));
  const box = document.createElement("div");
  box.className = "related";
  if (found.length === 0) return box;
  const heading = document.createElement("h3");
  const rest = found.length - MAX_RELATED;
  heading.textContent = `Events of ${span.lane.group} in this time`
    + `${rest > 0 ? ` (${rest.toLocaleString("en")} more are not shown)` : ""}`;
  box.append(heading);
  for (const entry of found.slice(0, MAX_RELATED)) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(cell("time", formatTime(entry.at)), cell("text", oneLine(entry.text)));
    button.addEventListener("click", () => selectEntry(entry));
    box.append(button);
  }
  return box;
}

function showDetails() {
  const { selected } = state;
  const box = element("details");
  if (selected === null) {
    const hint = document.createElement("p");
    hint.className = "hint";
    hint.textContent = "Select a span or an event to see its details.";
    box.replaceChildren(hint);
    return;
  }
  if (!selected.lane) {
    box.replaceChildren(facts([
      ["time", `${formatTime(selected.at)} (${selected.at.toLocaleString("en")} µs)`],
      selected.mark ? ["kind", selected.kind] : ["group", selected.group],
      ["text", selected.text],
    ]));
    return;
  }
  const pairs = [
    ["lane", `${selected.lane.group}, ${selected.lane.name}`],
    ["kind", selected.kind],
    ["text", selected.text],
    ["time", `${formatTime(selected.from)} to ${formatTime(selected.to)}`],
    ["duration", formatDuration(selected.to - selected.from)],
  ];
  const operation = sameOperation(selected);
  if (operation !== null && operation.result !== selected) {
    pairs.push(["operation", `${operation.result.kind}: ${operation.result.text}`]);
  }
  if (operation !== null && operation.phases.length > 0) {
    pairs.push(["phases", operation.phases.map((phase) => (
      `${phase.kind} ${formatDuration(phase.to - phase.from)}`)).join(", ")]);
  }
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Zoom to the span";
  button.addEventListener("click", () => {
    const margin = Math.max((selected.to - selected.from) * 0.2, MIN_WINDOW);
    setWindow(selected.from - margin, selected.to + margin);
  });
  box.replaceChildren(facts(pairs), button, relatedEvents(selected));
}

// ---- Pointer ----

function spanIn(row, x) {
  const first = firstIndex(
    row.spans.length, (index) => row.ends[index] >= toTime(x - REACH));
  let best = null;
  for (let index = first; index < row.spans.length; index += 1) {
    const span = row.spans[index];
    if (span.from > toTime(x + REACH)) break;
    const distance = Math.max(toX(span.from) - x, x - toX(span.to), 0);
    if (distance <= REACH && (best === null || distance < best.distance)) {
      best = { span, distance };
    }
  }
  return best?.span ?? null;
}

// Returns what is at this place of the lanes: a span, or else marks.
function hit(x, y) {
  const at = y + element("scroller").scrollTop;
  const item = items.find((one) => at >= one.y && at < one.y + one.height);
  const marks = marksNear(x);
  if (item?.lane) {
    const { lane } = item;
    const inside = at - item.y - LANE_MARGIN;
    const row = lane.rows[Math.floor(inside / lane.rowHeight)];
    if (inside >= 0 && row !== undefined) {
      const low = inside % lane.rowHeight >= lane.rowHeight - RESULT_HEIGHT - 2;
      const phase = spanIn(row.phases, x);
      const result = spanIn(row.results, x);
      return { span: low ? result ?? phase : phase ?? result, result, marks };
    }
  }
  return { span: null, result: null, marks };
}

const marksNear = (x) => run.marks.filter((mark) => Math.abs(toX(mark.at) - x) <= REACH);

function block(className, tag, text) {
  const part = document.createElement(tag);
  part.className = className;
  part.dir = "auto";
  part.textContent = text.length > 600 ? `${text.slice(0, 600)}…` : text;
  return part;
}

function showTooltip(event, found) {
  const box = element("tooltip");
  const parts = [];
  const { span, result, marks } = found;
  if (span !== null) {
    parts.push(block("", "b", span.kind), block("", "span", span.text));
    if (result !== null && result !== span) {
      parts.push(block("", "span", `${result.kind}: ${result.text}`));
    }
    parts.push(block("when", "span", `${formatTime(span.from)} to ${formatTime(span.to)}, `
      + `${formatDuration(span.to - span.from)}`));
    parts.push(block("when", "span", `${span.lane.group}, ${span.lane.name}`));
  }
  for (const mark of marks.slice(0, 6)) {
    parts.push(block("", "b", `${mark.kind} at ${formatTime(mark.at)}`),
      block("", "span", mark.text));
  }
  if (marks.length > 6) parts.push(block("when", "span", `and ${marks.length - 6} more`));
  box.hidden = parts.length === 0;
  box.replaceChildren(...parts);
  if (box.hidden) return;
  const { width, height } = box.getBoundingClientRect();
  const left = event.clientX + 14 + width > window.innerWidth
    ? event.clientX - width - 10 : event.clientX + 14;
  const top = event.clientY + 16 + height > window.innerHeight
    ? event.clientY - height - 10 : event.clientY + 16;
  box.style.left = `${Math.max(left, 4)}px`;
  box.style.top = `${Math.max(top, 4)}px`;
}

const hideTooltip = () => {
  element("tooltip").hidden = true;
};

function onWheel(event) {
  event.preventDefault();
  const lines = event.deltaMode === 1 ? 30 : 1;
  const across = event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX;
  if (event.shiftKey || Math.abs(across) > Math.abs(event.deltaY)) {
    move((across * lines) / size.width);
  } else {
    zoom(1.0018 ** clamp(event.deltaY * lines, -400, 400), toTime(event.offsetX));
  }
  hideTooltip();
}

function listenToPointer() {
  const canvas = element("lanes");
  const scroller = element("scroller");
  let drag = null;
  canvas.addEventListener("wheel", onWheel, { passive: false });
  element("axis").addEventListener("wheel", onWheel, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    drag = {
      x: event.clientX, y: event.clientY, from: state.from, to: state.to,
      scrolled: scroller.scrollTop, moved: false,
    };
  });
  canvas.addEventListener("pointermove", (event) => {
    if (drag === null) {
      const found = hit(event.offsetX, event.offsetY);
      canvas.style.cursor = found.span === null ? "" : "pointer";
      showTooltip(event, found);
      return;
    }
    const x = event.clientX - drag.x;
    const y = event.clientY - drag.y;
    if (!drag.moved && Math.hypot(x, y) < 4) return;
    drag.moved = true;
    hideTooltip();
    canvas.classList.add("dragging");
    const distance = (x / size.width) * (drag.to - drag.from);
    setWindow(drag.from - distance, drag.to - distance);
    scroller.scrollTop = drag.scrolled - y;
  });
  canvas.addEventListener("pointerup", (event) => {
    canvas.classList.remove("dragging");
    if (drag !== null && !drag.moved) {
      const found = hit(event.offsetX, event.offsetY);
      select(found.span ?? found.marks[0] ?? null);
    }
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => {
    canvas.classList.remove("dragging");
    drag = null;
  });
  canvas.addEventListener("pointerleave", hideTooltip);
  canvas.addEventListener("dblclick", (event) => zoom(0.4, toTime(event.offsetX)));

  const axis = element("axis");
  axis.addEventListener("pointermove", (event) => {
    showTooltip(event, { span: null, result: null, marks: marksNear(event.offsetX) });
  });
  axis.addEventListener("pointerleave", hideTooltip);
  axis.addEventListener("click", (event) => {
    const mark = marksNear(event.offsetX)[0];
    if (mark !== undefined) select(mark);
  });

  const overview = element("overview");
  const follow = (event) => {
    if (event.buttons !== 1) return;
    overview.setPointerCapture(event.pointerId);
    const at = WHOLE.from + (event.offsetX / size.width) * (WHOLE.to - WHOLE.from);
    centre(at);
  };
  overview.addEventListener("pointerdown", follow);
  overview.addEventListener("pointermove", follow);
}

// ---- Keys and buttons ----

const KEYS = {
  ArrowLeft: () => move(-0.15),
  ArrowRight: () => move(0.15),
  ArrowUp: () => element("scroller").scrollBy(0, -40),
  ArrowDown: () => element("scroller").scrollBy(0, 40),
  Home: () => setWindow(WHOLE.from, WHOLE.from + state.to - state.from),
  End: () => setWindow(WHOLE.to - (state.to - state.from), WHOLE.to),
  "+": () => zoom(0.6),
  "=": () => zoom(0.6),
  "-": () => zoom(1 / 0.6),
  0: showAll,
  "[": () => step(-1),
  "]": () => step(1),
  "/": () => element("filter").focus(),
};

function onKey(event) {
  if (event.key === "Escape") {
    clearFilter();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === element("filter")) return;
  const inside = element("events").contains(event.target);
  if (inside && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
    const sibling = event.key === "ArrowUp" ? "previousElementSibling" : "nextElementSibling";
    event.target[sibling]?.focus();
    event.preventDefault();
    return;
  }
  if (!Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
}

function goToFailure() {
  const { at } = run.failure;
  setWindow(at - BEFORE_FAILURE, at + AFTER_FAILURE);
  select(run.marks.find((mark) => mark.kind === "failure"));
}

async function copyReplay() {
  const button = element("copy");
  try {
    await navigator.clipboard.writeText(run.replay);
    button.textContent = "Copied";
  } catch {
    // A browser may refuse the clipboard to a file. The command is selected instead.
    window.getSelection().selectAllChildren(element("replay-command"));
    button.textContent = "Selected";
  }
  setTimeout(() => {
    button.textContent = "Copy";
  }, 1500);
}

// The bar between the lanes and the events changes their heights.
function listenToBar() {
  const bar = element("bar");
  const lower = element("lower");
  const setHeight = (height) => {
    const most = Math.max(lower.parentElement.clientHeight - 240, 100);
    lower.style.flex = `0 0 ${clamp(height, 100, most)}px`;
  };
  bar.addEventListener("pointerdown", (event) => bar.setPointerCapture(event.pointerId));
  bar.addEventListener("pointermove", (event) => {
    if (event.buttons === 1) setHeight(lower.getBoundingClientRect().bottom - event.clientY);
  });
  bar.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
    setHeight(lower.clientHeight + (event.key === "ArrowUp" ? 30 : -30));
    event.preventDefault();
    event.stopPropagation();
  });
}

function listen() {
  element("filter").addEventListener("input", applyFilter);
  element("earlier").addEventListener("click", () => move(-0.3));
  element("later").addEventListener("click", () => move(0.3));
  element("zoom-in").addEventListener("click", () => zoom(0.5));
  element("zoom-out").addEventListener("click", () => zoom(2));
  element("zoom-all").addEventListener("click", showAll);
  element("copy").addEventListener("click", copyReplay);
  element("go-to-failure").addEventListener("click", goToFailure);
  element("events").addEventListener("click", (event) => {
    const row = event.target.closest("button");
    if (row !== null) selectEntry(run.entries[Number(row.dataset.index)]);
  });
  element("scroller").addEventListener("scroll", changed);
  document.addEventListener("keydown", onKey);
  listenToPointer();
  listenToBar();
  new ResizeObserver(resize).observe(element("scroller"));
  window.addEventListener("hashchange", readFragment);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readColours();
    showLegend();
    changed();
  });
}

// ---- The start ----

function swatch(name, width, paint) {
  const item = document.createElement("span");
  const canvas = document.createElement("canvas");
  canvas.setAttribute("aria-hidden", "true");
  paint(prepare(canvas, width, 14));
  item.append(canvas, name);
  return item;
}

// The legend has the kinds that the run contains.
function showLegend() {
  const used = new Set(run.lanes.flatMap((lane) => lane.spans.map((span) => span.kind)));
  const unknown = [...used].filter((kind) => !KNOWN_KINDS.has(kind)).sort();
  const parts = [...KINDS, ["Others", unknown]].map(([name, kinds]) => [name, kinds
    .filter((kind) => used.has(kind))
    .map((kind) => swatch(kind, 24, (context) => {
      if (RESULTS.has(kind)) paintResult(context, kind, 0, 0, 24, 14);
      else paintPhase(context, kind, "", 0, 1, 24, 12);
    }))]);
  const marks = new Set(run.marks.map((mark) => mark.kind));
  parts.push(["Marks", [...marks].map((kind) => (
    swatch(kind, 16, (context) => paintMark(context, kind, 8, 7))))]);
  element("legend").replaceChildren(...parts.filter(([, entries]) => entries.length > 0)
    .map(([name, entries]) => {
      const box = document.createElement("div");
      const title = document.createElement("b");
      title.textContent = name;
      box.append(title, ...entries);
      return box;
    }));
}

function showHeader() {
  document.title = run.title || "Simulated run";
  element("title").textContent = run.title || "Simulated run";
  element("summary").textContent = run.summary;
  element("replay").hidden = run.replay === null;
  element("replay-command").textContent = run.replay ?? "";
  element("failure").hidden = !run.failure;
  if (!run.failure) return;
  element("failure-kind").textContent =
    `${run.failure.kind} failure at ${formatDuration(run.failure.at)}`;
  element("failure-text").textContent = run.failure.text;
}

readColours();
showHeader();
showLegend();
readFragment();
draw();
rest();
listen();
root.dataset.ready = "true";
