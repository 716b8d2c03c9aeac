// The page "Try it": reads a CSV file, tests whether its probabilities of an event are calibrated, and
// draws a reliability diagram. The script sends no request.
(() => {
  "use strict";
  // TINY is the smallest normal number of float32, as in skcalib.
  const BINS = 15, SIMULATIONS = 999, MANY_ROWS = 10000, TINY = 1.1754943508222875e-38;
  const LABELS = ["label", "labels", "y", "y_true", "target", "correct", "outcome", "event"];
  const SCORES = /^(prob|probability|p|y_prob|y_proba|risk|confidence|score|prediction)$|^prob_|proba/;
  const EVENTS = ["1", "true", "yes", "y", "correct", "right", "positive", "event"];
  const find = id => document.getElementById(id);
  const percent = (x, digits = 1) => `${(100 * x).toFixed(digits)} %`;

  // Read the text of a CSV file: find the separator, split the cells, and describe each column.
  function parse(text) {
    text = text.replace(/^\uFEFF/, "");
    const first = text.slice(0, (text + "\n").search(/\r?\n/)).replace(/"[^"]*"/g, "");
    const count = mark => first.split(mark).length;
    const separator = [";", "\t", ","].reduce((a, b) => (count(b) > count(a) ? b : a));
    const rows = [];
    let row = [], cell = "", quoted = false;
    for (let i = 0; i < text.length; i++) {
      const c = text[i];
      if (quoted && c === '"' && text[i + 1] === '"') { cell += c; i++; }
      else if (c === '"' && (quoted || !cell.trim())) { quoted = !quoted; }
      else if (quoted) { cell += c; }
      else if (c === separator) { row.push(cell.trim()); cell = ""; }
      else if (c === "\n") { row.push(cell.trim()); rows.push(row); row = []; cell = ""; }
      else { cell += c; }
    }
    if (quoted) throw Error("A quotation mark is opened and never closed.");
    if (cell.trim() || row.length) { row.push(cell.trim()); rows.push(row); }
    const filled = rows.filter(each => each.some(value => value));
    if (filled.length < 3) throw Error("The file has fewer than two rows below its header.");
    const names = filled[0], data = filled.slice(1);
    if (names.every(name => !Number.isNaN(number(name)))) {
      throw Error("The first line has numbers: write the names of the columns there.");
    }
    const odd = data.findIndex(each => each.length !== names.length);
    if (odd >= 0) {
      throw Error(`Line ${odd + 2} has ${data[odd].length} cells, the header has ${names.length}.`);
    }
    return names.map((name, j) => describe(name, data.map(each => each[j])));
  }

  // Read a number, which may have a decimal comma or a percent sign; other texts are NaN.
  function number(text) {
    const match = /^([+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:e[+-]?\d+)?)\s*(%?)$/i.exec(text);
    return match ? Number(match[1].replace(",", ".")) / (match[2] ? 100 : 1) : NaN;
  }

  // Describe a column: its values, its numbers, and whether it may contain labels or probabilities.
  function describe(name, values) {
    const filled = values.filter(value => value), distinct = new Set(filled.slice(0, 100000));
    const numbers = values.map(number), known = numbers.filter((x, i) => values[i]);
    const isNumeric = known.length > 0 && known.every(x => !Number.isNaN(x));
    let low = Infinity, high = -Infinity;
    for (const x of known) { low = Math.min(low, x); high = Math.max(high, x); }
    const whole = known.every(Number.isInteger);
    const isId = isNumeric && whole && distinct.size === filled.length && high > 1;
    const isLabel = distinct.size === 2;
    const isPercent = isNumeric && low >= 0 && high > 1 && high <= 100 && !isId;
    const isScore = isNumeric && !isLabel && !isId && distinct.size > 2 && low >= 0 && high <= 100;
    return { name, values, numbers, distinct: [...distinct], isLabel, isScore, isPercent, isNumeric, isId, low };
  }

  // Guess a column: the only candidate, or the only candidate with a common name. Otherwise the user chooses.
  function guess(columns, fits, hasCommonName) {
    const all = columns.filter(fits), named = all.filter(hasCommonName);
    return all.length === 1 ? all[0] : named.length === 1 ? named[0] : null;
  }

  // Return probabilities p and outcomes y (1 for the event) of the rows that have both.
  function rowsOf(label, score, event) {
    const p = [], y = [];
    label.values.forEach((value, i) => {
      const x = score.numbers[i] / (score.isPercent ? 100 : 1);
      if (value && !Number.isNaN(x)) { p.push(x); y.push(value === event ? 1 : 0); }
    });
    return { p: Float64Array.from(p), y: Uint8Array.from(y), dropped: label.values.length - p.length };
  }

  // Return the index of the bin of a probability: 15 bins of equal width, closed on the right; 0 is in the first bin.
  function binOf(p) {
    const nearest = Math.round(p * BINS);
    const edge = nearest === 0 ? -Infinity : nearest === BINS ? Infinity : nearest / BINS;
    return nearest - 1 + (p > edge ? 1 : 0);
  }

  // Sum rows, probabilities and events in each bin.
  function table(p, y) {
    const bins = { count: new Float64Array(BINS), score: new Float64Array(BINS), events: new Float64Array(BINS) };
    p.forEach((x, i) => { const b = binOf(x); bins.count[b]++; bins.score[b] += x; bins.events[b] += y[i]; });
    return bins;
  }

  function ece(bins, events = bins.events) {
    return events.reduce((sum, n, b) => sum + Math.abs(n - bins.score[b]), 0) / bins.count.reduce((a, b) => a + b);
  }

  // Simulate the labels of a calibrated model 999 times, and return the number of events in each bin.
  function simulate(p, bins) {
    let state = 1;
    const random = () => {  // mulberry32
      state = (state + 0x6D2B79F5) | 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
    const index = Array.from(p, binOf), variance = new Float64Array(BINS);
    p.forEach((x, i) => { variance[index[i]] += x * (1 - x); });
    return Array.from({ length: SIMULATIONS }, () => {
      const events = new Float64Array(BINS);
      if (p.length < MANY_ROWS) {
        p.forEach((x, i) => { if (random() < x) events[index[i]]++; });
      } else {  // with many rows, the number of events is nearly normal
        for (let b = 0; b < BINS; b++) {
          const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
          events[b] = Math.min(Math.max(bins.score[b] + Math.sqrt(variance[b]) * normal, 0), bins.count[b]);
        }
      }
      return events;
    });
  }

  // Return log-odds. If a probability is exactly 0, half the smallest positive one replaces it (at most 1/4).
  // The same rule replaces 1 - p = 0.
  function logOdds(p) {
    const clips = [0, 1].map(k => {
      let least = Infinity, zero = false;
      p.forEach(x => { const q = k ? x : 1 - x; if (q > 0) least = Math.min(least, q); else zero = true; });
      return zero ? Math.max(TINY, Math.min(least / 2, 0.25)) : TINY;
    });
    return p.map(x => Math.log(Math.max(x, clips[1]) / Math.max(1 - x, clips[0])));
  }

  const expit = z => 1 / (1 + Math.exp(-z));
  function logLoss(p, y) {
    return p.reduce((sum, x, i) => sum - Math.log(Math.max(y[i] ? x : 1 - x, 1e-15)), 0) / p.length;
  }

  // Fit expit(a f + b) by Newton's method, with b = 0 if `shift` is false. The log loss is convex.
  function logistic(f, y, shift) {
    let a = 1, b = 0;
    const loss = (a, b) => f.reduce((sum, x, i) => {
      const z = (y[i] ? -1 : 1) * (a * x + b);
      return sum + (z > 30 ? z : Math.log1p(Math.exp(z)));
    }, 0);
    let now = loss(a, b);
    for (let step = 0; step < 100; step++) {
      let ga = 0, gb = 0, h11 = 1e-12, h12 = 0, h22 = 1e-12;
      f.forEach((x, i) => {
        const q = expit(a * x + b), r = q - y[i], v = q * (1 - q);
        ga += r * x; gb += r; h11 += v * x * x; h12 += v * x; h22 += v;
      });
      const det = h11 * h22 - h12 * h12;
      const da = shift ? (h22 * ga - h12 * gb) / det : ga / h11, db = shift ? (h11 * gb - h12 * ga) / det : 0;
      let size = 1, next = loss(a - da, b - db);
      while (!(next <= now) && size > 1e-9) { size /= 2; next = loss(a - size * da, b - size * db); }
      a -= size * da; b -= size * db;
      const ends = Math.abs(size * da) < 1e-11 * Math.abs(a) + 1e-15 && Math.abs(size * db) < 1e-11;
      now = next;
      if (ends) break;
    }
    return { a, b };
  }

  // Fit a calibrator on half of the rows; return log loss and ECE of the other half, every second row.
  function heldOut(p, y, shift) {
    const f = logOdds(p), fit = (_, i) => i % 2 === 0, test = (_, i) => i % 2 === 1;
    const { a, b } = logistic(f.filter(fit), y.filter(fit), shift);
    const q = f.filter(test).map(x => expit(a * x + b)), labels = y.filter(test);
    return { loss: logLoss(q, labels), ece: ece(table(q, labels)) };
  }

  function measure(p, y) {
    const bins = table(p, y), error = ece(bins), simulated = simulate(p, bins);
    const errors = simulated.map(events => ece(bins, events));
    const larger = errors.filter(e => e >= error - 1e-12).length;
    const f = logOdds(p), test = (_, i) => i % 2 === 1;
    const quantile = (b, level) => simulated.map(events => events[b]).sort((u, v) => u - v)[Math.round(level * (SIMULATIONS - 1))];
    return {
      n: p.length, standardError: Math.sqrt(p.reduce((sum, x) => sum + x * (1 - x), 0)) / p.length,
      events: y.reduce((a, b) => a + b, 0), mean: p.reduce((a, b) => a + b, 0) / p.length,
      bins, ece: error, expected: errors.reduce((a, b) => a + b, 0) / SIMULATIONS, p: (1 + larger) / (1 + SIMULATIONS),
      band: Array.from(bins.count, (n, b) => n ? [quantile(b, 0.025) / n, quantile(b, 0.975) / n] : null),
      temperature: 1 / logistic(f, y, false).a, platt: logistic(f, y, true),
      before: { loss: logLoss(p.filter(test), y.filter(test)), ece: ece(table(p.filter(test), y.filter(test))) },
      byTemperature: heldOut(p, y, false), byPlatt: heldOut(p, y, true),
    };
  }

  // The reliability diagram, in the colours of the page.
  function draw(m) {
    const at = (x, y) => `${(40 + 300 * x).toFixed(1)},${(310 - 300 * y).toFixed(1)}`;
    const rows = Array.from(m.bins.count, (n, b) => ({ n, x: m.bins.score[b] / n, y: m.bins.events[b] / n, band: m.band[b] }));
    const full = rows.filter(row => row.n), largest = Math.max(...m.bins.count);
    const band = [...full.map(r => at(r.x, r.band[1])), ...full.reverse().map(r => at(r.x, r.band[0]))].join(" ");
    const dots = full.map(r => `<circle cx="${at(r.x, r.y).split(",")[0]}" cy="${at(r.x, r.y).split(",")[1]}" `
      + `r="${(2 + 5 * Math.sqrt(r.n / largest)).toFixed(1)}"/>`).join("");
    const ticks = [0, 0.25, 0.5, 0.75, 1].map(t => `<text x="${40 + 300 * t}" y="328" text-anchor="middle">${100 * t}</text>`
      + `<text x="34" y="${314 - 300 * t}" text-anchor="end">${100 * t}</text>`).join("");
    return `<svg viewBox="-14 0 374 352" role="img" aria-label="Reliability diagram: ${full.length} bins">
      <rect x="40" y="10" width="300" height="300" class="frame"/><polygon class="band" points="${band}"/>
      <line class="diagonal" x1="40" y1="310" x2="340" y2="10"/><g class="dots">${dots}</g>${ticks}
      <text x="190" y="346" text-anchor="middle">predicted, %</text>
      <text x="4" y="160" text-anchor="middle" transform="rotate(-90 4 160)">observed, %</text></svg>`;
  }

  function sentences(m, event, label) {
    const isMiscalibrated = m.p <= 0.05, gap = m.mean - m.events / m.n, isOff = Math.abs(gap) > 2 * m.standardError;
    const best = [["temperature scaling", m.byTemperature], ["Platt scaling", m.byPlatt]].sort((u, v) => u[1].loss - v[1].loss)[0];
    const helps = best[1].loss < m.before.loss;
    // The bin with the largest gap, in rows.
    const gaps = Array.from(m.bins.count, (n, b) => Math.abs(m.bins.score[b] - m.bins.events[b])), b = gaps.indexOf(Math.max(...gaps));
    const [said, seen] = [m.bins.score, m.bins.events].map(sums => percent(sums[b] / m.bins.count[b]));
    const worst = isMiscalibrated ? ` For example, of the ${m.bins.count[b].toLocaleString("en")} rows with a mean prediction of ${said}, ${seen} are events.` : "";
    const lines = [
      `<strong>${isMiscalibrated ? "Not calibrated." : "No miscalibration is visible in these rows."}</strong> In ${m.n.toLocaleString("en")} rows the
       mean prediction is ${percent(m.mean)}, and ${percent(m.events / m.n)} are events (${label} = ${event}):
       the predictions are ${!isOff ? "not significantly too high or too low on average" : gap > 0 ? "too high on average" : "too low on average"}.${worst}`,
      `The ECE, the mean distance between predicted probability and observed frequency, is ${m.ece.toFixed(4)}. A calibrated model would have
       an ECE of ${m.expected.toFixed(4)} on average (small-sample bias). The p-value is ${m.p.toFixed(3)}.`,
      `The temperature is T = ${m.temperature.toPrecision(4)} (${m.temperature > 1 ? "predictions are too extreme" : "predictions are not extreme enough"}).
       If calibrators are fitted on half of the rows, the log loss of the other half changes from ${m.before.loss.toFixed(4)} to
       ${m.byTemperature.loss.toFixed(4)} by temperature scaling and ${m.byPlatt.loss.toFixed(4)} by Platt scaling. The ECE changes from
       ${m.before.ece.toFixed(4)} to ${m.byTemperature.ece.toFixed(4)} and ${m.byPlatt.ece.toFixed(4)}. ${helps ? `By log loss, ${best[0]} is best` : "Neither lowers the log loss"}.`,
    ];
    return lines.map(line => `<p>${line}</p>`).join("");
  }

  // The page: the user chooses a file, and columns if they cannot be guessed.
  let columns = [];
  const escape = text => text.replace(/[&<>"]/g, c => `&#${c.charCodeAt(0)};`);
  const say = text => { find("try-message").textContent = text; find("try-result").innerHTML = ""; };
  const option = (value, chosen) => `<option${chosen ? " selected" : ""} value="${escape(value)}">${escape(value)}</option>`;
  const fill = (id, values, chosen) => {
    find(id).innerHTML = (chosen ? "" : '<option value="">choose</option>') + values.map(v => option(v, v === chosen)).join("");
  };

  function load(text, name) {
    try {
      columns = parse(text);
      const labels = columns.filter(c => c.isLabel), scores = columns.filter(c => c.isScore);
      const several = columns.filter(c => SCORES.test(c.name.toLowerCase()) && c.isScore).length > 2;
      if (!labels.length) throw Error("No column has two values, such as 0 and 1: one column has to say whether the event occurred.");
      if (!scores.length && columns.some(c => c.isNumeric && c.low < 0)) throw Error("No column has probabilities. Numbers below 0 may be logits: skcalib measure reads them.");
      if (!scores.length) throw Error("No column has probabilities from 0 to 1, or from 0 to 100 %.");
      const label = guess(columns, c => c.isLabel, c => LABELS.includes(c.name.toLowerCase()));
      const score = guess(columns, c => c.isScore, c => SCORES.test(c.name.toLowerCase()));
      fill("try-label", labels.map(c => c.name), label && label.name);
      fill("try-score", scores.map(c => c.name), score && score.name);
      find("try-columns").hidden = false;
      chooseEvent();
      if (!label || !score) say(`${name}: choose the columns${several ? "; for several classes use skcalib measure" : ""}.`);
    } catch (error) { find("try-columns").hidden = true; say(`${name}: ${error.message}`); }
  }

  function chooseEvent() {
    const label = columns.find(c => c.name === find("try-label").value);
    const event = label && label.distinct.find(v => EVENTS.includes(v.toLowerCase()) || number(v) === 1);
    fill("try-event", label ? label.distinct : [], event);
    show();
  }

  function show() {
    const [label, score] = ["try-label", "try-score"].map(id => columns.find(c => c.name === find(id).value));
    const event = find("try-event").value;
    if (!label || !score || !event) { say("Choose the outcome, the event and the probability."); return; }
    const { p, y, dropped } = rowsOf(label, score, event);
    if (p.length < 20) { say(`Only ${p.length} rows have a label and a probability: 20 are needed.`); return; }
    if (y.every(v => v === y[0])) { say("All rows have the same label."); return; }
    const m = measure(p, y), notes = [];
    if (dropped) notes.push(`${dropped} rows without a label or a probability were left out.`);
    if (score.isPercent) notes.push(`${score.name} was read as percentages.`);
    find("try-message").textContent = notes.join(" ");
    find("try-result").innerHTML = sentences(m, escape(event), escape(label.name)) + draw(m);
    find("try-result").dataset.numbers = JSON.stringify({ n: m.n, ece: m.ece, expected: m.expected, p: m.p, T: m.temperature, ...m.platt });
  }

  function example() {
    const lines = ["id;probability;correct"];
    for (let i = 0; i < 2000; i++) {
      const p = (i * 0.6180339887498949) % 1, q = 1 / (1 + ((1 - p) / p) ** 0.5), u = (i * 0.7548776662466927) % 1;
      lines.push(`${i + 1};${(100 * p).toFixed(2).replace(".", ",")}%;${u < q ? 1 : 0}`);
    }
    load(lines.join("\n"), "The example");
  }

  document.addEventListener("DOMContentLoaded", () => {
    const drop = find("try-drop");
    const read = file => file && file.text().then(text => load(text, file.name), () => say("The file cannot be read."));
    find("try-file").addEventListener("change", e => read(e.target.files[0]));
    find("try-example").addEventListener("click", example);
    for (const kind of ["dragover", "drop"]) drop.addEventListener(kind, e => e.preventDefault());
    drop.addEventListener("drop", e => read(e.dataTransfer.files[0]));
    find("try-label").addEventListener("change", chooseEvent);
    for (const id of ["try-score", "try-event"]) find(id).addEventListener("change", show);
  });
})();
