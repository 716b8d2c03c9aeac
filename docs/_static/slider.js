// A slider sets the temperature of a reliability diagram. TEMPERATURES, in temperatures.js, has the numbers for each T.
document.addEventListener("DOMContentLoaded", () => {
  "use strict";
  const slider = document.getElementById("slider-T"), picture = document.getElementById("slider-picture");
  const text = document.getElementById("slider-text");
  const x = value => (40 + 300 * value).toFixed(1), y = value => (310 - 300 * value).toFixed(1);
  const ticks = [0, 0.25, 0.5, 0.75, 1].map(t =>
    `<text x="${x(t)}" y="328" text-anchor="middle">${t}</text><text x="34" y="${+y(t) + 4}" text-anchor="end">${t}</text>`);

  function show() {
    const { T, ece, loss, bins } = TEMPERATURES[slider.value];
    const largest = Math.max(...bins.map(bin => bin[2]));
    const dots = bins.map(([confidence, accuracy, weight]) =>
      `<circle cx="${x(confidence)}" cy="${y(accuracy)}" r="${(2 + 6 * Math.sqrt(weight / largest)).toFixed(1)}"/>`);
    picture.innerHTML = `<svg viewBox="-14 0 374 352" role="img" aria-label="Reliability diagram at T = ${T}">
      <rect x="40" y="10" width="300" height="300" class="frame"/>
      <line class="diagonal" x1="40" y1="310" x2="340" y2="10"/>${ticks.join("")}
      <polyline class="curve" points="${bins.map(bin => `${x(bin[0])},${y(bin[1])}`).join(" ")}"/>
      <g class="dots">${dots.join("")}</g>
      <text x="190" y="346" text-anchor="middle">confidence</text>
      <text x="4" y="160" text-anchor="middle" transform="rotate(-90 4 160)">accuracy</text></svg>`;
    text.textContent = `T = ${T.toFixed(2)}: ECE ${ece.toFixed(3)}, log loss ${loss.toFixed(3)}`;
    slider.setAttribute("aria-valuetext", text.textContent);
  }

  slider.addEventListener("input", show);
  show();
});
