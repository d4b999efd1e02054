// What happened, newest first: events of the journal and the decisions made under pressure.

import { attribute, empty, h, text } from './dom.js';
import * as f from './format.js';
import { Grid } from './grid.js';

const KINDS = [
  ['all', 'All', () => true],
  ['kills', 'OOM kills', (item) => item.type === 'oom'],
  ['decisions', 'Decisions', (item) => Boolean(item.decision)],
  ['exits', 'Exits', (item) => item.type === 'exit'],
  ['pods', 'Pods', (item) => item.type === 'pod'],
  ['limits', 'Limits and devices', (item) => ['limitCorrected', 'hierarchy', 'device'].includes(item.type)],
  ['agent', 'Agent', (item) => ['agent', 'lost'].includes(item.type)],
];

/** How alarming an event is. */
export function severity(event) {
  if (event.type === 'oom') return 'bad';
  if (event.decision) return event.decision.would ? 'warn' : 'bad';
  if (event.type === 'exit') return event.signal || event.code ? 'warn' : '';
  if (event.type === 'pod') return /BackOff|Fail|Unhealthy|Evict|Killing|OOM|Err/.test(event.reason) ? 'warn' : '';
  return ['lost', 'device', 'limitCorrected'].includes(event.type) ? 'warn' : '';
}

const COLUMNS = [
  { key: 'time', title: 'Time', least: 96, worth: 90, make: cell('time', (item) => f.clock(item.millis, true)) },
  { key: 'type', title: 'Type', width: '116px', least: 104, worth: 80, make: cell('span.kind', (item) => item.type, severity) },
  { key: 'text', title: 'What happened', least: 160, grow: 1, worth: 100, make: cell('span.line', (item) => item.text) },
  { key: 'pod', title: 'Pod', width: 'minmax(120px, 220px)', least: 180, worth: 60, make: cell('span.line', (item) => (item.pod ? item.pod.name || item.pod.uid : '')) },
];

function cell(spec, make, alarm) {
  return () => {
    const node = h(spec, {});
    return {
      node,
      set: (item) => {
        const value = make(item);
        text(node, value);
        if (spec === 'span.line') attribute(node, 'title', value);
        if (alarm) attribute(node, 'data-level', alarm(item) || null);
      },
    };
  };
}

export class Timeline {
  constructor(root, model, panel) {
    Object.assign(this, { root, model });
    this.kind = KINDS[0];
    this.search = h('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter', oninput: () => this.draw() });
    this.buttons = KINDS.map((kind) => h('button', { type: 'button', 'aria-pressed': kind === this.kind, onclick: () => this.choose(kind) }, kind[1]));
    const none = () => empty('Nothing of this kind', 'The last hour is shown, and what happens from now on.');
    this.grid = new Grid({
      label: 'Timeline, newest first', columns: COLUMNS, key: (item) => item.key, none,
      onOpen: (item) => (item.decision ? panel.openDecision(item.decision.number) : panel.openEvent(item)),
    });
    root.append(h('div.tools', {}, h('div.choice', { role: 'group', 'aria-label': 'Kind' }, this.buttons), this.search), this.grid.frame);
  }

  choose(kind) {
    this.kind = kind;
    this.buttons.forEach((button, at) => attribute(button, 'aria-pressed', KINDS[at] === kind));
    this.draw();
  }

  focusSearch() {
    this.search.focus();
  }

  draw() {
    const asked = this.search.value.trim().toLowerCase();
    const decisions = [...this.model.decisions.values()].map((own) => ({
      key: `d${own.number}`, type: own.kind, decision: own, millis: Date.parse(own.time), text: own.outcome + (own.would ? ' (only reported)' : ''),
      pod: own.candidates.find((one) => one.chosen),
    }));
    for (const event of this.model.events) event.key ??= `e${event.seq}`;
    const all = [...this.model.events, ...decisions].sort((a, b) => b.millis - a.millis || (b.seq ?? 0) - (a.seq ?? 0));
    const is = this.kind[2];
    this.grid.set(all.filter((item) => is(item) && (!asked || `${item.type} ${item.text} ${item.cgroup ?? ''}`.toLowerCase().includes(asked))));
  }
}
