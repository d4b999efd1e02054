// The node at a glance: load, pressure, what is near a threshold, who would go next, what happened last.

import { Chart } from './charts.js';
import { attribute, empty, h, meter, replace, text } from './dom.js';
import * as f from './format.js';
import { severity } from './timeline.js';

export class Overview {
  constructor(root, model, { openPod, openEvent }) {
    Object.assign(this, { root, model, openPod, openEvent });
    this.cpu = card('CPU', 'cpu', { series: [{ name: 'CPU', colour: '--cpu', fill: true }], max: () => model.node?.cpus, format: (n) => n.toFixed(n % 1 ? 1 : 0) });
    this.memory = card('Memory', 'memory', { series: [{ name: 'Memory', colour: '--memory', fill: true }], max: () => model.node?.memoryBytes, format: (n) => f.bytes(n).replace(/\.0+ /, ' '), binary: true });
    this.psi = card('Pressure', 'psi', {
      series: [{ name: 'CPU', colour: '--cpu' }, { name: 'Memory', colour: '--memory' }, { name: 'I/O', colour: '--io' }], format: (n) => `${n.toFixed(0)} %`,
    }, 'PSI: share of the last 10 s in which some task waited');
    this.conditions = h('ul.conditions', {});
    this.signals = h('div.signals', {});
    this.next = h('div', {});
    this.events = h('div.recent', {});
    this.agent = h('div', {});
    this.summary = h('p.summary', { 'data-figure': 'summary' });
    root.append(
      this.summary,
      h('div.cards', {}, this.cpu.element, this.memory.element, this.psi.element),
      h('div.columns', {},
        block('Thresholds', 'What is available, and below what the node evicts', this.conditions, this.signals),
        block('Who would go next', 'If memory became short now', this.next)),
      h('div.columns', {},
        block('Latest events', null, this.events, h('p', {}, h('a', { href: '#timeline' }, 'The whole timeline'))),
        block('The agent', null, this.agent)));
  }

  draw() {
    const { node, model } = { node: this.model.node, model: this.model };
    if (!node) return;
    const root = model.root();
    const { time, cpu, memory, psiCpu, psiMemory, psiIo } = model.history;
    show(this.cpu.value, f.cores(root?.cpu), root?.cpu);
    text(this.cpu.unit, `of ${f.plural(node.cpus, 'CPU')}`);
    text(this.cpu.more, root?.wait == null ? '' : `tasks waited ${root.wait.toFixed(2)} s per second`);
    show(this.memory.value, f.bytes(root?.memoryBytes), root?.memoryBytes);
    text(this.memory.unit, `of ${f.bytes(node.memoryBytes)}`);
    text(this.memory.more, node.memoryAvailableBytes == null ? '' : `${f.bytes(node.memoryAvailableBytes)} available`);
    this.drawPsi(node.psi);
    this.cpu.chart.set([time, cpu]);
    this.memory.chart.set([time, memory]);
    this.psi.chart.set([time, psiCpu, psiMemory, psiIo]);
    text(this.summary, this.summaryText(node));
    this.drawPressure();
    this.drawNext();
    this.drawAgent();
    this.drawEvents();
  }

  summaryText({ os, kernel, processes }) {
    const { items } = this.model;
    const containers = items.reduce((all, item) => all + item.containers.filter((own) => own.group).length, 0);
    const phases = new Map();
    for (const { pod } of items) if (pod) phases.set(pod.phase, (phases.get(pod.phase) ?? 0) + 1);
    const by = [...phases].filter(([phase]) => phase !== 'Running').map(([phase, n]) => `${n} ${phase.toLowerCase()}`);
    return [f.plural(items.length, 'pod') + (by.length ? ` (${by.join(', ')})` : ''), f.plural(containers, 'container'),
      processes == null ? null : f.plural(processes, 'thread'), os, kernel && `Linux ${kernel}`].filter(Boolean).join('  ·  ');
  }

  drawPsi(psi) {
    const entries = [['CPU', 'cpu', psi.cpu], ['Memory', 'memory', psi.memory], ['I/O', 'io', psi.io]];
    if (!this.legend) {
      this.legend = entries.map(([name, key]) => {
        const value = h('b', { 'data-figure': `psi-${key}` });
        return [value, h(`li.key-${key}`, {}, h('span.swatch', { 'aria-hidden': 'true' }), `${name} `, value)];
      });
      replace(this.psi.head, h('ul.legend', {}, this.legend.map(([, item]) => item)));
    }
    entries.forEach(([, , own], at) => text(this.legend[at][0], own ? `${own.some10.toFixed(1)} %` : f.UNKNOWN));
  }

  drawPressure() {
    const { pressure } = this.model;
    const key = JSON.stringify(pressure);
    if (key === this.pressureKey) return;
    this.pressureKey = key;
    if (!pressure) {
      replace(this.conditions);
      replace(this.signals, empty('Thresholds are not watched here', '`nodewarden status` says why.'));
      return;
    }
    replace(this.conditions, pressure.conditions.map((own) =>
      h('li', { 'data-level': own.status ? 'bad' : 'good', title: own.message }, own.name.replace(/Pressure$/, ' pressure'), h('b', {}, own.status ? 'yes' : 'no'))));
    replace(this.signals, pressure.signals.map(signal));
  }

