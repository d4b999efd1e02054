// The node's history since the page was opened, drawn by uPlot.

import { clock } from './format.js';

/** Seconds that are shown: at first few, so that the lines fill the chart, then more. */
const SPAN = { least: 60, most: 300 };
const POWERS = Array.from({ length: 50 }, (_, n) => 2 ** n);

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A chart of one or more lines. `max`: the top of the scale, if it is fixed. `binary`: steps are powers of two. */
export class Chart {
  constructor(element, { series, max = null, format, binary = false }) {
    Object.assign(this, { element, series, max, format, binary });
    this.data = null;
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.make());
    new ResizeObserver(() => this.resize()).observe(element);
  }

  make() {
    this.plot?.destroy();
    this.plot = null;
    if (!this.element.clientWidth || !this.data) return;
    const axis = { stroke: colour('--quiet'), grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
    const lines = this.series.map(({ name, colour: of, fill }) => ({
      label: name, stroke: colour(of), width: 1.75, spanGaps: false, points: { show: false }, fill: fill ? `${colour(of)}22` : undefined,
    }));
    const range = (_, low, high) => [0, this.max?.() ?? Math.max(1, (high ?? 0) * 1.15)];
    this.plot = new uPlot({
      ...this.size(),
      legend: { show: false },
      cursor: { show: false },
      padding: [8, 28, 0, 0],
      scales: { x: { time: true, range: (_, low, high) => [high - Math.min(SPAN.most, Math.max(SPAN.least, high - low)), high] }, y: { range } },
      axes: [
        { ...axis, size: 24, space: 110, values: (_, times) => times.map((time) => clock(time * 1000)) },
        { ...axis, size: 56, space: 30, ...(this.binary ? { incrs: POWERS } : {}), values: (_, values) => values.map(this.format) },
      ],
      series: [{}, ...lines],
    }, this.data, this.element);
  }

  size() {
    return { width: this.element.clientWidth, height: this.element.clientHeight };
  }

  resize() {
    if (this.plot && this.element.clientWidth) this.plot.setSize(this.size());
    else this.make();
  }

  set(data) {
    this.data = data;
    if (!this.plot) this.make();
    else this.plot.setData(data);
  }
}
