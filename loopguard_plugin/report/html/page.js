"use strict";
// Draws the sessions that are in sight, and nothing else: a page may hold thousands. What comes from recordings is set
// as text (textContent), never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const WIDTH = 5, STEP = 16, ROW = 20, HEAD = 44, GAP = 16, OVERSCAN = 500, COLOURS = 10;
  const PENDING = 0, SAME = 2, FAILED = 3, FAILED_SAME = 4, NOT_RUN = 5, USER = 6, COMPACTION = 7;
  const OUTCOMES = [
    "no result in the recording", "a new result", "the same result as the last time", "failed",
    "failed as it did the last time", "not run", "user message", "compaction",
  ];
  const LEVELS = ["note", "block", "end of turn"];
  const SYMBOLS = ["!", "×", "■"];
  const LINE = 5, EVENT = 6, AGAIN = 7; // of a mark: where its event stands, and whether the turn had ended before
  const $ = (id) => document.getElementById(id);
  const list = $("list"), tip = $("tip"), filters = $("filters");

  const make = (tag, className, text) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const number = (count) => count.toLocaleString("en");
  const counted = (count, word, many) => `${number(count)} ${count === 1 ? word : many || `${word}s`}`;

  // ---- what is known of each session; details are worked out when it comes into sight
  const sessions = data.sessions.map((raw, place) => {
    const marks = raw.m || [], levels = [0, 0, 0], tools = new Set();
    let calls = 0;
    for (const mark of marks) if (!mark[AGAIN]) levels[mark[1]] += 1;
    const files = raw.f.map((one) => data.files[one[1]]);
    for (let at = 0; at < raw.c.length; at += WIDTH) {
      if (raw.c[at] < USER) {
        calls += 1;
        tools.add(raw.c[at + 1]);
      }
    }
    return {
      place, marks, levels, tools, calls, cells: raw.c, count: raw.c.length / WIDTH, saved: raw.s || 0,
      further: raw.a || 0, contents: raw.x || [], name: raw.k, files: raw.f, file: files.join(", "),
      text: `${raw.k}\n${files.join("\n")}`.toLowerCase(),
      focus: marks.length ? marks[0][0] : 0,
    };
  });

  const detailsOf = (session) => {
    if (session.details) return session.details;
    const times = new Map(), marked = new Map(), contents = new Map(), last = new Map();
    const repeats = new Uint32Array(session.count);
    for (let item = 0; item < session.count; item += 1) {
      const kind = session.cells[item * WIDTH], identity = session.cells[item * WIDTH + 2];
      if (kind >= USER) continue;
      times.set(identity, (times.get(identity) || 0) + 1);
      if (kind === SAME || kind === FAILED_SAME) repeats[item] = (last.get(identity) || 1) + 1;
      if (kind !== PENDING && kind !== NOT_RUN) last.set(identity, repeats[item] || 1);
    }
    const again = [...times].filter((one) => one[1] > 1).sort((a, b) => b[1] - a[1] || a[0] - b[0]);
    const colours = new Map(again.map((one, rank) => [one[0], `i${rank % COLOURS}`]));
    for (const mark of session.marks) {
      if (!marked.has(mark[0])) marked.set(mark[0], []);
      marked.get(mark[0]).push(mark);
    }
    for (const content of session.contents) contents.set(content[0], content);
    session.details = { times, colours, marked, contents, repeats };
    return session.details;
  };

  // ---- filters
  const chosen = { level: -1, detector: "", tool: "", query: "", order: "worst" };
  let shown = [], tops = new Float64Array(1), perLine = 1;

  const fits = (mark, session) =>
    mark[1] >= chosen.level &&
    (chosen.detector === "" || mark[2] === Number(chosen.detector)) &&
    (chosen.tool === "" || session.cells[mark[0] * WIDTH + 1] === Number(chosen.tool));
  const wantsMark = () => chosen.level >= 0 || chosen.detector !== "";
  const isShown = (session) => {
    if (chosen.query && !session.text.includes(chosen.query)) return false;
    if (wantsMark()) return session.marks.some((mark) => fits(mark, session));
    return chosen.tool === "" || session.tools.has(Number(chosen.tool));
  };
  const ORDERS = {
    worst: (a, b) => {
      for (const level of [2, 1, 0]) if (a.levels[level] !== b.levels[level]) return b.levels[level] - a.levels[level];
      return b.saved - a.saved || a.place - b.place;
    },
    longest: (a, b) => b.calls - a.calls || a.place - b.place,
    input: (a, b) => a.place - b.place,
  };
  const isHit = (session, item) => {
    const marks = detailsOf(session).marked.get(item);
    if (wantsMark()) return Boolean(marks && marks.some((mark) => fits(mark, session)));
    return session.cells[item * WIDTH] < USER && session.cells[item * WIDTH + 1] === Number(chosen.tool);
  };

  const filter = () => {
    chosen.level = Number($("level").value);
    chosen.detector = $("detector").value;
    chosen.tool = $("tool").value;
    chosen.query = $("query").value.trim().toLowerCase();
    chosen.order = $("order").value;
    shown = sessions.filter(isShown).sort(ORDERS[chosen.order]);
    $("count").textContent = `${number(shown.length)} of ${counted(sessions.length, "session")}`;
    closeTip();
    layOut();
  };

  // ---- layout and drawing
  const drawn = new Map();

  const layOut = () => {
    for (const view of drawn.values()) view.element.remove();
    drawn.clear();
    perLine = Math.max(1, Math.floor((list.clientWidth - 32 + 2) / STEP));
    tops = new Float64Array(shown.length + 1);
    shown.forEach((session, place) => {
      tops[place + 1] = tops[place] + HEAD + Math.max(1, Math.ceil(session.count / perLine)) * ROW + GAP;
    });
    list.style.height = `${Math.max(tops[shown.length], 80)}px`;
    const none = list.querySelector(".none");
    if (none) none.remove();
    if (!shown.length) list.append(make("p", "none", "No session is like that."));
    draw();
  };

  const firstAbove = (y) => {
    let low = 0, high = shown.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (tops[middle + 1] < y) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  const draw = () => {
    const offset = list.getBoundingClientRect().top;
    const from = -offset - OVERSCAN, to = -offset + window.innerHeight + OVERSCAN;
    const first = firstAbove(from);
    let end = first;
    while (end < shown.length && tops[end] < to) end += 1;
    for (const [place, view] of drawn) {
      if (place < first || place >= end) {
        if (view.element.contains(document.activeElement)) continue; // the keyboard must not fall out of the page
        view.element.remove();
        drawn.delete(place);
      }
    }
    for (let place = first; place < end; place += 1) {
      if (!drawn.has(place)) drawn.set(place, drawSession(place));
      drawLines(place, from - tops[place] - HEAD, to - tops[place] - HEAD);
    }
  };

  const drawSession = (place) => {
    const session = shown[place], element = make("section", "session");
    element.style.top = `${tops[place]}px`;
    element.style.height = `${tops[place + 1] - tops[place] - GAP}px`;
    const title = make("h2", "", session.name);
    title.id = `s${session.place}`;
    title.title = session.name;
    element.setAttribute("aria-labelledby", title.id);
    const about = make("p");
    about.append(make("b", "", counted(session.calls, "call")));
    const words = [["note"], ["block"], ["end", "ends"]];
    session.levels.forEach((count, level) => {
      if (count) about.append(", ", make("b", `l${level}`, `${SYMBOLS[level]} ${counted(count, ...words[level])}`));
    });
    if (session.further) about.append(`, ${counted(session.further, "more call")} after the end`);
    if (session.saved) about.append(`, ${number(session.saved)} characters saved`);
    about.append(` · ${session.file}`);
    about.title = about.textContent;
    const calls = make("div", "calls");
    calls.setAttribute("role", "listbox");
    calls.setAttribute("aria-orientation", "horizontal");
    calls.setAttribute("aria-label", `Calls of ${session.name}`);
    calls.style.height = `${tops[place + 1] - tops[place] - HEAD - GAP}px`;
    if (wantsMark() || chosen.tool !== "") calls.classList.add("dim");
    element.append(title, about, calls);
    element.dataset.place = place;
    // In the order of the page, so that the tab key goes down the page too.
    const next = [...list.children].find((other) => Number(other.dataset.place) > place);
    list.insertBefore(element, next || null);
    return { element, calls, lines: new Map() };
  };

  const drawLines = (place, from, to) => {
    const view = drawn.get(place), session = shown[place];
    const lines = Math.max(1, Math.ceil(session.count / perLine));
    const first = Math.max(0, Math.floor(from / ROW)), end = Math.min(lines, Math.ceil(to / ROW));
    for (const [line, element] of view.lines) {
      if ((line < first || line >= end) && !element.contains(document.activeElement)) {
        element.remove();
        view.lines.delete(line);
      }
    }
    for (let line = first; line < end; line += 1) {
      if (view.lines.has(line)) continue;
      const element = make("div", "line");
      element.setAttribute("role", "presentation");
      element.style.top = `${line * ROW}px`;
      const last = Math.min(session.count, (line + 1) * perLine);
      for (let item = line * perLine; item < last; item += 1) element.append(drawCell(session, item));
      view.lines.set(line, element);
      view.calls.append(element);
    }
    if (!view.calls.querySelector('[tabindex="0"]') && view.calls.firstChild && view.calls.firstChild.firstChild) {
      view.calls.firstChild.firstChild.tabIndex = 0; // the usual one is out of sight
    }
  };

  const drawCell = (session, item) => {
    const { colours, marked } = detailsOf(session);
    const kind = session.cells[item * WIDTH], identity = session.cells[item * WIDTH + 2];
    const cell = make("span", "cell");
    if (kind === USER) {
      cell.classList.add("user");
      cell.textContent = "▸";
    } else if (kind === COMPACTION) {
      cell.classList.add("compaction");
      cell.textContent = "≡";
    } else {
      cell.classList.add(colours.get(identity) || "once");
      if (kind === SAME || kind === FAILED_SAME) cell.classList.add("same");
      if (kind === FAILED || kind === FAILED_SAME) cell.classList.add("failed");
      if (kind === PENDING || kind === NOT_RUN) cell.classList.add("gone");
    }
    const marks = marked.get(item);
    if (marks) {
      const level = Math.max(...marks.map((mark) => mark[1]));
      cell.append(make("b", `m${level}`, SYMBOLS[level]));
    }
    if (isHit(session, item)) cell.classList.add("hit");
    cell.setAttribute("role", "option");
    cell.setAttribute("aria-selected", "false");
    cell.setAttribute("aria-posinset", item + 1);
    cell.setAttribute("aria-setsize", session.count);
    cell.setAttribute("aria-label", labelOf(session, item));
    cell.tabIndex = item === session.focus ? 0 : -1;
    cell.dataset.item = item;
    return cell;
  };

  const levelOf = (mark) => (mark[AGAIN] ? `${LEVELS[mark[1]]}, which had ended before` : LEVELS[mark[1]]);

  const labelOf = (session, item) => {
    const kind = session.cells[item * WIDTH];
    if (kind >= USER) return OUTCOMES[kind];
    const { marked, times } = detailsOf(session);
    const parts = [data.tools[session.cells[item * WIDTH + 1]], OUTCOMES[kind]];
    const made = times.get(session.cells[item * WIDTH + 2]);
    if (made > 1) parts.push(`made ${made} times`);
    for (const mark of marked.get(item) || []) {
      parts.push(`${levelOf(mark)}: ${data.detectors[mark[2]]}, count ${mark[3]}`);
    }
    return parts.join(", ");
  };

  // ---- what one cell is about: on hover and focus, kept open by click or Enter
  let kept = false, current = null;

  const fileAt = (session, item) => {
    let file = session.files[0][1];
    for (const [from, number] of session.files) if (from <= item) file = number;
    return file;
  };

  const fillTip = (session, item) => {
    const base = item * WIDTH, kind = session.cells[base];
    const { marked, times, contents, repeats } = detailsOf(session);
    const marks = marked.get(item) || [];
    // The event at which the strongest thing fired; where nothing did, the one with which the item begins.
    const strongest = marks.reduce((one, mark) => (one && one[1] >= mark[1] ? one : mark), null);
    const line = strongest ? strongest[LINE] : session.cells[base + 3];
    const event = strongest ? strongest[EVENT] : session.cells[base + 4];
    const file = fileAt(session, item);
    tip.replaceChildren();
    const where = `event ${event} of ${data.files[file]}${line ? `, line ${line}` : ""}`;
    const place = make("p", "quiet", `${where}; ${number(item + 1)} of ${number(session.count)} in this session`);
    if (kind >= USER) {
      tip.append(make("h3", "", OUTCOMES[kind]), place);
    } else {
      tip.append(make("h3", "", data.tools[session.cells[base + 1]]), place);
      const made = times.get(session.cells[base + 2]);
      const again = repeats[item] > 2 ? ` (${number(repeats[item])} in a row)` : "";
      tip.append(make("p", "", `${OUTCOMES[kind]}${again}; this call was made ${made === 1 ? "once" : `${number(made)} times`}`));
    }
    for (const mark of marks) {
      tip.append(make("p", `l${mark[1]}`, `${levelOf(mark)}: ${data.detectors[mark[2]]}, count ${number(mark[3])}`));
      tip.append(make("p", "", data.texts[mark[4]]));
    }
    if (data.explain[file]) tip.append(make("code", "command", `${data.explain[file]} ${event}`));
    const content = contents.get(item);
    if (content) {
      tip.append(make("h4", "", "arguments"), make("pre", "", content[1]));
      tip.append(make("h4", "", "result"), make("pre", "", content[2]));
    }
  };

  const openTip = (cell, keep) => {
    if (kept && !keep) return;
    const session = shown[Number(cell.closest(".session").dataset.place)];
    if (current) current.classList.remove("kept");
    current = cell;
    kept = keep;
    if (keep) cell.classList.add("kept");
    fillTip(session, Number(cell.dataset.item));
    tip.hidden = false;
    const box = cell.getBoundingClientRect(), own = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, box.left - 8), window.innerWidth - own.width - 8);
    const below = box.bottom + 6, above = box.top - own.height - 6;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${below + own.height <= window.innerHeight || above < 0 ? below : above}px`;
    tip.scrollTop = 0;
  };

  const closeTip = () => {
    tip.hidden = true;
    kept = false;
    if (current) current.classList.remove("kept");
    current = null;
  };

  // ---- keyboard: one tab stop a session, arrows inside
  const goTo = (place, item) => {
    const session = shown[place];
    session.focus = item;
    const y = list.getBoundingClientRect().top + window.scrollY + tops[place] + HEAD + Math.floor(item / perLine) * ROW;
    const bar = getComputedStyle(filters).position === "sticky" ? filters.offsetHeight : 0;
    if (y < window.scrollY + bar + 8) window.scrollTo(0, y - bar - HEAD);
    else if (y + ROW > window.scrollY + window.innerHeight - 8) window.scrollTo(0, y - window.innerHeight / 2);
    draw();
    const view = drawn.get(place);
    const old = view.calls.querySelectorAll('[tabindex="0"]');
    const cell = view.calls.querySelector(`[data-item="${item}"]`);
    for (const other of old) other.tabIndex = -1;
    cell.tabIndex = 0;
    cell.focus({ preventScroll: true });
  };

  const target = (session, item, key) => {
    const items = session.marks.map((mark) => mark[0]).sort((a, b) => a - b);
    switch (key) {
      case "ArrowRight": return item + 1;
      case "ArrowLeft": return item - 1;
      case "ArrowDown": return item + perLine;
      case "ArrowUp": return item - perLine;
      case "Home": return 0;
      case "End": return session.count - 1;
      case "n": return items.find((one) => one > item);
      case "p": return items.reverse().find((one) => one < item);
      default: return undefined;
    }
  };

  list.addEventListener("keydown", (event) => {
    const cell = event.target.closest(".cell");
    if (!cell || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      openTip(cell, true);
      return;
    }
    const place = Number(cell.closest(".session").dataset.place), session = shown[place];
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const item = target(session, Number(cell.dataset.item), key);
    if (item === undefined) return;
    event.preventDefault();
    if (item >= 0 && item < session.count) {
      kept = false;
      goTo(place, item);
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !tip.hidden) closeTip();
  });
  list.addEventListener("focusin", (event) => {
    const cell = event.target.closest(".cell");
    if (cell) openTip(cell, false);
  });
  list.addEventListener("mouseover", (event) => {
    const cell = event.target.closest(".cell");
    if (cell) openTip(cell, false);
    else if (!kept && !list.contains(document.activeElement)) closeTip();
  });
  list.addEventListener("mouseleave", (event) => {
    if (!kept && !tip.contains(event.relatedTarget)) closeTip();
  });
  tip.addEventListener("mouseleave", () => {
    if (!kept) closeTip();
  });
  document.addEventListener("click", (event) => {
    const cell = event.target.closest(".cell[data-item]");
    if (cell) openTip(cell, true);
    else if (!tip.contains(event.target)) closeTip();
  });

  // ---- the rest of the page
  const options = (select, names) => {
    names
      .map((name, place) => [name, place])
      .sort((a, b) => (a[0] < b[0] ? -1 : 1))
      .forEach(([name, place]) => {
        const option = make("option", "", name.length > 60 ? `${name.slice(0, 60)}…` : name);
        option.value = place;
        select.append(option);
      });
  };
  options($("detector"), data.detectors);
  options($("tool"), data.tools);
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("input", filter);
  filters.addEventListener("reset", () => setTimeout(filter));

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const theme = $("theme");
  const setTheme = (on) => {
    document.documentElement.style.colorScheme = on ? "dark" : "light";
    theme.setAttribute("aria-pressed", on);
  };
  theme.setAttribute("aria-pressed", dark.matches);
  theme.addEventListener("click", () => setTheme(theme.getAttribute("aria-pressed") !== "true"));

  let waiting = false;
  const soon = (action) => () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      action();
    });
  };
  window.addEventListener("scroll", soon(() => {
    if (!kept && !list.contains(document.activeElement)) closeTip();
    draw();
  }), { passive: true });
  let width = window.innerWidth;
  window.addEventListener("resize", soon(() => {
    if (window.innerWidth !== width) {
      width = window.innerWidth;
      layOut();
    } else draw();
  }));
  for (const details of document.querySelectorAll("details")) details.addEventListener("toggle", draw);

  filter();
  document.documentElement.dataset.ready = "true";
})();