  drawNext() {
    const { next } = this.model;
    const key = JSON.stringify(next);
    if (key === this.nextKey) return;
    this.nextKey = key;
    if (!next || next.error) {
      replace(this.next, empty(next ? 'The ranking cannot be made' : 'No pods are ranked here', next?.error));
      return;
    }
    if (!next.candidates.length) {
      replace(this.next, empty('No pod to evict', 'Nothing of this agent runs.'));
      return;
    }
    const shown = next.candidates.slice(0, 6);
    const rest = next.candidatesInAll - shown.length;
    replace(this.next,
      h('ol.ranking', {}, shown.map((own) => {
        const over = own.usage > own.request;
        const request = own.request ? `${over ? 'above' : 'within'} its request of ${f.bytes(own.request)}` : 'requests no memory';
        const why = own.spared ? `never evicted: ${own.spared}` : `${request}, priority ${f.count(own.priority)}`;
        return h('li', {},
          h('button.name', { type: 'button', onclick: () => this.openPod(own.uid) }, `${own.namespace}/${own.name}`),
          h('span.figure', {}, f.bytes(own.usage)),
          h('span.why', {}, `${own.qos}, ${why}`));
      })),
      rest > 0 && h('p.quiet', {}, `and ${f.plural(rest, 'more', 'more')}`));
  }

  drawAgent() {
    const { agent } = this.model;
    const uptime = agent ? f.duration(this.model.node.time - agent.started).replace(/ \d+ s$/, '') : '';
    const key = JSON.stringify([agent, uptime]).replace(/"cpuSeconds":[\d.]+/, '');
    if (!agent || key === this.agentKey) return;
    this.agentKey = key;
    const off = agent.topics.filter((topic) => topic.state !== 'on');
    const trouble = [...agent.warnings, ...agent.problems,
      ...(agent.eventsLost ? [`${f.plural(agent.eventsLost, 'event')} lost: the kernel's ring was full`] : []),
      ...(agent.cgroupsUntracked ? [`${f.plural(agent.cgroupsUntracked, 'cgroup')} without kernel counters`] : [])];
    replace(this.agent,
      h('dl.facts', {},
        pair('Version', `${agent.version}, mode ${agent.mode}`),
        pair('Running for', uptime),
        pair('Memory', `${f.bytes(agent.residentBytes)} and ${f.bytes(agent.mapBytes)} of kernel maps`),
        pair('Cgroups', `${f.count(agent.cgroups)} (${agent.layout})`),
        pair('Runtime', agent.runtime),
        pair('Kernel programs', off.length ? off.map((topic) => h('span.trouble', {}, `${topic.name} ${topic.state}: ${topic.reason} `)) : `all ${agent.topics.length} topics on`)),
      trouble.length ? h('ul.trouble', {}, trouble.map((own) => h('li', {}, own))) : null);
  }

  drawEvents() {
    const latest = this.model.events.slice(-6).reverse();
    const key = latest.map((event) => event.seq).join();
    if (key === this.eventsKey) return;
    this.eventsKey = key;
    if (!latest.length) return replace(this.events, empty('Nothing happened in the last hour'));
    replace(this.events, h('ul.log', {}, latest.map((event) =>
      h('li', { 'data-seq': event.seq, 'data-type': event.type },
        h('time', {}, f.clock(event.millis)),
        h('span.kind', { 'data-level': severity(event) || null }, event.type),
        h('button.line', { type: 'button', onclick: () => this.openEvent(event) }, event.text)))));
  }
}

const pair = (name, value) => [h('dt', {}, name), h('dd', {}, value)];

function show(element, string, raw) {
  text(element, string);
  attribute(element, 'data-value', raw ?? null);
}

function card(title, figure, chart, explained) {
  const [value, unit, more] = [h('span.big', { 'data-figure': figure }), h('span.quiet', {}), h('p.quiet', {}, explained ?? '')];
  const head = h('p.headline', {}, value, ' ', unit);
  const place = h('div.chart', { role: 'img', 'aria-label': `${title} in the last five minutes` });
  const element = h('article.card', {}, h('h2', {}, title), head, more, place);
  return { element, value, unit, more, head, chart: new Chart(place, chart) };
}

function block(title, about, ...children) {
  return h('article.block', {}, h('h2', {}, title), about && h('p.quiet', {}, about), children);
}

/** A threshold: how much is available, with the threshold as a mark, and how far it is away. */
function signal(own) {
  const bar = meter();
  const share = own.capacity ? own.available / own.capacity : null;
  const at = own.capacity ? own.threshold / own.capacity : null;
  const near = own.threshold && own.available < own.threshold * 2 && share < 0.5;
  const state = own.passed ? 'bad' : near ? 'warn' : '';
  bar.set(share, at, state);
  const grace = own.graceMs ? `, grace ${f.duration(own.graceMs)}` : '';
  const since = own.passed && own.passedForMs != null ? `, met for ${f.duration(own.passedForMs)}` : '';
  return h('div.signal', { 'data-level': state || null },
    h('span.name', {}, own.signal, h('span.quiet', {}, ` ${own.hard ? 'hard' : 'soft'}${grace}`)),
    h('span.figure', {}, f.amount(own.signal, own.available)),
    bar.bar,
    h('span.quiet', {}, `${own.passed ? 'below' : 'evicts below'} ${f.amount(own.signal, own.threshold)}${since}`));
}
